"""Forecast of the cost of the next minute of maintenance, if it goes on as in the last ones.

A view that follows every epoch is expected to take what it took: its time in the refresh log, by the minute. One that
is behind has to take in the rows that wait as well, at the time that a row has taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tidemill.engine.engine import Engine
from tidemill.engine.inspect.staleness import Unseen, staleness_of
from tidemill.engine.telemetry.view_costs import ViewCosts, chosen, summed_costs

__all__ = ["ViewForecast", "forecast_of"]

WINDOW_SECONDS = 300.0
"""Seconds of the refresh log that a forecast is made from."""


@dataclass(frozen=True)
class ViewForecast:
    """The seconds and rows that a view is expected to take in the next minute.

    ``catch_up_seconds`` are those for the epochs that it does not show yet, which are ``epochs_behind``.
    """

    view: str
    seconds: float
    rows_in: float
    refreshes: float
    epochs_behind: int = 0
    catch_up_seconds: float = 0.0


def forecast_of(engine: Engine) -> list[ViewForecast]:
    """The forecast of all views, the most expensive first."""
    catalog, store = engine.state.shown, engine.store
    entries = chosen(engine.refreshes.entries(), timedelta(seconds=WINDOW_SECONDS))
    known = summed_costs(one for one in entries if one.view in catalog.views and one.way != "filled")
    unseen: dict[tuple[str, int], Unseen] = {}
    found = []
    for view in catalog.views.values():
        costs = known.get(view.name, ViewCosts(view.name))
        behind = staleness_of(catalog, store, view, unseen).epochs
        each = costs.seconds / costs.refreshes if costs.refreshes else 0.0
        share = 60.0 / WINDOW_SECONDS
        found.append(
            ViewForecast(
                view.name, costs.seconds * share, costs.rows_in * share, costs.refreshes * share, behind, each * behind
            )
        )
    return sorted(found, key=lambda one: one.seconds + one.catch_up_seconds, reverse=True)
