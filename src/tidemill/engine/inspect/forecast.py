"""The forecast of what keeping views fresh will cost, from the refresh log: recent rates times measured costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor, inf

from tidemill.engine.catalog.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.costs import refreshes_of
from tidemill.engine.telemetry.refresh import Refresh

__all__ = ["Forecast", "ViewForecast", "forecast_of"]

LOOK_BACK = timedelta(minutes=5)
"""Period of the log that costs are measured over."""

RECENT = timedelta(seconds=60)
"""Period of it that tells how many rows come at present."""

MOST_ENTRIES = 20_000
"""Entries of the log that are read, the newest."""

LAST_REFRESHES = 5
"""Refreshes of a periodic view that tell what the next one costs."""


@dataclass(frozen=True)
class ViewForecast:
    """The predicted refreshes of a view: ``seconds`` of work for ``rows`` that come, and the reason."""

    view: str
    seconds: float
    rows: float
    reason: str


@dataclass(frozen=True)
class Forecast:
    """What the next ``period`` seconds will cost: by view, the dearest first, and for ``commits`` of epochs."""

    period: float
    commits: float
    views: tuple[ViewForecast, ...]

    @property
    def seconds(self) -> float:
        """The seconds of work in all."""
        return self.commits + sum(view.seconds for view in self.views)

    @property
    def rows(self) -> float:
        """The rows that views take in."""
        return sum(view.rows for view in self.views)


def forecast_of(engine: Engine, period: float) -> Forecast:
    """The forecast for the next ``period`` seconds, if changes come as they came in the last minute.

    What a row costs is measured over more refreshes than the rate of rows, which may have changed a moment ago.
    """
    now = datetime.now(UTC).replace(tzinfo=None)
    entries: Mapping[str | None, list[Refresh]] = _by_view(refreshes_of(engine, None, LOOK_BACK, MOST_ENTRIES))
    found = (_view(engine, view, entries.get(view.name, []), now, period) for view in engine.committed.views.values())
    views = sorted((one for one in found if one is not None), key=lambda one: one.seconds, reverse=True)
    commits = [one for one in entries.get(None, []) if one.time > now - RECENT]
    overhead = sum(one.check + one.store + one.sync for one in commits) * period / RECENT.total_seconds()
    return Forecast(period, overhead, tuple(views))


def _by_view(entries: Iterable[Refresh]) -> dict[str | None, list[Refresh]]:
    found: dict[str | None, list[Refresh]] = defaultdict(list)
    for entry in entries:
        found[entry.view].append(entry)
    return found


def _view(engine: Engine, view: View, entries: list[Refresh], now: datetime, period: float) -> ViewForecast | None:
    """The forecast of a view; None if nothing is expected of it."""
    if view.refresh.deferred and not view.refresh.scheduled:
        return _periodic(engine, view, now, period)
    coming = [entry for entry in entries if entry.way != "filled"]
    recent = sum(entry.rows_in for entry in coming if entry.time > now - RECENT)
    if not recent:
        return None
    each = sum(entry.seconds for entry in coming) / sum(entry.rows_in for entry in coming)
    rows = recent * period / RECENT.total_seconds()
    return ViewForecast(view.name, rows * each, rows, f"{recent:,} rows in the last minute, {1e6 * each:.3g} µs each")


def _periodic(engine: Engine, view: View, now: datetime, period: float) -> ViewForecast | None:
    """The refreshes of a view that is brought up to date every so many seconds, each as dear as the last ones."""
    every = view.refresh.every or inf
    last = refreshes_of(engine, view.name, None, LAST_REFRESHES)
    if not last or every == inf:
        return None
    due = max(0.0, every - (now - last[0].time).total_seconds())
    times = 0 if due > period else 1 + floor((period - due) / every)
    seconds = sum(entry.seconds for entry in last) / len(last)
    rows = sum(entry.rows_in for entry in last) / len(last)
    told = f"refreshed every {every:g} s, the next time in {due:.0f} s"
    return ViewForecast(view.name, times * seconds, times * rows, told) if times else None
