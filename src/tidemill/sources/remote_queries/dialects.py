"""The SQL of databases, and the expressions that have the same meaning there as here.

A source evaluates only what cannot differ: comparisons of columns and constants of one kind, tests for NULL, and AND,
OR and NOT over them. Everything else is evaluated here over the fetched columns
(``sources.remote_queries.render_sql``), so an answer is exact in Tidemill's own semantics, whatever collation or
integer division the source has.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar
from tidemill.model import types as t
from tidemill.model.errors import BadValue
from tidemill.model.types import Type
from tidemill.sources.remote_queries.remote_tables import RemoteColumn, RemoteTable

__all__ = ["POSTGRES", "SQLITE", "Dialect", "quoted", "quoted_text"]

_SYMBOLS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPERATORS = {"add": "+", "subtract": "-", "multiply": "*"}
_ORDERS = ("lt", "le", "gt", "ge")
_KINDS: dict[type[Type], str] = {
    t.TinyInt: "exact",
    t.SmallInt: "exact",
    t.Int: "exact",
    t.BigInt: "exact",
    t.Decimal: "exact",
    t.Double: "double",
    t.String: "text",
    t.Boolean: "truth",
    t.Date: "day",
    t.Timestamp: "instant",
}

RemoteColumns = Mapping[str, RemoteColumn]
"""The columns that an expression reads, by ``alias.column``."""


def quoted(name: str) -> str:
    """An identifier quoted for SQL.

    >>> quoted('pay"; DROP TABLE x; --')
    '"pay""; DROP TABLE x; --"'
    """
    if not name or "\0" in name:
        raise BadValue(f"{name!r} cannot be the name of a table or column")
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def quoted_text(value: str) -> str:
    """A text constant, for places where no parameter is possible: triggers and functions.

    >>> quoted_text("it's")
    "'it''s'"
    """
    doubled = value.replace("'", "''")
    return f"'{doubled}'"


@dataclass(frozen=True)
class Dialect:
    """A database's SQL: its parameters, the comparisons that agree with ours, and the limits of a statement."""

    name: str
    placeholder: str
    casts: bool
    collation: str
    same: str
    kinds: frozenset[str]
    encode: Callable[[Any], Any]
    most_parameters: int
    most_terms: int
    sums: bool = False
    """True if a column has values of its type alone, so that the source may add them up unseen by us."""
    only: str = ""
    """A word before a table in FROM, for its own rows alone."""

    def parameter(self, number: int, sql: str) -> str:
        """The text of parameter ``number``, of type ``sql`` there."""
        text = f"{self.placeholder}{number}"
        return self.cast(text, sql) if self.casts else text

    def cast(self, text: str, sql: str) -> str:
        """``text`` as a value of type ``sql`` there."""
        return f"{text}::{sql}"

    def exact(self, text: str, of: Type) -> str:
        """A number of type ``of``, in a type of the source in which sums and products keep all digits."""
        return f"({text})::numeric"

    def rows(self, lines: Sequence[str]) -> str:
        """A table of these rows, each of which is a list of values."""
        return f"VALUES {', '.join(f'({line})' for line in lines)}"

    def stored(self, table: RemoteTable) -> str:
        """The name of a table, without tables that inherit from it unless they are its partitions."""
        return f"{'' if table.partitioned else self.only}{quoted(table.schema)}.{quoted(table.name)}"

    def relation(self, table: RemoteTable) -> str:
        """A table in FROM, with all its rows and no others."""
        own = self.stored(table)
        return f"(SELECT * FROM {own} WHERE {table.filter})" if table.filter else own

    def group(self, name: str, of: Type) -> str:
        """A column by which rows are grouped that are equal here."""
        bare = self.casts or not isinstance(of, t.String)
        return name if bare else f"{name} COLLATE {self.collation}"

    def takes(self, scalar: Scalar, columns: RemoteColumns) -> bool:
        """True if the condition ``scalar`` has the same meaning there as here, and cannot fail there."""
        match scalar:
            case Call(function="and" | "or" | "not", arguments=arguments):
                return all(self.takes(argument, columns) for argument in arguments)
            case Call(function="is_null" | "is_not_null", arguments=(Column(name=name),)):
                return name in columns
            case Call(function="in" | "eq" | "ne" | "null_safe_eq" as function, arguments=arguments):
                return self._comparable(function, arguments, columns)
            case Call(function="lt" | "le" | "gt" | "ge" as function, arguments=arguments):
                return self._comparable(function, arguments, columns)
            case Column() | Literal():
                return isinstance(scalar.type, t.Boolean) and self._kind(scalar, "eq", columns) is not None
        return False

    def _comparable(self, function: str, operands: tuple[Scalar, ...], columns: RemoteColumns) -> bool:
        kinds = {self._kind(operand, function, columns) for operand in operands}
        return len(kinds) == 1 and None not in kinds

    def _kind(self, scalar: Scalar, function: str, columns: RemoteColumns) -> str | None:
        """The kind as which ``scalar`` is compared there; None if that could differ from ours."""
        match scalar:
            case Cast(input=Column() | Literal() as input_, of=of, lenient=False) if widens(input_.type, of):
                return self._kind(input_, function, columns)
            case Column(name=name):
                column = columns.get(name)
                alike = column is not None and (column.ordered if function in _ORDERS else column.equal)
                return self._allowed(scalar.type) if alike else None
            case Literal(value=value):
                return self._allowed(scalar.type) if self.spells(value) else None
        return None

    def spells(self, value: Any) -> bool:
        """True if the source has such a value: PostgreSQL's text cannot contain a zero byte."""
        return not isinstance(value, str) or "\0" not in value

    def _allowed(self, type_: Type) -> str | None:
        kind = _KINDS.get(type(type_))
        whole = kind == "exact" and not isinstance(type_, t.Decimal)
        return kind if kind in self.kinds or (whole and "whole" in self.kinds) else None

    def computes(self, scalar: Scalar, columns: RemoteColumns) -> bool:
        """True if the source computes the number ``scalar`` exactly as we do, and neither fails where it does not."""
        if not self.sums:
            return False
        match scalar:
            case Column(name=name):
                known = name in columns and columns[name].equal
                return known and "exact" in self.kinds and _KINDS.get(type(scalar.type)) == "exact"
            case Literal(value=value):
                return value is None or _KINDS.get(type(scalar.type)) == "exact"
            case Cast(input=input_, of=of, lenient=False):
                return widens(input_.type, of) and self.computes(input_, columns)
            case Call(function="add" | "subtract" | "multiply", arguments=arguments, of=t.Decimal(precision=digits)):
                # With fewer digits than the most there are, no digit of the result was cut.
                return digits < t.MAX_PRECISION and all(self.computes(part, columns) for part in arguments)
            case Case(branches=branches, default=default):
                values = (*(value for _, value in branches), default)
                conditions = all(self.takes(condition, columns) for condition, _ in branches)
                return conditions and all(self.computes(value, columns) for value in values)
        return False

    def write(self, scalar: Scalar, column: Callable[[str], str], constant: Callable[[Any, Type], str]) -> str:
        """The text of a condition that ``takes`` has allowed."""

        def text(part: Scalar) -> str:
            match part:
                case Column(name=name):
                    return column(name)
                case Literal(value=value, of=of):
                    return constant(value, of)
                case Cast(input=input_):
                    return text(input_)  # it only widens, and both sides are compared or computed exactly
                case Case(branches=branches, default=default):
                    written = " ".join(f"WHEN {text(test)} THEN {text(value)}" for test, value in branches)
                    return f"CASE {written} ELSE {text(default)} END"
                case Call(function="add" | "subtract" | "multiply" as function, arguments=(left, right)):
                    one, other = (self.exact(text(part), part.type) for part in (left, right))
                    return f"({one} {_OPERATORS[function]} {other})"
                case Call(function="and" | "or" as function, arguments=arguments):
                    return f"({f' {function.upper()} '.join(map(text, arguments))})"
                case Call(function="not", arguments=(argument,)):
                    return f"(NOT {text(argument)})"
                case Call(function="is_null", arguments=(argument,)):
                    return f"({text(argument)} IS NULL)"
                case Call(function="is_not_null", arguments=(argument,)):
                    return f"({text(argument)} IS NOT NULL)"
                case Call(function="in", arguments=(first, *others)):
                    those = ", ".join(self._compared("eq", other, text) for other in others)
                    return f"({self._collated('eq', first, text)} IN ({those}))"
                case Call(function=function, arguments=(left, right)):
                    symbol = self.same if function == "null_safe_eq" else _SYMBOLS[function]
                    one, other = self._collated(function, left, text), self._compared(function, right, text)
                    return f"({one} {symbol} {other})"
            raise TypeError(f"no SQL for {part!r}")

        return text(scalar)

    def _collated(self, function: str, scalar: Scalar, text: Callable[[Scalar], str]) -> str:
        """A text operand with code-point collation. Equality is left alone if it agrees, so that indexes are used."""
        wanted = isinstance(scalar.type, t.String) and (function in _ORDERS or not self.casts)
        return f"{text(scalar)} COLLATE {self.collation}" if wanted else text(scalar)

    def _compared(self, function: str, scalar: Scalar, text: Callable[[Scalar], str]) -> str:
        """The operand that is compared with a collated one, and takes over its collation."""
        return text(scalar)


def widens(type_: Type, of: Type) -> bool:
    """True if every value of ``type_`` is one of ``of``, the same number: its comparisons need no cast.

    >>> widens(t.INT, t.BIGINT), widens(t.BIGINT, t.Decimal(12, 2)), widens(t.BIGINT, t.DOUBLE)
    (True, False, False)
    """
    digits: dict[type[Type], tuple[int, int]] = {
        t.TinyInt: (3, 0),
        t.SmallInt: (5, 0),
        t.Int: (10, 0),
        t.BigInt: (19, 0),
    }

    def room(some: Type) -> tuple[int, int] | None:
        if isinstance(some, t.Decimal):
            return some.precision - some.scale, some.scale
        return digits.get(type(some))

    if type_ == of:
        return True
    before, after = room(type_), room(of)
    if before is None or after is None or (isinstance(of, t.Integral) and of != t.BIGINT):
        return False
    return before[0] <= after[0] and before[1] <= after[1]


def _as_text(value: Any) -> str | None:
    """A value as PostgreSQL reads it from text, with UTC as the session's zone."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _as_stored(value: Any) -> Any:
    """A value as SQLite stores it: dates and timestamps are ISO text, booleans are 0 and 1."""
    if value != value:
        raise BadValue("NaN cannot be asked about", detail="SQLite knows no NaN, and takes it for NULL.")
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal) else value


POSTGRES = Dialect(
    name="postgres",
    placeholder="$",
    casts=True,
    collation='"C"',
    same="IS NOT DISTINCT FROM",
    kinds=frozenset({"exact", "double", "text", "truth", "day", "instant"}),
    encode=_as_text,
    most_parameters=60_000,  # the protocol counts them in 16 bits
    most_terms=1_000,
    sums=True,
    only="ONLY ",  # without it, a table that others inherit from would include their rows
)
"""PostgreSQL compares all of these as we do: NaN is one value and the greatest, -0.0 is 0.0."""

SQLITE = Dialect(
    name="sqlite",
    placeholder="?",
    casts=False,
    collation="BINARY",
    same="IS",
    kinds=frozenset({"whole", "double", "text", "truth", "day"}),
    encode=_as_stored,
    most_parameters=30_000,
    most_terms=200,
)
"""SQLite has no decimals, and a timestamp has many spellings in it: neither is compared there."""
