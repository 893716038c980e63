"""Costs of views, shown while another process writes: a table on a terminal, lines in a pipe."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from tidemill.engine.open_warehouse import stored_refreshes
from tidemill.engine.telemetry.refresh import Refresh
from tidemill.engine.telemetry.view_costs import ViewCosts, chosen, summed_costs
from tidemill.serving.render import cell, console, json_line

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["watch_costs"]

COLUMNS = ("view", "epochs/s", "busy %", "ms/epoch", "slowest ms", "rows in/s", "rows out/s", "bytes/s", "recomputed")


def watch_costs(folder: str, *, interval: float, window: float, rounds: int, limit: int, as_json: bool) -> None:
    """Show every ``interval`` seconds the rates of the last ``window`` seconds, ``rounds`` times or until Ctrl-C."""
    from rich.live import Live

    output = console()
    live = Live(console=output, auto_refresh=False) if output.is_terminal and not as_json else None
    with live or nullcontext(), suppress(KeyboardInterrupt):
        looks = 0
        while not rounds or looks < rounds:
            entries = list(chosen(stored_refreshes(folder), timedelta(seconds=window)))
            rows = _rows(entries, window, limit)
            if live is not None:
                live.update(_table(entries, rows, window), refresh=True)
            elif as_json:
                for row in rows:
                    print(json_line(dict(zip(COLUMNS, row, strict=True))), flush=True)
            else:
                output.print(_table(entries, rows, window))
            looks += 1
            if not rounds or looks < rounds:
                time.sleep(interval)


def _rows(entries: list[Refresh], window: float, limit: int) -> list[tuple[str | float | int, ...]]:
    found = sorted(summed_costs(entries).values(), key=lambda one: one.seconds, reverse=True)
    return [_row(one, window) for one in found[:limit]]


def _row(one: ViewCosts, window: float) -> tuple[str | float | int, ...]:
    """The rates of a view.

    >>> _row(ViewCosts("v", refreshes=20, seconds=0.5, slowest=0.1, rows_in=40, rows_out=10, bytes=1000), 10.0)
    ('v', 2.0, 5.0, 25.0, 100.0, 4.0, 1.0, 100.0, 0)
    """
    rates = (round(number / window, 1) for number in (one.rows_in, one.rows_out, one.bytes))
    mean = 1e3 * one.seconds / max(one.refreshes, 1)
    busy = round(100 * one.seconds / window, 2)
    times = busy, round(mean, 3), round(1e3 * one.slowest, 3)
    return one.view, round(one.refreshes / window, 1), *times, *rates, one.recomputed


def _table(entries: list[Refresh], rows: list[tuple[str | float | int, ...]], window: float) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    epochs = [entry for entry in entries if entry.view is None]
    last = max((entry.epoch for entry in entries), default=0)
    count, seconds = sum(entry.epochs for entry in epochs), sum(entry.seconds for entry in epochs)
    title = f"epoch {last:,}: {count / window:,.1f} epochs/s, busy {100 * seconds / window:.1f} %, last {window:g} s"
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left")
    for place, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if place == 0 else "right")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    return table
