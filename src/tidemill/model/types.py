"""The types of Tidemill: what a value may be, and how Python, Arrow and SQL spell it.

Inside the engine every value is hashable, because rows are keys of Z-sets:

=========================== ========================= ===========================
type                        inside                    what ``rows()`` returns
=========================== ========================= ===========================
BOOLEAN                     bool                      bool
TINYINT SMALLINT INT BIGINT int                       int
DECIMAL                     decimal.Decimal at scale  decimal.Decimal
FLOAT DOUBLE                float (one NaN, no -0.0)  float
STRING                      str                       str
BINARY                      bytes                     bytes
DATE                        datetime.date             datetime.date
TIME                        naive datetime.time       naive datetime.time
TIMESTAMP                   naive datetime in UTC     naive datetime in UTC
TIMESTAMP_NTZ               naive datetime            naive datetime
INTERVAL YEAR TO MONTH      int of months             int of months
INTERVAL DAY TO SECOND      int of microseconds       datetime.timedelta
INTERVAL                    tuple of months, days and the same
                            microseconds
ARRAY                       tuple, or an ArrayTree    list
                            where it is long
MAP                         tuple of pairs            dict
STRUCT                      tuple, in field order     dict
VARIANT                     str (``model.variants``)  any of these
=========================== ========================= ===========================

NULL is ``None`` everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

MAX_PRECISION = 38

TIME_DIGITS = 6
"""The digits of a second that a TIME has at most."""


@dataclass(frozen=True, slots=True)
class Type:
    """A SQL type; ``str()`` gives its Spark spelling.

    >>> str(Array(Decimal(12, 2)))
    'ARRAY<DECIMAL(12,2)>'
    """

    def __str__(self) -> str:
        return type(self).__name__.upper()


@dataclass(frozen=True, slots=True)
class Void(Type):
    """The type of a bare NULL."""


@dataclass(frozen=True, slots=True)
class Boolean(Type):
    """True, false or NULL."""


@dataclass(frozen=True, slots=True)
class Integral(Type):
    """An integer of so many bits, one of them for the sign."""

    bits: ClassVar[int]

    @property
    def limit(self) -> int:
        """The first integer that does not fit; the least that does is its negative.

        >>> TINYINT.limit
        128
        """
        return 1 << (self.bits - 1)

    @property
    def digits(self) -> int:
        """The precision of the DECIMAL that stands for this type in arithmetic.

        >>> TINYINT.digits, BIGINT.digits
        (3, 20)
        """
        return {8: 3, 16: 5, 32: 10, 64: 20}[self.bits]


@dataclass(frozen=True, slots=True)
class TinyInt(Integral):
    """An 8-bit integer."""

    bits: ClassVar[int] = 8


@dataclass(frozen=True, slots=True)
class SmallInt(Integral):
    """A 16-bit integer."""

    bits: ClassVar[int] = 16


@dataclass(frozen=True, slots=True)
class Int(Integral):
    """A 32-bit integer."""

    bits: ClassVar[int] = 32


@dataclass(frozen=True, slots=True)
class BigInt(Integral):
    """A 64-bit integer."""

    bits: ClassVar[int] = 64


@dataclass(frozen=True, slots=True)
class Decimal(Type):
    """An exact number with ``precision`` digits, ``scale`` of them after the point."""

    precision: int = 10
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Floating(Type):
    """A binary floating-point number."""


@dataclass(frozen=True, slots=True)
class Float(Floating):
    """A 32-bit binary floating-point number. Inside it is the 64-bit one of the same value."""


@dataclass(frozen=True, slots=True)
class Double(Floating):
    """A 64-bit binary floating-point number."""


@dataclass(frozen=True, slots=True)
class String(Type):
    """Text of any length."""


@dataclass(frozen=True, slots=True)
class Collated(String):
    """Text that is compared by a rule of its own, such as UTF8_LCASE."""

    collation: str

    def __str__(self) -> str:
        return "STRING" if self.collation == "UTF8_BINARY" else f"STRING COLLATE {self.collation}"


@dataclass(frozen=True, slots=True)
class Binary(Type):
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Variant(Type):
    """A value of any type, found when it is read: what JSON has, and dates, timestamps, bytes and exact numbers."""


@dataclass(frozen=True, slots=True)
class Date(Type):
    """A day of the calendar."""


@dataclass(frozen=True, slots=True)
class Time(Type):
    """A time of day, whose seconds have ``precision`` digits after the point."""

    precision: int = TIME_DIGITS

    def __str__(self) -> str:
        return f"TIME({self.precision})"


@dataclass(frozen=True, slots=True)
class Timestamp(Type):
    """An instant: microseconds in UTC."""


@dataclass(frozen=True, slots=True)
class TimestampNtz(Timestamp):
    """A day and a time of day, of no time zone. Our clocks are UTC, so as an instant it is the same number."""

    def __str__(self) -> str:
        return "TIMESTAMP_NTZ"


@dataclass(frozen=True, slots=True)
class AnsiInterval(Type):
    """A length of time that counts one unit, months or microseconds, and shows the fields from one to another.

    >>> str(DayTimeInterval("DAY", "SECOND")), str(YearMonthInterval("MONTH", "MONTH"))
    ('INTERVAL DAY TO SECOND', 'INTERVAL MONTH')
    """

    start: str
    end: str

    FIELDS: ClassVar[tuple[str, ...]]
    limit: ClassVar[int]

    def spans(self, field: str) -> bool:
        """True if values of this type show ``field``."""
        order = self.FIELDS.index
        return field in self.FIELDS and order(self.start) <= order(field) <= order(self.end)

    def __str__(self) -> str:
        return f"INTERVAL {self.start}" if self.start == self.end else f"INTERVAL {self.start} TO {self.end}"


@dataclass(frozen=True, slots=True)
class YearMonthInterval(AnsiInterval):
    """A number of months, of 32 bits."""

    FIELDS: ClassVar[tuple[str, ...]] = ("YEAR", "MONTH")
    limit: ClassVar[int] = 1 << 31

    start: str = "YEAR"
    end: str = "MONTH"

    def __str__(self) -> str:
        return AnsiInterval.__str__(self)


@dataclass(frozen=True, slots=True)
class DayTimeInterval(AnsiInterval):
    """A number of microseconds, of 64 bits."""

    FIELDS: ClassVar[tuple[str, ...]] = ("DAY", "HOUR", "MINUTE", "SECOND")
    limit: ClassVar[int] = 1 << 63

    start: str = "DAY"
    end: str = "SECOND"

    def __str__(self) -> str:
        return AnsiInterval.__str__(self)


@dataclass(frozen=True, slots=True)
class CalendarInterval(Type):
    """Months, days and microseconds, which are not converted to each other: two of them cannot be compared."""

    def __str__(self) -> str:
        return "INTERVAL"


@dataclass(frozen=True, slots=True)
class Array(Type):
    """A list of values of one type."""

    element: Type

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map(Type):
    """Values by keys, which are all different, in the order in which they were given."""

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A named, typed place: a column of a relation or a member of a struct.

    A column of a table may be declared VARCHAR(n): a STRING of at most ``length`` characters; or CHAR(n), whose texts
    are filled up with spaces to ``char`` characters. What reads the table sees a STRING, as in Spark, but texts that
    are compared with those of a CHAR are filled up, too: so ``char`` stays with a column to which nothing is done.
    """

    name: str
    type: Type
    nullable: bool = True
    length: int | None = None
    char: int | None = None

    @property
    def declared(self) -> str:
        """The type as a declaration spells it.

        >>> Field("code", STRING, length=3).declared, Field("code", STRING).declared
        ('VARCHAR(3)', 'STRING')
        """
        if self.length is None:
            return str(self.type)
        return f"VARCHAR({self.length})" if self.char is None else f"CHAR({self.char})"

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class Struct(Type):
    """A record of named fields."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(map(str, self.fields))}>"


VOID = Void()
BOOLEAN = Boolean()
TINYINT = TinyInt()
SMALLINT = SmallInt()
INT = Int()
BIGINT = BigInt()
FLOAT = Float()
DOUBLE = Double()
STRING = String()
BINARY = Binary()
VARIANT = Variant()
DATE = Date()
TIME = Time()
TIMESTAMP = Timestamp()
TIMESTAMP_NTZ = TimestampNtz()
YEAR_MONTH = YearMonthInterval()
DAY_TIME = DayTimeInterval()
INTERVAL_DAY = DayTimeInterval("DAY", "DAY")
CALENDAR_INTERVAL = CalendarInterval()


def is_comparable(type_: Type) -> bool:
    """True if values of ``type_`` can be compared by themselves: they are no maps, variants, calendar intervals or
    texts with a collation, and hold none.

    >>> is_comparable(Array(INT)), is_comparable(Array(Map(STRING, INT)))
    (True, False)
    """
    match type_:
        case Map() | Variant() | CalendarInterval():
            return False
        case Collated(collation):
            return collation == "UTF8_BINARY"
        case Array(element):
            return is_comparable(element)
        case Struct(fields):
            return all(is_comparable(f.type) for f in fields)
    return True


def is_numeric(type_: Type) -> bool:
    """True if arithmetic applies to ``type_``."""
    return isinstance(type_, Integral | Decimal | Floating)


def holds_interval(type_: Type) -> bool:
    """True if values of ``type_`` are intervals, or have some in them.

    >>> holds_interval(Array(YEAR_MONTH)), holds_interval(TIMESTAMP)
    (True, False)
    """
    match type_:
        case AnsiInterval() | CalendarInterval():
            return True
        case Array(element):
            return holds_interval(element)
        case Map(key, value):
            return holds_interval(key) or holds_interval(value)
        case Struct(fields):
            return any(holds_interval(f.type) for f in fields)
    return False
