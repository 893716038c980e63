"""Types of PostgreSQL: their numbers, and which of them stands for a column of ours.

TIMESTAMP is an instant, so it is ``timestamptz``; TIMESTAMP_NTZ is ``timestamp``. TINYINT is ``smallint``, since
PostgreSQL has nothing shorter. Structs, maps, variants, and arrays of these, are ``jsonb``.
"""

from __future__ import annotations

from typing import NamedTuple

from tidemill.model import types as t
from tidemill.model.types import Field, Type
from tidemill.serving.pgwire.messages import ColumnDescription

__all__ = ["ARRAY_OF", "BY_NAME", "BY_OID", "ELEMENT_OF", "PgType", "column_description", "our_type", "pg_type"]


class PgType(NamedTuple):
    """A type of PostgreSQL: its number, its name in ``pg_type``, its size (-1: it varies) and that of its array."""

    oid: int
    name: str
    size: int
    array: int
    category: str
    title: str
    """As ``format_type`` spells it."""


TYPES = (
    PgType(16, "bool", 1, 1000, "B", "boolean"),
    PgType(17, "bytea", -1, 1001, "U", "bytea"),
    PgType(18, "char", 1, 1002, "Z", '"char"'),
    PgType(19, "name", 64, 1003, "S", "name"),
    PgType(20, "int8", 8, 1016, "N", "bigint"),
    PgType(21, "int2", 2, 1005, "N", "smallint"),
    PgType(22, "int2vector", -1, 1006, "A", "int2vector"),
    PgType(23, "int4", 4, 1007, "N", "integer"),
    PgType(24, "regproc", 4, 1008, "N", "regproc"),
    PgType(25, "text", -1, 1009, "S", "text"),
    PgType(26, "oid", 4, 1028, "N", "oid"),
    PgType(30, "oidvector", -1, 1013, "A", "oidvector"),
    PgType(114, "json", -1, 199, "U", "json"),
    PgType(700, "float4", 4, 1021, "N", "real"),
    PgType(701, "float8", 8, 1022, "N", "double precision"),
    PgType(705, "unknown", -2, 0, "X", "unknown"),
    PgType(1042, "bpchar", -1, 1014, "S", "character"),
    PgType(1043, "varchar", -1, 1015, "S", "character varying"),
    PgType(1082, "date", 4, 1182, "D", "date"),
    PgType(1083, "time", 8, 1183, "D", "time without time zone"),
    PgType(1114, "timestamp", 8, 1115, "D", "timestamp without time zone"),
    PgType(1184, "timestamptz", 8, 1185, "D", "timestamp with time zone"),
    PgType(1186, "interval", 16, 1187, "T", "interval"),
    PgType(1266, "timetz", 12, 1270, "D", "time with time zone"),
    PgType(1700, "numeric", -1, 1231, "N", "numeric"),
    PgType(2205, "regclass", 4, 2210, "N", "regclass"),
    PgType(2206, "regtype", 4, 2211, "N", "regtype"),
    PgType(2249, "record", -1, 2287, "P", "record"),
    PgType(2278, "void", 4, 0, "P", "void"),
    PgType(2950, "uuid", 16, 2951, "U", "uuid"),
    PgType(3802, "jsonb", -1, 3807, "U", "jsonb"),
    PgType(4089, "regnamespace", 4, 4090, "N", "regnamespace"),
)

BY_OID = {one.oid: one for one in TYPES}
BY_NAME = {one.name: one for one in TYPES}
ARRAY_OF = {one.oid: one.array for one in TYPES if one.array}
ELEMENT_OF = {one.array: one.oid for one in TYPES if one.array}

BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID = 16, 17, 20, 21, 23, 25, 26
CHAR, NAME, JSON, JSONB, FLOAT4, FLOAT8, UNKNOWN = 18, 19, 114, 3802, 700, 701, 705
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ = 1042, 1043, 1082, 1083, 1114, 1184
INTERVAL, NUMERIC, UUID = 1186, 1700, 2950

_SCALARS: dict[type[Type], int] = {
    t.Void: TEXT,
    t.Boolean: BOOL,
    t.TinyInt: INT2,
    t.SmallInt: INT2,
    t.Int: INT4,
    t.BigInt: INT8,
    t.Decimal: NUMERIC,
    t.Float: FLOAT4,
    t.Double: FLOAT8,
    t.String: TEXT,
    t.Collated: TEXT,
    t.Binary: BYTEA,
    t.Date: DATE,
    t.Time: TIME,
    t.Timestamp: TIMESTAMPTZ,
    t.TimestampNtz: TIMESTAMP,
    t.YearMonthInterval: INTERVAL,
    t.DayTimeInterval: INTERVAL,
    t.CalendarInterval: INTERVAL,
}

_OURS: dict[int, Type] = {
    BOOL: t.BOOLEAN,
    BYTEA: t.BINARY,
    INT8: t.BIGINT,
    INT2: t.SMALLINT,
    INT4: t.INT,
    OID: t.BIGINT,
    TEXT: t.STRING,
    VARCHAR: t.STRING,
    BPCHAR: t.STRING,
    NAME: t.STRING,
    UUID: t.STRING,
    JSON: t.STRING,
    JSONB: t.STRING,
    FLOAT4: t.FLOAT,
    FLOAT8: t.DOUBLE,
    NUMERIC: t.Decimal(t.MAX_PRECISION, 18),
    DATE: t.DATE,
    TIME: t.TIME,
    TIMESTAMP: t.TIMESTAMP_NTZ,
    TIMESTAMPTZ: t.TIMESTAMP,
    INTERVAL: t.DayTimeInterval(),
}


def pg_type(of: Type) -> int:
    """The number of the type that stands for one of ours.

    >>> pg_type(t.INT), pg_type(t.Array(t.INT)), pg_type(t.Array(t.Array(t.INT)))
    (23, 1007, 3802)
    """
    if isinstance(of, t.Array):
        element = _SCALARS.get(type(of.element))
        return JSONB if element is None else ARRAY_OF[element]
    return _SCALARS.get(type(of), JSONB)


def our_type(oid: int) -> Type | None:
    """The type of ours for a parameter that a client declares; None where only its value can tell."""
    element = ELEMENT_OF.get(oid)
    if element is not None:
        of = _OURS.get(element)
        return None if of is None else t.Array(of)
    return _OURS.get(oid)


def column_description(field: Field) -> ColumnDescription:
    """Announcement of a column of a result, with the precision of numbers and the length of texts."""
    oid = pg_type(field.type)
    known = BY_OID.get(oid)
    if field.char is not None or field.length is not None:
        oid = VARCHAR if field.char is None else BPCHAR
    return ColumnDescription(field.name, oid, -1 if known is None else known.size, modifier(field))


def modifier(field: Field) -> int:
    """The precision of a number, or the length of a text, as PostgreSQL packs them; -1 for none."""
    if field.char is not None or field.length is not None:
        return (field.length if field.char is None else field.char) + 4  # type: ignore[operator]
    of = field.type.element if isinstance(field.type, t.Array) else field.type
    if isinstance(of, t.Decimal):
        return (of.precision << 16 | of.scale) + 4
    return of.precision if isinstance(of, t.Time) and of.precision != t.TIME_DIGITS else -1
