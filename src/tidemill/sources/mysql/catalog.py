"""The tables of a database of MariaDB or MySQL, and the conversion of values from the text that the server writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any

from tidemill.model import types as t
from tidemill.model.coerce import coercer
from tidemill.model.errors import BadValue
from tidemill.model.types import Field, Type
from tidemill.sources.mysql.connection import MySqlConnection, execute
from tidemill.sources.remote_queries.dialects import quoted
from tidemill.sources.remote_queries.remote_tables import RemoteColumn, RemoteTable

__all__ = ["LoggedColumn", "MySqlTable", "day_or_zero", "decoder", "offered", "read_tables"]

_COLUMNS = """
SELECT c.table_name, t.engine, c.ordinal_position, c.column_name, c.data_type, c.column_type, c.numeric_precision,
       c.numeric_scale, c.is_nullable, c.character_set_name, c.extra, k.ordinal_position, c.generation_expression
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
     AND BINARY t.table_schema = c.table_schema AND BINARY t.table_name = c.table_name
LEFT JOIN information_schema.key_column_usage k ON k.table_schema = c.table_schema AND k.table_name = c.table_name
     AND BINARY k.table_schema = c.table_schema AND BINARY k.table_name = c.table_name
     AND k.column_name = c.column_name AND k.constraint_name = 'PRIMARY'
WHERE c.table_schema = \0001\0 AND BINARY c.table_schema = \0001\0 AND t.table_type = 'BASE TABLE'
ORDER BY BINARY c.table_name, c.ordinal_position
"""
_REFERENCES = """
SELECT DISTINCT table_name FROM information_schema.key_column_usage
WHERE table_schema = \0001\0 AND BINARY table_schema = \0001\0
      AND constraint_name <> 'PRIMARY' AND referenced_table_name IS NOT NULL
"""
_CASCADE = re.compile(r"^\s*CONSTRAINT .* FOREIGN KEY .* ON (DELETE|UPDATE) (CASCADE|SET)", re.MULTILINE)
_COMPRESSED = re.compile(r"/\*M?!\d* COMPRESSED\*/")
_WIDTHS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_MEMBER = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True)
class LoggedColumn:
    """A column as the log has it: the facts that a value there does not bring along."""

    name: str
    kind: str
    unsigned_bits: int = 0
    charset: str = ""
    members: tuple[str, ...] = ()
    length: int = 0


@dataclass(frozen=True)
class MySqlTable:
    """A table: what is offered of it, and all of its columns in their order in the log."""

    remote: RemoteTable
    logged: tuple[LoggedColumn, ...]

    def is_as_in(self, present: MySqlTable | None) -> bool:
        """True if the table has the same columns in ``present``, and offers those of ours and the same key."""
        if present is None or present.logged != self.logged or present.remote.key != self.remote.key:
            return False
        return set(self.remote.columns) <= set(present.remote.columns)


def read_tables(connection: MySqlConnection, database: str) -> dict[str, MySqlTable]:
    """The tables of ``database`` that we may read, by their names there."""
    rows = execute(connection, _COLUMNS, database)
    cascading = _cascading(connection, database)
    return {name: _table(database, name, list(columns), cascading) for name, columns in groupby(rows, itemgetter(0))}


def _cascading(connection: MySqlConnection, database: str) -> frozenset[str]:
    """The tables that have rows changed by a foreign key, of which the log says nothing.

    ``referential_constraints`` has none of them for a role that may only read.
    """
    found = set()
    for (name,) in execute(connection, _REFERENCES, database):
        ((_, text),) = execute(connection, f"SHOW CREATE TABLE {quoted(database)}.{quoted(name)}")
        if _CASCADE.search(text):
            found.add(name)
    return frozenset(found)


def _table(database: str, name: str, rows: list[tuple[Any, ...]], cascading: frozenset[str]) -> MySqlTable:
    logged = tuple(_logged(row) for row in rows)
    note = ""
    if str(rows[0][1]).lower() != "innodb":
        note = f"It is a table of the engine {rows[0][1]}, of which no snapshot can be read."
    elif name in cascading:
        note = (
            "A foreign key changes its rows (ON DELETE or ON UPDATE with CASCADE or SET), and the log does not say so."
        )
    elif compressed := [str(row[3]) for row in rows if _COMPRESSED.search(row[5])]:
        note = f"The log has the column {compressed[0]} in compressed form."
    if note:
        return MySqlTable(RemoteTable(database, name, (), notes=(note,)), logged)
    columns: list[RemoteColumn] = []
    notes, key = [], []
    for _, _, _, column, kind, shown, precision, scale, nullable, _, _, place, generated in rows:
        type_ = _type_of(kind, shown, precision, scale)
        if place is not None:
            key.append((int(place), column))
        if type_ is None or generated or any(column.lower() == one.field.name for one in columns):
            notes.append(f"Column {column} of type {shown}{' (generated)' if generated else ''} is left out.")
            continue
        columns.append(_column(column, kind, Field(column.lower(), type_, nullable=nullable == "YES")))
    remote = RemoteTable(database, name, tuple(columns), tuple(column for _, column in sorted(key)), tuple(notes))
    return MySqlTable(remote, logged)


def _column(name: str, kind: str, field: Field) -> RemoteColumn:
    widened = {"float": "DOUBLE", "bit": "UNSIGNED"}.get(kind, "")
    sql = {t.Date: "DATE", t.Timestamp: "DATETIME(6)", t.Double: "DOUBLE"}.get(type(field.type), "")
    # A float is compared with a double after it was rounded there; bytes and JSON are compared here only.
    equal = kind not in ("float", "json") and not isinstance(field.type, t.Binary)
    return RemoteColumn(name, field, sql, equal, equal, widened)


def _type_of(kind: str, shown: str, precision: Any, scale: Any) -> Type | None:
    """Our type for one of MySQL's.

    >>> _type_of("int", "int(10) unsigned", 10, 0), _type_of("bigint", "bigint(20) unsigned", 20, 0)
    (BigInt(), Decimal(precision=20, scale=0))
    >>> _type_of("decimal", "decimal(40,2)", "40", "2") is None
    True
    """
    unsigned = "unsigned" in shown
    if kind in ("bigint", "bit"):
        wide = int(precision) > 63 if kind == "bit" else unsigned
        return t.Decimal(20, 0) if wide else t.BIGINT
    if kind in _WIDTHS or kind == "year":
        return t.BIGINT if kind == "int" and unsigned else t.INT
    if kind == "decimal":
        return t.Decimal(int(precision), int(scale)) if int(precision) <= t.MAX_PRECISION else None
    if kind in ("float", "double"):
        return t.DOUBLE
    if kind in _TEXTS:
        return t.STRING
    if kind in _BYTES:
        return t.BINARY
    return {"date": t.DATE, "datetime": t.TIMESTAMP, "timestamp": t.TIMESTAMP}.get(kind)


def _logged(row: tuple[Any, ...]) -> LoggedColumn:
    _, _, _, name, kind, shown, _, _, _, charset, *_ = row
    members = tuple(one.replace("''", "'") for one in _MEMBER.findall(shown)) if kind in ("enum", "set") else ()
    bits = _WIDTHS.get(kind, 0) if "unsigned" in shown else 0
    found = re.search(r"\((\d+)\)", shown)
    length = int(found[1]) if kind == "binary" and found else 0
    return LoggedColumn(name, kind, bits, charset or "", members, length)


def decoder(column: RemoteColumn, zero_dates: str) -> Callable[[Any], Any]:
    """The function that reads a value of the column that the server has written as text."""
    type_ = column.field.type
    convert = coercer(type_)
    match type_:
        case t.Integral():
            return int
        case t.Decimal():
            return lambda text: convert(Decimal(text))
        case t.Double():
            return lambda text: convert(float(text))
        case t.Binary():
            return lambda text: convert(text.encode() if isinstance(text, str) else bytes(text))
        case t.Date() | t.Timestamp():
            return lambda text: day_or_zero(text, convert, zero_dates)
    return lambda text: convert(text if isinstance(text, str) else bytes(text).decode())


def day_or_zero(text: str, convert: Callable[[Any], Any], zero_dates: str) -> Any:
    """A date or timestamp; one with a year, month or day of zero is NULL, or refused.

    >>> day_or_zero("2024-00-10", str, "null") is None
    True
    """
    if text[:4] == "0000" or text[5:7] == "00" or text[8:10] == "00":
        if zero_dates == "null":
            return None
        raise BadValue(
            f"{text!r} is no date",
            detail="MySQL allows zeros in dates, and no calendar has such a day.",
            hint="With the option zero_dates = 'null' of the source it is NULL.",
        )
    return convert(text)


def offered(tables: Mapping[str, MySqlTable]) -> list[RemoteTable]:
    """The columns and keys that are offered of each table."""
    return [table.remote for table in tables.values()]
