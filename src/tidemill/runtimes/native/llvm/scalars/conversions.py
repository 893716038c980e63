"""Casts and constants: cells of one type as cells of another, and literals as cells."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from llvmlite import ir

from tidemill.algebra.functions.datetime.time import EPOCH_DAY
from tidemill.algebra.values.casts import microseconds, timestamp_of
from tidemill.algebra.values.decimals import decimal_for
from tidemill.algebra.values.interval_casts import keeps_all
from tidemill.changes.arrow import microsecond_of_day, time_of_day
from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled, RowFault
from tidemill.runtimes.native.llvm.codegen.layout import (
    F64,
    I1,
    I8,
    NO_INSTANT,
    NullableValue,
    cell_type,
    is_interned,
    is_window,
)
from tidemill.runtimes.native.llvm.scalars import wide_integers
from tidemill.runtimes.native.llvm.scalars.exact_numbers import (
    Outcome,
    any_of,
    canonical,
    from_cell,
    is_exact,
    rounded_to,
    scale_of,
    to_cell,
    to_decimal,
)
from tidemill.runtimes.native.llvm.scalars.wide_integers import WideInteger

DAY = 86_400_000_000
"""The microseconds of a day."""

FIRST_DAY, LAST_DAY = (day.toordinal() - EPOCH_DAY for day in (datetime.date.min, datetime.date.max))
"""The days between which the calendar lies, counted from 1970."""

OUT_OF_CALENDAR = RowFault("a date lies outside the years 1 to 9999")


def value_type(type_: Type) -> ir.Type:
    """The LLVM type of a value in an expression: as in a cell, but for BOOLEAN, which is an i1 here."""
    return I1 if isinstance(type_, t.Boolean) else cell_type(type_)


def from_stored(builder: ir.IRBuilder, cell: NullableValue, type_: Type) -> NullableValue:
    """A stored cell, as expressions work on it."""
    if isinstance(type_, t.Boolean) and cell.value.type == I8:
        return NullableValue(builder.icmp_unsigned("!=", cell.value, ir.Constant(I8, 0)), cell.is_null)
    return cell


def to_stored(builder: ir.IRBuilder, cell: NullableValue, type_: Type) -> NullableValue:
    """A value of an expression, as a map stores it."""
    if isinstance(type_, t.Boolean) and cell.value.type == I1:
        return NullableValue(builder.zext(cell.value, I8), cell.is_null)
    return cell


def null_of(type_: Type) -> NullableValue:
    """NULL, with a harmless value beside it."""
    kind = value_type(type_)
    return NullableValue(ir.Constant(kind, 0.0 if kind == F64 else 0), ir.Constant(I1, 1))


def inner_number(value: Any, type_: Type) -> int | float:
    """The number that stands for a value that is neither NULL nor text in a cell.

    >>> inner_number(decimal.Decimal("1.50"), t.Decimal(4, 2)), inner_number(datetime.date(1970, 1, 2), t.DATE)
    (150, 1)
    """
    return number_converter(type_)(value)


def number_converter(type_: Type) -> Callable[[Any], int | float]:
    """``inner_number`` for values of one type: the type is looked at once."""
    match type_:
        case t.Decimal(scale=scale):
            return lambda value: int(decimal.Decimal(value).scaleb(scale, _DIGITS))
        case t.Date():
            return lambda value: value.toordinal() - EPOCH_DAY
        case t.Time():
            return microsecond_of_day
        case t.Timestamp():
            return microseconds
        case t.Floating():
            return float
        case t.Struct() if is_window(type_):
            return _window_number
    return int


def _window_number(window: Sequence[datetime.datetime | None]) -> int:
    start, end = (NO_INSTANT if moment is None else microseconds(moment) for moment in window)
    return (end << 64) + start % 2**64


_DIGITS = decimal.Context(prec=80)


def inner_value(number: int, type_: Type, text_of: Callable[[int], str]) -> Any:
    """The value of a cell that is neither NULL nor a DOUBLE: the way back from ``inner_number``.

    >>> inner_value(150, t.Decimal(4, 2), str), inner_value(1, t.DATE, str)
    (Decimal('1.50'), datetime.date(1970, 1, 2))
    """
    match type_:
        case t.Boolean():
            return bool(number)
        case t.Decimal(scale=scale):
            return decimal.Decimal(number).scaleb(-scale, _DIGITS)
        case t.Date():
            return datetime.date.fromordinal(number + EPOCH_DAY)
        case t.Time():
            return time_of_day(number)
        case t.Timestamp():
            return timestamp_of(number)
        case t.String() | t.Variant():
            return text_of(number)
        case t.Struct() if is_window(type_):
            halves = (number + 2**63) % 2**64 - 2**63, number >> 64
            return tuple(None if moment == NO_INSTANT else timestamp_of(moment) for moment in halves)
    return number


def literal(frame: FunctionFrame, value: Any, type_: Type) -> NullableValue:
    """A constant as a cell; a text by its id, which is read when the code runs."""
    if value is None:
        return null_of(type_)
    if is_interned(type_):
        return NullableValue(frame.builder.load(frame.texts.place(value), typ=cell_type(type_)), None)
    return NullableValue(ir.Constant(value_type(type_), inner_number(value, type_)), None)


def convert(builder: ir.IRBuilder, value: ir.Value, source: Type, target: Type) -> Outcome:
    """CAST of a value that is not NULL; it fails where the value does not fit."""
    match source, target:
        case _ if source == target:
            return Outcome(value)
        case t.Boolean(), _ if is_exact(target) and not isinstance(target, t.Date | t.Time | t.Timestamp):
            # Taken as the unsigned digit that it is: a signed bit would be minus one.
            digit = WideInteger(builder.zext(value, ir.IntType(32)), 1)
            return _to_exact(builder, digit, 0, target)
        case t.Boolean(), t.Floating():
            return Outcome(builder.uitofp(value, F64))
        case t.Floating(), t.Floating():
            return Outcome(canonical(builder, rounded_to(builder, value, target)))
        case t.Integral(), t.Float() if value.type.width <= 64:
            return Outcome(builder.fpext(builder.sitofp(value, ir.FloatType()), F64))
        case ((t.Integral() | t.Decimal()), t.Boolean()):
            return Outcome(builder.icmp_signed("!=", value, ir.Constant(value.type, 0)))
        case t.Floating(), t.Boolean():
            return Outcome(builder.fcmp_unordered("!=", value, ir.Constant(F64, 0.0)))
        case ((t.Integral() | t.Decimal()), (t.Integral() | t.Decimal())):
            return _to_exact(builder, from_cell(value, source), scale_of(source), target)
        case ((t.Integral() | t.Decimal()), t.Double()):
            return Outcome(wide_integers.to_double(builder, from_cell(value, source), scale_of(source)))
        case t.Floating(), t.Integral():
            return _truncated(builder, value, target)
    return _convert_time(builder, value, source, target)


@lru_cache(maxsize=1024)
def is_native(source: Type, target: Type) -> bool:
    """True if ``convert`` has code for a CAST."""
    given = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [value_type(source)]), "tried")
    try:
        convert(ir.IRBuilder(given.append_basic_block()), given.args[0], source, target)
    except NotCompiled:
        return False
    return True


def _to_exact(builder: ir.IRBuilder, number: WideInteger, scale: int, target: Type) -> Outcome:
    if isinstance(target, t.Decimal):
        return to_decimal(builder, number, scale, target)
    if scale:
        number = wide_integers.quotient(builder, number, wide_integers.constant(10**scale))
    found = to_cell(builder, number, target)
    return Outcome(found.value, found.failed, _uncast(target))


def _truncated(builder: ir.IRBuilder, value: ir.Value, target: Type) -> Outcome:
    """A number without what is after its point; 2**63 itself, the double above all BIGINTs, becomes the largest."""
    assert isinstance(target, t.Integral)
    bits = target.bits - 1
    kind = value_type(target)
    limit = float(2**bits)
    trunc = builder.call(builder.module.declare_intrinsic("llvm.trunc", [F64]), [value])
    low = builder.fcmp_ordered(">=", trunc, ir.Constant(F64, -limit))
    high = builder.fcmp_ordered("<", trunc, ir.Constant(F64, limit))
    fits = builder.and_(low, high)
    found = builder.fptosi(builder.select(fits, trunc, ir.Constant(F64, 0.0)), kind)
    if bits == 63:
        top = builder.fcmp_ordered("==", value, ir.Constant(F64, limit))
        found = builder.select(top, ir.Constant(kind, 2**63 - 1), found)
        fits = builder.or_(fits, top)
    return Outcome(found, builder.not_(fits), _uncast(target))


def _convert_time(builder: ir.IRBuilder, value: ir.Value, source: Type, target: Type) -> Outcome:
    match source, target:
        case t.Timestamp(), t.Timestamp():
            return Outcome(value)
        case t.Date(), t.Timestamp():
            days = builder.sext(value, cell_type(t.TIMESTAMP))
            return Outcome(builder.mul(days, ir.Constant(days.type, DAY)))
        case t.Timestamp(), t.Date():
            return Outcome(builder.trunc(floor_divided(builder, value, DAY), cell_type(t.DATE)))
        case t.Timestamp(), t.Integral():
            return _to_exact(builder, WideInteger(floor_divided(builder, value, 1_000_000), 63), 0, target)
        case t.Timestamp(), t.Decimal():
            return _to_exact(builder, WideInteger(value, 63), 6, target)
        case t.Timestamp(), t.Double():
            return Outcome(canonical(builder, wide_integers.to_double(builder, WideInteger(value, 63), 6)))
        case (t.YearMonthInterval(), t.YearMonthInterval()) | (t.DayTimeInterval(), t.DayTimeInterval()):
            if keeps_all(source, target):
                return Outcome(value)
        case t.Integral(), t.Timestamp():
            return instant(builder, wide_integers.shifted(builder, from_cell(value, source), 6))
    raise NotCompiled(f"a cast from {source} to {target}")


def instant(builder: ir.IRBuilder, micros: WideInteger) -> Outcome:
    """A TIMESTAMP, which fails where it lies outside the calendar."""
    early = wide_integers.compare(builder, "<", micros, wide_integers.constant(FIRST_DAY * DAY))
    late = wide_integers.compare(builder, ">=", micros, wide_integers.constant((LAST_DAY + 1) * DAY))
    return Outcome(wide_integers.resized(builder, micros.value, 64), builder.or_(early, late), OUT_OF_CALENDAR)


def day(builder: ir.IRBuilder, days: WideInteger) -> Outcome:
    """A DATE, which fails where it lies outside the calendar."""
    early = wide_integers.compare(builder, "<", days, wide_integers.constant(FIRST_DAY))
    late = wide_integers.compare(builder, ">", days, wide_integers.constant(LAST_DAY))
    return Outcome(wide_integers.resized(builder, days.value, 32), builder.or_(early, late), OUT_OF_CALENDAR)


def floor_divided(builder: ir.IRBuilder, value: ir.Value, divisor: int) -> ir.Value:
    """``value // divisor``, rounded down also where it is negative; the divisor is positive."""
    by = ir.Constant(value.type, divisor)
    rest = builder.srem(value, by)
    below = builder.icmp_signed("<", rest, ir.Constant(value.type, 0))
    return builder.sub(builder.sdiv(value, by), builder.zext(below, value.type))


def _uncast(target: Type) -> RowFault:
    return RowFault(f"a number cannot be cast to {target}", "Use TRY_CAST to get NULL.")


def never_fails(source: Type, target: Type) -> bool:
    """True if every value of ``source`` is one of ``target``."""
    match source, target:
        case _ if source == target:
            return True
        case (t.Void(), _) | (t.Boolean(), (t.Integral() | t.Floating())):
            return True
        case ((t.Integral() | t.Decimal() | t.Timestamp() | t.Floating()), (t.Floating() | t.Boolean())):
            return True
        case (t.Timestamp(), t.Timestamp()) | (t.Date(), t.Timestamp()) | (t.Timestamp(), t.Date()):
            return True
        case t.AnsiInterval(), t.AnsiInterval():
            return True
        case t.Integral(), t.Integral():
            return source.bits < target.bits
        case ((t.Integral() | t.Decimal()), t.Decimal(precision, scale)):
            held = decimal_for(source)
            whole_digits = held.precision - held.scale
            return scale >= held.scale and precision - scale >= whole_digits and held.precision < t.MAX_PRECISION
    return False


def as_key(
    builder: ir.IRBuilder, cell: NullableValue, source: Type, target: Type
) -> tuple[NullableValue, ir.Value | None]:
    """The value of a key column of type ``target`` that equals ``cell``, and an i1 under which no value does.

    Exact numbers of any type are equal where the numbers are: 2 finds 2.00, and 2.50 finds no integer.
    """
    if source == target and cell.value.type == value_type(target):
        return cell, None
    if not (is_exact(source) and is_exact(target)):
        raise NotCompiled(f"a lookup of a {target} by a {source}")
    number, up = from_cell(cell.value, source), scale_of(target) - scale_of(source)
    fraction: ir.Value | None = None
    if up < 0:
        power = wide_integers.constant(10**-up)
        cut = wide_integers.quotient(builder, number, power)
        fraction = wide_integers.compare(builder, "!=", wide_integers.times(builder, cut, power), number)
        number = cut
    else:
        number = wide_integers.shifted(builder, number, up)
    found = to_cell(builder, number, target)
    return NullableValue(found.value, cell.is_null), any_of(builder, fraction, found.failed)


def nearest_key(
    builder: ir.IRBuilder, value: ir.Value, source: Type, closed: bool, target: Type, upwards: bool
) -> tuple[ir.Value, ir.Value]:
    """The first key of type ``target`` at or beyond a bound, and an i1 under which there is none.

    Keys are whole numbers, perhaps scaled, so an open bound or one between two keys is a closed one at the next key.
    What lies beyond all numbers of the key's width on the harmless side is the last of them.
    """
    if not (is_exact(source) and is_exact(target)):
        raise NotCompiled(f"a range of {target} that is bounded by a {source}")
    number, up = from_cell(value, source), scale_of(target) - scale_of(source)
    if up >= 0:
        exact = wide_integers.shifted(builder, number, up)
        nearest = exact if closed else _next(builder, exact, 1 if upwards else -1)
    else:
        nearest = _beyond(builder, number, wide_integers.constant(10**-up), closed, upwards)
    width = cell_type(target).width
    least, most = wide_integers.constant(-(1 << (width - 1))), wide_integers.constant((1 << (width - 1)) - 1)
    low, high = wide_integers.compare(builder, "<", nearest, least), wide_integers.compare(builder, ">", nearest, most)
    kept = wide_integers.resized(builder, nearest.value, width)
    # A number that is too narrow to be clamped fits anyway.
    clamped = builder.select(low, ir.Constant(kept.type, least.value.constant), kept)
    clamped = builder.select(high, ir.Constant(kept.type, most.value.constant), clamped)
    return clamped, high if upwards else low


def _next(builder: ir.IRBuilder, number: WideInteger, step: int) -> WideInteger:
    return wide_integers.plus(builder, number, wide_integers.constant(step))


def _beyond(builder: ir.IRBuilder, number: WideInteger, unit: WideInteger, closed: bool, upwards: bool) -> WideInteger:
    """The first whole multiple of ``unit`` at or after (before) ``number``, strictly where not ``closed``; divided."""
    cut = wide_integers.quotient(builder, number, unit)
    back = wide_integers.times(builder, cut, unit)
    # The quotient is cut off towards zero: it may lie on either side of the number, or be it.
    symbol = ("<" if closed else "<=") if upwards else (">" if closed else ">=")
    short = wide_integers.compare(builder, symbol, back, number)
    step = builder.zext(short, ir.IntType(32))
    if not upwards:
        step = builder.neg(step)
    return wide_integers.plus(builder, cut, WideInteger(step, 1))
