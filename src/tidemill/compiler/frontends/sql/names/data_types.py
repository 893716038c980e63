"""Types as SQL spells them, in declarations and in casts."""

from __future__ import annotations

import re

from sqlglot import exp

from tidemill.algebra.expressions.collations import collation_named
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported
from tidemill.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    CALENDAR_INTERVAL,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TIME_DIGITS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VARIANT,
    VOID,
    AnsiInterval,
    Array,
    DayTimeInterval,
    Decimal,
    Field,
    Map,
    Struct,
    Time,
    Type,
    YearMonthInterval,
    is_comparable,
)

DType = exp.DType

PLAIN_TYPES: dict[exp.DType, Type] = {
    DType.BOOLEAN: BOOLEAN,
    DType.TINYINT: TINYINT,
    DType.SMALLINT: SMALLINT,
    DType.INT: INT,
    DType.BIGINT: BIGINT,
    DType.FLOAT: FLOAT,
    DType.DOUBLE: DOUBLE,
    DType.TEXT: STRING,
    DType.DATE: DATE,
    DType.TIMESTAMP: TIMESTAMP,
    DType.TIMESTAMPTZ: TIMESTAMP,
    DType.TIMESTAMPLTZ: TIMESTAMP,
    DType.TIMESTAMPNTZ: TIMESTAMP_NTZ,
    DType.BINARY: BINARY,
    DType.INTERVAL: CALENDAR_INTERVAL,
    DType.NULL: VOID,
    DType.VARIANT: VARIANT,
}

TIMESTAMP_TYPES = (DType.TIMESTAMP, DType.TIMESTAMPTZ, DType.TIMESTAMPLTZ, DType.TIMESTAMPNTZ)
TIMESTAMP_DIGITS = 6
"""The digits of a second that timestamps have; a type may say so."""

CHARACTER_TYPES = (DType.VARCHAR, DType.CHAR)

SUPPORTED_TYPES = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, DECIMAL, FLOAT, DOUBLE, STRING, BINARY, DATE, TIME, TIMESTAMP, "
    "TIMESTAMP_NTZ, INTERVAL YEAR TO MONTH, INTERVAL DAY TO SECOND, ARRAY, MAP, STRUCT and VARIANT"
)


def from_type(kind: exp.DataType, source: SqlText) -> Type:
    """The type ``kind``; ``Unsupported`` if there is no such type."""
    if named := kind.args.get("collate"):
        return from_collation(kind, named, source)
    if kind.this == DType.DECIMAL:
        return from_decimal(kind, source)
    if kind.this == DType.TIME:
        return from_time(kind, source)
    if kind.this in CHARACTER_TYPES:
        # In expressions VARCHAR(n) and CHAR(n) are STRING, as in Spark: only tables enforce the length.
        _characters(kind, source)
        return STRING
    if kind.this == DType.ARRAY and len(kind.expressions) == 1:
        return Array(from_type(kind.expressions[0], source))
    if kind.this == DType.MAP and len(kind.expressions) == 2:
        return from_map(kind, source)
    if kind.this == DType.STRUCT:
        return Struct(tuple(_member(member, source) for member in kind.expressions))
    if isinstance(kind.this, exp.Interval):
        return _interval(kind, source)
    if kind.this in TIMESTAMP_TYPES and any(digits.name != str(TIMESTAMP_DIGITS) for digits in kind.expressions):
        raise Unsupported(
            f"there is no type {kind.sql('spark')}({kind.expressions[0].name})",
            where=source.place(kind),
            detail="Timestamps have microseconds.",
            hint="Leave the number of digits out.",
        )
    if isinstance(kind.this, exp.DType) and kind.this in PLAIN_TYPES:
        mark_translated(*kind.walk())
        return PLAIN_TYPES[kind.this]
    raise Unsupported(
        f"there is no type {kind.sql('spark')}",
        where=source.place(kind),
        hint=f"Types are {SUPPORTED_TYPES}.",
    )


def from_collation(kind: exp.DataType, named: exp.Expr, source: SqlText) -> Type:
    """``STRING COLLATE name``."""
    if kind.this != DType.TEXT:
        raise Unsupported(f"there is no type {kind.sql('spark')}", where=source.place(kind), hint="Collate a STRING.")
    mark_translated(*named.walk())
    with source.locating(kind):
        return collation_named(named.sql())


def _interval(kind: exp.DataType, source: SqlText) -> AnsiInterval:
    """``INTERVAL DAY`` or ``INTERVAL DAY TO SECOND``."""
    unit = kind.this.args["unit"]
    mark_translated(kind.this, unit)
    names = [unit.this.name, unit.expression.name] if isinstance(unit, exp.IntervalSpan) else [unit.name]
    with source.locating(kind):
        return interval_type(*names)


def interval_type(start: str, end: str | None = None) -> AnsiInterval:
    """The type of intervals from one field to another.

    >>> str(interval_type("day", "minute"))
    'INTERVAL DAY TO MINUTE'
    """
    fields = start.upper(), (end or start).upper()
    for kind in (YearMonthInterval, DayTimeInterval):
        if all(field in kind.FIELDS for field in fields):
            first, last = map(kind.FIELDS.index, fields)
            if first < last or end is None:
                return kind(*fields)
    raise ParseError(
        f"there is no type INTERVAL {' TO '.join(dict.fromkeys(fields))}",
        hint="Intervals go from YEAR to MONTH, or down from DAY to HOUR, MINUTE or SECOND; or have one unit.",
    )


def from_map(kind: exp.DataType, source: SqlText) -> Map:
    """``MAP<key, value>``; keys can be compared."""
    key, value = (from_type(part, source) for part in kind.expressions)
    if not is_comparable(key):
        raise TypeMismatch("a key of a map cannot be a map, or hold one", where=source.place(kind))
    return Map(key, value)


def from_decimal(kind: exp.DataType, source: SqlText) -> Decimal:
    """``DECIMAL`` is ``DECIMAL(10,0)`` and ``DECIMAL(p)`` is ``DECIMAL(p,0)``, as in Spark."""
    digits = [parameter.name for parameter in kind.expressions]
    if len(digits) > 2 or not all(re.fullmatch(r"-?\d{1,9}", digit) for digit in digits):
        raise ParseError(f"{kind.sql('spark')} is not a type", where=source.place(kind), hint="Write DECIMAL(12, 2).")
    decimal = Decimal(*map(int, digits))
    if not (1 <= decimal.precision <= MAX_PRECISION and 0 <= decimal.scale <= decimal.precision):
        raise ParseError(
            f"{decimal} is not a type",
            where=source.place(kind),
            hint=f"The precision is 1 to {MAX_PRECISION}, and the scale at most the precision.",
        )
    return decimal


def from_time(kind: exp.DataType, source: SqlText) -> Time:
    """``TIME`` is ``TIME(6)``; fewer digits of a second may be declared."""
    digits = [parameter.name for parameter in kind.expressions]
    if digits and not (len(digits) == 1 and digits[0].isdecimal() and int(digits[0]) <= TIME_DIGITS):
        raise ParseError(
            f"{kind.sql('spark')} is not a type",
            where=source.place(kind),
            hint=f"Write TIME, or TIME(n) with 0 to {TIME_DIGITS} digits of a second.",
        )
    return Time(*map(int, digits))


def max_length(kind: exp.DataType, source: SqlText) -> int | None:
    """The maximum length of a column of this type in characters; None where there is no limit."""
    for part in kind.find_all(exp.DataType):
        if part is not kind and part.this in CHARACTER_TYPES:
            raise Unsupported(
                f"{part.sql('spark')} cannot be nested in ARRAY or STRUCT",
                where=source.place(part),
                detail="The length is enforced for columns only.",
                hint="Use STRING.",
            )
    return _characters(kind, source) if kind.this in CHARACTER_TYPES else None


def _characters(kind: exp.DataType, source: SqlText) -> int:
    """The n of VARCHAR(n) or CHAR(n); as in Spark there must be one."""
    digits = [parameter.name for parameter in kind.expressions]
    if len(digits) != 1 or not digits[0].isdecimal():
        word = kind.this.value
        raise ParseError(
            f"{word} needs a length", where=source.place(kind), hint=f"Write STRING, or {word}(n) with a number."
        )
    return int(digits[0])


def is_required(definition: exp.ColumnDef) -> bool:
    """True for a column or member that is declared NOT NULL."""
    kinds = [constraint.args["kind"] for constraint in definition.constraints]
    return any(isinstance(k, exp.NotNullColumnConstraint) and not k.args.get("allow_null") for k in kinds)


def _member(member: exp.Expr, source: SqlText) -> Field:
    if not isinstance(member, exp.ColumnDef) or not isinstance(member.kind, exp.DataType):
        raise ParseError("a member of a STRUCT has a name and a type", where=source.place(member))
    return Field(member.name.lower(), from_type(member.kind, source), not is_required(member))
