"""Intervals, which are added to dates and timestamps; no column can have the type."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, DATE, INT, STRING, TIMESTAMP, Date, Timestamp

MONTHS = {"YEAR": 12, "MONTH": 1}
DAYS = {"WEEK": 7, "DAY": 1}
MICROSECONDS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1}
DAY = 24 * MICROSECONDS["HOUR"]


@dataclass(frozen=True)
class Interval:
    """Months, days and microseconds, kept apart because a month has no fixed number of days."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def __add__(self, other: Interval) -> Interval:
        if (self.months and (other.days or other.microseconds)) or (other.months and (self.days or self.microseconds)):
            raise TypeMismatch(
                "an interval is of years and months, or of days and time", hint="Add one after the other."
            )
        return Interval(self.months + other.months, self.days + other.days, self.microseconds + other.microseconds)

    def __neg__(self) -> Interval:
        return Interval(-self.months, -self.days, -self.microseconds)

    @property
    def total_microseconds(self) -> int:
        """The length in microseconds, of a span without months."""
        if self.months:
            raise TypeMismatch("a length of time is no number of months", hint="Months differ in length; use days.")
        return self.days * DAY + self.microseconds

    def add_to(self, moment: Scalar) -> Scalar:
        """``moment`` moved by this span: months first, then days, then time. A date stays one unless time is added."""
        if moment.type == STRING:
            moment = convert(moment, TIMESTAMP)
        if not isinstance(moment.type, Date | Timestamp):
            raise TypeMismatch(f"an interval is added to a DATE or TIMESTAMP, not to {moment.type}")
        if self.months:
            moment = call("add_months_to", moment, Literal(self.months, INT))
        if self.days and moment.type == DATE:
            moment = call("add_days", moment, Literal(self.days, INT))
        elif self.days:
            moment = call("add_microseconds", moment, Literal(self.days * DAY, BIGINT))
        if self.microseconds:
            instant = moment if isinstance(moment.type, Timestamp) else convert(moment, TIMESTAMP)
            moment = call("add_microseconds", instant, Literal(self.microseconds, BIGINT))
        return moment


def is_interval(node: exp.Expr) -> bool:
    """True for an interval, or a sum of them: ``INTERVAL 1 YEAR 2 MONTHS``."""
    if isinstance(node, exp.Add):
        return is_interval(node.expression) and is_interval(node.this)  # a sum is deep on its left
    return isinstance(node, exp.Interval) or (isinstance(node, exp.Paren) and is_interval(node.this))


def from_interval(node: exp.Expr, source: SqlText) -> Interval:
    """The span of ``INTERVAL '90' DAY`` and its like."""
    mark_translated(node)
    if isinstance(node, exp.Add):
        return _sum(from_interval(node.this, source), from_interval(node.expression, source), node, source)
    if isinstance(node, exp.Paren):
        return from_interval(node.this, source)
    with source.locating(node):
        return interval_of(_count(node, source), node.args["unit"].name)


def _sum(one: Interval, other: Interval, node: exp.Expr, source: SqlText) -> Interval:
    """One span after another. As in Spark years and months do not mix with days and time."""
    both = one + other
    if both.months and (both.days or both.microseconds):
        raise TypeMismatch(
            "an interval is made of years and months, or of days and less",
            where=source.place(node),
            hint="Add them one after the other: d + INTERVAL '1' MONTH + INTERVAL '2' DAY.",
        )
    return both


def _count(node: exp.Expr, source: SqlText) -> str:
    amount, sign = node.this, ""
    if isinstance(amount, exp.Neg):
        amount, sign = amount.this, "-"
    if not isinstance(amount, exp.Literal) or not isinstance(node.args.get("unit"), exp.Var):
        raise Unsupported(
            "an interval is a constant and one unit",
            where=source.place(node),
            hint="Write INTERVAL '90' DAY; for a number of days in a column, DATE_ADD(date, days).",
        )
    mark_translated(node.this, amount)
    return sign + str(amount.this).strip()


def interval_of(count: str, unit: str) -> Interval:
    """``count`` of a unit.

    >>> interval_of("90", "minutes")
    Interval(months=0, days=0, microseconds=5400000000)
    """
    unit = unit.upper().removesuffix("S")
    if unit == "SECOND":
        return Interval(microseconds=_microseconds(count))
    if unit in MONTHS:
        return Interval(months=_whole(count) * MONTHS[unit])
    if unit in DAYS:
        return Interval(days=_whole(count) * DAYS[unit])
    if unit in MICROSECONDS:
        return Interval(microseconds=_whole(count) * MICROSECONDS[unit])
    known = ", ".join((*MONTHS, *DAYS, *MICROSECONDS))
    raise Unsupported(f"there is no interval unit {unit}", hint=f"Units are {known}.")


def format_duration(length: int) -> str:
    """A duration in microseconds as SQL text, in the longest unit that measures them.

    >>> format_duration(60_000_000), format_duration(90_000_000), format_duration(2 * DAY)
    ('1 MINUTE', '90 SECONDS', '2 DAYS')
    """
    unit, size = next((unit, size) for unit, size in {"DAY": DAY, **MICROSECONDS}.items() if length % size == 0)
    return f"{length // size} {unit}{'' if length == size else 'S'}"


def _whole(count: str) -> int:
    try:
        return int(count)
    except ValueError:
        raise TypeMismatch(f'an interval counts whole units, and "{count}" is not a whole number') from None


def _microseconds(seconds: str) -> int:
    """Seconds may have up to six digits after the point."""
    whole, _, fraction = seconds.partition(".")
    sign = -1 if whole.startswith("-") else 1
    return _whole(whole or "0") * 1_000_000 + sign * _whole(fraction[:6].ljust(6, "0"))
