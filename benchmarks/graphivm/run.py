"""Every experiment with every strategy in one run; a figure is given only after its answers were compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from benchmarks.graphivm.case import Case, Outcome
from benchmarks.graphivm.experiments import EXPERIMENTS, QUICK, Extent, cases_of, workload_key, workload_of
from benchmarks.graphivm.measure import measure
from benchmarks.graphivm.oracle import Oracle
from benchmarks.graphivm.results import Results, figures, ratios
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

SECONDS, QUICK_SECONDS = 2.0, 0.1
"""How long the events of a case may take, by default."""

ALIASES = {"reading": "fanout", "memory": "joins"}
"""What is measured along with another experiment."""


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The figures of the experiments that were asked for, by ``queries``."""
    wanted = _chosen(options)
    extent = QUICK if options.quick else Extent()
    extent = replace(extent, scale=extent.scale * (options.scale or 1.0))
    results = Results(options.folder / "graphivm" / ("quick" if options.quick else "measured"))
    cases = [case for experiment in wanted for case in cases_of(experiment, extent)]
    if options.backends:
        cases = [case for case in cases if case.backend in options.backends]
    outcomes = []
    for outcome in _outcomes(cases, extent, options):
        results.keep(outcome)
        outcomes.append(outcome)
        yield from figures(outcome)
    yield from ratios(outcomes)
    results.draw()


def _chosen(options: BenchmarkOptions) -> tuple[str, ...]:
    """The experiments that were asked for; one that does not exist is refused before anything runs.

    A quick look does not wait for Spark, unless it is asked to.
    """
    for name in options.queries:
        if name not in EXPERIMENTS and name not in ALIASES:
            raise UnknownName(f'there is no experiment "{name}"', hint=f"There is: {', '.join(EXPERIMENTS)}.")
    asked = [ALIASES.get(name, name) for name in options.queries]
    if not asked:
        return tuple(name for name in EXPERIMENTS if not (options.quick and name == "recompute"))
    return tuple(name for name in EXPERIMENTS if name in asked)


def _outcomes(cases: list[Case], extent: Extent, options: BenchmarkOptions) -> Iterator[Outcome]:
    limit = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    done = 0
    for _, group in groupby(cases, key=workload_key):
        alike = list(group)
        workload = workload_of(alike[0], extent)
        with Oracle(workload) as oracle:
            for case in alike:
                options.progress(done / len(cases), case.name)
                done += 1
                for outcome in measure(case, workload, oracle, limit):
                    options.say(_told(outcome))
                    yield outcome


def _told(outcome: Outcome) -> str:
    if not outcome.events:
        return f"{outcome.case.name}: {outcome.reason}"
    return (
        f"{outcome.case.name}: {outcome.rate:,.0f} events/s, {outcome.events:,} of {outcome.stream:,} events; "
        f"answers compared"
    )
