"""Experiments 1 to 3 and Figure 11 in one run; a time is given only after its answers were compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.movie.case import Asked, Case, Propagated
from benchmarks.movie.collection import as_figures, measured
from benchmarks.movie.data import SIZES, objects_of
from benchmarks.movie.experiments import COLLECTION, LINES, NAMES, QUICK_LINES, SELF_MAINTAINABLE, SPARK, Line, by_size
from benchmarks.movie.measure import FULL, QUICK, measure
from benchmarks.movie.oo7 import OO7
from benchmarks.movie.results import of_entries, of_query, of_spark, of_update
from benchmarks.movie.selfmaintained import entries
from tidemill.model.errors import UnknownName
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

SPARK_SIZE = "db3"
"""The database that Spark makes views of."""


@dataclass
class Found:
    """What was measured so far: of each case the queries, and its updates by name."""

    asked: dict[Case, Asked] = field(default_factory=dict)
    propagated: dict[str, Propagated] = field(default_factory=dict)


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """The experiments that were asked for, by ``queries``; a quick look leaves Spark out, unless it is asked for."""
    for name in options.queries:
        if name not in NAMES:
            raise UnknownName(f'there is no experiment "{name}"', hint=f"There is: {', '.join(NAMES)}.")
    wanted = options.queries or tuple(name for name in NAMES if not (options.quick and name == SPARK))
    lines = [line for line in (QUICK_LINES if options.quick else LINES) if line.experiment in wanted]
    if SELF_MAINTAINABLE in wanted:
        options.progress(0.0, "Figure 11")
        yield from of_entries(list(entries()))
    if COLLECTION in wanted:
        options.progress(0.0, "a large collection")
        yield from as_figures(measured(options.quick))
    found = Found()
    cases = by_size(lines)
    if SPARK in wanted:
        cases.setdefault(SPARK_SIZE, [])
    total, done = sum(map(len, cases.values())), 0
    for size, some in cases.items():
        options.progress(done / max(total, 1), f"{size} is loaded")
        with OO7(SIZES[size], connections=not options.quick) as oo7:
            options.say(f"{size}: {SIZES[size]} modules, {objects_of(SIZES[size]):,} objects{_left_out(options)}")
            for case in some:
                options.progress(done / total, f"{case.view} in {size}")
                yield from _figures(case, oo7, options, found)
                done += 1
            if SPARK in wanted and size == SPARK_SIZE:
                yield from _on_spark(oo7, options)
    _draw(lines, found, options)


def _left_out(options: BenchmarkOptions) -> str:
    return " less the connections" if options.quick else ""


def _figures(case: Case, oo7: OO7, options: BenchmarkOptions, found: Found) -> Iterator[Figure]:
    for one in measure(case, oo7, QUICK if options.quick else FULL):
        if isinstance(one, Asked):
            found.asked[case] = one
            yield from of_query(one)
        else:
            found.propagated[case.name(one.update)] = one
            options.say(
                f"{case.name(one.update)}: {one.speedup:,.0f} times re-materialization;"
                f" base rows read: {one.reads}; answers compared"
            )
            yield from of_update(one, found.asked[case])


def _on_spark(oo7: OO7, options: BenchmarkOptions) -> Iterator[Figure]:
    # Who measures in this process does not wait for Spark.
    from benchmarks.movie.spark import made_by_spark

    for view, seconds, rows in made_by_spark(oo7):
        options.say(f"{view} by Spark: {seconds * 1e3:,.0f} ms")
        yield of_spark(view, SPARK_SIZE, seconds, rows)


def _draw(lines: list[Line], found: Found, options: BenchmarkOptions) -> None:
    if not lines:
        return
    # The plotting library takes a second to load, which only those who plot should wait for.
    from benchmarks.movie.plots import draw

    folder = options.folder / "movie" / ("quick" if options.quick else "measured")
    for file in draw(lines, found.asked, found.propagated, folder):
        options.say(f"drawn: {file}")
