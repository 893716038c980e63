"""The conversions that DuckDB makes as Spark does. Texts are read by other rules, so STRING becomes BINARY alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.runtimes.duckdb.sql_text import NotLowered, type_sql

EXACT_DOUBLE_DIGITS = 15
"""Digits up to which a DECIMAL becomes the nearest DOUBLE by one division of exact numbers."""

Conversion = Callable[[str, Type], str]
"""From the text of a value, and the type of the result, to the text of the operand of CAST."""


def conversion_sql(text: str, source: Type, target: Type, lenient: bool) -> str:
    """A value of type ``source`` as a ``target``: one that does not fit is an error, or NULL if ``lenient``."""
    if source == target:
        return text
    if source == t.VOID:
        return f"CAST({text} AS {type_sql(target)})"
    operand = CONVERSIONS.get((type(source), type(target)))
    if operand is None or (isinstance(source, t.Decimal) and target == t.DOUBLE and not _is_exact(source)):
        raise NotLowered(f"CAST from {source} to {target}")
    return f"{'TRY_CAST' if lenient else 'CAST'}({operand(text, target)} AS {type_sql(target)})"


def _is_exact(source: t.Decimal) -> bool:
    return source.precision <= EXACT_DOUBLE_DIGITS


def _plain(text: str, target: Type) -> str:
    return text


def _truncated(text: str, target: Type) -> str:
    """Spark cuts the fraction off, DuckDB rounds."""
    return f"trunc({text})"


def _encoded(text: str, target: Type) -> str:
    return f"encode({text})"


def _not_zero(text: str, target: Type) -> str:
    return f"({text} <> 0)"


_INTEGERS = (t.TinyInt, t.SmallInt, t.Int, t.BigInt)

CONVERSIONS: dict[tuple[type[Type], type[Type]], Conversion] = {
    **dict.fromkeys(permutations(_INTEGERS, 2), _plain),
    **dict.fromkeys(product(_INTEGERS, [t.Double, t.Decimal, t.String]), _plain),
    **dict.fromkeys(product(_INTEGERS, [t.Boolean]), _not_zero),
    (t.Float, t.Double): _plain,
    (t.String, t.Binary): _encoded,
    (t.Decimal, t.Decimal): _plain,
    (t.Decimal, t.Double): _plain,
    **dict.fromkeys(product([t.Decimal, t.Double], _INTEGERS), _truncated),
    (t.Decimal, t.String): _plain,
    **dict.fromkeys(product([t.Boolean], _INTEGERS), _plain),
    (t.Boolean, t.String): _plain,
    (t.Date, t.Timestamp): _plain,
    (t.Date, t.String): _plain,
    (t.Timestamp, t.Date): _plain,
    (t.TimestampNtz, t.Date): _plain,
    (t.Date, t.TimestampNtz): _plain,
    (t.Timestamp, t.TimestampNtz): _plain,
    (t.TimestampNtz, t.Timestamp): _plain,
    (t.Timestamp, t.String): _plain,
}
"""Every conversion that has a translation."""
