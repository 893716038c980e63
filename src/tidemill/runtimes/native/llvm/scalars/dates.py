"""Parts of dates and timestamps, and steps along the calendar.

A DATE is a count of days from 1970, a TIMESTAMP one of microseconds. Years, months and days come from Neri and
Schneider's linear forms for the proleptic Gregorian calendar, with years that begin in March: a few multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Call, Literal
from tidemill.model import types as t
from tidemill.model.partition_lengths import is_calendar
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64
from tidemill.runtimes.native.llvm.scalars import wide_integers
from tidemill.runtimes.native.llvm.scalars.arithmetic import EmitOperator
from tidemill.runtimes.native.llvm.scalars.conversions import DAY, day, floor_divided, instant
from tidemill.runtimes.native.llvm.scalars.exact_numbers import Outcome, from_cell, to_cell
from tidemill.runtimes.native.llvm.scalars.time_windows import emit_window, emit_window_from
from tidemill.runtimes.native.llvm.scalars.wide_integers import WideInteger

TO_MARCH = 719_468
"""The days from 1 March of the year 0 to 1 January 1970."""

ERA = 146_097
"""The days of 400 years."""


def civil(builder: ir.IRBuilder, days: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Year, month and day of a DATE, each an i32."""

    def number(value: int) -> ir.Constant:
        return ir.Constant(I32, value)

    since = builder.add(days, number(TO_MARCH))
    era = floor_divided(builder, since, ERA)
    day_of_era = builder.sub(since, builder.mul(era, number(ERA)))
    leaps = builder.sub(builder.udiv(day_of_era, number(36_524)), builder.udiv(day_of_era, number(1_460)))
    leaps = builder.sub(leaps, builder.udiv(day_of_era, number(146_096)))
    year_of_era = builder.udiv(builder.add(day_of_era, leaps), number(365))
    before = builder.mul(year_of_era, number(365))
    before = builder.add(before, builder.udiv(year_of_era, number(4)))
    before = builder.sub(before, builder.udiv(year_of_era, number(100)))
    day_of_year = builder.sub(day_of_era, before)
    fifth = builder.udiv(builder.add(builder.mul(day_of_year, number(5)), number(2)), number(153))
    first = builder.udiv(builder.add(builder.mul(fifth, number(153)), number(2)), number(5))
    day_of_month = builder.add(builder.sub(day_of_year, first), number(1))
    late = builder.icmp_unsigned(">=", fifth, number(10))
    month = builder.add(fifth, builder.select(late, number(-9), number(3)))
    year = builder.add(year_of_era, builder.mul(era, number(400)))
    return builder.add(year, builder.zext(late, I32)), month, day_of_month


def _part(place: int) -> EmitOperator:
    def emit(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
        return Outcome(civil(builder, values[0])[place])

    return emit


def _quarter(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    month = civil(builder, values[0])[1]
    return Outcome(builder.udiv(builder.add(month, ir.Constant(I32, 2)), ir.Constant(I32, 3)))


def _weekday(first: int, shift: int) -> EmitOperator:
    """The day of the week; ``shift`` turns the first day of 1970, a Thursday, to its place and ``first`` counts."""

    def emit(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
        shifted = builder.add(values[0], ir.Constant(I32, shift))
        weeks = builder.mul(floor_divided(builder, shifted, 7), ir.Constant(I32, 7))
        return Outcome(builder.add(builder.sub(shifted, weeks), ir.Constant(I32, first)))

    return emit


def _clock(unit: int, count: int) -> EmitOperator:
    """The number of whole units of so many microseconds, modulo ``count``."""

    def emit(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
        days = builder.mul(floor_divided(builder, values[0], DAY), ir.Constant(I64, DAY))
        units = builder.udiv(builder.sub(values[0], days), ir.Constant(I64, unit))
        return Outcome(builder.trunc(builder.urem(units, ir.Constant(I64, count)), I32))

    return emit


def _since_1970(unit: int) -> EmitOperator:
    def emit(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
        return Outcome(floor_divided(builder, values[0], unit))

    return emit


def _step_days(step: Callable[[ir.IRBuilder, WideInteger, WideInteger], WideInteger]) -> EmitOperator:
    def emit(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
        return day(builder, step(builder, from_cell(values[0], t.DATE), from_cell(values[1], t.INT)))

    return emit


def _days_between(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    return Outcome(builder.sub(*values))


def _later(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    return instant(
        builder, wide_integers.plus(builder, from_cell(values[0], t.TIMESTAMP), from_cell(values[1], t.BIGINT))
    )


def _itself(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    return Outcome(values[0])


def _partition_number(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    every = _length(call)
    if not is_calendar(every):
        return Outcome(floor_divided(builder, values[0], every))
    year, month, _ = civil(builder, builder.trunc(floor_divided(builder, values[0], DAY), I32))
    months = builder.add(builder.mul(year, ir.Constant(I32, 12)), month)
    since = builder.sub(builder.sext(months, I64), ir.Constant(I64, 1970 * 12 + 1))
    return Outcome(floor_divided(builder, since, -every))


def _length(call: Call) -> int:
    """The length of partitions that a call has."""
    *_, length = call.arguments
    assert isinstance(length, Literal)
    return int(length.value)


def first_day(builder: ir.IRBuilder, month: ir.Value) -> ir.Value:
    """The first day of a month that is counted from January 1970 on, as days from then; both are i64."""

    def number(value: int) -> ir.Constant:
        return ir.Constant(I64, value)

    since_march = builder.sub(month, number(2))
    years = floor_divided(builder, since_march, 12)
    from_march = builder.sub(since_march, builder.mul(years, number(12)))
    year = builder.add(years, number(1970))
    era = floor_divided(builder, year, 400)
    year_of_era = builder.sub(year, builder.mul(era, number(400)))
    days = builder.add(builder.mul(era, number(ERA)), builder.mul(year_of_era, number(365)))
    leaps = builder.sub(builder.udiv(year_of_era, number(4)), builder.udiv(year_of_era, number(100)))
    fifth = builder.add(builder.mul(from_march, number(153)), number(2))
    days = builder.add(builder.add(days, leaps), builder.udiv(fifth, number(5)))
    return builder.sub(days, number(TO_MARCH))


def _partition_start(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    every = _length(call)
    if is_calendar(every):
        days = first_day(builder, builder.mul(values[0], ir.Constant(I64, -every)))
        return instant(builder, from_cell(builder.mul(days, ir.Constant(I64, DAY)), t.BIGINT))
    return instant(
        builder, wide_integers.times(builder, from_cell(values[0], t.BIGINT), from_cell(values[1], t.BIGINT))
    )


def _units(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    return Outcome(wide_integers.resized(builder, values[0], 64))


def _interval_of_sum(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    return to_cell(builder, from_cell(values[0], call.arguments[0].type), call.type)


def _of_intervals(step: Callable[[ir.IRBuilder, WideInteger, WideInteger], WideInteger]) -> EmitOperator:
    """A sum or difference of two intervals of one type."""

    def emit(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
        return to_cell(builder, step(builder, *(from_cell(value, call.type) for value in values)), call.type)

    return emit


def _between_dates(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    days = builder.sub(*(wide_integers.resized(builder, value, 64) for value in values))
    return Outcome(builder.mul(days, ir.Constant(days.type, DAY)))


DATES: dict[str, EmitOperator] = {
    "interval_add": _of_intervals(wide_integers.plus),
    "interval_of_sum": _interval_of_sum,
    "interval_subtract": _of_intervals(wide_integers.minus),
    "interval_units": _units,
    "subtract_dates": _between_dates,
    "subtract_timestamps": _days_between,
    "year": _part(0),
    "month": _part(1),
    "day": _part(2),
    "quarter": _quarter,
    "weekday": _weekday(first=0, shift=3),
    "dayofweek_iso": _weekday(first=1, shift=3),
    "dayofweek": _weekday(first=1, shift=4),
    "hour": _clock(3_600_000_000, 24),
    "minute": _clock(60_000_000, 60),
    "second": _clock(1_000_000, 60),
    "unix_seconds": _since_1970(1_000_000),
    "unix_millis": _since_1970(1_000),
    "unix_micros": _itself,
    "unix_date": _itself,
    "datediff": _days_between,
    "add_days": _step_days(wide_integers.plus),
    "date_add": _step_days(wide_integers.plus),
    "date_sub": _step_days(wide_integers.minus),
    "add_microseconds": _later,
    "partition_number": _partition_number,
    "partition_start": _partition_start,
    "time_window": emit_window,
    "window_from": emit_window_from,
}

STEPS = frozenset(
    {
        "add_days",
        "date_add",
        "date_sub",
        "add_microseconds",
        "interval_add",
        "interval_of_sum",
        "interval_subtract",
        "partition_start",
        "time_window",
        "window_from",
    }
)
"""Those that may leave the calendar, or the range of an interval."""
