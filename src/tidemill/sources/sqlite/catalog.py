"""The tables of a SQLite file, and the conversion of its values.

SQLite stores what it is given: a column's declared type is advice. Values that do not fit the declared type are refused
when they are read, with table and column, never guessed.
"""

from __future__ import annotations

import datetime
import re
import sqlite3
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from tidemill.model import types as t
from tidemill.model.coerce import coercer
from tidemill.model.converters import refuse
from tidemill.model.types import Field, Type
from tidemill.sources.remote_queries.remote_tables import RemoteColumn, RemoteTable

__all__ = ["OWN", "decoder", "read_tables", "row_number"]

OWN = "_tidemill"
"""Prefix of the names of our tables and triggers."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_SCALED = re.compile(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def read_tables(connection: sqlite3.Connection) -> list[RemoteTable]:
    """All ordinary tables of the file, except SQLite's own and ours."""
    found = connection.execute(
        "SELECT name, sql FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
        " AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    ).fetchall()
    codepoints = connection.execute("PRAGMA encoding").fetchone()[0] == "UTF-8"
    return [_table(connection, name, sql, codepoints) for name, sql in found if not name.startswith(OWN)]


def _table(connection: sqlite3.Connection, name: str, sql: str, codepoints: bool) -> RemoteTable:
    described = connection.execute('SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?)', (name,))
    columns, notes, key = [], [], []
    whole_key = 0
    for column, declared, required, place, hidden in described.fetchall():
        type_ = _type_of(declared)
        if type_ is None or hidden == 1:
            notes.append(f"Column {column} of type {declared or 'none'} is left out.")
            continue
        # The row number is the only key that is never NULL without being declared so.
        is_number = place and declared.upper() == "INTEGER"
        whole_key += bool(place and (required or is_number))
        key += [(place, column)] if place else []
        field = Field(column.lower(), type_, nullable=not (required or is_number))
        exact = not isinstance(type_, t.Decimal | t.Timestamp)
        columns.append(RemoteColumn(column, field, "", exact, exact and (codepoints or type_ != t.STRING)))
    keyed = tuple(column for _, column in sorted(key)) if whole_key == len(key) else ()
    if {"rowid", "_rowid_", "oid"} <= {column.field.name for column in columns}:
        return RemoteTable("main", name, (), notes=("Its columns hide the row number.",))
    if re.search(r"\)\s*[^)]*\bWITHOUT\s+ROWID\b", sql, re.IGNORECASE):
        return RemoteTable("main", name, (), notes=("Tables WITHOUT ROWID cannot be watched.",))
    return RemoteTable("main", name, tuple(columns), keyed, tuple(notes))


def row_number(columns: Iterable[str]) -> str:
    """A name for the row number that is not a column.

    >>> row_number(["id", "RowId"])
    '_rowid_'
    """
    taken = {name.lower() for name in columns}
    return next(name for name in ("rowid", "_rowid_", "oid") if name not in taken)


def _type_of(declared: str) -> Type | None:
    """Our type for a declared one, by SQLite's own rules of affinity where it has no better name.

    >>> [_type_of(text) for text in ("INTEGER", "VARCHAR(20)", "decimal(9, 2)", "DATETIME", "BLOB")]
    [BigInt(), String(), Decimal(precision=9, scale=2), Timestamp(), None]
    """
    word = declared.upper().split("(")[0].strip()
    if word in ("BOOL", "BOOLEAN"):
        return t.BOOLEAN
    if word == "DATE":
        return t.DATE
    if word in ("DATETIME", "TIMESTAMP"):
        return t.TIMESTAMP
    if word in ("DECIMAL", "NUMERIC"):
        return _decimal(declared)
    if "INT" in word:
        return t.BIGINT
    if any(part in word for part in ("CHAR", "CLOB", "TEXT")):
        return t.STRING
    return t.DOUBLE if any(part in word for part in ("REAL", "FLOA", "DOUB")) else None


def _decimal(declared: str) -> Type | None:
    digits = _SCALED.search(declared)
    if digits is None:
        return t.Decimal(t.MAX_PRECISION, 18)
    precision, scale = int(digits[1]), int(digits[2] or 0)
    return t.Decimal(precision, scale) if scale <= precision <= t.MAX_PRECISION else None


def decoder(type_: Type) -> Callable[[Any], Any]:
    """The function that converts a stored value that is not NULL to ``type_``."""
    convert = coercer(type_)
    match type_:
        case t.Boolean():
            return lambda value: convert({0: False, 1: True}.get(value, value) if type(value) is int else value)
        case t.Date():
            return lambda value: convert(value) if _is_day(value) else refuse(value, type_, "Days are YYYY-MM-DD.")
        case t.Timestamp():
            return lambda value: convert(value) if isinstance(value, str) else refuse(value, type_)
        case t.Decimal():
            # A double that SQLite parsed from decimal digits prints as the same digits, up to 15 of them.
            return lambda value: convert(Decimal(repr(value)) if isinstance(value, float) else value)
    return convert


def _is_day(value: Any) -> bool:
    return isinstance(value, str | datetime.date) and bool(_DAY.fullmatch(str(value)))
