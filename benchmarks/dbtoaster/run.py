"""Every query at every depth on both back ends; a figure is given only after its answers were compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, product
from pathlib import Path

from benchmarks.choices import chosen
from benchmarks.dbtoaster.book import EVENTS, order_book
from benchmarks.dbtoaster.case import BACKENDS, DEPTHS, SCALE, Case, Outcome
from benchmarks.dbtoaster.measure import measure
from benchmarks.dbtoaster.oracle import Oracle
from benchmarks.dbtoaster.orders import active_orders
from benchmarks.dbtoaster.paper import DBTOASTER, TPCH
from benchmarks.dbtoaster.queries import READS
from benchmarks.dbtoaster.results import Results, figures
from benchmarks.dbtoaster.stream import Stream, kept
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

SCALES = (0.1, 0.5, 1.0, 5.0)
SECONDS = 60.0
QUICK_SECONDS = 0.15
"""How long a case may run, by default."""

SAMPLES = ("q3", "vwap")
"""The queries that a quick look takes at every depth; it takes all others at full depth."""

SINGLY = ("q3", "full", "llvm")
"""The case whose events come one by one from Python as well."""


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures of the cases that were asked for; with ``scaling``, of the TPC-H queries over growing data."""
    plan = _Plan.of(options)
    results = Results(options.folder / "dbtoaster" / ("quick" if options.quick else "measured"))
    done = 0
    for (query, scale), cases in groupby(plan.cases, key=lambda case: (case.query, case.scale)):
        stream = stream_of(query, scale, options.folder)
        with Oracle(stream) as oracle:
            for case in cases:
                outcome = _measure(case, stream, oracle, plan, options, done / len(plan.cases))
                done += 1
                results.keep(outcome)
                yield from figures(outcome)
    results.draw()


@dataclass(frozen=True)
class _Plan:
    """What was asked for; a name that does not exist is refused before anything runs."""

    cases: tuple[Case, ...]
    seconds: float

    @classmethod
    def of(cls, options: BenchmarkOptions) -> _Plan:
        queries = chosen("query", options.queries, tuple(DBTOASTER))
        depths = chosen("depth", options.depths, DEPTHS)
        backends = chosen("back end", options.backends, BACKENDS)
        scales: tuple[float, ...] = (options.scale or SCALE,)
        if options.scaling:
            # Figure 11 is about the optimized program, and about data that can grow.
            queries = tuple(query for query in queries if query in TPCH)
            depths, backends = ("full",), ("llvm",)
            scales = (options.scale,) if options.scale else SCALES
        # The deepest program first: its figure is what people wait for.
        words = product(queries, scales, depths[::-1], backends[::-1])
        cases = [Case(query, depth, backend, scale) for query, scale, depth, backend in words]
        if options.quick and not options.depths:
            cases = [case for case in cases if case.depth == "full" or case.query in SAMPLES]
        for case in [case for case in cases if (case.query, case.depth, case.backend) == SINGLY]:
            cases.insert(cases.index(case) + 1, replace(case, single=True))
        return cls(tuple(cases), options.seconds or (QUICK_SECONDS if options.quick else SECONDS))


def _measure(
    case: Case, stream: Stream, oracle: Oracle, plan: _Plan, options: BenchmarkOptions, begun: float
) -> Outcome:
    def advance(part: float) -> None:
        options.progress(begun + part / len(plan.cases), case.name)

    advance(0)
    outcome = measure(case, stream, oracle, plan.seconds, advance)
    options.say(
        f"{case.name}: {outcome.rate:,.0f} events/s, {outcome.events:,} of {outcome.stream:,} events, "
        f"compiled in {outcome.compile_s:.2f} s; ten answers compared"
    )
    return outcome


def stream_of(query: str, scale: float, folder: Path) -> Stream:
    """The events of the relations that ``query`` reads; whole streams are made once and kept in ``folder``."""
    if query in TPCH:
        stream = kept(folder / "dbtoaster" / f"tpch-{scale:g}", partial(active_orders, folder, scale))
    else:
        events = int(EVENTS * scale / SCALE)
        stream = kept(folder / "dbtoaster" / f"book-{events}", partial(order_book, events))
    return stream.only(READS[query])
