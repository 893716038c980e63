"""Tuple sketches in bytes: estimates, summaries, and sketches combined with each other or with theta sketches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tidemill.algebra.functions.function import Function, Inference, Parameter, StrictParameter, takes
from tidemill.algebra.functions.semistructured.sketches import check_lg
from tidemill.algebra.sketches import theta, tuples
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type

TUPLE_FORMS: dict[str, tuple[str, Type]] = {"double": (tuples.DOUBLE, t.DOUBLE), "integer": (tuples.INTEGER, t.INT)}
"""The kinds of tuple sketches by the ends of their functions' names: the form of a summary, and its type."""

_BYTES = StrictParameter(t.BINARY)
_MODE = StrictParameter(t.STRING, null=False)
_LG = StrictParameter(t.INT, (t.TINYINT, t.SMALLINT, t.BIGINT, t.STRING), null=False)


def estimate(form: str, data: bytes) -> float:
    """The number of different keys of a sketch."""
    return tuples.from_bytes(data, form).estimate


def share(form: str, data: bytes) -> float:
    """The share of all hashes that a sketch keeps."""
    return tuples.from_bytes(data, form).share


def summary(form: str, data: bytes, mode: str = "sum") -> Any:
    """The summaries of all keys of a sketch, combined."""
    return tuples.summed_up(tuples.from_bytes(data, form), checked_mode(mode), form)


def union(form: str, one: bytes, other: bytes, lg: int = theta.DEFAULT_LG, mode: str = "sum") -> bytes:
    """The sketch of the keys of either sketch."""
    check_lg(lg)
    sketches = [tuples.from_bytes(data, form) for data in (one, other)]
    return tuples.to_bytes(tuples.union(sketches, lg, checked_mode(mode), form), form)


def union_theta(form: str, one: bytes, other: bytes, lg: int = theta.DEFAULT_LG, mode: str = "sum") -> bytes:
    """The sketch of the keys of a tuple sketch or a theta sketch."""
    check_lg(lg)
    sketches = [tuples.from_bytes(one, form), tuples.with_summaries(theta.from_bytes(other), checked_mode(mode), form)]
    return tuples.to_bytes(tuples.union(sketches, lg, checked_mode(mode), form), form)


def intersection(form: str, one: bytes, other: bytes, mode: str = "sum") -> bytes:
    """The sketch of the keys of both sketches."""
    sketches = [tuples.from_bytes(data, form) for data in (one, other)]
    return tuples.to_bytes(tuples.intersection(sketches, checked_mode(mode), form), form)


def intersection_theta(form: str, one: bytes, other: bytes, mode: str = "sum") -> bytes:
    """The sketch of the keys of both a tuple sketch and a theta sketch."""
    sketches = [tuples.from_bytes(one, form), tuples.with_summaries(theta.from_bytes(other), checked_mode(mode), form)]
    return tuples.to_bytes(tuples.intersection(sketches, checked_mode(mode), form), form)


def difference(form: str, one: bytes, other: bytes) -> bytes:
    """The sketch of the keys of the first sketch that the second does not have."""
    removed = tuples.from_bytes(other, form)
    hashes = [hash_ for hash_, _ in removed.entries]
    return tuples.to_bytes(tuples.difference(tuples.from_bytes(one, form), hashes, removed.limit), form)


def difference_theta(form: str, one: bytes, other: bytes) -> bytes:
    """The sketch of the keys of a tuple sketch that a theta sketch does not have."""
    removed = theta.from_bytes(other)
    return tuples.to_bytes(tuples.difference(tuples.from_bytes(one, form), removed.hashes, removed.limit), form)


def checked_mode(mode: str) -> str:
    """Way to combine summaries, in lower case; a TypeMismatch if there is no such way."""
    if mode.lower() not in tuples.MODES:
        raise TypeMismatch(f"'{mode}' is no way to combine summaries", hint=f"Known: {', '.join(tuples.MODES)}.")
    return mode.lower()


def _check(lg: int | None, mode: int | None) -> Callable[[Sequence[Any]], None]:
    """A check of the constants at the places of a size and a mode."""

    def check(values: Sequence[Any]) -> None:
        if lg is not None and len(values) > lg and values[lg] is not None:
            check_lg(values[lg])
        if mode is not None and len(values) > mode and values[mode] is not None:
            checked_mode(values[mode])

    return check


def _functions(kind: str, form: str) -> Iterator[Function]:
    def declared(name: str, infer: Inference, apply: Callable[..., Any], **more: Any) -> Function:
        full = f"tuple_{name}_{kind}"
        return Function(full, infer, partial(apply, form), f"{full}({{args}})", **more)

    total: Type = t.DOUBLE if form == tuples.DOUBLE else t.BIGINT
    pair: tuple[Parameter, ...] = (_BYTES, _BYTES)
    sized = {"constants": (2, 3), "check": _check(2, 3)}
    combining = {"constants": (2,), "check": _check(None, 2)}
    yield declared("sketch_estimate", takes(_BYTES, gives=t.DOUBLE), estimate)
    yield declared("sketch_theta", takes(_BYTES, gives=t.DOUBLE), share)
    yield declared(
        "sketch_summary", takes(_BYTES, _MODE, gives=total, optional=1), summary, constants=(1,), check=_check(None, 1)
    )
    for end, unite, intersect, subtract in (
        ("", union, intersection, difference),
        ("_theta", union_theta, intersection_theta, difference_theta),
    ):
        yield declared(f"union{end}", takes(*pair, _LG, _MODE, gives=t.BINARY, optional=2), unite, **sized)
        yield declared(f"intersection{end}", takes(*pair, _MODE, gives=t.BINARY, optional=1), intersect, **combining)
        yield declared(f"difference{end}", takes(*pair, gives=t.BINARY), subtract)


TUPLE_SKETCHES = tuple(function for kind, (form, _) in TUPLE_FORMS.items() for function in _functions(kind, form))
