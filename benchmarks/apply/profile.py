"""Which Python functions an epoch calls, and how often: of one row on disk, and of 100,000 rows."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from pathlib import Path

from benchmarks.apply.subject import Tidemill
from benchmarks.apply.workloads import ORDERS
from tidemill.serving.cli.bench_runner import Figure

WARM_UP, EPOCHS = 300, 200
"""Epochs of one row before those that are looked at, and how many are."""

TOP = 15
"""So many functions are shown, by the time that they take themselves."""


def profile(folder: Path, rows: int, size: int) -> Iterator[Figure]:
    """Calls an epoch, and the functions that take most; the profiler makes Python functions look slower than others."""
    history = ORDERS.history(rows)
    subject = Tidemill(ORDERS, "disk", folder)
    try:
        subject.fill(history.tables)
        for epoch in history.singles(WARM_UP):
            subject.apply(subject.prepare(epoch))
        prepared = [subject.prepare(epoch) for epoch in history.singles(EPOCHS)]
        yield from _profiled("profile/disk/pairs/1", subject, prepared)
        subject.form = "arrow"
        subject.apply(subject.prepare(history.draw(size)))
        yield from _profiled(f"profile/disk/arrow/{size}", subject, [subject.prepare(history.draw(size))])
    finally:
        subject.close()


def _profiled(name: str, subject: Tidemill, prepared: list[object]) -> Iterator[Figure]:
    profiler = cProfile.Profile()
    profiler.enable()
    for one in prepared:
        subject.apply(one)
    profiler.disable()
    epochs = len(prepared)
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    calls = sum(count for _, count, _, _, _ in stats.values())
    written = sum(count for (file, _, _), (_, count, _, _, _) in stats.items() if file != "~")
    seconds = sum(own for _, _, own, _, _ in stats.values())
    yield Figure("apply", name, "calls/epoch", calls / epochs, "calls", f"{written / epochs:,.0f} of them in Python")
    yield Figure("apply", name, "profiled_ms/epoch", 1e3 * seconds / epochs, "ms", f"{epochs:,} epochs")
    slowest = sorted(stats.items(), key=lambda item: -item[1][2])[:TOP]
    for where, (_, count, own, _, _) in slowest:
        yield Figure("apply", name, _function(*where), 1e3 * own / epochs, "ms", f"{count / epochs:,.1f} calls")


def _function(file: str, line: int, name: str) -> str:
    """A function by its module.

    >>> _function("/somewhere/src/tidemill/storage/commits/log.py", 12, "append")
    'tidemill/storage/commits/log.py append'
    """
    if file == "~":
        return name
    inside = file.rpartition("/tidemill/")
    return f"tidemill/{inside[2]} {name}" if inside[1] else f"{Path(file).name} {name}"
