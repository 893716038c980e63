"""The handles that users hold: a table, a view, a warehouse as it was at an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.changes.zset import ZSet
from tidemill.engine.boundary import public_class
from tidemill.engine.catalog.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.audit import Audit, audit_view, certified
from tidemill.engine.inspect.explain import base_reads_of, explanation_of, sizes_of
from tidemill.engine.inspect.lineage import Lineage, lineage_of
from tidemill.engine.inspect.staleness import Staleness, staleness_of
from tidemill.engine.inspect.verify import recompute, verify
from tidemill.engine.partitions.listing import Partition, partitions_of
from tidemill.engine.remote.source_maintainer import Certificate
from tidemill.engine.results import LazyRows, MapSize, Result, Verification, present_rows
from tidemill.engine.statements.select import ordered_rows, select
from tidemill.engine.subscriptions.change_batches import ChangeBatch, stored_batches
from tidemill.engine.subscriptions.row_filter import Where, parse_where
from tidemill.model.errors import EpochGone
from tidemill.model.schema import Table
from tidemill.model.types import Field


@public_class
class TableHandle(LazyRows):
    """A table of a warehouse; ``definition`` says how it was declared."""

    def __init__(self, engine: Engine, table: Table) -> None:
        super().__init__(table.fields, lambda: engine.contents(table.name), engine.placement.frame)
        self.name = table.name
        self.definition = table
        self._engine = engine

    def partitions(self) -> list[Partition]:
        """The partitions that have rows, in the order of time, of a table that is cut into partitions."""
        return partitions_of(self._engine.catalog, self._engine.store.positions, self._engine.answer, self.name)


@public_class
class ViewHandle(LazyRows):
    """A materialized view: its rows, its changes, and why it is the way it is."""

    def __init__(self, engine: Engine, view: View) -> None:
        super().__init__(view.fields, lambda: engine.contents(view.name), engine.placement.frame)
        self.name = view.name
        self._engine = engine

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples, duplicates as often as they occur; in order where an OQL view has one, else in none."""
        order = self._engine.committed.view(self.name).order
        return present_rows(ordered_rows(self._read().zset().expand(), order), self.fields)

    def changes(self, since: int = 0) -> list[tuple[int, tuple[Any, ...]]]:
        """What changed after epoch ``since``, as ``(weight, row)`` pairs: all epochs summed into one net change."""
        net = ZSet()
        for batch in self.batches(since):
            net.update_by(batch.net)
        return list(zip(net.values(), present_rows(net, self.fields), strict=True))

    def batches(self, since: int = 0, *, where: Where | None = None) -> list[ChangeBatch]:
        """What changed after epoch ``since``, epoch by epoch; with ``where`` only rows with these values.

        ``where`` has a value or a collection of values for each column that it names.
        """
        self._engine.flush()
        view = self._engine.committed.view(self.name)
        wanted = None if not where else parse_where(where, view.fields, view.name)
        return stored_batches(self._engine, view, since, where=wanted)

    def lineage(self, row: Any) -> Lineage:
        """The base rows that a row of the view comes from, by table, each once; ``row`` is as ``rows()`` gives it.

        Of the tables that the view reads through other views, the rows are found, too.
        """
        return lineage_of(self._engine, self.name, row)

    def base_reads(self) -> dict[str, int]:
        """How many rows of each input were read to keep it fresh, since the warehouse was opened: strategy ``lineage``.

        What comes with a change is no read, and neither is the filling of a view.
        """
        return base_reads_of(self._engine, self.name)

    def explain(self) -> str:
        """Strategy, runtime, program and cost of this view, and why."""
        return explanation_of(self._engine, self.name)

    def partitions(self) -> list[Partition]:
        """The partitions that have rows, in the order of time, of a view that is made by partitions."""
        return partitions_of(self._engine.catalog, self._engine.store.positions, self._engine.answer, self.name)

    def sizes(self) -> list[MapSize]:
        """The maps that keep this view fresh: how many entries each has, and its memory where that is known."""
        return sizes_of(self._engine, self.name)

    def recompute(self) -> list[tuple[Any, ...]]:
        """The rows that the view must have, computed from the base tables: what a refresh saves."""
        return present_rows(recompute(self._engine, self.name).expand(), self.fields)

    def verify(self, against: str | None = None) -> Verification:
        """The view beside its recomputation from the base tables, both ways, duplicates counted.

        ``against="spark"`` asks Spark the view's own text, as it was written, wherever Spark takes it;
        ``"evaluator"`` computes it in this process. Left out, the size of the tables decides.
        """
        return verify(self._engine, self.name, against)

    def certificate(self) -> Certificate:
        """Of a view over sources: how right its rows are, and which state of each source they show."""
        return self._engine.source_views.certificate(self._engine.committed.view(self.name))

    def certified(self) -> dict[int, Mapping[str, str]]:
        """Of a view over sources: which states of them it showed, by epoch, as far as the warehouse remembers."""
        return certified(self._engine, self._engine.committed.view(self.name))

    def audit(self, patience: float = 30.0) -> Audit:
        """Of a view over sources: brought up to date and compared with what they themselves answer in that state.

        ``SourceSlow`` where they do not rest for long enough within ``patience`` seconds.
        """
        return audit_view(self._engine, self._engine.committed.view(self.name), patience)

    def staleness(self) -> Staleness:
        """How far the view is behind: epochs and partitions of its tables that it does not show, and for how long."""
        return staleness_of(self._engine.catalog, self._engine.store, self._engine.committed.view(self.name))

    def refresh(self) -> int:
        """Bring a deferred view up to date; returns the epoch that it then shows."""
        return self._engine.refresh(self.name)


@public_class
class WarehouseSnapshot:
    """A warehouse as it was at an epoch: for reading only."""

    def __init__(self, engine: Engine, epoch: int) -> None:
        engine.flush()
        store = engine.store
        if not store.oldest <= epoch <= store.epoch:
            raise EpochGone(
                f"epoch {epoch} cannot be read",
                detail=f"The warehouse reaches from epoch {store.oldest} to {store.epoch}.",
            )
        self._engine = engine
        self.epoch = epoch

    def view(self, name: str) -> LazyRows:
        """A view as it was."""
        view = self._engine.committed.view(name)
        if view.created > self.epoch:
            raise EpochGone(f'view "{name}" did not exist at epoch {self.epoch}', hint=f"It begins at {view.created}.")
        return self._multiset(view.name, view.fields)

    def table(self, name: str) -> LazyRows:
        """A table as it was."""
        table = self._engine.committed.table(name)
        return self._multiset(table.name, table.fields)

    def sql(self, query: str) -> Result:
        """The answer that a SELECT would have had."""
        return select(self._engine, query, until=self.epoch)

    def _multiset(self, name: str, fields: tuple[Field, ...]) -> LazyRows:
        return LazyRows(fields, lambda: self._engine.contents(name, self.epoch), self._engine.placement.frame)
