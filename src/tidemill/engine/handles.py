"""Public handles: a table, a view, a warehouse as of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.engine.boundary import public_class
from tidemill.engine.calls.in_session import in_session
from tidemill.engine.calls.session_state import SessionState
from tidemill.engine.catalog.definition import view_definition
from tidemill.engine.catalog.views.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.reading.reader import require_epoch
from tidemill.engine.inspect.explanation.explain import base_reads_of, explanation_of, sizes_of
from tidemill.engine.inspect.staleness import Staleness, staleness_of
from tidemill.engine.inspect.verification.audit import Audit, audit_view, certified
from tidemill.engine.inspect.verification.lineage import Lineage, lineage_of
from tidemill.engine.inspect.verification.verify import recompute, verify
from tidemill.engine.partitions.listing import Partition, partitions_of
from tidemill.engine.quarantine.notes import noted
from tidemill.engine.remote.source_maintainer import Certificate
from tidemill.engine.results import LazyRows, MapSize, Result, Verification, present_rows
from tidemill.engine.statements.queries.select import ordered_rows, select
from tidemill.engine.subscriptions.change_batches import ChangeBatch, require_reach, stored_batches
from tidemill.engine.subscriptions.row_filter import Where, parse_where
from tidemill.model.errors import EpochGone
from tidemill.model.schema import EPOCH, Table
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.storage.compaction.consolidate import difference


@public_class
@in_session
class TableHandle(LazyRows):
    """A table of a warehouse; ``definition`` is its declaration."""

    FOR_EVERYBODY = frozenset({"net_changes"})
    FOR_OWNERS = frozenset[str]()

    def __init__(self, engine: Engine, table: Table, session: SessionState | None = None) -> None:
        read = partial(engine.run_in, session, lambda: engine.read_contents(table.name))
        super().__init__(table.fields, read, engine.placement.frame)
        self._session = session
        self.name = table.name
        self._engine = engine

    @property
    def definition(self) -> Table:
        """Its declaration."""
        return self._engine.committed.table(self.name)

    def partitions(self) -> list[Partition]:
        """The non-empty partitions in time order, of a table with partitions."""
        return partitions_of(self._engine.catalog, self._engine.store.positions, self._engine.answer, self.name)

    def net_changes(self, since: int) -> pa.Table:
        """The changes after epoch ``since`` as Arrow, summed, with their weights in ``_weight``."""
        self._engine.flush()
        net = _net(self._engine.store.read(self.name, self.fields, since=since), self.name, self.fields)
        return net if self._session is None else _allowed(self._engine, self.name, self.fields, net)


@public_class
@in_session
class ViewHandle(LazyRows):
    """A materialized view: its rows, its changes, and its explanation."""

    FOR_EVERYBODY = frozenset({"rows", "changes", "batches", "net_changes"})
    FOR_OWNERS = frozenset({"refresh", "audit"})

    def __init__(self, engine: Engine, view: View, session: SessionState | None = None) -> None:
        read = partial(engine.run_in, session, lambda: engine.read_contents(view.name))
        super().__init__(view.fields, read, engine.placement.frame)
        self._session = session
        self.name = view.name
        self._engine = engine

    @property
    def definition(self) -> str:
        """The statement that creates the view, over the tables as they are now."""
        return view_definition(self._engine.committed.view(self.name))

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples, with duplicates; in the order of an OQL view that has one, else unordered."""
        order = self._engine.committed.view(self.name).order
        change = self._present()
        return present_rows(ordered_rows(change.zset().expand(), order), change.fields)

    def changes(self, since: int = 0) -> list[tuple[int, tuple[Any, ...]]]:
        """The changes after epoch ``since``, as ``(weight, row)`` pairs: all epochs summed into one net change."""
        net = ZSet()
        for batch in self.batches(since):
            net.update_by(batch.net)
        return list(zip(net.values(), present_rows(net, self.fields), strict=True))

    def batches(self, since: int = 0, *, where: Where | None = None) -> list[ChangeBatch]:
        """The changes after epoch ``since``, epoch by epoch; with ``where`` only rows with these values.

        ``where`` has a value or a collection of values for each column that it names.
        """
        self._engine.flush()
        view = self._engine.committed.view(self.name)
        wanted = None if not where else parse_where(where, view.fields, view.name)
        with self._engine.allowed.telling([view.name]):
            found = stored_batches(self._engine, view, since, where=wanted)
        if self._session is None or self._engine.rights.reads_all:
            return found
        seen = (self._engine.allowed.batch(self.name, batch) for batch in found)
        return [batch for batch in seen if batch.changes]

    def net_changes(self, since: int) -> pa.Table:
        """The changes after epoch ``since`` as Arrow, summed, with their weights in ``_weight``."""
        self._engine.flush()
        view = self._engine.committed.view(self.name)
        if since < view.columns_since:  # rows of before have other columns
            require_reach(self._engine, view, since)
        with self._engine.allowed.telling([view.name]):
            found = self._engine.store.read(self.name, self.fields, since=since)
        require_reach(self._engine, view, since)
        net = _net(found, self.name, self.fields)
        return net if self._session is None else _allowed(self._engine, self.name, self.fields, net)

    def lineage(self, row: Any) -> Lineage:
        """The base rows that a row of the view derives from, by table, each once; ``row`` is as ``rows()`` returns it.

        Includes rows of tables that the view reads through other views.
        """
        return lineage_of(self._engine, self.name, row)

    def base_reads(self) -> dict[str, int]:
        """For strategy ``lineage``: how many rows of each input maintenance has read since the warehouse was opened.

        Rows of the changes themselves do not count, and neither does the initial load.
        """
        return base_reads_of(self._engine, self.name)

    def explain(self) -> str:
        """Strategy, runtime, program and cost of this view, with reasons."""
        return explanation_of(self._engine, self.name)

    def partitions(self) -> list[Partition]:
        """The non-empty partitions in time order, of a view by partitions."""
        return partitions_of(self._engine.catalog, self._engine.store.positions, self._engine.answer, self.name)

    def sizes(self) -> list[MapSize]:
        """The maps of this view: the number of entries of each, and its memory if known."""
        return sizes_of(self._engine, self.name)

    def recompute(self) -> list[tuple[Any, ...]]:
        """The rows that the view must have, recomputed from the base tables: the work that maintenance saves."""
        return present_rows(recompute(self._engine, self.name).expand(), self.fields)

    def verify(self, against: str | None = None) -> Verification:
        """Compare the view with its recomputation from the base tables, in both directions, duplicates counted.

        ``against="spark"`` runs the view's original text on Spark, if Spark accepts it. ``"duckdb"`` and
        ``"evaluator"`` compute it in this process. By default the size of the tables decides.
        """
        return verify(self._engine, self.name, against)

    def certificate(self) -> Certificate:
        """Of a view over sources: the level of consistency of its rows, and the state of each source that they show."""
        return self._engine.source_views.certificate(self._engine.committed.view(self.name))

    def certified(self) -> dict[int, Mapping[str, str]]:
        """Of a view over sources: the states of these that it showed, by epoch, as far as the warehouse has them."""
        return certified(self._engine, self._engine.committed.view(self.name))

    def audit(self, patience: float = 30.0) -> Audit:
        """Of a view over sources: sync it and compare it with the answers of the sources in that state.

        Raises ``SourceSlow`` if the sources change during every attempt within ``patience`` seconds.
        """
        return audit_view(self._engine, self._engine.committed.view(self.name), patience)

    def staleness(self) -> Staleness:
        """The staleness of the view: epochs and partitions of its tables that it does not show, and for how long."""
        return staleness_of(self._engine.catalog, self._engine.store, self._engine.committed.view(self.name))

    def refresh(self) -> int:
        """Refresh a deferred view; returns the epoch that it then shows."""
        return self._engine.refresh(self.name)


@public_class
@in_session
class WarehouseSnapshot:
    """A read-only warehouse as of an epoch."""

    FOR_EVERYBODY = frozenset({"view", "table", "sql"})
    FOR_OWNERS = frozenset[str]()

    def __init__(self, engine: Engine, epoch: int, session: SessionState | None = None) -> None:
        self._session = session
        engine.flush()
        require_epoch(engine.store, epoch)
        self._engine = engine
        self.epoch = epoch

    def view(self, name: str) -> LazyRows:
        """A view as of the epoch."""
        view = self._engine.committed.view(self._engine.rights.require(name))
        if view.created > self.epoch:
            raise EpochGone(f'view "{name}" did not exist at epoch {self.epoch}', hint=f"It begins at {view.created}.")
        return self._multiset(view.name, view.fields_at(self.epoch))

    def table(self, name: str) -> LazyRows:
        """A table as of the epoch."""
        table = self._engine.committed.table(self._engine.rights.require(name))
        return self._multiset(table.name, table.fields)

    def sql(self, query: str) -> Result:
        """The result of a SELECT as of the epoch."""
        return noted(partial(select, self._engine, query, until=self.epoch))

    def _multiset(self, name: str, fields: tuple[Field, ...]) -> LazyRows:
        engine = self._engine
        read = partial(engine.run_in, self._session, lambda: engine.contents(name, self.epoch))
        return LazyRows(fields, read, engine.placement.frame)


def _allowed(engine: Engine, name: str, fields: tuple[Field, ...], net: pa.Table) -> pa.Table:
    """Those of the changes that the session may see."""
    return net if engine.rights.reads_all else engine.allowed.changes(name, ChangeSet.of_arrow(net, fields)).arrow()


def _net(stored: pa.Table, name: str, fields: tuple[Field, ...]) -> pa.Table:
    """Stored changes without their epochs, equal rows summed."""
    changes = stored.drop_columns([EPOCH])
    return difference(changes.slice(0, 0), changes, Map(name, fields))
