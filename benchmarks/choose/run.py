"""Every workload at every size and mix of changes that was asked for, by each strategy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from benchmarks.choices import chosen
from benchmarks.choose.measure import STRATEGIES, measure_all
from benchmarks.choose.workloads import MIXES, SIZES, workloads
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

SECONDS, QUICK_SECONDS = 0.3, 0.02
QUICK = ("dbtoaster/vwap", "dbtoaster/bsv", "graphivm/q1agg", "nexmark/q4")


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures of the cases that were asked for.

    ``queries`` are workloads, as in ``dbtoaster/vwap``, ``depths`` strategies, and ``runtimes`` sizes and mixes.
    """
    sizes = ("small",) if options.quick else tuple(SIZES)
    made = {(size, name): make for size in sizes for name, make in workloads(options.folder, SIZES[size])}
    names = tuple(dict.fromkeys(name for _, name in made))
    asked = chosen("workload", options.queries or (QUICK if options.quick else ()), names)
    strategies = chosen("strategy", options.depths, STRATEGIES)
    wanted = chosen("size or mix", options.runtimes, (*SIZES, *MIXES))
    cases = [
        (size, name, mix)
        for size, name, mix in product(sizes, asked, MIXES)
        if (size in wanted or not SIZES.keys() & set(wanted)) and (mix in wanted or not MIXES.keys() & set(wanted))
    ]
    limit = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    for number, (size, name, mix) in enumerate(cases):
        case = f"{name}/{size}/{mix}"
        options.progress(number / len(cases), case)
        outcomes = measure_all(case, made[size, name](), strategies, MIXES[mix], limit)
        options.say(f"{case}: {', '.join(f'{o.strategy} {_told(o.per_row, o.reason)}' for o in outcomes)}")
        for outcome in outcomes:
            yield from outcome.figures()


def _told(per_row: float, reason: str) -> str:
    return "-" if reason else f"{1e6 * per_row:.3g} us"
