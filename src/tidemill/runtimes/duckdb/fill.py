"""The maps and rows of a stage by DuckDB, from the whole contents of its inputs: its load, and then its emission.

All of a stage is computed here, or nothing: its maps go to the store, and a runtime reads them there when a change
first needs them. So no entry is held in memory for a view that was only created.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.aggregates.function import MultisetEnd
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.scalars import Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan, TopK
from tidemill.algebra.relational.walk import walk_all
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import arrow_schema, to_arrow, without_negative_zeros
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map, map_fields
from tidemill.program.stages import GroupEmission, PartitionEmission, Stage
from tidemill.program.statements import RelationLoop
from tidemill.runtimes.duckdb.answer import MemoryLimit, connected, errors_as_unanswered, fetch
from tidemill.runtimes.duckdb.emission_queries import group_rows, multisets_of, partition_rows
from tidemill.runtimes.duckdb.load_queries import ENTRY_WEIGHT, entries_query, unsummed_entries
from tidemill.runtimes.duckdb.relations import LoweredQuery, lower_query
from tidemill.runtimes.duckdb.sql_text import NotLowered
from tidemill.runtimes.runtime import FilledStage, NotAnswered, ReadTable
from tidemill.storage.runs import ROW_GROUP

if TYPE_CHECKING:
    import duckdb

UNSUMMED_ROWS = 100_000
"""Rows of a relation from which a multiset over it is stored as it is, if few of its entries are equal."""

SAMPLED_ROWS = 20_000
"""Rows by which that is told."""

FEW_GONE = 20
"""Rows of a relation for each that takes back another, from which on both are read rather than summed."""

ORDERED_TYPES = (t.Integral, t.Decimal, t.Date, t.Time, t.Timestamp, t.String)
"""Types of which Arrow and SQL have the same order and equality."""

EVALUATED_ENTRIES = 100_000
"""Entries up to which rows of groups whose expressions have no translation are made by the evaluator."""


def fill_stage(stage: Stage, read: ReadTable, limit: MemoryLimit | None = None) -> FilledStage:
    """The contents of a stage; raises ``NotAnswered`` if some part has no translation, or on an error of DuckDB's."""
    loads = lowered_loads(stage)
    rows = _rows_query(stage)
    contents = _read(loads.values(), stage, read)
    signed = {name for name, table in contents.items() if _comes_and_goes(table)}
    given = contents
    if signed:
        loads = lowered_loads(stage, signed)
        given = contents | {name: once(contents[name]) for name in signed}
    with errors_as_unanswered(), connected(limit) as connection:
        return _Filling(stage, given, contents, connection).run(loads, rows)


def is_translated(stage: Stage) -> bool:
    """True if all of a stage has a translation, so that only an error of DuckDB's could leave it unfilled."""
    try:
        lowered_loads(stage)
        rows = _rows_query(stage)
        if rows is not None:
            lower_query(rows)
    except NotLowered:
        return False
    return True


def lowered_loads(stage: Stage, signed: Set[str] = frozenset()) -> dict[str, LoweredQuery]:
    """The entries of each map that the load fills, and those of the stage's own rows, as queries in their order."""
    if any(trigger.each for trigger in stage.triggers):
        raise NotLowered("a stage that takes in its rows one by one")
    maps = {map_.name: map_ for map_ in stage.maps}
    loads: dict[str, LoweredQuery] = {}
    for target, adds in groupby(stage.load, attrgetter("target")):
        if target in loads:
            raise NotLowered("a map that is added to in several steps")
        queries = [add.query for add in adds]
        keys, values = (maps[target].keys, maps[target].values) if target in maps else (stage.output, ())
        loads[target] = lower_query(entries_query(keys, values, queries, signed))
    return loads


def _read(queries: Iterable[LoweredQuery], stage: Stage, read: ReadTable) -> dict[str, pa.Table]:
    """The relations that the load of a stage reads: once each, with all columns that some statement needs."""
    needed: dict[str, dict[str, Field]] = {}
    for query in queries:
        for name, table in query.tables.items():
            needed.setdefault(name, {}).update(table.fields)
    own = {map_.name for map_ in stage.maps}
    return {name: read(name, tuple(fields.values())) for name, fields in needed.items() if name not in own}


def _comes_and_goes(rows: pa.Table) -> bool:
    """True if a few rows of a relation take back others, and each counts once.

    Many such rows are summed instead: a join of six relations in which each row stands three times would find each
    answer 729 times.
    """
    weights = rows.column(WEIGHT)
    bounds = pc.min_max(weights)
    if bounds["min"].as_py() != -1 or bounds["max"].as_py() != 1:
        return False
    return bool(FEW_GONE * pc.sum(pc.less(weights, 0)).as_py() <= rows.num_rows)


def _rows_query(stage: Stage) -> Relation | None:
    """The rows of a stage as a query over its maps; None if statements add to them, or if they are not needed."""
    if stage.reader is not None:
        return None
    match stage.finish:
        case None:
            return None
        case GroupEmission() as emission:
            return group_rows(emission, {map_.name: map_ for map_ in stage.maps})
        case PartitionEmission() as emission:
            query = partition_rows(emission)
            lower_query(query)  # an order over many rows is nothing for the evaluator
            return query
    raise NotLowered(type(stage.finish).__name__)


class _Filling:
    """A stage that is being filled: the entries so far, by map."""

    def __init__(
        self,
        stage: Stage,
        contents: dict[str, pa.Table],
        stored: dict[str, pa.Table],
        connection: duckdb.DuckDBPyConnection,
    ) -> None:
        """``contents`` are the relations as loads read them, ``stored`` as they are."""
        self._stage = stage
        self._contents, self._stored = contents, stored
        self._connection = connection
        self._maps = {map_.name: map_ for map_ in stage.maps}
        self._entries: dict[str, pa.Table] = {}

    def run(self, loads: Mapping[str, LoweredQuery], rows: Relation | None) -> FilledStage:
        for target, query in loads.items():
            fields = map_fields(self._maps[target]) if target in self._maps else self._stage.output
            found = self._unsummed(target)
            if found is None:
                found = as_stored(fetch(self._connection, query, self._loaded_from), fields)
            if found.num_rows and pc.min(found.column(WEIGHT)).as_py() < 0:
                raise NotAnswered("entries of which more have gone than have come")
            self._entries[target] = _ends_of(found, self._maps[target]) if target in self._maps else found
            self._keep_first_rows(target)
        self._contents, self._stored = {}, {}  # the rows are not needed any more
        stored = {
            name: ChangeSet.of_arrow(_clustered(self._entries[name], map_.keys), map_fields(map_))
            for name, map_ in self._maps.items()
            if name in self._entries and self._entries[name].num_rows
        }
        return FilledStage(ChangeSet.of_arrow(self._output(rows), self._stage.output), stored)

    def _keep_first_rows(self, target: str) -> None:
        """Of a top-k from which nothing is deleted, keep the rows that are needed."""
        finish = self._stage.finish
        if isinstance(finish, PartitionEmission) and finish.source == target and finish.kept_rows is not None:
            map_ = self._maps[target]
            assert isinstance(finish.rows, TopK)
            rows = replace(finish.rows, limit=finish.kept_rows, offset=0)
            outputs = tuple(Named(f.name, column(f)) for f in map_.keys)
            query = partition_rows(PartitionEmission(target, rows, outputs))
            self._entries[target] = as_stored(fetch(self._connection, lower_query(query), self._emitted), map_.keys)

    def _unsummed(self, target: str) -> pa.Table | None:
        """The entries of a large multiset as the rows that add up to them, if few of these are equal.

        To group them would take most of the time, and leave about as many.
        """
        finish = self._stage.finish
        adds = [add for add in self._stage.load if add.target == target]
        if not isinstance(finish, GroupEmission) or target not in multisets_of(finish.multiset_reads) or len(adds) > 1:
            return None
        if any(step.relation not in self._stored for step in adds[0].query.sources if isinstance(step, RelationLoop)):
            return None
        query = unsummed_entries(self._maps[target].keys, adds[0].query)
        if query is None or max(table.num_rows for table in self._stored.values()) < UNSUMMED_ROWS:
            return None
        found = fetch(self._connection, lower_query(query), lambda name, fields: self._stored[name])
        return as_stored(found, map_fields(self._maps[target])) if _are_mostly_distinct(found) else None

    def _output(self, query: Relation | None) -> pa.Table:
        if query is None:
            empty = arrow_schema(self._stage.output).empty_table()
            return self._entries.get(self._stage.name, empty)
        try:
            lowered = lower_query(query)
        except NotLowered:
            if sum(table.num_rows for table in self._entries.values()) > EVALUATED_ENTRIES:
                raise
            return self._evaluated(query)
        return as_stored(fetch(self._connection, lowered, self._emitted), self._stage.output)

    def _evaluated(self, query: Relation) -> pa.Table:
        """Rows of which an expression has no translation, such as a quotient of sums of DECIMAL, made by the evaluator.

        It is left to the runtime to say where a row cannot be computed.
        """
        entries: dict[str, ZSet] = {}
        for scan in walk_all(query):
            if isinstance(scan, Scan):
                table = self._emitted(scan.relation, scan.columns)
                columns = [f.name for f in scan.columns]
                weighted = ChangeSet.of_arrow(table.select([*columns, WEIGHT]), scan.columns)
                entries[scan.relation] = ZSet.summed(weighted.pairs())
        try:
            with decimal.localcontext(EXACT):
                rows = evaluate(query, entries)
        except (ArithmeticFault, ArithmeticError) as fault:
            raise NotAnswered(str(fault)) from fault
        return to_arrow([(row[:-1], row[-1] * weight) for row, weight in rows.items()], self._stage.output)

    def _loaded_from(self, name: str, fields: Sequence[Field]) -> pa.Table:
        """The rows of a relation, or the entries of a map that the load has filled before."""
        return self._map_entries(name) if name in self._maps else self._contents[name]

    def _map_entries(self, name: str) -> pa.Table:
        empty = arrow_schema(map_fields(self._maps[name])).empty_table()
        return self._entries.get(name, empty)

    def _emitted(self, name: str, fields: Sequence[Field]) -> pa.Table:
        """The entries of a map as the rows of the stage are made of them."""
        table = self._map_entries(name)
        finish = self._stage.finish
        if isinstance(finish, GroupEmission):
            if name == finish.source and finish.always and not table.num_rows:
                table = _zeros(map_fields(self._maps[name]))
            if name == finish.source or name in multisets_of(finish.multiset_reads):
                return once(table)
        return table


def _ends_of(entries: pa.Table, map_: Map) -> pa.Table:
    """The entries of a multiset that are needed, where these are its ends, and Arrow has their order."""
    if map_.end is None or not all(isinstance(f.type, ORDERED_TYPES) for f in map_.keys):
        return entries
    *group, value = [f.name for f in map_.keys]
    how = "min" if map_.end is MultisetEnd.LEAST else "max"
    found = entries.group_by(group, use_threads=False).aggregate([(value, how)])
    columns = [*(found.column(name) for name in group), found.column(f"{value}_{how}")]
    weights = pa.chunked_array([pa.array(np.ones(found.num_rows, np.int64))])
    return pa.table([*columns, weights], names=[*group, value, WEIGHT]).cast(entries.schema)


def _are_mostly_distinct(rows: pa.Table) -> bool:
    """True if three in four rows are distinct, by a sample.

    Of n draws from d values, about n * n / 2d are equal to an earlier one: so the sample tells d, and that tells how
    many values all rows have.
    """
    step = max(rows.num_rows // SAMPLED_ROWS, 1)
    sample = rows.take(pa.array(np.arange(0, rows.num_rows, step)))
    distinct = sample.group_by(sample.column_names, use_threads=False).aggregate([]).num_rows
    if distinct == sample.num_rows:
        return True
    values = sample.num_rows**2 / (2 * (sample.num_rows - distinct))
    return bool(values * (1 - math.exp(-rows.num_rows / values)) >= 0.75 * rows.num_rows)


def _clustered(entries: pa.Table, keys: Sequence[Field]) -> pa.Table:
    """Entries in the order of their first key: then a change that looks some up reads few row groups of their file."""
    if entries.num_rows <= ROW_GROUP or not keys or isinstance(keys[0].type, t.Array | t.Map | t.Struct):
        return entries
    order = pc.sort_indices(entries.column(0).combine_chunks())
    weights = entries.column(WEIGHT)
    bounds = pc.min_max(weights)
    if bounds["min"] != bounds["max"]:
        return entries.take(order)
    return entries.drop_columns([WEIGHT]).take(order).append_column(entries.schema.field(WEIGHT), weights)


def once(entries: pa.Table) -> pa.Table:
    """Entries or rows that count once each, with their weights in a column."""
    weights = entries.column(WEIGHT)
    ones = pa.array(np.ones(entries.num_rows, dtype=np.int64))
    others = entries.drop_columns([WEIGHT])
    return others.append_column(ENTRY_WEIGHT, weights).append_column(WEIGHT, ones)


def _zeros(fields: Sequence[Field]) -> pa.Table:
    """The entry of a group without rows."""
    schema = arrow_schema(fields)
    return pa.table([pa.array([0]).cast(one.type) for one in schema], schema=schema)


def as_stored(found: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Columns of an answer, the last of which is the weight, in the form in which changes are stored."""
    schema = arrow_schema(fields)
    stored = pa.table([_canonical(values) for values in found.columns], names=schema.names).cast(schema)
    # Sums of DECIMALs may have 39 digits in DuckDB's 128 bits, which is an error.
    for values, field in zip(stored.columns, fields, strict=False):
        if isinstance(field.type, t.Decimal):
            values.validate(full=True)
    return stored


def _canonical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with one zero and one NaN, as all state has them."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan, column.type), without_negative_zeros(column))
