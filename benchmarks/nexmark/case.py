"""A query under one set of circumstances, and what it has shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.nexmark.published import baseline
from tests.nexmark.queries import QUERIES
from tidemill.serving.cli.bench_runner import Figure

BENCH = "nexmark"
NAMES = {name.partition("_")[0]: name for name in sorted(QUERIES, key=lambda name: int(name.partition("_")[0][1:]))}
"""Queries by their short names, in their order."""

RELATIONS = ("table", "stream")
SIZES = (1, 1_000, 10_000, 100_000)
STRATEGIES = ("auto", "delta", "viewlet", "joingraph", "lineage", "recompute")


@dataclass(frozen=True)
class Case:
    """A query over tables or streams, so many events an epoch, with or without somebody who takes the changes."""

    query: str
    relation: str = "table"
    size: int = 10_000
    subscribed: bool = False
    strategy: str = "auto"

    @property
    def name(self) -> str:
        """The words of the case; strategy ``auto`` goes without saying.

        >>> Case("q3").name, Case("q3", "stream", 1, True, "delta").name
        ('q3/table/10000', 'q3/stream/1/subscribed/delta')
        """
        words = [self.query, self.relation, str(self.size)]
        words += ["subscribed"] if self.subscribed else []
        return "/".join(words if self.strategy == "auto" else [*words, self.strategy])


@dataclass(frozen=True)
class Outcome:
    """Events that were timed, their seconds by the clock and of the processor, those of each epoch, and what is held.

    ``state`` is None where no map tells its bytes, and ``process`` where a case shared it; ``reason`` says why nothing
    was measured.
    """

    case: Case
    events: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    each: tuple[float, ...] = ()
    rows: int = 0
    state: int | None = None
    entries: int = 0
    process: int | None = None
    complete: bool = True
    reason: str = ""

    def figures(self) -> Iterator[Figure]:
        """Rates, latencies and bytes."""
        name = self.case.name
        if self.reason:
            yield Figure(BENCH, name, "events/s", 0.0, "1/s", f"not run: {self.reason}")
            return
        cut = "" if self.complete else "cut by the time limit; "
        about = f"{cut}{self.events:,} events, {self.rows:,} rows compared"
        against = baseline(self.case.query) if self.case.size == 10_000 and self.case.strategy == "auto" else ""
        yield Figure(BENCH, name, "events/s", self.events / self.seconds, "1/s", about)
        yield Figure(BENCH, name, "events/s/core", self.events / self.cpu, "1/s", against)
        for percent in (50, 99):
            milliseconds = 1e3 * float(np.percentile(self.each, percent))
            yield Figure(BENCH, name, f"p{percent}_ms", milliseconds, "ms", f"{len(self.each):,} epochs")
        if self.state is not None:
            yield Figure(BENCH, name, "state_bytes", self.state, "B", f"{self.entries:,} entries that tell their bytes")
        if self.process is not None:
            about = f"what its process took for {self.events:,} events and those before"
            yield Figure(BENCH, name, "process_bytes", max(self.process, 0), "B", about)
