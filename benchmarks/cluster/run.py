"""TPC-H with runtime ``spark`` in several places: two cores of this process's Spark, and clusters of processes.

Data, changes, views, peers and the comparison of answers are those of ``tidemill bench tpch``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.cluster.plots import draw
from benchmarks.tpch.run import Pipeline
from tidemill.model.errors import UnknownName
from tidemill.runtimes.spark.sessions.session import start_session
from tidemill.runtimes.spark.sessions.standalone_cluster import cluster_session
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

PLACES = {"local2": 0, "workers1": 1, "workers2": 2}
"""Where Spark runs: two cores of one process, or a cluster of so many workers with a core each."""

PERCENTS = (0.01, 0.1, 1.0, 5.0, 20.0)
QUICK_PERCENTS = (0.1, 20.0)

BULK = 5.0
"""Percentage of changes from which two workers are compared with one."""

PLOTS = Path(__file__).parents[2] / "docs" / "benchmarks" / "cluster"


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """All figures of each place, and how much faster two workers are than one."""
    scale = options.scale or (0.01 if options.quick else 0.1)
    percents = options.changes or (QUICK_PERCENTS if options.quick else PERCENTS)
    places = options.runtimes or tuple(PLACES)
    figures: list[Figure] = []
    for number, place in enumerate(places):
        options.progress(number / len(places), place)
        for figure in _in_place(options, scale, place, percents):
            figures.append(figure)
            yield figure
    for figure in scaling(figures):
        figures.append(figure)
        yield figure
    if not (options.quick or options.changes or options.runtimes):
        draw(figures, PLOTS)


def _in_place(options: BenchmarkOptions, scale: float, place: str, percents: Sequence[float]) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as work, _session(place, Path(work)) as session:
        pipeline = Pipeline(options, scale, Path(work, "data"), (place,), bench="cluster", session=session)
        for percent in percents:
            yield from pipeline.measure(percent)
        seconds = pipeline.single_row(place)
        yield Figure("cluster", f"scale{scale:g}/row/{place}", "refresh_s", seconds, "s", "one row changes")
        pipeline.close()


@contextmanager
def _session(place: str, folder: Path) -> Iterator[Any]:
    if place not in PLACES:
        raise UnknownName(f'there is no place "{place}"', hint=f"There is: {', '.join(PLACES)}.")
    if PLACES[place]:
        with cluster_session(folder / "cluster", PLACES[place]) as session:
            yield session
        return
    session = start_session("local[2]")
    try:
        yield session
    finally:
        session.stop()


def scaling(figures: Sequence[Figure]) -> Iterator[Figure]:
    """The time of one worker in proportion to that of two, for bulk changes that both have run.

    >>> times = [Figure("cluster", f"scale1/change5/workers{n}", "refresh_s", 3.0 / n, "s") for n in (1, 2)]
    >>> [(figure.case, figure.value) for figure in scaling(times)]
    [('scale1/change5/workers2', 2.0)]
    """
    seconds = {figure.case: figure.value for figure in figures if figure.metric == "refresh_s"}
    for case, taken in seconds.items():
        one, percent = case.replace("/workers2", "/workers1"), case.partition("/change")[2].partition("/")[0]
        if one != case and one in seconds and percent and float(percent) >= BULK:
            both = f"one worker {seconds[one]:.2f} s, two {taken:.2f} s"
            yield Figure("cluster", case, "workers_ratio", seconds[one] / taken, "x", both)
