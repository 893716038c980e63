"""Progress on standard error, with counts of rows; on a terminal only, and none where quiet was asked for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidemill.serving.render import console

__all__ = ["ProgressLine", "bytes_progress", "counted_progress"]

FIRST = 0.5
"""Seconds before a count is shown: what is done by then needs none."""


@contextmanager
def bytes_progress(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar of bytes, with the rows read so far; the function takes the bytes done and the total."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[rows]}"),
        TimeRemainingColumn(),
    )
    output = console(stderr=True)
    with Progress(*columns, console=output, transient=True, disable=quiet or not output.is_terminal) as shown:
        task = shown.add_task(what, total=None, rows="")

        def update(done: int, total: int) -> None:
            rows = getattr(done, "rows", 0)
            shown.update(task, completed=int(done), total=total, rows=f"{rows:,} rows" if rows else "")

        yield update


class ProgressLine:
    """A line on standard error that is written over a few times a second while work goes on."""

    def __init__(self, what: str, count: Callable[[], str]) -> None:
        self._what, self._count = what, count
        self._began = time.monotonic()
        self._shown = False
        self._lock = threading.Lock()

    def show(self) -> None:
        """Write the line anew, with the seconds so far and the count."""
        with self._lock:
            seconds = time.monotonic() - self._began
            if seconds >= FIRST:
                told = self._count()
                print(f"\r{self._what}: {told + ', ' if told else ''}{seconds:.0f} s\x1b[K", end="", file=sys.stderr)
                sys.stderr.flush()
                self._shown = True

    def hide(self) -> None:
        """Remove the line, before something else is printed; the seconds begin again."""
        with self._lock:
            if self._shown:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._began, self._shown = time.monotonic(), False


@contextmanager
def counted_progress(what: str, count: Callable[[], str], quiet: bool = False) -> Iterator[ProgressLine]:
    """A line with the seconds so far and ``count``, asked for a few times a second while the work goes on."""
    line, ended = ProgressLine(what, count), threading.Event()

    def go_on() -> None:
        while not ended.wait(0.2):
            line.show()

    shown = not quiet and sys.stderr.isatty()
    if shown:
        threading.Thread(target=go_on, name="progress", daemon=True).start()
    try:
        yield line
    finally:
        ended.set()
        line.hide()
