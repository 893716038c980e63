"""Types, literals and checked expressions as DuckDB's SQL text, and the refusal of whatever has none.

No name of a user ever becomes text: tables and columns have generated names, and literals are written by type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.runtimes.runtime import NotAnswered


class NotLowered(NotAnswered):
    """A query has a part for which no translation is declared."""


_TYPES: dict[Type, str] = {
    t.BOOLEAN: "BOOLEAN",
    t.TINYINT: "TINYINT",
    t.SMALLINT: "SMALLINT",
    t.INT: "INTEGER",
    t.BIGINT: "BIGINT",
    t.FLOAT: "FLOAT",
    t.DOUBLE: "DOUBLE",
    t.STRING: "VARCHAR",
    t.DATE: "DATE",
    t.TIMESTAMP: "TIMESTAMP",
    t.TIMESTAMP_NTZ: "TIMESTAMP",
    t.BINARY: "BLOB",
}


def type_sql(of: Type) -> str:
    """DuckDB's type with exactly the values of ``of``; TIMESTAMP is without a zone, since ours are UTC.

    >>> type_sql(t.INT), type_sql(t.Decimal(12, 2))
    ('INTEGER', 'DECIMAL(12,2)')
    """
    if isinstance(of, t.Decimal):
        return f"DECIMAL({of.precision},{of.scale})"
    if isinstance(of, t.Time):
        return "TIME"
    if of not in _TYPES:
        raise NotLowered(f"type {of}")
    return _TYPES[of]


def cast_sql(text: str, of: Type) -> str:
    """An expression as a value of a type; a value that does not fit is an error."""
    return f"CAST({text} AS {type_sql(of)})"


_DOUBLE_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def literal_sql(value: Any, of: Type) -> str:
    """A constant of exactly the type ``of``.

    >>> literal_sql("it's", t.STRING), literal_sql(7, t.BIGINT), literal_sql(None, t.DATE)
    ("CAST('it''s' AS VARCHAR)", 'CAST(7 AS BIGINT)', 'CAST(NULL AS DATE)')
    """
    if value is None:
        return cast_sql("NULL", of)
    match of:
        case t.Boolean():
            return "true" if value else "false"
        case t.Integral():
            return cast_sql(str(value), of)
        case t.Floating():
            return cast_sql(string_sql(_DOUBLE_WORDS.get(repr(value), repr(value))), of)
        case t.Decimal():
            return cast_sql(string_sql(format(value, "f")), of)
        case t.Binary():
            return f"from_hex('{value.hex()}')"
        case t.Timestamp():
            return cast_sql(string_sql(value.isoformat(sep=" ")), of)
    return cast_sql(string_sql(str(value)), of)


def string_sql(value: str) -> str:
    """A text between quotes. Characters that cannot be written in a query are refused."""
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise NotLowered("a text with characters that SQL text cannot hold")
    return "'" + value.replace("'", "''") + "'"


def error_unless_sql(condition: str, value: str, of: Type, message: str) -> str:
    """``value`` of type ``of``, or an error where ``condition`` is false; a condition that is NULL lets NULL through.

    An error makes the caller ask a runtime, so a condition may as well exclude values of which the answer is unknown.
    """
    return f"CASE WHEN NOT {condition} THEN {cast_sql(f'error({string_sql(message)})', of)} ELSE {value} END"


def comma_list(texts: Iterable[str]) -> str:
    """Texts separated by commas."""
    return ", ".join(texts)
