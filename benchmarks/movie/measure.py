"""Runs one case: queries first, then each update without the view, with the view kept, and with it recomputed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from benchmarks.movie.case import Asked, Case, Propagated
from benchmarks.movie.oo7 import OO7, RECOMPUTED
from benchmarks.movie.updates import updates
from benchmarks.movie.views import VIEWS, View

WARM = 3
"""So many epochs come before those that are timed."""

TENTHS = 10
"""Times are lower deciles: what the work takes where nothing comes between, be it another job or the collector."""


@dataclass(frozen=True)
class Effort:
    """How often things are done: updates that are cheap, updates that recompute the view, queries, comparisons.

    Updates are so many in each of ``rounds``, in which all that is held beside each other has its turn: what becomes
    slower or faster with time does so for all.
    """

    rounds: int
    updates: int
    recomputed: int
    queries: int
    compared: int


FULL, QUICK = Effort(4, 60, 8, 20, 3), Effort(2, 30, 5, 5, 1)


def measure(case: Case, oo7: OO7, effort: Effort) -> Iterator[Asked | Propagated]:
    """What queries and updates of ``case`` cost; a wrong answer ends everything with ``WrongAnswer``."""
    view = VIEWS[case.view]
    oo7.define(view)
    yield _asked(case, oo7, view, effort)
    oo7.drop(view)
    for update in case.updates:
        yield _propagated(case, update, oo7, view, effort)


def _asked(case: Case, oo7: OO7, view: View, effort: Effort) -> Asked:
    kept = oo7.warehouse.view(view.name)
    oo7.check(view, kept.rows())
    oo7.check(view, oo7.db.query(view.oql).rows())
    return Asked(
        case,
        len(kept),
        _repeated(lambda: kept.rows(), effort.queries),
        _repeated(lambda: oo7.db.query(view.oql).rows(), effort.queries),
        _repeated(lambda: oo7.in_duckdb(view), effort.queries),
    )


def _propagated(case: Case, update: str, oo7: OO7, view: View, effort: Effort) -> Propagated:
    without: list[float] = []
    kept: list[float] = []
    recomputed: list[float] = []
    defined: list[float] = []
    reads = 0
    for _ in range(effort.rounds):
        without += _epochs(update, oo7, effort.updates)
        defined.append(_seconds(lambda: oo7.define(view)))
        _compare(update, oo7, view, effort.compared)
        kept += _epochs(update, oo7, effort.updates)
        reads += _read(update, oo7, view)
        oo7.check(view, oo7.warehouse.view(view.name).rows())
        oo7.drop(view)
        oo7.define(view, RECOMPUTED)
        _compare(update, oo7, view, effort.compared)
        recomputed += _epochs(update, oo7, effort.recomputed)
        oo7.drop(view)
    return Propagated(
        case, update, _typical(without), _typical(kept), _typical(recomputed), min(defined), len(kept), reads
    )


def _compare(update: str, oo7: OO7, view: View, count: int) -> None:
    """Some updates, with a look at the rows of the view after each, and after it was taken back."""
    kept = oo7.warehouse.view(view.name)
    for happen, take_back in islice(updates(update, oo7.db), count):
        for act in (happen, take_back):
            act()
            oo7.check(view, kept.rows())


def _epochs(update: str, oo7: OO7, count: int) -> list[float]:
    """Seconds of epochs with an update; those that take it back are not timed."""
    seconds = []
    for happen, take_back in islice(updates(update, oo7.db), WARM + count):
        seconds.append(_seconds(happen))
        take_back()
    return seconds[WARM:]


def _read(update: str, oo7: OO7, view: View) -> int:
    """How many base rows are read to propagate an update."""
    happen, take_back = next(updates(update, oo7.db))
    kept = oo7.warehouse.view(view.name)
    before = sum(kept.base_reads().values())
    happen()
    reads = sum(kept.base_reads().values()) - before
    take_back()
    return reads


def _repeated(act: Callable[[], object], count: int) -> float:
    act()
    return _typical([_seconds(act) for _ in range(count)])


def _typical(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=TENTHS, method="inclusive")[0]


def _seconds(act: Callable[[], object]) -> float:
    """Seconds of this process: all happens in it and in memory, so on an idle machine they are those of the clock."""
    begin = time.process_time()
    act()
    return time.process_time() - begin
