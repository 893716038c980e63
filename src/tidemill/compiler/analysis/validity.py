"""Validity: the instants of a clock at which a condition on ``now()`` is true for a row.

A comparison of ``f(now())`` with an expression over the row, where ``f`` never decreases, is true from some instant on
or up to some instant. ``Validity`` has these instants as expressions over the row: the row counts while each of
``since`` has come and each of ``until`` has not. A bound that is NULL makes the condition NULL or false at any time. So
a time filter needs to look at a row twice in its life, and not whenever the clock advances.

``f`` is built of what SQL does with instants: an interval or days added or subtracted, months, a date made of an
instant or back, an instant subtracted. For each the inverse is a line of ``_inverse``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction, conjuncts, disjunction
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar, is_nullable
from tidemill.algebra.relational.walk import columns_in
from tidemill.model import types as t
from tidemill.model.types import BIGINT, BOOLEAN, DATE, INT, TIMESTAMP

FIRST, LAST = datetime.min, datetime.max
"""Instants that stand for the beginning and the end of time."""

MICROSECOND, DAY = 1, 86_400_000_000

NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}

UNITS = {"MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
"""Units of ``timestamp_add`` that are as long at any time, in microseconds."""


class NotAnInterval(Exception):
    """A condition that is true in other times than one interval, or is not understood; the message says why."""


@dataclass(frozen=True, slots=True)
class Validity:
    """The instants from which, and before which, a condition is true: TIMESTAMP expressions over a row."""

    since: tuple[Scalar, ...] = ()
    until: tuple[Scalar, ...] = ()

    @property
    def bounds(self) -> tuple[Scalar, ...]:
        """All of its instants."""
        return self.since + self.until


def validity(condition: Scalar, now: str) -> Validity:
    """The instants of the clock in column ``now`` at which ``condition``, which reads it, is true.

    >>> ts, now = Column("ts", TIMESTAMP, nullable=False), Column("clock.now", TIMESTAMP, nullable=False)
    >>> validity(call("gt", ts, now), "clock.now") == Validity(until=(ts,))
    True
    """
    match condition:
        case Call("and"):
            parts = [validity(part, now) for part in _timed(conjuncts(condition), now)]
            plain = conjunction(_plain(conjuncts(condition), now))
            return _only_where(plain, all_of(parts))
        case Call("or"):
            return _either(condition, now)
        case Call("not", (Call(name, (left, right)),)) if name in NEGATED:
            return validity(Call(NEGATED[name], (left, right), BOOLEAN), now)
        case Call("not", (Call("and" | "or" as name, (left, right)),)):
            inside = tuple(Call("not", (part,), BOOLEAN) for part in (left, right))
            return validity(Call("or" if name == "and" else "and", inside, BOOLEAN), now)
        case Call(name, (left, right)) if name in MIRRORED:
            return _comparison(name, left, right, now)
    raise NotAnInterval("It is no comparison with <, <=, =, >=, > or BETWEEN.")


def _timed(parts: Sequence[Scalar], now: str) -> list[Scalar]:
    return [part for part in parts if now in columns_in(part)]


def _plain(parts: Sequence[Scalar], now: str) -> list[Scalar]:
    return [part for part in parts if now not in columns_in(part)]


def all_of(parts: Sequence[Validity]) -> Validity:
    """The instants at which all of several conditions are true."""
    since = tuple(bound for part in parts for bound in part.since)
    return Validity(since, tuple(bound for part in parts for bound in part.until))


def _only_where(plain: Scalar | None, found: Validity) -> Validity:
    """``found`` for rows of which ``plain`` is true; for others there is no such instant."""
    if plain is None:
        return found
    return Validity(*(tuple(_case(plain, bound, _never()) for bound in some) for some in (found.since, found.until)))


def _either(condition: Scalar, now: str) -> Validity:
    """At least one of several conditions: of conditions on the clock either one, or all bound it on the same side."""
    parts = _disjuncts(condition)
    found = [validity(part, now) for part in _timed(parts, now)]
    if len(found) == 1:
        (one,) = found
    elif all(not part.since and len(part.until) == 1 for part in found):
        one = Validity(until=(extreme("greatest", [part.until[0] for part in found]),))
    elif all(not part.until and len(part.since) == 1 for part in found):
        one = Validity(since=(extreme("least", [part.since[0] for part in found]),))
    else:
        raise NotAnInterval("A row would come and go more than once.")
    plain = _plain(parts, now)
    if not plain:
        return one
    always = disjunction(plain)
    return Validity(
        tuple(_case(always, Literal(FIRST, TIMESTAMP), bound) for bound in one.since),
        tuple(_case(always, Literal(LAST, TIMESTAMP), bound) for bound in one.until),
    )


def _disjuncts(condition: Scalar) -> list[Scalar]:
    match condition:
        case Call("or", arguments):
            return [part for argument in arguments for part in _disjuncts(argument)]
    return [condition]


def extreme(name: str, bounds: Sequence[Scalar]) -> Scalar:
    """The ``greatest`` or ``least`` of several bounds; those that are NULL are left out."""
    return bounds[0] if len(bounds) == 1 else call(name, *bounds)


def _case(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    return Case(((condition, then),), otherwise, then.type)


def _never() -> Literal:
    return Literal(None, TIMESTAMP)


def _comparison(name: str, left: Scalar, right: Scalar, now: str) -> Validity:
    """A comparison of which one side reads the clock."""
    if now in columns_in(right):
        name, left, right = MIRRORED[name], right, left
    if now in columns_in(right):
        raise NotAnInterval("Both sides of the comparison read the clock.")
    match name:
        case "lt" | "le":
            return Validity(until=(_reached(left, right, name == "le", now),))
        case "ge" | "gt":
            return Validity(since=(_reached(left, right, name == "gt", now),))
    first, last = (_reached(left, right, closed, now) for closed in (False, True))
    return Validity((first,), (last,))


def _reached(clock: Scalar, bound: Scalar, closed: bool, now: str) -> Scalar:
    """The first instant at which ``clock`` is no more below ``bound``, or above it if that is ``closed``."""
    while not (isinstance(clock, Column) and clock.name == now):
        clock, bound, closed = _inverse(clock, bound, closed, now)
    return _later(bound, MICROSECOND) if closed else bound


def _inverse(clock: Scalar, bound: Scalar, closed: bool, now: str) -> tuple[Scalar, Scalar, bool]:
    """Argument of the outermost function of ``clock``, and the bound that it reaches when the function does."""
    match clock:
        case Cast(inner, t.Date()) if isinstance(inner.type, t.Timestamp):
            day = _days_later(bound, 1) if closed else bound
            return inner, convert(day, inner.type), False
        case Cast(inner, t.Timestamp()) if isinstance(inner.type, t.Date):
            return inner, convert(bound, DATE) if closed else _first_day_from(bound), closed
        case Cast(inner, t.Timestamp()) if isinstance(inner.type, t.Timestamp):
            return inner, convert(bound, inner.type), closed
        case Call("add_microseconds", (inner, Literal(int() as micros))):
            return inner, _later(bound, -micros), closed
        case Call("timestamp_add", (Literal(str() as unit), Literal(int() as count), inner)) if unit.upper() in UNITS:
            return inner, _later(bound, -count * UNITS[unit.upper()]), closed
        case Call("timestamp_add", (Literal(str() as unit), Literal(int() as count), inner)) if unit.upper() == "DAY":
            return inner, _later(bound, -count * DAY), closed
        case Call("add_days" | "date_add", (inner, days)) if now not in columns_in(days):
            return inner, call("date_sub", bound, days), closed
        case Call("date_sub", (inner, days)) if now not in columns_in(days):
            return inner, call("date_add", bound, days), closed
        case Call("add_months_to" | "add_months", (inner, Literal(int() as months))):
            return inner, _months_before(_above(bound) if closed else bound, months), False
        case Call("add_interval" | "subtract_interval" as name, (inner, length)) if now not in columns_in(length):
            if isinstance(length.type, t.DayTimeInterval):
                return inner, call("subtract" if name == "add_interval" else "add", bound, length), closed
        case Call("subtract_timestamps", (inner, start)) if now not in columns_in(start):
            return inner, call("add", start, bound), closed
        case Call("datediff", (inner, start)) if now not in columns_in(start):
            return inner, call("date_add", start, bound), closed
        case Call("subtract_dates", (inner, start)) if now not in columns_in(start):
            end = call("add", convert(start, TIMESTAMP), bound)
            return inner, convert(end, DATE) if closed else _first_day_from(end), closed
    raise NotAnInterval(
        "Beside the clock there may be intervals, days and months added or subtracted, and casts to DATE or TIMESTAMP."
    )


def _above(bound: Scalar) -> Scalar:
    """The next date or instant after ``bound``."""
    return _days_later(bound, 1) if isinstance(bound.type, t.Date) else _later(bound, MICROSECOND)


def _later(bound: Scalar, micros: int) -> Scalar:
    """An instant so many microseconds later, or the end, or the beginning, of time."""
    if isinstance(bound, Literal) and bound.value is not None:
        return Literal(_saturated(bound.value, micros), bound.of)
    moved = Call("add_microseconds", (bound, Literal(micros, BIGINT)), bound.type)
    limit, end, beyond = (LAST, LAST, "gt") if micros > 0 else (FIRST, FIRST, "lt")
    edge = Literal(_saturated(limit, -micros), bound.type)
    return _case(Call(beyond, (bound, edge), BOOLEAN), Literal(end, bound.type), moved)


def _saturated(value: datetime, micros: int) -> datetime:
    try:
        return value + timedelta(microseconds=micros)
    except OverflowError:
        return LAST if micros > 0 else FIRST


def _days_later(day: Scalar, days: int) -> Scalar:
    """A date so many days later; after the last one comes the last one."""
    last = Literal(LAST.date(), DATE)
    return _case(Call("ge", (day, last), BOOLEAN), last, call("date_add", day, Literal(days, INT)))


def _first_day_from(instant: Scalar) -> Scalar:
    """The first day that does not begin before ``instant``."""
    day = convert(instant, DATE)
    begins = Call("eq", (convert(day, instant.type), instant), BOOLEAN)
    return _case(begins, day, _days_later(day, 1))


def _months_before(bound: Scalar, months: int) -> Scalar:
    """The first date or instant that is at least ``bound`` once ``months`` are added to it.

    Of the month before, a day with a greater number than the month has counts as its last. So where the day of
    ``bound`` has no counterpart, it is reached at the beginning of the month after.
    """
    moved = Call("add_months_to", (bound, Literal(-months, INT)), bound.type)
    day, there = convert(bound, DATE), convert(moved, DATE)
    next_month = _days_later(call("last_day", there), 1)
    exists = Call("eq", (call("day", day), call("day", there)), BOOLEAN)
    return _case(exists, moved, convert(next_month, bound.type))


def not_null(bounds: Sequence[Scalar]) -> list[Scalar]:
    """Conditions that bounds are not NULL."""
    tested = dict.fromkeys(_nullable_part(bound) for bound in bounds)
    return [Call("is_not_null", (part,), BOOLEAN) for part in tested if is_nullable(part)]


def without_limits(bound: Scalar) -> tuple[Scalar, int]:
    """A bound as the expression that it is moved from, and by how many microseconds, wherever that is in time."""
    part = _nullable_part(bound)
    match bound:
        case Case(_, Call("add_microseconds", (_, Literal(int() as micros)))) if part != bound:
            inner, before = without_limits(part)
            return inner, before + micros
    return bound, 0


def _nullable_part(bound: Scalar) -> Scalar:
    """The part of a bound that is NULL where the bound is."""
    match bound:
        case Case(((Call("gt" | "lt", (part, Literal())), Literal()),), Call("add_microseconds", (moved, Literal()))):
            return _nullable_part(part) if part == moved else bound
    return bound
