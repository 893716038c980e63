"""Figures 5.1 to 5.8 of the thesis, medians, and windows on Spark: what is varied, and what stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.viewdf.case import AUTO, DIRECT, LARGE, MAX, MEDIAN, METHODS, NATIVE, OURS, PATTERN, SPARK, SUM, Case


@dataclass(frozen=True)
class Experiment:
    """A figure: ``axis`` takes the values ``points``, and the rest of ``base`` stays; each method at each point, unless
    one is ``alone``."""

    title: str
    base: Case
    points: tuple[float, ...]
    alone: bool = False
    """Only the method by which a view is kept whose user says nothing."""

    @property
    def grows(self) -> bool:
        """Whether a later point is more work for every method."""
        return self.base.axis != "selectivity"

    def cases(self) -> Iterator[Case]:
        """Point by point, so that methods are held beside each other as soon as possible."""
        for at in self.points:
            for runtime, method in [(NATIVE, OURS[self.base.query])] if self.alone else _methods(self.base):
                yield replace(_moved(self.base, at), runtime=runtime, method=method)


def _methods(base: Case) -> list[tuple[str, str]]:
    if base.runtime == NATIVE:
        return [(NATIVE, method) for method in METHODS[base.query]]
    return [(SPARK, DIRECT), (SPARK, OURS[base.query]), (AUTO, OURS[base.query])]


def _moved(base: Case, at: float) -> Case:
    if base.axis == "selectivity":
        return replace(base, selectivity=at)
    return replace(base, window=int(at)) if base.axis in ("window", "scope") else replace(base, rows=int(at))


def _case(query: str, axis: str, rows: int, window: int, runtime: str = NATIVE) -> Case:
    return Case(query, axis, DIRECT, rows, window, runtime=runtime)


GROWING = ("window", "scope")
"""The axes along which a slide should cost the same."""

SMALLER = 10
"""A quick look has so many times fewer rows."""

MUCH_SMALLER = 100
"""Factor by which a quick look has fewer rows where partitions are of millions."""

SIZES = (10_000, 100_000, 1_000_000)
WINDOWS = (10, 30, 60, 100)

MILLIONS = (1_000_000, 10_000_000)
SHORT = 3
"""Partitions of a window that fits into memory with ten million rows each."""

EXPERIMENTS = {
    "5.1": Experiment("pattern, scope 20, selectivity 0.1", _case(PATTERN, "rows", 0, 20), SIZES),
    "5.2": Experiment("pattern, 1,000 rows", _case(PATTERN, "scope", 1_000, 0), (5, 20, 50, 100)),
    "5.3": Experiment(
        "pattern, 2,000 rows, scope 4", _case(PATTERN, "selectivity", 2_000, 4), (0.1, 0.3, 0.5, 0.7, 0.9)
    ),
    "5.4": Experiment("SUM, window 10", _case(SUM, "rows", 0, 10), SIZES),
    "5.5": Experiment("SUM, first window of 10", _case(SUM, "first", 0, 10), SIZES[:2]),
    "5.6": Experiment("SUM, 10,000 rows", _case(SUM, "window", 10_000, 0), WINDOWS),
    "5.7": Experiment("MAX, window 10", _case(MAX, "rows", 0, 10), SIZES),
    "5.8": Experiment("MAX, 2,000 rows", _case(MAX, "window", 2_000, 0), WINDOWS),
    "median": Experiment("MEDIAN, 2,000 rows", _case(MEDIAN, "window", 2_000, 0), WINDOWS),
    "median-rows": Experiment("MEDIAN, window 10", _case(MEDIAN, "rows", 0, 10), SIZES),
    "large-sum": Experiment("SUM, window 3", _case(SUM, LARGE, 0, SHORT), MILLIONS, alone=True),
    "large-max": Experiment("MAX, window 3", _case(MAX, LARGE, 0, SHORT), MILLIONS, alone=True),
    "large-median": Experiment("MEDIAN, window 3", _case(MEDIAN, LARGE, 0, SHORT), MILLIONS, alone=True),
    "large-pattern": Experiment("pattern", _case(PATTERN, LARGE, 0, SHORT), MILLIONS, alone=True),
    "spark-window": Experiment("SUM on Spark, 100,000 rows", _case(SUM, "window", 100_000, 0, SPARK), (60,)),
    "spark-rows": Experiment("SUM on Spark, window 10", _case(SUM, "rows", 0, 10, SPARK), (1_000_000,)),
}
"""By the number of the figure, where the thesis has it; its time is that of a slide, of one partition."""


def quick(experiment: Experiment) -> Experiment:
    """On fewer rows, at two points of an axis along which a slide should cost the same, and at one of others."""
    base = replace(experiment.base, rows=experiment.base.rows // SMALLER)
    if base.axis in GROWING:
        return replace(experiment, base=base, points=experiment.points[:2])
    if base.axis == "selectivity":
        return replace(experiment, base=base, points=experiment.points[:1])
    if base.axis == LARGE:
        return replace(experiment, points=tuple(at // MUCH_SMALLER for at in experiment.points))
    return replace(experiment, points=(SIZES[0] / SMALLER,))
