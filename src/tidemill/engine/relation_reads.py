"""The methods of a warehouse that read tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tidemill.compiler.plan import Decision
from tidemill.engine.boundary import public_class
from tidemill.engine.calls.session_state import SessionState
from tidemill.engine.definitions.planning import plan_decisions
from tidemill.engine.engine import Engine
from tidemill.engine.handles import TableHandle, ViewHandle, WarehouseSnapshot
from tidemill.engine.inspect.measures.relation_statistics import RelationStatistics, relation_statistics
from tidemill.engine.results import Verification
from tidemill.engine.subscriptions.change_batches import ChangeBatch
from tidemill.engine.subscriptions.row_filter import Where
from tidemill.engine.subscriptions.subscription import DEFAULT_BUFFER_ROWS, Subscription
from tidemill.model.errors import InvalidArgument
from tidemill.protocols.remote_subplans import SUBPLAN_SIGN

__all__ = ["RelationReads"]


@public_class
class RelationReads:
    """The part of ``Warehouse`` that reads tables and views."""

    SHOWN_AS = "Warehouse"
    _engine: Engine
    _session: SessionState | None = None

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 before the first. Events of an open epoch are not in it yet: see ``flush``."""
        return self._engine.committed_epoch

    def table(self, name: str) -> TableHandle:
        """The handle of a table, for reading."""
        return TableHandle(self._engine, self._engine.committed.table(self._engine.rights.require(name)), self._session)

    def view(self, name: str) -> ViewHandle:
        """The handle of a view, for reading, subscribing, explaining and verifying."""
        return ViewHandle(self._engine, self._engine.committed.view(self._engine.rights.require(name)), self._session)

    def tables(self) -> tuple[str, ...]:
        """The names of all tables and streams."""
        rights = self._engine.rights
        return tuple(n for n in self._engine.committed.tables if SUBPLAN_SIGN not in n and rights.sees(n))

    def views(self) -> tuple[str, ...]:
        """The names of all views, each after those that it reads; without those of stages."""
        rights = self._engine.rights
        return tuple(view.name for view in self._engine.committed.shown_views() if rights.sees(view.name))

    def has_objects(self, name: str) -> bool:
        """True if a table holds the objects of a class."""
        module = self._engine.committed.module
        return module is not None and name.lower() in module.tables

    def verify(self, *views: str, against: str | None = None) -> list[Verification]:
        """Compare these views, or all, with their recomputation from the base tables; ``against`` as for one view."""
        return [self.view(name).verify(against) for name in views or self.views()]

    def statistics(self, *names: str) -> dict[str, RelationStatistics]:
        """Rows, changes, rates, reads and analyzed columns of tables, streams and views, of all if none is named."""
        with self._engine.settled():
            return {one.name: one for one in relation_statistics(self._engine, *names)}

    def plans(self, *views: str) -> dict[str, tuple[Decision, ...]]:
        """The decisions about the plans of views, of all if none is named, the oldest first."""
        with self._engine.settled():
            return plan_decisions(self._engine.state, *views)

    def at(self, epoch: int | None = None, *, lake: Mapping[str, int | str] | None = None) -> WarehouseSnapshot:
        """The warehouse as of ``epoch``, or of the first epoch that shows these versions of lake tables.

        ``lake`` has the version of each lake table that matters, by its name: ``wh.at(lake={"orders": 17})``.
        """
        if (epoch is None) == (not lake):
            raise InvalidArgument(
                "an epoch or versions of lake tables are needed", hint='at(12), at(lake={"orders": 17})'
            )
        for name in lake or ():
            self._engine.rights.require(name)
        found = self._engine.lakes.epoch_showing(lake or {}) if epoch is None else epoch
        return WarehouseSnapshot(self._engine, found, self._session)

    def subscribe(
        self,
        view: str,
        *,
        since: int | None = None,
        timeout: float | None = None,
        where: Where | None = None,
        buffer: int = DEFAULT_BUFFER_ROWS,
        form: str = "rows",
    ) -> Subscription:
        """Subscribe to the changes of each epoch in a view, after epoch ``since`` (default: from now on).

        Ends when the warehouse is closed, or when nothing came for ``timeout`` seconds. ``where`` filters rows: it maps
        columns to a value or a collection of values. ``buffer`` is the number of rows that may wait in memory for a
        slow reader; a slower one reads the store, and gets ``FellBehind`` if that no longer has them. ``form`` is the
        form of batches: ``"rows"``, or ``"arrow"``, which builds no rows from columns.
        """
        engine, session, visible = self._engine, self._session, None
        notes = partial(engine.notes, [view.lower()])
        if session is not None and not engine.rights.reads_all:
            engine.rights.required("SELECT", name := view.lower())

            def visible(batch: ChangeBatch) -> ChangeBatch:
                return engine.run_in(session, lambda: engine.allowed.batch(name, batch))

            notes = partial(engine.run_in, session, notes)
        return Subscription(
            engine,
            view,
            since=since,
            timeout=timeout,
            where=where,
            buffer=buffer,
            form=form,
            visible=visible,
            notes=notes,
        )
