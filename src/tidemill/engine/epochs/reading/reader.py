"""Rows of tables and views, and results of queries, now or as of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import pyarrow as pa

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import scans, walk_all
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.passes import compile_view
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import RuntimeNeeds, View
from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.reading.guarded_reads import GuardedReads
from tidemill.engine.epochs.reading.keyed_reads import answer_by_keys, keyed_reads
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.transactions.own_changes import OwnRows, guarded_views, with_changed_views, with_own_rows
from tidemill.engine.transactions.pending import OpenTransactions, PendingTransaction
from tidemill.model.errors import Conflict, EpochGone, Unsupported
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Field
from tidemill.program.reads import row_wise
from tidemill.runtimes.runtime import KeyLookup, NotAnswered
from tidemill.storage.store import Store

__all__ = ["Versions", "WarehouseReader", "require_epoch"]

Versions = Mapping[str, tuple[str, int | None]]
"""By the names in a query, the tables and views that they stand for, and the epoch as of which each is read."""


ReadLake = Callable[[str, int | None], pa.Table]
"""Reads the rows of a lake table that are not kept, with their weights, now or as of an epoch."""


class WarehouseReader:
    """Reads a warehouse. ``flush`` commits the open epoch of events, so that a reader sees all earlier events."""

    def __init__(
        self,
        state: EngineState,
        transactions: OpenTransactions,
        settled: Settled,
        flush: Callable[[], None],
        in_lake: ReadLake,
    ) -> None:
        self._state = state
        self._transactions = transactions
        self._settled = settled
        self._flush = flush
        self._in_lake = in_lake

    def contents(self, name: str, until: int | None = None) -> ChangeSet:
        """The rows of a table or view, now or as of an epoch; weights of equal rows may not be summed."""
        self._flush()
        if until is None and self._transactions.by_owner and (pending := self._transactions.mine()) is not None:
            with self._settled():
                return self._contents_within(pending, name)
        return self._stored_contents(name, until)

    def _stored_contents(self, name: str, until: int | None = None) -> ChangeSet:
        catalog, store = self._state.catalog, self._state.store
        view = catalog.views.get(name)
        if view is not None and view.computed_on_read:
            return self._make(view, until)
        fields = catalog.fields_at(catalog.entry(name).name, until)
        if catalog.is_in_lake(name):
            return ChangeSet.of_arrow(self._in_lake(name, until), fields)
        if until is None:
            with self._settled():
                return self._state.placement.runtime_for(store.rows(name)).contents(name)
        table = store.read(name, fields, until=until)
        return ChangeSet.of_arrow(table.select([*(f.name for f in fields), WEIGHT]), fields)

    def _contents_within(self, pending: PendingTransaction, name: str) -> ChangeSet:
        """The rows of a table or view as a transaction sees them."""
        catalog = self._state.catalog
        if given := self._guarded_within(pending, [name]):
            with_changed_views(pending, catalog, Scan(name, name, catalog.entry(name).fields))
            return given[name]
        scan = Scan(name, name, catalog.entry(name).fields)
        seen = with_changed_views(pending, catalog, scan)
        if seen is not scan:
            return ChangeSet.of(self.answer(seen).pairs(), catalog.entry(name).fields)
        stored, change = self._stored_contents(name), pending.change_of(name)
        if not change or catalog.is_stream(name):
            return stored
        return ChangeSet.of(ZSet.summed([*stored.pairs(), *change.items()]).items(), stored.fields)

    def _guarded_within(self, pending: PendingTransaction, names: Iterable[str]) -> dict[str, ChangeSet]:
        """The rows of views that set rows aside, where a transaction has changed what they read."""
        found = guarded_views(pending, self._state.catalog, names)
        reads = GuardedReads(self._stored_contents, partial(self._own_change, pending), self._answer_over)
        return {view.name: reads.rows(view, self._state.quarantine.guards(view)) for view in found}

    def _own_change(self, pending: PendingTransaction, name: str) -> ZSet:
        """The change that a transaction makes of a table, or of a view over those that it has changed."""
        if name in self._state.catalog.tables:
            return pending.change_of(name)
        return self._contents_within(pending, name).zset() - self._stored_contents(name).zset()

    def _answer_over(self, relation: Relation, given: Mapping[str, ChangeSet]) -> ChangeSet:
        """The rows of a query over relations that are all ``given``."""
        placement, work = self._state.placement, sum(map(len, given.values()))
        if placement.answers_in_columns(work):
            with suppress(NotAnswered):
                return placement.answer_in_columns(relation, partial(_given_columns, given))
        return self._compiled(relation, given.keys(), work, given=given)

    def find(self, table: Table, keys: Collection[Row]) -> Mapping[Row, Sequence[Row]]:
        """The rows of a table with these primary keys, by key."""
        pending = self._transactions.mine() if self._transactions.by_owner else None
        with self._settled():
            lookup: KeyLookup = self._state.placement.lookup
            if pending is not None:
                pending.note_read([table.name])
                lookup = OwnRows(pending, lookup)
            return lookup.find(table.name, table.key_positions, keys) if keys else {}

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
        stored = self._state.store.read(name, fields, until=until)
        pending = self._transactions.mine() if self._transactions.by_owner and until is None else None
        return stored if pending is None else with_own_rows(pending, name, stored, fields)

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
        if self._transactions.by_owner and (pending := self._transactions.mine()) is not None:
            return self._answer_within(pending, relation)
        read = scans(relation)
        if not read:
            return ChangeSet.of(evaluate(relation, {}).items(), relation.fields)
        with self._settled():
            _require_unchanged(self._state.catalog, relation, read)
            _require_no_streams(filter(self._state.catalog.is_stream, read))
            found = answer_by_keys(self._state, relation, read)
            if found is not None:
                return found
            placement = self._state.placement
            work = sum(map(self._state.store.rows, read))
            if placement.answers_in_columns(work):
                with suppress(NotAnswered):
                    return placement.answer_in_columns(first or relation, self.columns)
            return self._compiled(relation, read, work)

    def way_of(self, relation: Relation) -> str:
        """The way in which ``answer`` would find the rows of a query, in words."""
        read = scans(relation)
        if not read:
            return "constants alone"
        with self._settled():
            _require_no_streams(filter(self._state.catalog.is_stream, read))
            keyed = keyed_reads(self._state, push_down_filters(relation), read)
            if keyed:
                rest = sorted(read - keyed.keys())
                return f"lookup by key in {', '.join(sorted(keyed))}" + (f", beside {', '.join(rest)}" if rest else "")
            placement = self._state.placement
            work = sum(map(self._state.store.rows, read))
            if placement.answers_in_columns(work):
                reason = placement.why_not_in_columns(relation)
                return f"DuckDB, over columns{f', if it can: {reason}' if reason else ''}"
            name, reason = placement.choose(work)
            return f"runtime {name} ({reason})"

    def _compiled(
        self,
        relation: Relation,
        read: Set[str],
        work: int,
        changed: Set[str] = frozenset(),
        given: Mapping[str, ChangeSet] = MappingProxyType({}),
    ) -> ChangeSet:
        """The rows of a query by a runtime; it does not have those of ``changed`` tables, and some are ``given``."""
        placement, catalog = self._state.placement, self._state.catalog
        lake = {name: replace(catalog.tables[name], kept=True) for name in filter(catalog.is_in_lake, read)}
        program = compile_view("query", relation, catalog.tables | lake, strategy="recompute")
        computed = [name for name in read if name in catalog.views and catalog.views[name].computed_on_read]
        made = {**given, **{name: self.contents(name) for name in {*computed, *lake, *changed} - given.keys()}}
        if made:
            return placement.native.answer(program, made)
        needs = RuntimeNeeds(row_wise=any(map(row_wise, program.stages)))
        return placement.runtime_for(work, needs).answer(program)

    def _answer_within(self, pending: PendingTransaction, relation: Relation) -> ChangeSet:
        """The rows of a query as a transaction sees them."""
        with self._settled():
            catalog, placement = self._state.catalog, self._state.placement
            relation = with_changed_views(pending, catalog, relation)
            read = scans(relation)
            if not read:
                return ChangeSet.of(evaluate(relation, {}).items(), relation.fields)
            _require_no_streams(filter(catalog.is_stream, read))
            given = self._guarded_within(pending, read)
            changed = {name for name in read if pending.change_of(name)} | given.keys()
            found = answer_by_keys(self._state, relation, read, OwnRows(pending, placement.lookup), changed)
            if found is not None:
                return found
            work = sum(map(self._state.store.rows, read))
            if placement.answers_in_columns(work):
                with suppress(NotAnswered):
                    return placement.answer_in_columns(relation, partial(_given_columns, given, read=self.columns))
            return self._compiled(relation, read, work, changed, given)

    def answer_given(self, relation: Relation, given: Mapping[str, ChangeSet]) -> ChangeSet:
        """The rows of a query over the current contents, and over relations whose rows are ``given``."""
        read = scans(relation) - given.keys()
        tables = {name: change.zset() for name, change in given.items()}
        tables |= {name: self.contents(name).zset() for name in read}
        return ChangeSet.of(evaluate(relation, tables).items(), relation.fields)

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


def _given_columns(
    given: Mapping[str, ChangeSet],
    name: str,
    fields: Sequence[Field],
    read: Callable[[str, Sequence[Field]], pa.Table] | None = None,
) -> pa.Table:
    """Some columns of a relation with the weights of its rows, from those that are given, or else ``read``."""
    if name in given or read is None:
        return given[name].arrow().select([*(f.name for f in fields), WEIGHT])
    return read(name, fields)


def require_epoch(store: Store, epoch: int) -> None:
    """Refuse an epoch that is still to come, or whose rows are gone."""
    if not store.oldest <= epoch <= store.epoch:
        raise EpochGone(
            f"epoch {epoch} cannot be read",
            detail=f"The warehouse reaches from epoch {store.oldest} to {store.epoch}.",
        )


def _require_unchanged(catalog: Catalog, query: Relation, read: Set[str]) -> None:
    """Refuse a query that was translated before another thread dropped, altered or replaced what it reads."""
    for node in walk_all(query):
        if isinstance(node, Scan) and node.relation in read:
            present = catalog.entry(node.relation).fields
            if [f.name for f in present] != [f.name for f in node.columns]:
                raise Conflict(f'the columns of "{node.relation}" changed as it was asked for', hint="Ask again.")


def _require_no_streams(streams: Iterable[str]) -> None:
    """Refuse a query over streams."""
    for name in sorted(streams):
        raise Unsupported(
            f'the stream "{name}" cannot be queried',
            detail="The rows of a stream are not kept, so there is nothing to read.",
            hint="Query a view over it, or declare a TABLE.",
        )
