"""Sketches in bytes: estimates, quantiles and ranks of them, and sketches combined. Aggregates make them of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tidemill.algebra.functions.function import Function, Inference, StrictParameter, expect, expect_count, takes
from tidemill.algebra.sketches import frequent_items, hyperloglog, kll, theta
from tidemill.algebra.values.casts import cast_value
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type

KLL_FORMS: dict[str, tuple[str, Type]] = {"bigint": ("q", t.BIGINT), "double": ("d", t.DOUBLE), "float": ("f", t.FLOAT)}
"""The kinds of KLL sketches by the ends of their functions' names: the form of a value, and its type."""

DEFAULT_TOP = 5
"""Default number of frequent values."""

TOP_COUNT = StrictParameter(t.INT, (t.TINYINT, t.SMALLINT, t.BIGINT, t.STRING), null=False)
"""The type of a number of values."""

_BYTES = StrictParameter(t.BINARY)


def theta_estimate(data: bytes) -> int:
    """The number of different values of a theta sketch, rounded."""
    return math.floor(theta.from_bytes(data).estimate + 0.5)


def theta_union(one: bytes, other: bytes, lg: int = theta.DEFAULT_LG) -> bytes:
    """The sketch of the values of either sketch."""
    check_lg(lg)
    return theta.to_bytes(theta.union([theta.from_bytes(one), theta.from_bytes(other)], lg))


def check_lg(lg: int) -> None:
    """Refuse a number of hashes that theta sketches do not have."""
    if not theta.LEAST_LG <= lg <= theta.MOST_LG:
        raise ArithmeticFault(f"a theta sketch has a size between {theta.LEAST_LG} and {theta.MOST_LG}, not {lg}")


def theta_intersection(one: bytes, other: bytes) -> bytes:
    """The sketch of the values of both sketches."""
    return theta.to_bytes(theta.intersection([theta.from_bytes(one), theta.from_bytes(other)]))


def theta_difference(one: bytes, other: bytes) -> bytes:
    """The sketch of the values of the first sketch that the second does not have."""
    return theta.to_bytes(theta.difference(theta.from_bytes(one), theta.from_bytes(other)))


def hll_union(one: bytes, other: bytes, allow_different: bool = False) -> bytes:
    """The sketch of the values of either sketch; sizes must agree unless they may differ."""
    sizes = [hyperloglog.read(data).lg_config_k for data in (one, other)]
    if sizes[0] != sizes[1] and not allow_different:
        raise ArithmeticFault(f"HLL sketches of different sizes, {sizes[0]} and {sizes[1]}")
    return hyperloglog.union([one, other], min(sizes))


def kll_count(form: str, data: bytes) -> int:
    """The number of values of a KLL sketch."""
    return kll.from_bytes(data, form).count


def kll_quantile(form: str, data: bytes, share: Any) -> Any:
    """The value at a share of all values, or one for each of several shares."""
    sketch = _filled(form, data)
    for one in share if isinstance(share, tuple | ArrayTree) else (share,):
        if one is None or not 0 <= one <= 1:
            raise ArithmeticFault(f"a quantile lies between 0 and 1, not at {one}")
    return tuple(map(sketch.quantile, share)) if isinstance(share, tuple | ArrayTree) else sketch.quantile(share)


def kll_rank(form: str, data: bytes, value: Any) -> Any:
    """The share of all values up to one, or for each of several."""
    sketch = _filled(form, data)
    if isinstance(value, tuple | ArrayTree) and None in value:
        raise ArithmeticFault("NULL has no rank")
    return tuple(map(sketch.rank, value)) if isinstance(value, tuple | ArrayTree) else sketch.rank(value)


def _filled(form: str, data: bytes) -> kll.Kll:
    sketch = kll.from_bytes(data, form)
    if not sketch.count:
        raise ArithmeticFault("an empty KLL sketch has neither quantiles nor ranks")
    return sketch


def kll_merge(form: str, one: bytes, other: bytes) -> bytes:
    """The sketch of the values of both sketches."""
    return kll.to_bytes(kll.merged(kll.from_bytes(one, form), [kll.from_bytes(other, form)]), form)


def kll_summary(form: str, of: Type, data: bytes) -> str:
    """The description of a sketch."""
    return kll.summary(_filled(form, data), form, lambda value: str(cast_value(value, of, t.STRING)))


def top_items(types: Sequence[Type], state: Sequence[Any], wanted: int = DEFAULT_TOP) -> tuple[tuple[Any, int], ...]:
    """The most frequent values of a sketch of frequent items, and how often each came."""
    struct = types[0]
    assert isinstance(struct, t.Struct)
    return frequent_items.from_bytes(state[0], struct.fields[2].type).top(wanted)


def state_type(item: Type) -> t.Struct:
    """The type of a sketch of frequent items: its bytes, its size, and the type of its values twice."""
    return t.Struct(
        (
            t.Field("sketch", t.BINARY),
            t.Field("maxItemsTracked", t.INT),
            t.Field("itemDataType", item),
            t.Field("itemDataTypeDDL", t.STRING),
        )
    )


def top_type(item: Type) -> t.Array:
    """The type of frequent values with how often each came."""
    return t.Array(t.Struct((t.Field("item", item), t.Field("count", t.BIGINT))))


def countable(item: Type) -> bool:
    """True if values of the type can be counted in a sketch of frequent items."""
    simple = t.Boolean | t.Integral | t.Floating | t.Decimal | t.Date | t.Timestamp
    return isinstance(item, simple) or item == t.STRING


def _of_state(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 2)
    state = types[0]
    if not isinstance(state, t.Struct) or len(state.fields) != 4 or not countable(state.fields[2].type):
        raise TypeMismatch(f"a sketch of APPROX_TOP_K_ACCUMULATE was expected, not {state}")
    expected = state_type(state.fields[2].type)
    if [f.type for f in state.fields] != [f.type for f in expected.fields]:
        raise TypeMismatch(f"a sketch of APPROX_TOP_K_ACCUMULATE was expected, not {state}")
    return (state, *(expect(given, TOP_COUNT) for given in types[1:])), top_type(state.fields[2].type)


def _check_wanted(values: Sequence[Any]) -> None:
    if len(values) > 1 and values[1] is not None and values[1] <= 0:
        raise TypeMismatch(f"APPROX_TOP_K_ESTIMATE takes a number above 0, not {values[1]}")


def _one_or_several(argument: Type, gives: Type) -> Inference:
    """A sketch and a value, or an array of values and then an array of results."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 2)
        first = expect(types[0], _BYTES)
        if isinstance(types[1], t.Array):
            expect(types[1].element, argument)
            return (first, t.Array(argument)), t.Array(gives)
        return (first, expect(types[1], argument)), gives

    return infer


def _kll(kind: str, form: str, of: Type) -> Iterator[Function]:
    def declared(name: str, infer: Inference, apply: Callable[..., Any], **more: Any) -> Function:
        full = f"kll_sketch_{name}_{kind}"
        return Function(full, infer, apply, f"{full}({{args}})", **more)

    yield declared("get_n", takes(_BYTES, gives=t.BIGINT), partial(kll_count, form))
    yield declared("get_quantile", _one_or_several(t.DOUBLE, of), partial(kll_quantile, form), constants=(1,))
    yield declared("get_rank", _one_or_several(of, t.DOUBLE), partial(kll_rank, form), constants=(1,))
    yield declared("merge", takes(_BYTES, _BYTES, gives=t.BINARY), partial(kll_merge, form))
    yield declared("to_string", takes(_BYTES, gives=t.STRING), partial(kll_summary, form, of))


def _declared(name: str, infer: Inference, apply: Callable[..., Any]) -> Function:
    return Function(name, infer, apply, f"{name}({{args}})")


SKETCHES = (
    _declared("theta_sketch_estimate", takes(_BYTES, gives=t.BIGINT), theta_estimate),
    _declared("theta_union", takes(_BYTES, _BYTES, StrictParameter(t.INT), gives=t.BINARY, optional=1), theta_union),
    _declared("theta_intersection", takes(_BYTES, _BYTES, gives=t.BINARY), theta_intersection),
    _declared("theta_difference", takes(_BYTES, _BYTES, gives=t.BINARY), theta_difference),
    _declared("hll_sketch_estimate", takes(_BYTES, gives=t.BIGINT), hyperloglog.estimate),
    _declared("hll_union", takes(_BYTES, _BYTES, StrictParameter(t.BOOLEAN), gives=t.BINARY, optional=1), hll_union),
    Function(
        "approx_top_k_estimate",
        _of_state,
        top_items,
        "approx_top_k_estimate({args})",
        of_types=True,
        constants=(1,),
        check=_check_wanted,
    ),
    *(function for kind, (form, of) in KLL_FORMS.items() for function in _kll(kind, form, of)),
)
