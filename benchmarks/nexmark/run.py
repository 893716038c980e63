"""Every query under all circumstances that were asked for; a figure is given after its answers were compared."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from benchmarks.choices import chosen
from benchmarks.dbtoaster.stream import kept
from benchmarks.nexmark.case import NAMES, RELATIONS, SIZES, STRATEGIES, Case
from benchmarks.nexmark.events import nexmark
from benchmarks.nexmark.measure import measure, measure_alone
from benchmarks.nexmark.oracle import Oracle
from benchmarks.nexmark.scaling import scaling
from tidemill.model.errors import SetupError
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

EVENTS, QUICK_EVENTS, SCALING_EVENTS = 1_000_000, 70_000, 3_000_000
LEAST = 40_000
SHORT = 120_000
"""Events of which cases with 1,000 events an epoch take the first."""

SECONDS, QUICK_SECONDS, SCALING_SECONDS = 5.0, 0.25, 120.0
"""How long a case may run, by default."""

QUICK_SIZES = (1, 10_000)
COMPARED = 10_000
"""Events an epoch where strategies are compared, and growing tables; memory is looked at there, too."""


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures of the cases that were asked for.

    ``queries`` and ``depths`` choose queries and strategies, ``runtimes`` tables and streams; ``scale`` is in millions
    of events. With ``scaling``, rates over growing tables.
    """
    cases = plan(options)
    folder = options.folder / "nexmark" / f"events-{_count(options)}"
    stream = kept(folder, partial(nexmark, _count(options)))
    limit = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    with Oracle(stream) as oracle:
        for number, case in enumerate(cases):
            options.progress(number / len(cases), case.name)
            if options.scaling:
                yield from scaling(case, stream, oracle, options.seconds or SCALING_SECONDS)
                continue
            if case.size == COMPARED and not case.subscribed and not options.quick:
                outcome = measure_alone(case, folder, limit)
            else:
                part = stream.cut(0, min(SHORT, len(stream))) if case.size <= 1_000 else stream
                outcome = measure(case, part, oracle, limit)
            rate = outcome.events / outcome.seconds if outcome.seconds else 0.0
            options.say(f"{case.name}: {outcome.reason or f'{rate:,.0f} events/s; answers compared'}")
            yield from outcome.figures()


def plan(options: BenchmarkOptions) -> list[Case]:
    """The cases: strategies are compared at one size and without a subscriber, and so are growing tables."""
    queries = chosen("query", options.queries, NAMES)
    strategies = chosen("strategy", options.depths or ("auto",), STRATEGIES)
    compared = options.scaling or strategies != ("auto",)
    sizes = (COMPARED,) if compared else QUICK_SIZES if options.quick else SIZES
    followed = (False,) if compared or options.quick else (False, True)
    alone = options.quick or options.scaling
    relations = chosen("kind of relation", options.runtimes or (("table",) if alone else ()), RELATIONS)
    cases = (Case(*words) for words in product(queries, relations, sizes, followed, strategies))
    return [case for case in cases if 2 * case.size <= _count(options)]


def _count(options: BenchmarkOptions) -> int:
    if options.scale is None:
        return SCALING_EVENTS if options.scaling else QUICK_EVENTS if options.quick else EVENTS
    count = int(options.scale * 1_000_000)
    if count < LEAST:
        raise SetupError(f"{count:,} events are too few", hint=f"Use --scale {LEAST / 1e6:g} or more.")
    return count
