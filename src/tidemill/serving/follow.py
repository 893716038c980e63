"""Following a view from another process: look at the folder now and then, and print what is new."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tidemill.engine.warehouse import open as open_warehouse

__all__ = ["Step", "follow"]


class Step(NamedTuple):
    """One weighted row of one epoch, with the view's columns."""

    epoch: int
    weight: int
    row: tuple[Any, ...]
    columns: Sequence[str]


def follow(
    folder: str, view: str, *, since: int | None = None, interval: float = 1.0, timeout: float | None = None
) -> Iterator[Step]:
    """What each epoch after ``since`` (default: from now on) changes in ``view``.

    A writer in another process cannot wake us, so the folder is opened anew every ``interval`` seconds, to read only: a
    reader needs no lock and sees whole epochs. Ends when nothing came for ``timeout`` seconds.
    """
    seen, quiet_from = since, time.monotonic()
    while timeout is None or time.monotonic() - quiet_from < timeout:
        with open_warehouse(folder, runtime="native", read_only=True) as wh:
            handle, epoch = wh.view(view), wh.epoch
            seen = epoch if seen is None else seen
            if epoch > seen:
                for batch in handle.batches(since=seen):
                    yield from (Step(batch.epoch, weight, row, handle.columns) for weight, row in batch)
                seen, quiet_from = epoch, time.monotonic()
        time.sleep(interval)
