"""CAST between all types, as in Spark's ANSI mode: a value that does not fit is an error, never a wrapped number."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from typing import Any

from tidemill.algebra.values import formats
from tidemill.algebra.values.decimals import EXACT, quantized
from tidemill.algebra.values.interval_casts import can_cast_interval, number_of_units, to_interval
from tidemill.algebra.values.singles import nearest_single, single
from tidemill.algebra.values.variants import (
    has_variant,
    inner_scalar,
    is_variant_source,
    is_variant_target,
    node_json,
    scalar_type,
    to_variant,
)
from tidemill.changes.arrow import canonical_double, microsecond_of_day
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayValue, as_array
from tidemill.model.errors import ArithmeticFault
from tidemill.model.intervals import read_calendar
from tidemill.model.types import Type
from tidemill.model.variants import Node, is_array, read_node, write_node

MIDNIGHT = datetime.time()
ORIGIN = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


def cast_value(value: Any, source: Type, target: Type, lenient: bool = False) -> Any:
    """``value`` of type ``source`` as a ``target``. What does not fit is an ArithmeticFault, or NULL where ``lenient``.

    >>> cast_value(" 12 ", t.STRING, t.INT), cast_value("twelve", t.STRING, t.INT, lenient=True)
    (12, None)
    """
    if value is None or source == target:
        return value
    if isinstance(source, t.Collated):
        return cast_value(value, t.STRING, target, lenient)
    try:
        if isinstance(source, t.Variant):
            return from_node(read_node(value), target, lenient)
        return _TARGETS[type(target)](value, source, target, lenient)
    except ArithmeticFault:
        if lenient:
            return None
        raise


def can_cast(source: Type, target: Type) -> bool:
    """True if CAST from ``source`` to ``target`` exists at all."""
    match source, target:
        case _ if source == target:
            return True
        case t.Variant(), _:
            return is_variant_target(target)
        case (_, t.String()) if has_variant(source):
            return False
        case (t.Void(), _) | (_, t.String()):
            return True
        case t.Collated(), _:
            return can_cast(t.STRING, target)
        case _, t.Variant():
            return is_variant_source(source)
        case t.Array(one), t.Array(other):
            return can_cast(one, other)
        case t.Map(key, value), t.Map(new_key, new_value):
            return can_cast(key, new_key) and can_cast(value, new_value)
        case t.Struct(one), t.Struct(other):
            return len(one) == len(other) and all(can_cast(a.type, b.type) for a, b in zip(one, other, strict=True))
    return type(source) in _SOURCES.get(type(target), ()) or can_cast_interval(source, target)


def widens(source: Type, target: Type) -> bool:
    """True if a CAST from ``source`` to ``target`` cannot fail for any value."""
    match source, target:
        case _ if source == target or isinstance(source, t.Void):
            return True
        case t.Integral(), t.Integral():
            return source.bits < target.bits
        case ((t.Integral() | t.Decimal() | t.Floating()), t.Floating()):
            return True
        case t.Integral(), t.Decimal(precision, scale):
            return precision - scale >= min(source.digits, 19)
        case t.Decimal(old_precision, old_scale), t.Decimal(precision, scale):
            return scale >= old_scale and precision - scale >= old_precision - old_scale
        case ((t.Date() | t.Timestamp()), t.Timestamp()):
            return True
        case (t.YearMonthInterval(), t.YearMonthInterval()) | (t.DayTimeInterval(), t.DayTimeInterval()):
            return True
        case t.Boolean() | t.Integral() | t.Decimal() | t.Floating() | t.Date() | t.Time() | t.Timestamp(), t.String():
            return True
        case ((t.Time() | t.Timestamp()), t.Time()) | (t.String(), t.String()):
            return True
        case ((t.AnsiInterval() | t.CalendarInterval()), t.String()):
            return True
    return False


def checked(type_: Type, value: int) -> int:
    """``value`` if it is in the range of an integer type; else an error."""
    assert isinstance(type_, t.Integral)
    limit = type_.limit
    if -limit <= value < limit:
        return value
    raise ArithmeticFault(f"{value} does not fit {type_}", hint="Convert an operand to a wider type first.")


def fault(value: Any, source: Type, target: Type) -> ArithmeticFault:
    """The error for a value that cannot be converted."""
    shown = repr(value) if source == t.STRING else formats.write(value, source)
    return ArithmeticFault(f"{shown} cannot be cast from {source} to {target}", hint="Use TRY_CAST to get NULL.")


def microseconds(value: datetime.datetime) -> int:
    """Microseconds since 1970, the number that a timestamp stands for."""
    return (value - ORIGIN) // MICROSECOND


def timestamp_of(micros: int) -> datetime.datetime:
    """The timestamp so many microseconds after 1970."""
    try:
        return ORIGIN + datetime.timedelta(microseconds=micros)
    except OverflowError:
        raise ArithmeticFault("a timestamp lies outside the years 1 to 9999") from None


def _found(read: Any, value: Any, source: Type, target: Type) -> Any:
    """The value that a parser found; None means that the text is no such value."""
    if read is None:
        raise fault(value, source, target)
    return read


def _to_boolean(value: Any, source: Type, target: Type, lenient: bool) -> bool:
    if isinstance(source, t.String):
        return bool(_found(formats.read_boolean(value), value, source, target))
    return bool(value != 0)


def _to_integer(value: Any, source: Type, target: Type, lenient: bool) -> int:
    assert isinstance(target, t.Integral)
    limit = target.limit
    number = _whole_number(value, source, target)
    if -limit <= number < limit:
        return number
    if isinstance(source, t.Floating) and value == limit == t.BIGINT.limit:
        return limit - 1  # the double next above the largest BIGINT, which Spark accepts
    raise fault(value, source, target)


def _whole_number(value: Any, source: Type, target: Type) -> int:
    match source:
        case t.String():
            return int(_found(formats.read_integer(value), value, source, target))
        case t.Timestamp():
            return microseconds(value) // 1_000_000
        case t.AnsiInterval():
            return int(number_of_units(value, source))
        case t.Time():
            return microsecond_of_day(value) // 1_000_000
        case t.Floating() if not math.isfinite(value):
            raise fault(value, source, target)
    return int(value)


def _to_decimal(value: Any, source: Type, target: Type, lenient: bool) -> decimal.Decimal | None:
    assert isinstance(target, t.Decimal)
    if isinstance(source, t.Floating) and not math.isfinite(value):
        return None  # the one conversion that Spark leaves undefined instead of refusing it
    return quantized(_exact_number(value, source, target), target)


def _exact_number(value: Any, source: Type, target: Type) -> decimal.Decimal:
    match source:
        case t.String():
            return decimal.Decimal(_found(formats.read_decimal(value), value, source, target))
        case t.Floating():
            # By way of the shortest text: 0.1 becomes 0.1 and not the binary fraction next to it.
            return decimal.Decimal(repr(value))
        case t.Timestamp():
            return EXACT.scaleb(decimal.Decimal(microseconds(value)), -6)
        case t.AnsiInterval():
            return number_of_units(value, source)
        case t.Time():
            return EXACT.scaleb(decimal.Decimal(microsecond_of_day(value)), -6)
    return decimal.Decimal(value)


def _to_double(value: Any, source: Type, target: Type, lenient: bool) -> float:
    match source:
        case t.String():
            return float(_found(formats.read_double(value), value, source, target))
        case t.Timestamp():
            return microseconds(value) / 1_000_000
    return canonical_double(float(value))


def _to_float(value: Any, source: Type, target: Type, lenient: bool) -> float:
    match source:
        case t.String():
            return float(_found(formats.read_float(value), value, source, target))
        case t.Integral() | t.Decimal():
            return nearest_single(value)
    return single(_to_double(value, source, target, lenient))


def _to_string(value: Any, source: Type, target: Type, lenient: bool) -> str:
    if isinstance(source, t.Binary):
        return str(_found(formats.decoded(value), value, source, target))
    return formats.write(value, source)


def _to_binary(value: Any, source: Type, target: Type, lenient: bool) -> bytes:
    encoded: bytes = value.encode()
    return encoded


def _to_date(value: Any, source: Type, target: Type, lenient: bool) -> datetime.date:
    if isinstance(source, t.Timestamp):
        return datetime.date(value.year, value.month, value.day)
    found: datetime.date = _found(formats.read_date(value), value, source, target)
    return found


def _to_timestamp(value: Any, source: Type, target: Type, lenient: bool) -> datetime.datetime:
    match source:
        case t.String():
            found: datetime.datetime = _found(
                formats.read_timestamp(value, zoned=target == t.TIMESTAMP), value, source, target
            )
            return found
        case t.Timestamp():
            moment: datetime.datetime = value
            return moment
        case t.Date():
            return datetime.datetime.combine(value, MIDNIGHT)
        case t.Floating() if not math.isfinite(value):
            raise fault(value, source, target)
        case t.Decimal():
            return timestamp_of(int(EXACT.scaleb(value, 6)))
    return timestamp_of(int(value * 1_000_000))


def _to_interval(value: Any, source: Type, target: Type, lenient: bool) -> int:
    assert isinstance(target, t.AnsiInterval)
    return int(_found(to_interval(value, source, target), value, source, target))


def _to_calendar(value: Any, source: Type, target: Type, lenient: bool) -> tuple[int, int, int] | None:
    return read_calendar(value)  # as in Spark a text that is none gives NULL


def _to_time(value: Any, source: Type, target: Type, lenient: bool) -> datetime.time:
    assert isinstance(target, t.Time)
    match source:
        case t.String():
            found: datetime.time = _found(formats.read_time(value), value, source, target)
        case t.Timestamp():
            found = value.time()
        case _:
            found = value
    return cut_time(found, target)


def cut_time(value: datetime.time, of: t.Time) -> datetime.time:
    """``value`` without the digits of its second that ``of`` does not have.

    >>> cut_time(datetime.time(12, 0, 0, 123456), t.Time(2))
    datetime.time(12, 0, 0, 120000)
    """
    quantum = 10 ** (t.TIME_DIGITS - of.precision)
    return value.replace(microsecond=value.microsecond // quantum * quantum)


def _to_array(value: Any, source: Type, target: Type, lenient: bool) -> ArrayValue:
    assert isinstance(source, t.Array)
    assert isinstance(target, t.Array)
    array: ArrayValue = as_array([cast_value(v, source.element, target.element, lenient) for v in value])
    return array


def _to_map(value: Any, source: Type, target: Type, lenient: bool) -> tuple[tuple[Any, Any], ...]:
    assert isinstance(source, t.Map)
    assert isinstance(target, t.Map)
    return tuple(
        (cast_value(k, source.key, target.key, lenient), cast_value(v, source.value, target.value, lenient))
        for k, v in value
    )


def _to_struct(value: Any, source: Type, target: Type, lenient: bool) -> tuple[Any, ...]:
    assert isinstance(source, t.Struct)
    assert isinstance(target, t.Struct)
    parts = zip(value, source.fields, target.fields, strict=True)
    return tuple(cast_value(v, one.type, other.type, lenient) for v, one, other in parts)


def _to_variant(value: Any, source: Type, target: Type, lenient: bool) -> str:
    return to_variant(value, source)


def from_node(node: Node, of: Type, lenient: bool) -> Any:
    """A variant as a value of a type; one that does not fit is an error, or NULL where ``lenient``."""
    if isinstance(of, t.Variant):
        return write_node(node)
    if node is None:
        return None
    match of:
        case t.Array(element) if is_array(node):
            return as_array([from_node(each, element, lenient) for each in node[1:]])
        case t.Map(t.String(), value) if isinstance(node, dict):
            return tuple((name, from_node(each, value, lenient)) for name, each in node.items())
        case t.Struct(fields) if isinstance(node, dict):
            return tuple(from_node(node[f.name], f.type, lenient) if f.name in node else None for f in fields)
        case t.String() if isinstance(node, dict) or is_array(node):
            return node_json(node)
        case t.Array() | t.Map() | t.Struct():
            return _unfit(node, of, lenient)
    if isinstance(node, dict) or is_array(node):
        return _unfit(node, of, lenient)
    return _cast_scalar(node, of, lenient)


def _cast_scalar(node: Node, of: Type, lenient: bool) -> Any:
    source = scalar_type(node)
    if not can_cast(source, of):
        return _unfit(node, of, lenient)
    value = cast_value(inner_scalar(node), source, of, lenient=True)
    return _unfit(node, of, lenient) if value is None else value


def _unfit(node: Node, of: Type, lenient: bool) -> None:
    if not lenient:
        raise ArithmeticFault(
            f"the variant {node_json(node)[:100]} cannot be cast to {of}", hint="Use TRY_CAST or TRY_VARIANT_GET."
        )


_INTEGERS = (t.TinyInt, t.SmallInt, t.Int, t.BigInt)
_NUMBERS = (t.Boolean, *_INTEGERS, t.Decimal, t.Float, t.Double, t.String)
_SOURCES: dict[type[Type], tuple[type[Type], ...]] = {
    t.Boolean: _NUMBERS,
    **dict.fromkeys(_INTEGERS, (*_NUMBERS, t.Timestamp, t.Time)),
    t.Decimal: (*_NUMBERS, t.Timestamp, t.Time),
    t.Float: (*_NUMBERS, t.Timestamp),
    t.Double: (*_NUMBERS, t.Timestamp),
    t.Binary: (t.String,),
    t.Date: (t.String, t.Timestamp, t.TimestampNtz),
    t.Timestamp: (t.String, t.Date, t.TimestampNtz, *_INTEGERS, t.Decimal, t.Float, t.Double),
    t.TimestampNtz: (t.String, t.Date, t.Timestamp),
    t.Time: (t.String, t.Time, t.Timestamp, t.TimestampNtz),
}

_TARGETS: dict[type[Type], Callable[[Any, Type, Type, bool], Any]] = {
    t.Boolean: _to_boolean,
    **dict.fromkeys(_INTEGERS, _to_integer),
    t.Decimal: _to_decimal,
    t.Float: _to_float,
    t.Double: _to_double,
    t.String: _to_string,
    t.Collated: _to_string,
    t.Date: _to_date,
    t.Binary: _to_binary,
    t.Timestamp: _to_timestamp,
    t.TimestampNtz: _to_timestamp,
    t.YearMonthInterval: _to_interval,
    t.DayTimeInterval: _to_interval,
    t.CalendarInterval: _to_calendar,
    t.Time: _to_time,
    t.Array: _to_array,
    t.Map: _to_map,
    t.Struct: _to_struct,
    t.Variant: _to_variant,
}
