"""SHOW REFRESHES, SHOW COSTS, SHOW STATE and SHOW CLOCKS, as rows."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from tidemill.compiler.frontends.script.listings.show_refreshes import ShowClocks, ShowCosts, ShowRefreshes, ShowState
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.explanation.clock_facts import clocks_of
from tidemill.engine.inspect.measures.costs import refreshes_of, view_costs
from tidemill.engine.inspect.measures.state_sizes import state_sizes
from tidemill.engine.results import Result
from tidemill.model.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Field, Type

__all__ = ["show_clocks", "show_costs", "show_refreshes", "show_state"]

MOST_ENTRIES = 100
"""Number of entries that SHOW REFRESHES shows without LIMIT."""

_TIMES = ("seconds", "slowest", "check", "triggers", "output", "store", "sync")


def show_refreshes(engine: Engine, statement: ShowRefreshes) -> Result:
    """List entries of the refresh log, the newest first."""
    limit = MOST_ENTRIES if statement.limit is None else statement.limit
    found = refreshes_of(engine, statement.view, statement.since, limit)
    kinds: dict[str, Type] = {"time": TIMESTAMP, "view": STRING, "epoch": BIGINT, "epochs": BIGINT, "way": STRING}
    kinds |= {"rows_in": BIGINT, "rows_out": BIGINT, **dict.fromkeys(_TIMES, DOUBLE), "bytes": BIGINT}
    kinds |= {"lookups": BIGINT, "strategy": STRING, "runtime": STRING, "reason": STRING}
    return _rows(found, kinds)


def show_costs(engine: Engine, statement: ShowCosts) -> Result:
    """List the costs of views over a period, the greatest first."""
    found = view_costs(engine, statement.since, statement.by, statement.limit)
    counts = ("rows_in", "rows_out", "bytes", "lookups", "memory_bytes", "disk_bytes")
    kinds: dict[str, Type] = {"view": STRING, "refreshes": BIGINT, "recomputed": BIGINT}
    kinds |= dict.fromkeys(("seconds", "slowest", "share"), DOUBLE) | dict.fromkeys(counts, BIGINT)
    return _rows(found, kinds)


def show_state(engine: Engine, statement: ShowState) -> Result:
    """List the maps of views with their sizes."""
    kinds: dict[str, Type] = {"view": STRING, "map": STRING}
    kinds |= dict.fromkeys(("entries", "memory_bytes", "disk_bytes"), BIGINT)
    return _rows(state_sizes(engine, *filter(None, [statement.view])), kinds)


def show_clocks(engine: Engine, statement: ShowClocks) -> Result:
    """List the clocks of views: the instant of each, the views that read it, and how many of their rows wait for it."""
    kinds: dict[str, Type] = {"clock": STRING, "now": TIMESTAMP, "views": STRING, "waiting": BIGINT}
    return _rows(clocks_of(engine), kinds)


def _rows(found: list[Any], kinds: dict[str, Type]) -> Result:
    """A row for each, of the attributes that are named like the columns; times to the microsecond."""
    cells = attrgetter(*kinds)
    rows = (tuple(round(v, 6) if isinstance(v, float) else v for v in cells(one)) for one in found)
    return Result(rows, tuple(Field(name, kind) for name, kind in kinds.items()))
