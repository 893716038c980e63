"""A signed query as SQL: one statement for all its terms, and the local processing of the rows that come back.

Each term is one SELECT of a UNION ALL. Its sign, times the weights of the tuples bound in it, is the first column; the
others are the columns that the view needs, the same for all terms. Bound tuples are tables of parameters in front::

    WITH b1(w, c1, c2) AS (VALUES ($1::int8, $2::int8, $3::text))
    SELECT 1 * "c".w, "o"."amount" FROM ONLY "shop"."orders" AS "o", b1 AS "c" WHERE ("o"."customer" = "c".c1)
    UNION ALL ...

A database limits the number of parameters and terms of a statement. A larger query is sent as several statements of one
read transaction; a term is linear in each of its bound sets, so a large set is sent in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Column, Literal, Scalar
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import columns_in, walk
from tidemill.algebra.text import text_of
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.errors import DataError
from tidemill.model.types import Type
from tidemill.sources.remote_queries.dialects import Dialect, quoted
from tidemill.sources.remote_queries.remote_tables import RemoteColumn, RemoteTable, table_named
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm, SpjView

__all__ = ["AnswerReader", "RemotePlan", "SqlStatement", "describe_remote_plan", "plan_remote"]

_SQL_OF: dict[type[Type], str] = {
    t.TinyInt: "int8",
    t.SmallInt: "int8",
    t.Int: "int8",
    t.BigInt: "int8",
    t.Decimal: "numeric",
    t.Double: "float8",
    t.String: "text",
    t.Boolean: "bool",
    t.Date: "date",
    t.Timestamp: "timestamp",
}


Decoder = Callable[[Any], Any]
"""Converts a value that is not NULL to its internal form."""


@dataclass(frozen=True)
class SqlStatement:
    """SQL and the values of its parameters, as the dialect writes them."""

    sql: str
    parameters: tuple[Any, ...]


@dataclass(frozen=True)
class RemotePlan:
    """The remote evaluation of a view: the conditions evaluated there, those evaluated here, and the columns to
    fetch."""

    dialect: Dialect
    view: SpjView
    tables: Mapping[str, RemoteTable]
    pushed: tuple[Scalar, ...]
    kept: tuple[Scalar, ...]
    fetched: tuple[str, ...]

    @property
    def columns(self) -> dict[str, RemoteColumn]:
        """All columns of all leaves by ``alias.column``."""
        return _columns(self.view, self.tables)

    def statements(self, query: SignedQuery) -> list[SqlStatement]:
        """The terms of ``query`` that need the source, in as few statements as the dialect's limits allow."""
        terms = [piece for term in query.remote.terms for piece in self._pieces(term)]
        return [_StatementWriter(self).write(some) for some in self._packed(terms)]

    def _pieces(self, term: SignedTerm) -> Iterator[SignedTerm]:
        """``term``, or terms over parts of its bound sets that sum up to it; none if a bound set is empty."""
        width = 1 + max(len(leaf.columns) for leaf in self.view.leaves)
        size = self.dialect.most_parameters // (len(self.view.leaves) * width)
        parts = [[(alias, part) for part in _split(rows, size)] for alias, rows in term.bound.items()]
        return (SignedTerm(term.sign, dict(chosen)) for chosen in product(*parts))

    def _packed(self, terms: Iterable[SignedTerm]) -> Iterator[list[SignedTerm]]:
        packed: list[SignedTerm] = []
        used = 0
        for term in terms:
            cost = sum(len(rows) * (1 + len(next(iter(rows)))) for rows in term.bound.values()) + len(self._constants)
            full = used + cost > self.dialect.most_parameters or len(packed) == self.dialect.most_terms
            if packed and full:
                yield packed
                packed, used = [], 0
            packed.append(term)
            used += cost
        if packed:
            yield packed

    @property
    def _constants(self) -> list[Scalar]:
        return [part for condition in self.pushed for part in _literals(condition)]

    def finish(self, rows: Iterable[tuple[int, Row]]) -> ZSet:
        """The answer, given the weights and the fetched columns of the received rows, in internal form."""
        scalars = [output.scalar for output in self.view.outputs]
        total = ZSet()
        if not self.kept and all(isinstance(scalar, Column) for scalar in scalars):
            places = [self.fetched.index(scalar.name) for scalar in scalars if isinstance(scalar, Column)]
            for weight, row in rows:
                total.add(tuple([row[place] for place in places]), weight)
            return total
        for weight, row in rows:
            values = dict(zip(self.fetched, row, strict=True))
            if all(evaluate_scalar(condition, values) is True for condition in self.kept):
                total.add(tuple([evaluate_scalar(scalar, values) for scalar in scalars]), weight)
        return total


def plan_remote(view: SpjView, dialect: Dialect, tables: Mapping[str, RemoteTable], source: str) -> RemotePlan:
    """The remote evaluation of ``view`` by a source that has ``tables``."""
    known = {
        leaf.relation: table_named(tables, leaf.relation, source) if leaf.relation else _brought(leaf)
        for leaf in view.leaves
    }
    columns = _columns(view, known)
    conditions = [part for condition in view.conditions for part in conjuncts(condition)]
    pushed = tuple(condition for condition in conditions if dialect.takes(condition, columns))
    kept = tuple(condition for condition in conditions if not dialect.takes(condition, columns))
    read = set().union(*map(columns_in, (*kept, *(output.scalar for output in view.outputs))))
    return RemotePlan(dialect, view, known, pushed, kept, tuple(name for name in columns if name in read))


def describe_remote_plan(asked: RemotePlan, query: SignedQuery) -> str:
    """The remote and the local part of a query, for EXPLAIN: no values of bound tuples, no secrets."""
    lines = [
        f"asked of {asked.dialect.name}: {len(query.remote.terms)} terms, {', '.join(asked.fetched) or 'no columns'}"
    ]
    lines += [f"  there: {text_of(condition)}" for condition in asked.pushed]
    lines += [f"  here: {text_of(condition)}" for condition in asked.kept]
    computed = [output for output in asked.view.outputs if not isinstance(output.scalar, Column)]
    lines += [f"  here: {text_of(output.scalar)} AS {output.name}" for output in computed]
    lines += [f"  {statement.sql}" for statement in asked.statements(query)]
    return "\n".join(lines)


class AnswerReader:
    """An answer being received: ``total`` is the sum so far, ``received`` the size of its values without weights.

    ``decoders`` convert the fetched columns to internal values, ``measure`` gives the length of a value.
    """

    def __init__(self, asked: RemotePlan, decoders: Sequence[Decoder], measure: Callable[[Any], int]) -> None:
        self.total = ZSet()
        self.received = 0
        self._plan = asked
        self._decoders = decoders
        self._measure = measure

    def take(self, records: Iterable[Sequence[Any]]) -> None:
        """Add received rows: the weight in front, then the columns. They are processed one at a time."""
        part = self._plan.finish(self._row(record) for record in records)
        self.total, part = (part, self.total) if len(part) > len(self.total) else (self.total, part)
        self.total.update_by(part)

    def _row(self, record: Sequence[Any]) -> tuple[int, Row]:
        values = record[1:]
        self.received += sum([self._measure(value) for value in values if value is not None])
        try:
            pairs = zip(self._decoders, values, strict=True)
            return int(record[0]), tuple([None if value is None else decode(value) for decode, value in pairs])
        except DataError as error:
            error.where = self._culprit(values)
            raise

    def _culprit(self, values: Sequence[Any]) -> str:
        """The column whose value was refused."""
        for name, decode, value in zip(self._plan.fetched, self._decoders, values, strict=True):
            try:
                _ = None if value is None else decode(value)
            except DataError:
                return name
        return ""


class _StatementWriter:
    """Writes one statement."""

    def __init__(self, asked: RemotePlan) -> None:
        self._plan = asked
        self._dialect = asked.dialect
        self._columns = asked.columns
        self._parameters: list[Any] = []
        self._tables: dict[tuple[int, str], str] = {}
        self._bound: list[str] = []
        read = {name for condition in asked.pushed for name in columns_in(condition)}
        self._needed = read.union(asked.fetched)

    def write(self, terms: Sequence[SignedTerm]) -> SqlStatement:
        """The statement of ``terms``."""
        body = "\nUNION ALL\n".join([self._select(term) for term in terms])
        front = f"WITH {', '.join(self._bound)}\n" if self._bound else ""
        return SqlStatement(front + body, tuple(self._parameters))

    def _select(self, term: SignedTerm) -> str:
        leaves = self._plan.view.leaves
        places = {name: text for leaf in leaves for name, text in self._places(leaf, term)}
        weight = " * ".join([str(term.sign), *(f"{_alias(leaf)}.w" for leaf in leaves if leaf.alias in term.bound)])
        values = [self._read(name, places[name]) for name in self._plan.fetched]
        items = [self._from_item(leaf, term) for leaf in leaves]
        conditions = [
            self._dialect.write(condition, places.__getitem__, self._constant) for condition in self._plan.pushed
        ]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join([weight, *values])} FROM {', '.join(items)}{where}"

    def _places(self, leaf: Scan, term: SignedTerm) -> Iterator[tuple[str, str]]:
        """The text of each column of a leaf: its own name, or its column in a table of parameters."""
        names = zip(leaf.fields, leaf.columns, strict=True)
        for number, (field, column) in enumerate(names):
            remote = self._plan.tables[leaf.relation].column(column.name)
            own = f"c{number}" if leaf.alias in term.bound else quoted(remote.name)
            yield field.name, f"{_alias(leaf)}.{own}"

    def _read(self, name: str, text: str) -> str:
        widened = self._columns[name].widened
        return f"{text}::{widened}" if widened else text

    def _from_item(self, leaf: Scan, term: SignedTerm) -> str:
        if leaf.alias in term.bound:
            return f"{self._table_of(leaf, term.bound[leaf.alias])} AS {_alias(leaf)}"
        remote = self._plan.tables[leaf.relation]
        # Without ONLY, a table of PostgreSQL that others inherit from would include their rows.
        only = "ONLY " if self._dialect.casts else ""
        return f"{only}{quoted(remote.schema)}.{quoted(remote.name)} AS {_alias(leaf)}"

    def _table_of(self, leaf: Scan, rows: ZSet) -> str:
        """The table of parameters that holds ``rows``: sent once, however many terms read it."""
        places = [number for number, field in enumerate(leaf.fields) if field.name in self._needed]
        key = id(rows), f"{leaf.relation} {places}"
        if key not in self._tables:
            name = self._tables[key] = f"b{len(self._tables) + 1}"
            remote = self._plan.tables[leaf.relation]
            types = [remote.column(leaf.columns[place].name).sql for place in places]
            lines = [self._line((weight, *(row[p] for p in places)), types) for row, weight in rows.items()]
            names = ", ".join(["w", *(f"c{place}" for place in places)])
            self._bound.append(f"{name}({names}) AS (VALUES {', '.join(lines)})")
        return self._tables[key]

    def _line(self, values: Sequence[Any], types: Sequence[str]) -> str:
        return f"({', '.join(map(self._parameter, values, ['int8', *types]))})"

    def _parameter(self, value: Any, sql: str) -> str:
        self._parameters.append(self._dialect.encode(value))
        return self._dialect.parameter(len(self._parameters), sql)

    def _constant(self, value: Any, type_: Type) -> str:
        return self._parameter(value, _SQL_OF[type(type_)])


def _brought(leaf: Scan) -> RemoteTable:
    """The leaf of rows that are sent with a query, as a table that only has columns; it is bound in every term.

    The dialect decides what may be compared at all; how text is ordered depends on the other side.
    """
    columns = [
        RemoteColumn(field.name, field, _SQL_OF[type(field.type)], ordered=field.type != t.STRING)
        for field in leaf.columns
    ]
    return RemoteTable("", "", tuple(columns))


def _alias(leaf: Scan) -> str:
    return quoted(leaf.alias or leaf.relation)


def _columns(view: SpjView, tables: Mapping[str, RemoteTable]) -> dict[str, RemoteColumn]:
    return {
        field.name: tables[leaf.relation].column(column.name)
        for leaf in view.leaves
        for field, column in zip(leaf.fields, leaf.columns, strict=True)
    }


def _literals(scalar: Scalar) -> list[Scalar]:
    return [part for part in walk(scalar) if isinstance(part, Literal)]


def _split(rows: ZSet, size: int) -> list[ZSet]:
    if len(rows) <= size:
        return [rows] if rows else []
    entries = iter(rows.items())
    return [ZSet(part) for part in iter(lambda: dict(islice(entries, size)), {})]
