"""The same query over growing tables: an event must cost the same after millions as after a few."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.dbtoaster.stream import Stream
from benchmarks.nexmark.case import BENCH, Case
from benchmarks.nexmark.measure import Run, subject_of
from benchmarks.nexmark.oracle import Oracle
from tidemill.serving.cli.bench_runner import Figure

LEG = 300_000
"""Events of which a rate is taken: the first ones, and the last ones before each mark."""

MARKS = (1_000_000, 3_000_000, 10_000_000, 30_000_000)


def scaling(case: Case, stream: Stream, oracle: Oracle, limit: float) -> Iterator[Figure]:
    """Events a second by processor time in the first leg and in those that end at a mark, and the first over the last.

    The rows are compared after the first leg.
    """
    name = f"scaling/{case.name}"
    leg = min(LEG, len(stream))
    rates: dict[int, float] = {}
    with subject_of(case, stream) as subject:
        run = Run(subject, case.size, 0)
        for mark in [leg, *(mark for mark in MARKS if leg < mark < len(stream)), len(stream)]:
            run.go(mark - leg, limit)
            begun, cpu = run.done, run.cpu
            run.go(mark, limit)
            if run.done < mark:
                break
            if begun == 0:
                subject.check(case.query, mark, oracle, name)
            if mark not in rates:
                rates[mark] = (mark - begun) / (run.cpu - cpu)
                about = f"the {leg:,} events before"
                yield Figure(BENCH, f"{name}/after{mark}", "events/s/core", rates[mark], "1/s", about)
    if len(rates) > 1:
        last = max(rates)
        cut = "" if last == len(stream) else f"; the time limit came before {len(stream):,}"
        about = f"first {leg:,} events over those before {last:,}; at most 1.2{cut}"
        yield Figure(BENCH, name, "flat_ratio", rates[leg] / rates[last], "x", about)
