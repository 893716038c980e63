"""Every workload at every size that was asked for, by each strategy and mix of changes; then tables that drift."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.choices import chosen
from benchmarks.choose.drift import DRIFTS, drift_figures
from benchmarks.choose.measure import STRATEGIES, measure_all
from benchmarks.choose.mixes import MIXES
from benchmarks.choose.plots import draw
from benchmarks.choose.table import goal_figures
from benchmarks.choose.workloads import SIZES, workloads
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

SECONDS, QUICK_SECONDS = 0.06, 0.02
"""Seconds of a mix of changes that are timed."""

QUICK = (
    *("dbtoaster/vwap", "dbtoaster/bsv", "graphivm/q1agg", "tpch/q5", "viewdf/sum", "oo7/complex2", "nexmark/q4"),
    "drift/skewing",
)

PLOTS = Path("docs/benchmarks/choose")


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures of the cases that were asked for; plots, if there are figures of all.

    ``queries`` are workloads, as in ``dbtoaster/vwap``, or ``drift/growing``; ``depths`` are strategies, and
    ``runtimes`` sizes and mixes.
    """
    sizes = ("small",) if options.quick else tuple(SIZES)
    made = {(size, name): make for size in sizes for name, make in workloads(options.folder, SIZES[size])}
    names = (*dict.fromkeys(name for _, name in made), *(f"drift/{name}" for name in DRIFTS))
    asked = chosen("workload", options.queries or (QUICK if options.quick else ()), names)
    strategies = chosen("strategy", options.depths, STRATEGIES)
    wanted = chosen("size or mix", options.runtimes, (*SIZES, *MIXES))
    mixes = [mix for mix in MIXES if mix in wanted or not MIXES.keys() & set(wanted)]
    cases = [
        (size, name)
        for size in sizes
        for name in asked
        if (size in wanted or not SIZES.keys() & set(wanted)) and (size, name) in made
    ]
    limit = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    figures: list[Figure] = []
    for number, (size, name) in enumerate(cases):
        case = f"{name}/{size}"
        options.progress(number / len(cases), case)
        # The view is recomputed in Python for each row: at one size that says enough.
        used = [strategy for strategy in strategies if size == "small" or strategy != "recompute"]
        for outcome in measure_all(case, made[size, name](), used, mixes, limit):
            told = ", ".join(f"{mix} {1e6 * seconds:.3g} us" for mix, seconds in outcome.per_row.items())
            options.say(f"{case}: {outcome.strategy}: {outcome.reason or told}")
            figures.extend(outcome.figures())
            yield from outcome.figures()
    yield from goal_figures(figures)
    drifting = [name.partition("/")[2] for name in asked if name.startswith("drift/")]
    yield from drift_figures(drifting, limit, options.say)
    if not options.queries and not options.quick and PLOTS.parent.is_dir():
        draw(figures, PLOTS)
