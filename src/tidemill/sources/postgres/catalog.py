"""The tables of a PostgreSQL schema, and the conversion of its values from the text that the server writes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any

from tidemill.model import types as t
from tidemill.model.coerce import coercer
from tidemill.model.types import Field, Type
from tidemill.sources.postgres.connection import Connection, execute
from tidemill.sources.remote_queries.remote_tables import RemoteColumn, RemoteTable

__all__ = ["OWN", "decoder", "read_tables"]

OWN = "_tidemill"
"""Prefix of the names of our tables, functions and triggers."""

_COLUMNS = """
SELECT c.relname, c.relpersistence = 'p', row_security_active(c.oid), a.attname, t.typname, a.atttypmod,
       format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated <> '',
       coalesce(co.collisdeterministic, true), array_position(i.indkey::int2[], a.attnum),
       current_setting('server_encoding') = 'UTF8', t.typnamespace = 'pg_catalog'::regnamespace,
       EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid
               WHERE p.isleaf AND (l.relkind = 'f' OR l.relpersistence <> 'p')),
       EXISTS (SELECT FROM pg_inherits h WHERE c.oid IN (h.inhparent, h.inhrelid)),
       c.relispartition, c.relkind = 'p'
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND c.relkind IN ('r', 'p')
      AND NOT starts_with(c.relname, $2) AND has_table_privilege(c.oid, 'SELECT')
ORDER BY c.relname, a.attnum
"""
_PLAIN: dict[str, Type] = {
    "int2": t.INT,
    "int4": t.INT,
    "int8": t.BIGINT,
    "float4": t.DOUBLE,
    "float8": t.DOUBLE,
    "text": t.STRING,
    "varchar": t.STRING,
    "bpchar": t.STRING,
    "bool": t.BOOLEAN,
    "date": t.DATE,
    "timestamp": t.TIMESTAMP,
    "timestamptz": t.TIMESTAMP,
}


def read_tables(connection: Connection, schema: str, from_log: bool) -> list[RemoteTable]:
    """The tables of ``schema`` that we may read. ``from_log``: without columns that the log leaves out."""
    rows = execute(connection, _COLUMNS, schema, OWN)
    return [_table(schema, name, list(columns), from_log) for name, columns in groupby(rows, itemgetter(0))]


def _table(schema: str, name: str, rows: list[tuple[Any, ...]], from_log: bool) -> RemoteTable:
    logged, filtered = rows[0][1:3]
    unlogged_part, inherits, partition, partitioned = rows[0][-4:]
    if partitioned and not from_log:
        note = "It is partitioned, and no trigger tells of partitions that are attached or detached with their rows."
        return RemoteTable(schema, name, (), notes=(note, "Use changes = 'slot'."))
    if partition and not from_log:
        note = "It is a partition, and changes of the table that it belongs to run no triggers of it."
        return RemoteTable(schema, name, (), notes=(note, "Use changes = 'slot'."))
    if inherits and not from_log:
        note = "Tables inherit from it or it from others, and the triggers of one tell of rows of the other."
        return RemoteTable(schema, name, (), notes=(note, "Use changes = 'slot'."))
    if filtered:
        return RemoteTable(schema, name, (), notes=("Row security hides rows of it from us, but not their changes.",))
    if from_log and not logged:
        return RemoteTable(schema, name, (), notes=("It is unlogged, so its changes are not in the log.",))
    if from_log and partitioned and unlogged_part:
        note = "It has a partition that is a foreign table or unlogged, whose changes are not in the log."
        return RemoteTable(schema, name, (), notes=(note,))
    columns: list[RemoteColumn] = []
    notes, key = [], []
    for _, _, _, column, type_name, modifier, shown, required, generated, exact, place, utf8, own, *_ in rows:
        type_ = _type_of(type_name, modifier) if own else None
        if place is not None:
            key.append((place, column))
        taken = any(column.lower() == known.field.name for known in columns)
        if type_ is None or taken or (generated and from_log):
            notes.append(f"Column {column} of type {shown}{' (generated)' * generated} is left out.")
            continue
        # Text padded with blanks is compared without them there, and with them here.
        equal = exact and type_name not in ("bpchar", "float4")
        columns.append(
            RemoteColumn(
                column,
                Field(column.lower(), type_, nullable=not required),
                "text" if type_name == "varchar" else type_name,
                equal,
                equal and (utf8 or type_ != t.STRING),
                "float8" if type_name == "float4" else "",
            )
        )
    names = tuple(column for _, column in sorted(key))
    return RemoteTable(schema, name, tuple(columns), names, tuple(notes), partitioned=partitioned)


def _type_of(name: str, modifier: int) -> Type | None:
    """Our type for one of PostgreSQL's; NUMERIC without precision has the maximum.

    >>> _type_of("numeric", 4 + (9 << 16) + 2), _type_of("numeric", -1), _type_of("bytea", -1)
    (Decimal(precision=9, scale=2), Decimal(precision=38, scale=18), None)
    """
    if name != "numeric":
        return _PLAIN.get(name)
    if modifier < 0:
        return t.Decimal(t.MAX_PRECISION, 18)
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    return t.Decimal(precision, scale) if scale <= precision <= t.MAX_PRECISION else None


def decoder(column: RemoteColumn, widened: bool = False) -> Callable[[str], Any]:
    """The function that parses a value of the column; ``widened`` if the server has widened it."""
    type_ = column.field.type
    convert = coercer(type_)
    match type_:
        case t.Integral():
            return int
        case t.Boolean():
            return lambda text: text in ("t", "true")
        case t.Decimal():
            return lambda text: convert(Decimal(text))
        case t.Double() if column.widened and not widened:
            return lambda text: convert(struct.unpack("f", struct.pack("f", float(text)))[0])
        case t.Double():
            return lambda text: convert(float(text))
    return convert
