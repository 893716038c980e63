"""The methods of a warehouse that tell how it is, what epochs and views cost, and what views keep."""

from __future__ import annotations

from tidemill.engine.boundary import public_class
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.measures.costs import refreshes_of, view_costs
from tidemill.engine.inspect.measures.forecast import ViewForecast, forecast_of
from tidemill.engine.inspect.measures.state_sizes import StateSize, state_sizes
from tidemill.engine.inspect.status import Activity, WarehouseStatus, activity_of, status_of
from tidemill.engine.results import EpochCosts
from tidemill.engine.telemetry.refresh import Refresh
from tidemill.engine.telemetry.view_costs import Since, ViewCosts
from tidemill.engine.workers import Trouble

__all__ = ["WarehouseCosts"]


@public_class
class WarehouseCosts:
    """The part of ``Warehouse`` that tells costs and status."""

    _engine: Engine

    def status(self, *, sizes: bool = False) -> WarehouseStatus:
        """Tables, views, sources and builds as of the last commit; with ``sizes`` also the bytes that are stored.

        It waits for nobody: it is answered while an epoch runs or a view is filled.
        """
        return status_of(self._engine, self.troubles(), sizes=sizes)

    def activity(self) -> Activity:
        """Totals of epochs, of refreshes by view and of changed rows by table, since the warehouse was opened.

        Like ``status`` it waits for nobody.
        """
        return activity_of(self._engine)

    def forecast(self) -> list[ViewForecast]:
        """Expected cost of the next minute of maintenance, by view, from the last minutes of the log."""
        return forecast_of(self._engine)

    def troubles(self) -> dict[str, Trouble]:
        """The views and feeds whose background thread fails or is not started, with the reason."""
        engine = self._engine
        followed = engine.source_views.troubles() | engine.feeds.troubles() | engine.lakes.troubles()
        return followed | engine.publications.troubles() | engine.scheduler.troubles() | engine.follower.troubles()

    def costs(self) -> EpochCosts:
        """Jobs, bytes read and bytes written of the last epoch, over all runtimes."""
        return self._engine.costs()

    def refreshes(
        self, view: str | None = None, *, since: Since | None = None, limit: int | None = None
    ) -> list[Refresh]:
        """Entries of the refresh log, the newest first: of one view, or of all views and of whole epochs.

        ``since`` is an epoch, a time, in UTC unless it has a zone, or a ``timedelta`` back from now.
        """
        return refreshes_of(self._engine, view, since, limit)

    def view_costs(self, *, since: Since | None = None, by: str = "time", limit: int | None = None) -> list[ViewCosts]:
        """The costs of all views, the greatest first by ``"time"``, ``"rows"``, ``"bytes"`` or ``"state"``."""
        return view_costs(self._engine, since, by, limit)

    def state_sizes(self, *views: str) -> list[StateSize]:
        """The maps of views, of all if none is named, with their bytes in memory and on disk."""
        return state_sizes(self._engine, *views)
