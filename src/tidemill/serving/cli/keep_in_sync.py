"""Sources, feeds and scheduled views followed from the command line, with a report of what has stopped."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from tidemill.serving.cli.warehouse_options import say

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["Reporter", "keep_in_sync"]


class Reporter:
    """Reports on standard error which views and feeds have stopped or resumed, each once."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._told: dict[str, str] = {}

    def report(self) -> None:
        """Report what has changed since the last call."""
        troubles = self._warehouse.troubles()
        for view, trouble in troubles.items():
            if self._told.get(view) != str(trouble.error):
                self._told[view] = str(trouble.error)
                print(f"{view}: {trouble}", file=sys.stderr, flush=True)
        for view in self._told.keys() - troubles.keys():
            del self._told[view]
            print(f"{view}: goes on", file=sys.stderr, flush=True)


def keep_in_sync(
    warehouse: Warehouse,
    seconds: float | None,
    interval: float = 0.2,
    limit: int | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Follow everything for so many seconds or until interrupted; prints epochs and their row counts."""
    reporter, epoch, began = Reporter(warehouse), warehouse.epoch, time.monotonic()
    before = warehouse.taken
    warehouse.follow(limit)
    while seconds is None or time.monotonic() - began < seconds:
        time.sleep(interval)
        reporter.report()
        if warehouse.epoch != epoch:
            epoch, taken = warehouse.epoch, warehouse.taken
            say(f"epoch {epoch}: {taken - before}", quiet=quiet)
            before = taken
