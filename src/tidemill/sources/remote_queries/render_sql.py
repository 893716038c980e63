"""A signed query as SQL: one statement for all its terms, and the local processing of the rows that come back.

Each term is one SELECT of a UNION ALL. Its sign, times the weights of the tuples bound in it, is the first column; the
others are the columns that the view needs, the same for all terms. Bound tuples are tables of parameters in front::

    WITH b1(w, c1, c2) AS (VALUES ($1::int8, $2::int8, $3::text))
    SELECT 1 * "c".w, "o"."amount" FROM ONLY "shop"."orders" AS "o", b1 AS "c" WHERE ("o"."customer" = "c".c1)
    UNION ALL ...

Rows that may be equal are grouped there, so that each travels once, with its weight; a view with sums is grouped by its
outputs, and only the sums travel::

    WITH b1 ..., answer(w, k0, s0) AS (... UNION ALL ...) SELECT SUM(w), k0, SUM(w * s0) FROM answer GROUP BY k0

A database limits the number of parameters and terms of a statement. A larger query is sent as several statements of one
read transaction; a term is linear in each of its bound sets, so a large set is sent in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, product
from typing import Any

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Column, Literal, Named, Scalar
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import columns_in, walk
from tidemill.algebra.text import text_of
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.coerce import coercer
from tidemill.model.errors import DataError
from tidemill.model.types import Type
from tidemill.sources.remote_queries.dialects import Dialect, quoted
from tidemill.sources.remote_queries.group_sums import add_groups, sum_type
from tidemill.sources.remote_queries.local_evaluation import answer_rows
from tidemill.sources.remote_queries.remote_tables import RemoteColumn, RemoteTable, table_named
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm, SpjView

__all__ = ["AnswerReader", "RemotePlan", "SqlStatement", "describe_remote_plan", "plan_remote"]

ANSWER = "answer"
"""Name of the table of all rows, which are then grouped."""

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
    """The remote evaluation of a view: the conditions evaluated there, those evaluated here, and the columns to fetch.

    ``grouped``: rows that are equal in these columns come as one. ``summed`` are the sums that are computed there.
    """

    dialect: Dialect
    view: SpjView
    tables: Mapping[str, RemoteTable]
    pushed: tuple[Scalar, ...]
    kept: tuple[Scalar, ...]
    fetched: tuple[str, ...]
    grouped: bool = False
    summed: tuple[Named, ...] = ()

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
        return [part for one in (*self.pushed, *(s.scalar for s in self.summed)) for part in _literals(one)]

    def finish(self, rows: Iterable[tuple[int, Row]]) -> ZSet:
        """The answer, given the weights and the fetched columns of the received rows, in internal form."""
        scalars = [output.scalar for output in self.view.outputs]
        if self.summed or (not self.view.sums and not self.kept and all(isinstance(one, Column) for one in scalars)):
            places = [self.fetched.index(scalar.name) for scalar in scalars if isinstance(scalar, Column)]
            return self._groups(rows, places) if self.summed else _picked(rows, places)
        found = ((dict(zip(self.fetched, row, strict=True)), weight) for weight, row in rows)
        return answer_rows(self.view, self.kept, found)

    def _groups(self, rows: Iterable[tuple[int, Row]], places: Sequence[int]) -> ZSet:
        """Groups that the source has summed up: the sums are behind the fetched columns."""
        width = len(self.fetched)
        found = (((*(row[place] for place in places), weight, *row[width:]), 1) for weight, row in rows)
        return add_groups(found, len(places))


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
    plain = all(isinstance(output.scalar, Column) and _groupable(output.scalar, columns) for output in view.outputs)
    there = not kept and plain and all(dialect.computes(one.scalar, columns) for one in view.sums)
    shown = view.outputs if there else (*view.outputs, *view.sums)
    read = set().union(*map(columns_in, (*kept, *(output.scalar for output in shown))))
    fetched = tuple(name for name in columns if name in read)
    alike = bool(fetched) and all(columns[name].equal and not columns[name].widened for name in fetched)
    grouped = alike and not _are_unique(view, known, read)
    return RemotePlan(dialect, view, known, pushed, kept, fetched, grouped, view.sums if there else ())


def _groupable(scalar: Column, columns: Mapping[str, RemoteColumn]) -> bool:
    return columns[scalar.name].equal and not columns[scalar.name].widened


def _are_unique(view: SpjView, tables: Mapping[str, RemoteTable], read: Set[str]) -> bool:
    """True if ``read`` determines the key of every leaf, so that no two rows are equal."""
    known, left = set(read), list(view.leaves)
    while found := [leaf for leaf in left if _has_key(leaf, tables[leaf.relation], known)]:
        left = [leaf for leaf in left if leaf not in found]
        known.update(field.name for leaf in found for field in leaf.fields)
        for condition in view.conditions:
            match condition:
                case Call("eq", (Column(one), Column(other))) if not known.isdisjoint((one, other)):
                    known.update((one, other))
    return not left


def _has_key(leaf: Scan, table: RemoteTable, known: Set[str]) -> bool:
    names = {table.column(one.name).name: field.name for field, one in zip(leaf.fields, leaf.columns, strict=True)}
    return bool(table.key) and all(names.get(part) in known for part in table.key)


def _picked(rows: Iterable[tuple[int, Row]], places: Sequence[int]) -> ZSet:
    total = ZSet()
    for weight, row in rows:
        total.add(tuple([row[place] for place in places]), weight)
    return total


def describe_remote_plan(asked: RemotePlan, query: SignedQuery) -> str:
    """The remote and the local part of a query, for EXPLAIN: no values of bound tuples, no secrets."""
    lines = [
        f"asked of {asked.dialect.name}: {len(query.remote.terms)} terms, {', '.join(asked.fetched) or 'no columns'}"
    ]
    lines += [f"  there: SUM({text_of(one.scalar)})" for one in asked.summed]
    lines += [f"  there: {text_of(condition)}" for condition in asked.pushed]
    lines += [f"  here: {text_of(condition)}" for condition in asked.kept]
    computed = [output for output in asked.view.outputs if not isinstance(output.scalar, Column)]
    lines += [f"  here: {text_of(output.scalar)} AS {output.name}" for output in computed]
    lines += [f"  here: SUM({text_of(one.scalar)})" for one in asked.view.sums if not asked.summed]
    lines += [f"  {statement.sql}" for statement in asked.statements(query)]
    return "\n".join(lines)


def _sum_decoder(of: Type) -> Decoder:
    """The function that reads a sum of ``of``, whose text may have trailing zeros or a point."""
    convert = coercer(sum_type(of))
    return lambda value: convert(Decimal(value.decode() if isinstance(value, bytes) else str(value)))


class AnswerReader:
    """An answer being received: ``total`` is the sum so far, ``received`` the size of its values without weights.

    ``decoders`` convert the fetched columns to internal values, ``measure`` gives the length of a value.
    """

    def __init__(self, asked: RemotePlan, decoders: Sequence[Decoder], measure: Callable[[Any], int]) -> None:
        self.total = ZSet()
        self.received = 0
        self._plan = asked
        self._decoders = (*decoders, *(_sum_decoder(one.scalar.type) for one in asked.summed))
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
        names = (*self._plan.fetched, *(one.name for one in self._plan.summed))
        for name, decode, value in zip(names, self._decoders, values, strict=True):
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
        computed = (*asked.pushed, *(one.scalar for one in asked.summed))
        read = {name for scalar in computed for name in columns_in(scalar)}
        self._needed = read.union(asked.fetched)

    def write(self, terms: Sequence[SignedTerm]) -> SqlStatement:
        """The statement of ``terms``."""
        body = "\nUNION ALL\n".join([self._select(term) for term in terms])
        if self._plan.grouped or self._plan.summed:
            body = self._grouped(body)
        front = f"WITH {', '.join(self._bound)}\n" if self._bound else ""
        return SqlStatement(front + body, tuple(self._parameters))

    def _grouped(self, body: str) -> str:
        """The sums of weights, and of weighted values, of the rows of ``body`` that are equal otherwise."""
        keys = [f"k{number}" for number in range(len(self._plan.fetched))]
        sums = [f"s{number}" for number in range(len(self._plan.summed))]
        self._bound.append(f"{ANSWER}({', '.join(['w', *keys, *sums])}) AS ({body})")
        weight = "COALESCE(SUM(w), 0)" if sums else "SUM(w)"
        shown = ", ".join([weight, *keys, *(f"COALESCE(SUM(w * {one}), 0)" for one in sums)])
        cleared = "" if sums else " HAVING SUM(w) <> 0"
        types = [self._columns[name].field.type for name in self._plan.fetched]
        places = list(map(self._dialect.group, keys, types))
        return f"SELECT {shown} FROM {ANSWER}" + (f" GROUP BY {', '.join(places)}" if places else "") + cleared

    def _select(self, term: SignedTerm) -> str:
        leaves = self._plan.view.leaves
        places = {name: text for leaf in leaves for name, text in self._places(leaf, term)}
        weight = " * ".join([str(term.sign), *(f"{_alias(leaf)}.w" for leaf in leaves if leaf.alias in term.bound)])
        values = [self._read(name, places[name]) for name in self._plan.fetched]
        values += [self._number(one.scalar, places) for one in self._plan.summed]
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
        return self._dialect.cast(text, widened) if widened else text

    def _number(self, scalar: Scalar, places: Mapping[str, str]) -> str:
        """A number that is summed up, in a type in which it can be multiplied with weights."""
        return self._dialect.exact(self._dialect.write(scalar, places.__getitem__, self._constant), scalar.type)

    def _from_item(self, leaf: Scan, term: SignedTerm) -> str:
        if leaf.alias in term.bound:
            return f"{self._table_of(leaf, term.bound[leaf.alias])} AS {_alias(leaf)}"
        return f"{self._dialect.relation(self._plan.tables[leaf.relation])} AS {_alias(leaf)}"

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
            self._bound.append(f"{name}({names}) AS ({self._dialect.rows(lines)})")
        return self._tables[key]

    def _line(self, values: Sequence[Any], types: Sequence[str]) -> str:
        return ", ".join(map(self._parameter, values, ["int8", *types]))

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
