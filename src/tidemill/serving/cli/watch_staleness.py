"""Staleness of all views of a warehouse, shown while others write: a table on a terminal, lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import tidemill
from tidemill.serving.render import OutputForm, cell, console, csv_line, json_line

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["watch_staleness"]

STALENESS_COLUMNS = ("view", "refresh", "epoch", "epochs behind", "partitions behind", "seconds behind")
_NAMES = tuple(column.replace(" ", "_") for column in STALENESS_COLUMNS)


def watch_staleness(
    folder: str,
    *,
    interval: float = 1.0,
    timeout: float | None = None,
    form: OutputForm = OutputForm.table,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Show every ``interval`` seconds how far each view is behind, until nothing changed for ``timeout`` seconds."""
    from rich.live import Live

    output = console()
    as_table = form is OutputForm.table
    live = Live(console=output, auto_refresh=False) if output.is_terminal and as_table else None
    if form is OutputForm.csv:
        print(csv_line(("epoch_now", *_NAMES)))
    with live or nullcontext():
        seen, quiet_from = -1, time.monotonic()
        while timeout is None or time.monotonic() - quiet_from < timeout:
            epoch, rows = _look(folder)
            if live is not None:
                live.update(_table(epoch, rows), refresh=True)
            elif not as_table:
                for row in rows:
                    as_json = form is OutputForm.json
                    print(
                        json_line(dict(zip(_NAMES, row, strict=True))) if as_json else csv_line((epoch, *row)),
                        flush=True,
                    )
            else:
                print(f"epoch {epoch}: {_line(rows)}", flush=True)
            if epoch != seen:
                seen, quiet_from = epoch, time.monotonic()
            between()
            time.sleep(interval)


def _look(folder: str) -> tuple[int, list[tuple[Any, ...]]]:
    """The last epoch, and a row for each view; read without a lock."""
    with tidemill.open(folder, runtime="native", read_only=True) as warehouse:
        shown = warehouse.sql("SHOW VIEWS")
        return warehouse.epoch, [(name, *rest[: len(_NAMES) - 1]) for name, _, _, *rest in shown]


def _line(rows: list[tuple[Any, ...]]) -> str:
    """The views that are behind, in words.

    >>> _line([("v", "scheduled", 7, 3, 2, 1.25), ("w", "immediate", 9, 0, None, 0.0)])
    'v 3 epochs, 2 partitions, 1.2 s behind'
    """
    behind = []
    for name, _, _, epochs, partitions, seconds in rows:
        if seconds or epochs:
            cut = "" if partitions is None else f"{partitions} partition{'' if partitions == 1 else 's'}, "
            behind.append(f"{name} {epochs} epoch{'' if epochs == 1 else 's'}, {cut}{seconds:.1f} s behind")
    return "; ".join(behind) or "all views are fresh"


def _table(epoch: int, rows: list[tuple[Any, ...]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=f"epoch {epoch:,}", title_justify="left")
    for place, column in enumerate(STALENESS_COLUMNS):
        table.add_column(column, justify="left" if place < 2 else "right")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    return table
