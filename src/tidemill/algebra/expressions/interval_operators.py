"""Operators with an interval, a date or a timestamp among their operands, as Spark resolves them.

``call`` asks here first: ``day + INTERVAL '1' MONTH`` is no addition of numbers, and ``end - start`` of two timestamps
is an interval. A constant interval that is added to a date or timestamp becomes a number of months, days or
microseconds, which every runtime adds quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Call, Literal, Scalar
from tidemill.algebra.functions.datetime.interval_arithmetic import DAY
from tidemill.algebra.functions.datetime.intervals import whole_range
from tidemill.algebra.functions.function import expect, expect_count
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.values.coercion import common_type
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type

Resolved = Scalar | None
"""The expression that an operator means; None where it is one of numbers."""

INTERVALS = (t.AnsiInterval, t.CalendarInterval)
MOMENTS = (t.Date, t.Timestamp)


def resolve_operator(name: str, arguments: Sequence[Scalar]) -> Resolved:
    """The meaning of operator ``name`` for these operands, if it is about time."""
    resolve = RESOLVERS.get(name)
    if resolve is None or not any(isinstance(argument.type, (*INTERVALS, *MOMENTS, t.Time)) for argument in arguments):
        return None
    return resolve(name, arguments)


def _applied(name: str, *arguments: Scalar) -> Scalar:
    types, of = FUNCTIONS[name].infer([argument.type for argument in arguments])
    return Call(name, tuple(convert(a, type_) for a, type_ in zip(arguments, types, strict=True)), of)


def _plus(name: str, arguments: Sequence[Scalar]) -> Resolved:
    expect_count([a.type for a in arguments], 2, 2)
    left, right = arguments
    lenient = "try_" if name.startswith("try_") else ""
    if isinstance(left.type, INTERVALS) and not isinstance(right.type, (*INTERVALS, t.Void)):
        left, right = right, left
    match left.type, right.type:
        case t.Date(), t.Integral():
            return _applied("date_add", left, right)
        case t.Integral(), t.Date():
            return _applied("date_add", right, left)
        case (t.Date(), t.Void()) | (t.Void(), t.Date()):
            return Literal(None, t.TIMESTAMP)
        case (t.Void(), t.Timestamp() as of) | (t.Timestamp() as of, t.Void()):
            return Literal(None, of)
        case (t.Time(), t.Void()) | (t.Void(), t.Time()):
            return Literal(None, t.TIME)
    if isinstance(right.type, INTERVALS) and not isinstance(left.type, (*INTERVALS, t.Void)):
        return _moved(lenient, left, right, 1)
    if isinstance(left.type, (*INTERVALS, t.Void)) and isinstance(right.type, (*INTERVALS, t.Void)):
        return _both(f"{lenient}interval_add", left, right)
    return None


def _minus(name: str, arguments: Sequence[Scalar]) -> Resolved:
    expect_count([a.type for a in arguments], 2, 2)
    left, right = arguments
    lenient = "try_" if name.startswith("try_") else ""
    if isinstance(right.type, INTERVALS) and not isinstance(left.type, (*INTERVALS, t.Void)):
        return _moved(lenient, left, right, -1)
    if isinstance(left.type, INTERVALS) or isinstance(right.type, INTERVALS):
        return _both(f"{lenient}interval_subtract", left, right)
    if isinstance(left.type, t.Time) or isinstance(right.type, t.Time):
        return _between_times(left, right)
    if isinstance(left.type, t.Timestamp) or isinstance(right.type, t.Timestamp):
        return _applied("subtract_timestamps", left, right)
    if isinstance(right.type, t.Date | t.String | t.Void):
        return _applied("subtract_dates", left, right)
    return _applied("date_sub", left, right)


def _between_times(end: Scalar, start: Scalar) -> Resolved:
    """The interval between two times of day; of other types there is none."""
    if not all(isinstance(one.type, t.Time | t.String | t.Void) for one in (end, start)):
        return None
    return _applied("subtract_times", convert(end, t.TIME), convert(start, t.TIME))


def _both(name: str, left: Scalar, right: Scalar) -> Scalar:
    """A function of two intervals of one type: the fields of both."""
    of = common_type((left.type, right.type))
    return _applied(name, convert(left, of), convert(right, of))


def _moved(lenient: str, moment: Scalar, span: Scalar, sign: int) -> Scalar:
    """A date or timestamp, later by an interval or earlier."""
    if isinstance(moment.type, t.String) and not isinstance(span.type, t.YearMonthInterval):
        # Spark reads the text as a timestamp, and writes the result as a text again.
        return convert(_moved(lenient, convert(moment, t.TIMESTAMP), span, sign), t.STRING)
    if isinstance(moment.type, t.Time):
        return _applied(f"{lenient}time_{'plus' if sign > 0 else 'minus'}", moment, span)
    if not isinstance(moment.type, MOMENTS):
        raise TypeMismatch(f"an interval is added to a DATE or TIMESTAMP, not to {moment.type}")
    if moment.type == t.DATE and isinstance(span.type, t.DayTimeInterval) and span.type != t.INTERVAL_DAY:
        moment = convert(moment, t.TIMESTAMP)
    if isinstance(span, Literal) and span.value is not None and not lenient:
        found = _moved_by(moment, span.type, span.value, sign)
        if found is not None:
            return found
    return _applied(f"{lenient}{'add' if sign > 0 else 'subtract'}_interval", moment, span)


def _moved_by(moment: Scalar, of: Type, value: int, sign: int) -> Resolved:
    """A date or timestamp moved by a constant."""
    match of:
        case t.YearMonthInterval() if -of.limit < value:
            return _applied("add_months_to", moment, Literal(sign * value, t.INT))
        case t.DayTimeInterval() if isinstance(moment.type, t.Date):
            return _applied("add_days", moment, Literal(sign * (value // DAY), t.INT))
        case t.DayTimeInterval() if -of.limit < value:
            return _applied("add_microseconds", moment, Literal(sign * value, t.BIGINT))
    return None


def _times(name: str, arguments: Sequence[Scalar]) -> Resolved:
    """An interval times a number, in either order."""
    expect_count([a.type for a in arguments], 2, 2)
    left, right = arguments
    span, number = (left, right) if isinstance(left.type, INTERVALS) else (right, left)
    return _scaled(f"{_tried(name)}interval_multiply", span, number)


def _over(name: str, arguments: Sequence[Scalar]) -> Resolved:
    expect_count([a.type for a in arguments], 2, 2)
    return _scaled(f"{_tried(name)}interval_divide", *arguments)


def _tried(name: str) -> str:
    return "try_" if name.startswith("try_") else ""


def _scaled(name: str, span: Scalar, number: Scalar) -> Resolved:
    if not isinstance(span.type, INTERVALS):
        return None
    if isinstance(number.type, t.String | t.Void) or isinstance(span.type, t.CalendarInterval):
        number = convert(number, expect(number.type, t.DOUBLE))
    return _applied(name, span, number)


def _quotient(name: str, arguments: Sequence[Scalar]) -> Resolved:
    expect_count([a.type for a in arguments], 2, 2)
    return _both("interval_div", *arguments)


def _of_one(function: str) -> Callable[[str, Sequence[Scalar]], Resolved]:
    """A function of one interval; only of ``calendar`` ones where that is said."""

    def resolve(name: str, arguments: Sequence[Scalar]) -> Resolved:
        expect_count([a.type for a in arguments], 1, 1)
        (value,) = arguments
        calendar = isinstance(value.type, t.CalendarInterval) and function in ("interval_abs", "interval_sign")
        return _applied(function, value) if isinstance(value.type, INTERVALS) and not calendar else None

    return resolve


def _bucket(name: str, arguments: Sequence[Scalar]) -> Resolved:
    expect_count([a.type for a in arguments], 4, 4)
    spans = [whole_range(argument.type) for argument in arguments[:3]]
    wide = [convert(argument, of) for argument, of in zip(arguments[:3], spans, strict=True)]
    return _applied("interval_width_bucket", *wide, arguments[3])


RESOLVERS: dict[str, Callable[[str, Sequence[Scalar]], Resolved]] = {
    **dict.fromkeys(("add", "try_add"), _plus),
    **dict.fromkeys(("subtract", "try_subtract"), _minus),
    **dict.fromkeys(("multiply", "try_multiply"), _times),
    **dict.fromkeys(("divide", "try_divide"), _over),
    "div": _quotient,
    "negate": _of_one("interval_negate"),
    "positive": _of_one("interval_positive"),
    "abs": _of_one("interval_abs"),
    "sign": _of_one("interval_sign"),
    "width_bucket": _bucket,
}
"""The operators and functions that also take intervals, by name."""
