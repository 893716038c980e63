"""Refreshes and costs of views as users ask for them: the refresh log, with the sizes of state of now."""

from __future__ import annotations

from itertools import islice
from operator import attrgetter

from tidemill.engine.engine import Engine
from tidemill.engine.inspect.measures.state_sizes import state_sizes
from tidemill.engine.telemetry.refresh import Refresh
from tidemill.engine.telemetry.view_costs import Since, ViewCosts, chosen, summed_costs
from tidemill.model.errors import InvalidArgument

__all__ = ["refreshes_of", "view_costs"]

ORDERS = {"time": "seconds", "rows": "rows_in", "bytes": "bytes", "state": "state"}
"""Orders of views in SHOW COSTS, and the attribute of their costs."""


def refreshes_of(engine: Engine, view: str | None, since: Since | None, limit: int | None) -> list[Refresh]:
    """Entries of the refresh log, the newest first: of one view, or of all and of whole epochs."""
    if view is not None:
        view = engine.committed.view(view).name
    _require_count(limit)
    engine.flush()
    entries = chosen(engine.refreshes.entries(), since)
    return list(islice((one for one in entries if view is None or one.view == view), limit))


def _require_count(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise InvalidArgument(f"limit is {limit}", hint="Give the largest number of entries, or None for all.")


def view_costs(engine: Engine, since: Since | None, by: str = "time", limit: int | None = None) -> list[ViewCosts]:
    """The costs of all views that there are, the greatest first; of a view that was not refreshed they are 0."""
    if by not in ORDERS:
        raise InvalidArgument(f'views cannot be sorted by "{by}"', hint=f"Use one of {', '.join(ORDERS)}.")
    _require_count(limit)
    engine.flush()
    known = engine.committed.views
    found = summed_costs(one for one in chosen(engine.refreshes.entries(), since) if one.view in known)
    for name in known:
        found.setdefault(name, ViewCosts(name))
    for size in state_sizes(engine):
        found[size.view].memory_bytes += size.memory_bytes
        found[size.view].disk_bytes += size.disk_bytes
    return sorted(found.values(), key=attrgetter(ORDERS[by]), reverse=True)[:limit]
