"""Rows of tables and views, and results of queries, now or as of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.walk import scans
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.compiler.passes import compile_view
from tidemill.engine.catalog.view import RuntimeNeeds, View
from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.keyed_reads import answer_by_keys
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import EpochGone, Unsupported
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Field
from tidemill.program.reads import row_wise
from tidemill.runtimes.runtime import NotAnswered
from tidemill.storage.store import Store

__all__ = ["Versions", "WarehouseReader", "require_epoch"]

Versions = Mapping[str, tuple[str, int | None]]
"""By the names in a query, the tables and views that they stand for, and the epoch as of which each is read."""


ReadLake = Callable[[str, int | None], pa.Table]
"""Reads the rows of a lake table that are not kept, with their weights, now or as of an epoch."""


class WarehouseReader:
    """Reads a warehouse. ``flush`` commits the open epoch of events, so that a reader sees all earlier events."""

    def __init__(self, state: EngineState, settled: Settled, flush: Callable[[], None], in_lake: ReadLake) -> None:
        self._state = state
        self._settled = settled
        self._flush = flush
        self._in_lake = in_lake

    def contents(self, name: str, until: int | None = None) -> ChangeSet:
        """The rows of a table or view, now or as of an epoch; weights of equal rows may not be summed."""
        self._flush()
        catalog, store = self._state.catalog, self._state.store
        view = catalog.views.get(name)
        if view is not None and view.computed_on_read:
            return self._make(view, until)
        fields = catalog.entry(name).fields
        if catalog.is_in_lake(name):
            return ChangeSet.of_arrow(self._in_lake(name, until), fields)
        if until is None:
            with self._settled():
                return self._state.placement.runtime_for(store.rows(name)).contents(name)
        table = store.read(name, fields, until=until)
        return ChangeSet.of_arrow(table.select([*(f.name for f in fields), WEIGHT]), fields)

    def columns(self, name: str, fields: Sequence[Field], until: int | None = None) -> pa.Table:
        """Some columns of a table or view with the weights of its rows, unsummed, now or as of an epoch.

        They are read from the store, whatever runtime maintains the rows: the store has them in columns.
        """
        self._flush()
        view = self._state.catalog.views.get(name)
        if view is not None and view.computed_on_read:
            return self._make(view, until).arrow().select([*(f.name for f in fields), WEIGHT])
        if self._state.catalog.is_in_lake(name):
            return self._in_lake(name, until).select([*(f.name for f in fields), WEIGHT])
        return self._state.store.read(name, fields, until=until)

    def _make(self, view: View, until: int | None) -> ChangeSet:
        """The rows of a view that are not stored, computed from its maps, now or as of an epoch."""
        stage, store = view.program.stages[-1], self._state.store
        if until is not None:
            runtime = self._state.placement.runtime_at(until)
            runtime.install(stage)
            return runtime.produce(stage)
        with self._settled():
            rows = sum(store.rows(map_.name) for map_ in stage.maps)
            runtime = self._state.placement.scanning(self._state.pipeline[view.name].runtime, rows)
            return runtime.produce(stage)

    def answer(self, relation: Relation, first: Relation | None = None) -> ChangeSet:
        """The rows of a query over the current contents; equal rows may come several times.

        ``first`` has those that the caller will show of them: it may be answered instead.

        DuckDB is asked before the query is compiled, since compiling takes longer than many scans.
        """
        self._flush()
        read = scans(relation)
        if not read:
            return ChangeSet.of(evaluate(relation, {}).items(), relation.fields)
        with self._settled():
            _require_no_streams(filter(self._state.catalog.is_stream, read))
            found = answer_by_keys(self._state, relation, read)
            if found is not None:
                return found
            placement, catalog = self._state.placement, self._state.catalog
            work = sum(map(self._state.store.rows, read))
            if placement.answers_in_columns(work):
                with suppress(NotAnswered):
                    return placement.answer_in_columns(first or relation, self.columns)
            lake = {name: replace(catalog.tables[name], kept=True) for name in filter(catalog.is_in_lake, read)}
            program = compile_view("query", relation, catalog.tables | lake, strategy="recompute")
            computed = [name for name in read if name in catalog.views and catalog.views[name].computed_on_read]
            made = {name: self.contents(name) for name in (*computed, *lake)}
            if made:
                return placement.native.answer(program, made)
            needs = RuntimeNeeds(row_wise=any(map(row_wise, program.stages)))
            return placement.runtime_for(work, needs).answer(program)

    def answer_at(self, versions: Versions, relation: Relation, first: Relation | None = None) -> ChangeSet:
        """The rows of a query over the contents of earlier epochs, by DuckDB as ``answer`` does, or by the evaluator.

        ``versions`` has the table or view that each name in the query stands for, and its epoch; None is the present.
        ``first`` has those that the caller will show of them: it may be answered instead.
        """
        self._flush()
        read = {name for name, _ in versions.values()}
        _require_no_streams(filter(self._state.catalog.is_stream, read))
        placement = self._state.placement
        if placement.answers_in_columns(sum(map(self._state.store.rows, read))):

            def columns(name: str, fields: Sequence[Field]) -> pa.Table:
                stored, until = versions[name]
                return self.columns(stored, fields, until=until)

            with suppress(NotAnswered):
                return placement.answer_in_columns(first or relation, columns)
        tables = {name: self.contents(stored, until).zset() for name, (stored, until) in versions.items()}
        return ChangeSet.of(evaluate(relation, tables).items(), relation.fields)

    def keys(self, table: Table) -> Iterator[Row]:
        """The primary keys that ``table`` holds."""
        positions = table.key_positions
        return (tuple(row[i] for i in positions) for row in self.contents(table.name).zset())


def require_epoch(store: Store, epoch: int) -> None:
    """Refuse an epoch that is still to come, or whose rows are gone."""
    if not store.oldest <= epoch <= store.epoch:
        raise EpochGone(
            f"epoch {epoch} cannot be read",
            detail=f"The warehouse reaches from epoch {store.oldest} to {store.epoch}.",
        )


def _require_no_streams(streams: Iterable[str]) -> None:
    """Refuse a query over streams."""
    for name in sorted(streams):
        raise Unsupported(
            f'the stream "{name}" cannot be queried',
            detail="The rows of a stream are not kept, so there is nothing to read.",
            hint="Query a view over it, or declare a TABLE.",
        )
