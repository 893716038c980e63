"""Time bounds: the earliest values that expressions over the rows of a future change can have.

A change of a table with LATENESS has no time before a certain instant. So has what is computed from that time, and what
is joined on it: ``a.ts BETWEEN b.ts - x AND b.ts + x`` says of each of the two times where the other one can be. Times
are in microseconds since 1970, and numbers of partitions as they are; a value may also be NULL, unless a condition
excludes that. Columns are named by paths, since a struct such as the window of a group has times in its fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import partial

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar
from tidemill.model.types import DayTimeInterval, Struct, Type
from tidemill.program.expiry.entries import number_of
from tidemill.program.expiry.time_functions import (
    DAY,
    FAR,
    SCALES,
    TIMES,
    TimeBound,
    cast_bound,
    function_bound,
    numbered,
    started,
)

__all__ = [
    "NEVER",
    "Path",
    "TimeBound",
    "TimeBounds",
    "below",
    "bound_of",
    "bounds_of",
    "common",
    "least",
    "narrow",
    "path_of",
    "raise_bound",
]

Path = tuple[str, ...]
"""A column, and the names of fields within it."""


TimeBounds = Mapping[Path, TimeBound]
"""The columns of a row that have a bound."""

NEVER = TimeBound(math.inf)
"""The bound of NULL."""


def path_of(scalar: Scalar) -> Path | None:
    """The path of a column or of a field within one; None for other expressions."""
    match scalar:
        case Column(name=name):
            return (name,)
        case Call("get_field", (record, Literal(value=str(name)), _)):
            path = path_of(record)
            return None if path is None else (*path, name)
    return None


def bounds_of(scalar: Scalar, known: TimeBounds) -> TimeBounds:
    """The bounds of a value: under the empty path its own, or under longer ones those of the fields of a struct."""
    if (path := path_of(scalar)) is not None and (parts := below(known, path)):
        return parts
    match scalar:
        case Call("time_window", (time, Literal(value=int(size)), _)) | Call(
            "time_windows", (time, Literal(value=int(size)), *_)
        ) if (bound := bound_of(time, known)) is not None:
            return {("start",): bound.later(1 - size), ("end",): bound.later(1)}
        case Call("window_from", (time, _)) if (bound := bound_of(time, known)) is not None:
            return {("start",): bound, ("end",): bound}
        case Call("named_struct", arguments):
            fields = zip(arguments[::2], arguments[1::2], strict=True)
            named = [(field.value, value) for field, value in fields if isinstance(field, Literal)]
            return {(str(name), *rest): b for name, value in named for rest, b in bounds_of(value, known).items()}
    own = _own_bound(scalar, known)
    return {} if own is None else {(): own}


def bound_of(scalar: Scalar, known: TimeBounds) -> TimeBound | None:
    """The bound of a time or of the number of a partition; None if there is none."""
    return bounds_of(scalar, known).get(())


def _own_bound(scalar: Scalar, known: TimeBounds) -> TimeBound | None:
    match scalar:
        case Literal(value=None) if _may_have_time(scalar.type):
            return NEVER
        case Literal(value=value) if scalar.type in TIMES:
            return TimeBound(number_of(value), nulls=False)
        case Cast(input=input_):
            bound = bound_of(input_, known)
            return None if bound is None else cast_bound(scalar, bound)
        case Case(branches=branches, default=default):
            values = [*(value for _, value in branches), *([] if default is None else [default])]
            found = _least_of(values, known)
            return found if default is not None or found is None else TimeBound(found.low)
        case Call("coalesce" | "greatest" | "least", arguments):
            return _least_of(arguments, known)
        case Call("get_field", (record, Literal(value=name), _)):
            return bounds_of(record, known).get((name,))
        case Call():
            return function_bound(scalar, partial(bound_of, known=known))
    return None


def _least_of(scalars: Sequence[Scalar], known: TimeBounds) -> TimeBound | None:
    found = [bound_of(scalar, known) for scalar in scalars]
    return least(bound for bound in found if bound is not None) if None not in found else None


def _may_have_time(type_: Type) -> bool:
    return type_ in TIMES or isinstance(type_, Struct)


def below(known: TimeBounds, path: Path) -> TimeBounds:
    """The bounds of a column and of its fields, by the rest of their paths."""
    return {found[len(path) :]: bound for found, bound in known.items() if found[: len(path)] == path}


def least(bounds: Iterable[TimeBound]) -> TimeBound:
    """The bound of a value that has one of these."""
    found = list(bounds)
    return TimeBound(min(bound.low for bound in found), any(bound.nulls for bound in found))


def common(several: Sequence[TimeBounds]) -> dict[Path, TimeBound]:
    """The bounds of rows that each have one of these: those of the columns that all of them bound.

    A struct that is NULL has no fields, so what is always NULL excludes none of them.
    """
    paths = dict.fromkeys(path for bounds in several for path in bounds)
    found: dict[Path, TimeBound] = {}
    for path in paths:
        each = [_within(bounds, path) for bounds in several]
        if None not in each:
            found[path] = least(bound for bound in each if bound is not None)
    return found


def _within(bounds: TimeBounds, path: Path) -> TimeBound | None:
    for length in range(len(path), 0, -1):
        bound = bounds.get(path[:length])
        if bound is not None and (length == len(path) or bound.low == math.inf):
            return bound
    return None


# -- conditions --------------------------------------------------------------------------------------------------------


def narrow(known: MutableMapping[Path, TimeBound], conditions: Sequence[Scalar]) -> None:
    """Add the bounds that follow from ``conditions``, which are all true of the row."""
    parts = [part for condition in conditions for part in conjuncts(condition)]
    for _ in range(len(parts) + 1):
        before = dict(known)
        for part in parts:
            _use(known, part)
        if known == before:
            return


def _use(known: MutableMapping[Path, TimeBound], condition: Scalar) -> None:
    match condition:
        case Call("is_null", (scalar,)) if (path := path_of(scalar)) is not None:
            if _may_have_time(scalar.type):
                known[path] = NEVER
        case Call("is_not_null", (scalar,)) if (path := path_of(scalar)) is not None:
            for found in [one for one in known if one[: len(path)] == path]:
                known[found] = known[found]._replace(nulls=False)
        case Call("eq", (left, right)):
            _at_least(known, left, right)
            _at_least(known, right, left)
        case Call("ge" | "gt", (left, right)) | Call("le" | "lt", (right, left)):
            _at_least(known, left, right)


def _at_least(known: MutableMapping[Path, TimeBound], left: Scalar, right: Scalar) -> None:
    """Use that ``left`` is at least ``right``, and that neither is NULL."""
    match left, right:
        case Call("subtract_timestamps" | "subtract", (one, other)), Literal(value=int(by)):
            raise_bound(known, one, _plus(bound_of(other, known), by))
        case Literal(value=int(by)), Call("subtract_timestamps" | "subtract", (one, other)):
            raise_bound(known, other, _plus(bound_of(one, known), -by))
        case Literal(value=int(by)), Call("abs", (Call("subtract" | "subtract_timestamps", (one, other)),)):
            raise_bound(known, other, _plus(bound_of(one, known), -by))
            raise_bound(known, one, _plus(bound_of(other, known), -by))
        case _:
            for rest, bound in bounds_of(right, known).items():
                raise_bound(known, left, bound, rest)


def _plus(bound: TimeBound | None, by: int) -> TimeBound | None:
    return None if bound is None else bound.later(by)


def raise_bound(
    known: MutableMapping[Path, TimeBound], scalar: Scalar, bound: TimeBound | None, rest: Path = ()
) -> None:
    """Use that a value, or the field ``rest`` of it, is not NULL and at least as late as ``bound``."""
    if bound is None:
        return
    if (path := path_of(scalar)) is not None:
        old = known.get((*path, *rest))
        low = bound.low if old is None else max(old.low, bound.low)
        known[(*path, *rest)] = TimeBound(low, nulls=bool(rest))  # a struct that is equal may have fields that are NULL
        return
    match scalar:
        case Call("add_microseconds", (time, Literal(value=int(by)))):
            raise_bound(known, time, bound.later(-by))
        case Call("add_days" | "date_add", (time, Literal(value=int(days)))):
            raise_bound(known, time, bound.later(-days * DAY))
        case Call("date_sub", (time, Literal(value=int(days)))):
            raise_bound(known, time, bound.later(days * DAY))
        case Call("date_trunc", (Literal(), time)) | Call("trunc", (time, Literal())):
            raise_bound(known, time, bound)
        case Call("time_bucket", (Literal(of=DayTimeInterval()), time, *_)):
            raise_bound(known, time, bound)
        case Call("from_utc_timestamp" | "to_utc_timestamp", (time, _)):
            raise_bound(known, time, bound.later(-FAR))
        case Call(name, (time,)) if name in SCALES:
            raise_bound(known, time, bound.times(SCALES[name]))
        case Call("div", (number, Literal(value=int(over)))) if over > 0:
            raise_bound(known, number, bound.times(over) if bound.low > 0 else bound.later(-1).times(over))
        case Call("partition_number", (time, Literal(value=int(every)))):
            raise_bound(known, time, TimeBound(started(bound, every).low))
        case Call("partition_start", (number, Literal(value=int(every)))):
            raise_bound(known, number, numbered(bound, every))
        case Call("get_field", (Call("time_window", (time, Literal(value=int(size)), _)), Literal(value=name), _)):
            raise_bound(known, time, bound.later(0 if name == "start" else -size))
        case Call("time_window", (time, Literal(value=int(size)), _)) if rest:
            raise_bound(known, time, bound.later(0 if rest == ("start",) else -size))
        case Cast(input=input_, of=of) if input_.type in TIMES and of in TIMES:
            raise_bound(known, input_, bound)
