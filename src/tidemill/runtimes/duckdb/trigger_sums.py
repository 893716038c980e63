"""The sums that a statement of a trigger adds, by DuckDB: the change, and the rows that it joins with, as columns.

A statement is linear in the change and in all that it joins, so it is one query over rows that come and rows that go,
as a load is (``load_queries``). Of a relation only the rows are given whose keys can match: those of each loop are
looked up by the values that the loops before it have, which mostly are columns of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidemill.algebra.expressions.scalars import Column, Named
from tidemill.algebra.relational.relations import Distinct, Project
from tidemill.changes.arrow import arrow_schema, from_arrow
from tidemill.changes.zset import Row
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map, map_fields
from tidemill.program.reads import reads_change
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, Query, RelationLoop, Step, Version
from tidemill.runtimes.duckdb.answer import MOST_REPEATED, errors_as_unanswered, fetch
from tidemill.runtimes.duckdb.fill import as_stored, once
from tidemill.runtimes.duckdb.load_queries import joined, sums_query
from tidemill.runtimes.duckdb.relations import LoweredQuery, lower_query
from tidemill.runtimes.duckdb.sql_text import NotLowered
from tidemill.runtimes.runtime import NotAnswered, ReadTable

if TYPE_CHECKING:
    import duckdb

Names = tuple[str, ...]
"""Names of columns."""

FindRows = Callable[[str, Names, pa.Table, Names], pa.Table]
"""Finds rows of a relation by columns: those that have, and perhaps others, the values of columns of a table. Each
counts once, with a sign (``with_signs``); with no columns, all rows."""


@dataclass(frozen=True, slots=True)
class LoopKeys:
    """The keys by which the rows of a loop are found: columns of the loop ``alias``, or of the answer to a query over
    all loops before."""

    columns: Names
    alias: str = ""
    query: LoweredQuery | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """The rows that the loop ``alias`` runs over: those of a relation whose columns ``by`` are one of the keys."""

    alias: str
    relation: str
    by: Names
    keys: LoopKeys


@dataclass(frozen=True, slots=True)
class StatementSums:
    """A statement as queries: ``lookups`` in their order, and then ``sums`` over what they have found.

    ``change`` is the loop over the change; ``fields`` are the columns of the target, the first ``keys`` of them keys.
    """

    target: str
    change: str
    lookups: tuple[Lookup, ...]
    sums: LoweredQuery
    fields: tuple[Field, ...]
    keys: int

    @property
    def relations(self) -> set[str]:
        """The relations and maps in which rows are looked up."""
        return {lookup.relation for lookup in self.lookups}

    def found(
        self, change: pa.Table, find: FindRows, connection: duckdb.DuckDBPyConnection
    ) -> dict[Row, int | list[Any]]:
        """The sums for a change, whose rows have signs, as generated Python makes them (``MapSums``).

        Raises ``NotAnswered`` on an error of DuckDB's.
        """
        rows = from_arrow(self.table(change, find, connection), self.fields)
        sums = ((row[: self.keys], [weight, *row[self.keys :]]) for row, weight in rows)
        return {key: amounts if len(amounts) > 1 else amounts[0] for key, amounts in sums if any(amounts)}

    def table(self, change: pa.Table, find: FindRows, connection: duckdb.DuckDBPyConnection) -> pa.Table:
        """The same sums as columns, as the target is stored."""
        rows = {self.change: change}
        with errors_as_unanswered():
            for lookup in self.lookups:
                keys = lookup.keys
                source = rows[keys.alias] if keys.query is None else fetch(connection, keys.query, _reading(rows))
                rows[lookup.alias] = find(lookup.relation, lookup.by, source, keys.columns)
                if not rows[lookup.alias].num_rows:
                    return arrow_schema(self.fields).empty_table()
            return as_stored(fetch(connection, self.sums, _reading(rows)), self.fields)


def _reading(rows: Mapping[str, pa.Table]) -> ReadTable:
    return lambda alias, fields: rows[alias]


def lower_statement(stage: Stage, statement: Add) -> StatementSums:
    """A statement of a trigger as queries; raises ``NotLowered`` if some part of it has no translation."""
    query = statement.query
    if not query.sources or not reads_change(query.sources[0]) or query.sources[0].split is not None:
        raise NotLowered("a query that does not begin with the change")
    loops = [_by_alias(step) for step in query.sources if isinstance(step, RelationLoop)]
    if len(loops) < len(query.sources) or any(map(reads_change, query.sources[1:])):
        raise NotLowered("a query over something else than one change and relations")
    own = replace(query, sources=tuple(loops))
    target = next((map_ for map_ in stage.maps if map_.name == statement.target), Map(stage.name, stage.output))
    aliases = {loop.alias for loop in loops}
    sums = lower_query(sums_query(target.keys, target.values, [own], aliases))
    lookups = tuple(_lookup(step, _keys(own, place)) for place, step in enumerate(query.sources) if place)
    return StatementSums(statement.target, loops[0].alias, lookups, sums, map_fields(target), len(target.keys))


def _by_alias(loop: RelationLoop) -> RelationLoop:
    """A loop over a relation of its own, of which it finds all rows."""
    return replace(loop, relation=loop.alias, version=Version.STATE)


def _lookup(loop: Step, keys: LoopKeys) -> Lookup:
    """How the rows of a loop are found by those before it."""
    assert isinstance(loop, RelationLoop)
    types = {f.name: f.type for f in loop.columns}
    if any(types[name] != scalar.type for name, scalar in loop.lookup):
        raise NotLowered("a lookup by values of another type")
    return Lookup(loop.alias, loop.relation, tuple(name for name, _ in loop.lookup), keys)


def _keys(query: Query, place: int) -> LoopKeys:
    """The keys of the loop at ``place``; the values of one loop are taken as they are, whatever joins leave of them."""
    loops = [step for step in query.sources if isinstance(step, RelationLoop)]
    scalars = [scalar for _, scalar in loops[place].lookup]
    names = [scalar.name if isinstance(scalar, Column) else "" for scalar in scalars]
    for loop in loops[:place]:
        columns = {f"{loop.alias}.{f.name}": f.name for f in loop.columns}
        if all(name in columns for name in names):
            return LoopKeys(tuple(columns[name] for name in names), loop.alias)
    before = joined(replace(query, sources=query.sources[:place], filters=()))
    outputs = tuple(Named(f"o{number}", scalar) for number, scalar in enumerate(scalars))
    return LoopKeys(tuple(output.name for output in outputs), query=lower_query(Distinct(Project(before, outputs))))


def with_signs(rows: pa.Table) -> pa.Table:
    """Weighted rows as rows that count once each, as often as their weights say, with their signs in a column."""
    weights = rows.column(WEIGHT).to_numpy()
    times = np.abs(weights)
    if len(times) and (times.max() > 1 or times.min() < 1):
        if times.sum(dtype=np.float64) > MOST_REPEATED:
            raise NotAnswered("rows that are repeated too often to be listed")
        rows = rows.take(pa.array(np.repeat(np.arange(len(times)), times)))
        signs = pa.array(np.sign(rows.column(WEIGHT).to_numpy()))
        rows = rows.set_column(rows.column_names.index(WEIGHT), WEIGHT, signs)
    return once(rows)
