"""The SQL of MariaDB and MySQL.

Their driver has no parameters of its own kind: it writes values into the text. So a parameter is a mark that no name
can contain (a name has no zero byte), and the connection puts the quoted value in its place. Names are quoted as in the
standard, which the session's ``sql_mode`` asks for. Text is compared by its bytes in UTF-8, which is the order of code
points: collations there ignore case, accents or blanks at the end.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.model import types as t
from tidemill.model.errors import BadValue
from tidemill.model.types import Type
from tidemill.sources.remote_queries.dialects import Dialect

__all__ = ["MYSQL", "with_values"]

_MARK = re.compile("\0([0-9]+)\0")
_TYPES = {"float8": "DOUBLE", "date": "DATE", "timestamp": "DATETIME(6)"}


class MySqlDialect(Dialect):
    """The dialect: what is written in another way than in the standard."""

    def parameter(self, number: int, sql: str) -> str:
        """The mark of a parameter. Numbers and text are what they look like, others are given their type."""
        text = f"\0{number}\0"
        of = _TYPES.get(sql, sql)
        return self.cast(text, of) if of in ("DOUBLE", "DATE", "DATETIME(6)") else text

    def cast(self, text: str, sql: str) -> str:
        """``text`` as a value of type ``sql``."""
        return f"CAST({text} AS {sql})"

    def exact(self, text: str, of: Type) -> str:
        """A number as the widest decimal with the digits of ``of`` after the point."""
        return f"CAST({text} AS DECIMAL(65, {of.scale if isinstance(of, t.Decimal) else 0}))"

    def rows(self, lines: Sequence[str]) -> str:
        """A table of rows."""
        return " UNION ALL ".join(f"SELECT {line}" for line in lines)

    def spells(self, value: Any) -> bool:
        """True if there is such a value: no double is infinite or NaN."""
        return not isinstance(value, float) or math.isfinite(value)

    def group(self, name: str, of: Type) -> str:
        """A column by which rows are grouped: text by its bytes."""
        return _bytes(name) if isinstance(of, t.String) else name

    def _collated(self, function: str, scalar: Scalar, text: Callable[[Scalar], str]) -> str:
        return _bytes(text(scalar)) if isinstance(scalar.type, t.String) else text(scalar)

    def _compared(self, function: str, scalar: Scalar, text: Callable[[Scalar], str]) -> str:
        return self._collated(function, scalar, text)


def _bytes(text: str) -> str:
    return f"CAST(CONVERT({text} USING utf8mb4) AS BINARY)"


def with_values(sql: str, values: Sequence[Any], literal: Callable[[Any], str]) -> str:
    """``sql`` with the values of its parameters in their places, each as ``literal`` writes it.

    >>> with_values("SELECT \\0" + "2\\0, \\0" + "1\\0", ["one", 2], repr)
    "SELECT 2, 'one'"
    """
    return _MARK.sub(lambda found: literal(values[int(found[1]) - 1]), sql)


def _as_given(value: Any) -> Any:
    """A value as the driver takes it: dates and timestamps are ISO text, numbers with digits stay numbers."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise BadValue(f"{value} cannot be asked about", detail="MySQL has no such numbers.")
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else value


MYSQL = MySqlDialect(
    name="mysql",
    placeholder="",
    casts=True,
    collation="",
    same="<=>",
    kinds=frozenset({"exact", "double", "text", "day", "instant"}),
    encode=_as_given,
    most_parameters=20_000,
    most_terms=200,
    sums=True,
)
"""NaN and infinities do not exist there, and a BOOLEAN is a number."""
