"""One converter for each plain type: an outside value becomes the inner one, or a ``BadValue`` says why not.

``model.coerce`` has the table of what each type takes, and does the same for rows and nested values.
"""

from __future__ import annotations

import ctypes
import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from tidemill.model import types as t
from tidemill.model.errors import BadValue
from tidemill.model.intervals import MICROSECONDS, MONTHS, read_calendar, read_interval
from tidemill.model.types import Type
from tidemill.model.variants import NotVariant, encode_variant
from tidemill.model.whole_numbers import MOST_DIGITS

__all__ = [
    "INNER",
    "PLAIN",
    "Converter",
    "from_numpy",
    "is_numpy",
    "refuse",
    "to_char",
    "to_decimal",
    "to_microseconds",
    "to_months",
    "to_time",
    "to_varchar",
]

Converter = Callable[[Any], Any]

_HALF_UP = decimal.Context(prec=t.MAX_PRECISION, rounding=decimal.ROUND_HALF_UP, traps=[decimal.InvalidOperation])
_BEYOND_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")
_LONGEST_SHOWN = 60


def refuse(value: Any, type_: Type | str, detail: str | None = None, hint: str | None = None) -> NoReturn:
    """Raise the error that ``value`` is not of ``type_``; the caller adds the place."""
    try:
        shown = repr(value)
    except ValueError:  # Python writes no more digits
        shown = "a number of thousands of digits"
    if len(shown) > _LONGEST_SHOWN:
        shown = f"{shown[:_LONGEST_SHOWN]}..."
    raise BadValue(f"{shown} is not a value of type {type_}", detail=detail, hint=hint)


def is_numpy(value: Any) -> bool:
    """True if ``value`` is one of NumPy's scalars or arrays, found without importing NumPy."""
    return type(value).__module__ == "numpy"


def from_numpy(value: Any) -> Any:
    """The Python value in a NumPy scalar; anything else as it is."""
    if not is_numpy(value) or not hasattr(value, "item"):
        return value
    if value.dtype.kind == "m":
        exact = value.astype("timedelta64[us]")
        return exact.item() if exact == value else value
    if value.dtype.kind == "M":
        # Nanoseconds would come out as a bare integer; microseconds are a datetime, if nothing is lost.
        rounded = value.astype("datetime64[us]")
        return rounded.item() if rounded == value else value
    return value.item()


def to_boolean(value: Any) -> bool:
    """True and false; 0 and 1 are numbers."""
    plain = from_numpy(value)
    if isinstance(plain, bool):
        return plain
    refuse(value, t.BOOLEAN)


def to_integer(type_: t.Integral) -> Converter:
    """Whole numbers that fit ``type_``, whichever Python type they have."""
    low, high = -type_.limit, type_.limit - 1

    def convert(value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        number = _whole(from_numpy(value))
        if number is None:
            refuse(value, type_)
        if not low <= number <= high:
            refuse(value, type_, f"{type_} holds {low} to {high}.")
        return number

    return convert


def _whole(number: Any) -> int | None:
    """``number`` as an integer, or None if it is not one."""
    if isinstance(number, int):
        return None if isinstance(number, bool) else int(number)
    if isinstance(number, float) and number.is_integer():
        return int(number)
    if isinstance(number, decimal.Decimal) and number.is_finite() and number == number.to_integral_value():
        # 1E+999999999 has a billion digits: no integer is made of what no type holds.
        return int(number) if number.adjusted() < MOST_DIGITS else int(_BEYOND.copy_sign(number))
    return None


_BEYOND = decimal.Decimal(10**t.MAX_PRECISION)
"""Stands for a number of more than ``MOST_DIGITS`` digits: all types of whole numbers hold less."""


def to_decimal(type_: t.Decimal) -> Converter:
    """Numbers, rounded to the type's scale: half a unit of the last digit goes away from zero, as Spark stores it.

    A float is the shortest decimal that stands for it, as it is shown: 1.005 is rounded to 1.01.
    """
    quantum = decimal.Decimal(1).scaleb(-type_.scale)
    limit = decimal.Decimal(10) ** (type_.precision - type_.scale)
    zero = quantum * 0

    def convert(value: Any) -> decimal.Decimal:
        number = value if type(value) is decimal.Decimal else _decimal_of(value, type_)
        if not number.is_finite():
            refuse(value, type_)
        try:
            fitted = _HALF_UP.quantize(number, quantum)
        except decimal.InvalidOperation:
            fitted = limit
        if not -limit < fitted < limit:
            refuse(value, type_, f"It has more than {type_.precision - type_.scale} digits before the point.")
        return fitted or zero  # there is one zero, without a sign

    return convert


def _decimal_of(value: Any, type_: Type) -> decimal.Decimal:
    plain = from_numpy(value)
    if isinstance(plain, float):
        return decimal.Decimal(repr(plain))
    if isinstance(plain, (int, decimal.Decimal)) and not isinstance(plain, bool):
        return decimal.Decimal(plain)
    if isinstance(plain, str) and "_" not in plain:
        try:
            return decimal.Decimal(plain)
        except decimal.InvalidOperation:
            pass
    refuse(value, type_)


def to_double(value: Any) -> float:
    """Floats, and what is a float exactly or after rounding a decimal."""
    number = value if type(value) is float else _double_of(value)
    # One NaN, the same object everywhere, and no negative zero: so that equal doubles are equal keys.
    return math.nan if number != number else number + 0.0


def to_float(value: Any) -> float:
    """As for a DOUBLE, but rounded to 32 bits as NumPy does; no number overflows."""
    number = to_double(value)
    rounded = ctypes.c_float(number).value
    if math.isinf(rounded) and not math.isinf(number):
        refuse(value, t.FLOAT, "It is too large for 32 bits.", "Use a DOUBLE.")
    return math.nan if rounded != rounded else rounded + 0.0


def _double_of(value: Any) -> float:
    plain = from_numpy(value)
    if isinstance(plain, bool) or not isinstance(plain, (int, float, decimal.Decimal)):
        refuse(value, t.DOUBLE)
    try:
        number = float(plain)
    except (OverflowError, ValueError) as error:
        refuse(value, t.DOUBLE, str(error))
    if isinstance(plain, int) and number != plain:
        refuse(value, t.DOUBLE, f"The nearest double is {number:.0f}.")
    if math.isinf(number) and isinstance(plain, decimal.Decimal) and plain.is_finite():
        refuse(value, t.DOUBLE, "It is too large for a double.")
    return number


def to_string(value: Any) -> str:
    """Text that UTF-8 can spell."""
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        refuse(value, t.STRING)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        refuse(value, t.STRING, f"It is not valid Unicode: {error.reason}.")
    return str.__str__(value)


def to_binary(value: Any) -> bytes:
    """Bytes of any kind; a text must be encoded first."""
    if type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        refuse(value, t.BINARY, "A text has no bytes before it is encoded.", "Give text.encode().")
    refuse(value, t.BINARY)


def to_varchar(length: int, name: str = "VARCHAR") -> Converter:
    """Text of at most ``length`` characters. Spaces beyond that are cut off, as in Spark; anything else is refused.

    >>> to_varchar(3)("abc  "), to_varchar(3)("ab ")
    ('abc', 'ab ')
    """

    def convert(value: Any) -> str:
        text = to_string(value)
        if len(text) <= length:
            return text
        if text[length:].strip(" "):
            refuse(value, f"{name}({length})", f"It has {len(text)} characters.")
        return text[:length]

    return convert


def to_char(length: int) -> Converter:
    """Text that is filled up with spaces to ``length`` characters; longer text as for VARCHAR.

    >>> to_char(3)("a"), to_char(3)("abc  ")
    ('a  ', 'abc')
    """
    fit = to_varchar(length, "CHAR")
    return lambda value: fit(value).ljust(length)


def to_date(value: Any) -> datetime.date:
    """Days, ISO text of them, and datetimes at midnight."""
    if type(value) is datetime.date:
        return value
    plain = from_numpy(value)
    if isinstance(plain, str):
        try:
            return datetime.date.fromisoformat(plain)
        except ValueError as error:
            refuse(value, t.DATE, str(error))
    if isinstance(plain, datetime.datetime) and plain == plain:  # pandas' NaT is no day
        if plain.tzinfo is not None or plain.time() != datetime.time():
            refuse(value, t.DATE, "It has a time of day.", "Take its .date().")
        return plain.date()
    if isinstance(plain, datetime.date) and plain == plain:
        return datetime.date(plain.year, plain.month, plain.day)
    refuse(value, t.DATE)


def to_time(type_: t.Time) -> Converter:
    """Times of day without a zone, and ISO text of them, with no more digits of a second than the type has.

    >>> to_time(t.Time(3))("12:30:00.250")
    datetime.time(12, 30, 0, 250000)
    """
    quantum = 10 ** (t.TIME_DIGITS - type_.precision)

    def convert(value: Any) -> datetime.time:
        time = _time_of(value, type_)
        if time.tzinfo is not None:
            refuse(value, type_, "It has a time zone.", "A time of day has none.")
        if time.microsecond % quantum:
            refuse(value, type_, f"It has more than {type_.precision} digits of a second.", "Round it first.")
        return time.replace(fold=0) if time.fold else time

    return convert


def _time_of(value: Any, type_: t.Time) -> datetime.time:
    if type(value) is datetime.time:
        return value
    if not isinstance(value, str):
        refuse(value, type_)
    if _BEYOND_MICROSECONDS.search(value):
        refuse(value, type_, "A time has microseconds, not nanoseconds.", "Round it first.")
    try:
        return datetime.time.fromisoformat(value)
    except ValueError as error:
        refuse(value, type_, str(error))


def to_timestamp(value: Any) -> datetime.datetime:
    """Instants as naive datetimes in UTC; a time zone is applied and forgotten."""
    if type(value) is datetime.datetime and value.tzinfo is None and not value.fold:
        return value
    moment = _moment_of(from_numpy(value), value)
    if getattr(moment, "nanosecond", 0):
        refuse(value, t.TIMESTAMP, "A timestamp has microseconds, not nanoseconds.", "Round it first.")
    try:
        shifted = moment if moment.tzinfo is None else moment.astimezone(datetime.UTC)
    except OverflowError as error:
        refuse(value, t.TIMESTAMP, str(error))
    return datetime.datetime.combine(shifted.date(), shifted.time().replace(fold=0))


def _moment_of(plain: Any, value: Any) -> datetime.datetime:
    if isinstance(plain, str):
        if _BEYOND_MICROSECONDS.search(plain):
            refuse(value, t.TIMESTAMP, "A timestamp has microseconds, not nanoseconds.", "Round it first.")
        try:
            return datetime.datetime.fromisoformat(plain)
        except ValueError as error:
            refuse(value, t.TIMESTAMP, str(error))
    if isinstance(plain, datetime.datetime) and plain == plain:
        return plain
    if isinstance(plain, datetime.date) and plain == plain:
        return datetime.datetime.combine(plain, datetime.time())
    refuse(value, t.TIMESTAMP)


def to_variant(value: Any) -> str:
    """A value of JSON, or an exact number, date, timestamp or bytes; a text is a text, and not read as JSON."""
    try:
        text = encode_variant(from_numpy(value))
        text.encode()
    except (NotVariant, UnicodeEncodeError) as error:
        refuse(value, t.VARIANT, str(error))
    return text


def to_months(type_: t.YearMonthInterval) -> Converter:
    """A number of months, or a text as CAST reads it; one of years alone has no other months.

    >>> to_months(t.YEAR_MONTH)("1-2")
    14
    """
    size = MONTHS[type_.end]

    def convert(value: Any) -> int:
        plain = from_numpy(value)
        number = read_interval(plain, type_) if isinstance(plain, str) else _whole(plain)
        if number is None:
            refuse(value, type_, "Give a number of months, or a text such as '1-2' for a year and two months.")
        if number % size:
            refuse(value, type_, "It has months beyond whole years.")
        if not -type_.limit <= number < type_.limit:
            refuse(value, type_, "It has more than 31 bits of months.")
        return number

    return convert


def to_microseconds(type_: t.DayTimeInterval) -> Converter:
    """A ``timedelta``, a number of microseconds, or a text as CAST reads it, or as it writes one with all fields.

    >>> to_microseconds(t.INTERVAL_DAY)(datetime.timedelta(days=2))
    172800000000
    """
    size = 1 if type_.end == "SECOND" else MICROSECONDS[type_.end]

    def convert(value: Any) -> int:
        number = _microseconds_of(from_numpy(value), type_)
        if number is None:
            refuse(value, type_, hint="Give a datetime.timedelta, or a text such as '1 02:03:04.5'.")
        if number % size:
            refuse(value, type_, f"It has more than whole {type_.end.lower()}s.")
        if not -type_.limit <= number < type_.limit:
            refuse(value, type_, "It has more than 63 bits of microseconds.")
        return number

    return convert


def _microseconds_of(plain: Any, type_: t.DayTimeInterval) -> int | None:
    if isinstance(plain, str):
        found = read_interval(plain, type_)
        return read_interval(plain, t.DAY_TIME) if found is None else found
    if isinstance(plain, datetime.timedelta) and plain == plain and not getattr(plain, "nanoseconds", 0):
        return plain // _MICROSECOND
    return _whole(plain)


_MICROSECOND = datetime.timedelta(microseconds=1)


def to_calendar(value: Any) -> tuple[int, int, int]:
    """Months, days and microseconds, or a text such as ``1 year 2 days``."""
    found = read_calendar(value) if isinstance(value, str) else value
    limits = (1 << 31, 1 << 31, 1 << 63)
    if not isinstance(found, tuple | list) or len(found) != 3 or not all(type(part) is int for part in found):
        refuse(value, t.CALENDAR_INTERVAL, "Give months, days and microseconds, or a text such as '1 year 2 days'.")
    if not all(-limit <= part < limit for part, limit in zip(found, limits, strict=True)):
        refuse(value, t.CALENDAR_INTERVAL, "It is too long.")
    return found[0], found[1], found[2]


def to_void(value: Any) -> NoReturn:
    """NULL alone, which no converter ever sees."""
    refuse(value, t.VOID)


PLAIN: dict[Type, Converter] = {
    t.VOID: to_void,
    t.BOOLEAN: to_boolean,
    **{type_: to_integer(type_) for type_ in (t.TINYINT, t.SMALLINT, t.INT, t.BIGINT)},
    t.FLOAT: to_float,
    t.DOUBLE: to_double,
    t.STRING: to_string,
    t.BINARY: to_binary,
    t.DATE: to_date,
    t.TIMESTAMP: to_timestamp,
    t.TIMESTAMP_NTZ: to_timestamp,
    t.VARIANT: to_variant,
    t.CALENDAR_INTERVAL: to_calendar,
}

INNER: dict[Type, tuple[type, Any, Any]] = {
    t.BOOLEAN: (bool, False, True),
    **{type_: (int, -type_.limit, type_.limit - 1) for type_ in (t.TINYINT, t.SMALLINT, t.INT, t.BIGINT)},
    t.DATE: (datetime.date, datetime.date.min, datetime.date.max),
}
"""The types whose values of one Python type, from the first to the last, are inner values as they are."""
