"""Regret of the chosen method: what a slide costs by it, over what it costs by the best method for windows of a shape.

CPU time, so that other jobs on the machine disturb little, of stages that are compiled from their first row.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from unittest.mock import patch

from benchmarks.viewdf.case import MAX, SUM, Case
from benchmarks.viewdf.data import Losses
from benchmarks.viewdf.direct import DirectInDuckDB
from benchmarks.viewdf.subject import subject_of
from tidemill.compiler.rewrites.sliding_windows.choose_method import method_costs
from tidemill.compiler.statistics.sizes import WindowSizes
from tidemill.runtimes.native import backends

SLIDES = 7
"""So many are timed for each method; the second best counts."""


@dataclass(frozen=True)
class Shape:
    """A window of ``window`` slides over ``rows`` rows each, ``each`` of them in one group."""

    query: str
    rows: int
    each: int
    window: int

    @property
    def name(self) -> str:
        """As figures call it.

        >>> Shape("sum", 20_000, 10, 48).name
        'regret/sum/rows20000/each10/window48'
        """
        return f"regret/{self.query}/rows{self.rows}/each{self.each}/window{self.window}"

    @property
    def sizes(self) -> WindowSizes:
        """The sizes by which methods are priced: every group is in every slide."""
        groups = max(self.rows // self.each, 1)
        return WindowSizes(self.rows, groups, groups)

    @property
    def predicted(self) -> dict[str, float]:
        """The predicted cost of each method."""
        return method_costs(self.window, self.query == SUM, self.sizes)

    @property
    def chosen(self) -> str:
        """The method of least predicted cost."""
        return min(self.predicted, key=self.predicted.__getitem__)


SHAPES = tuple(
    Shape(query, rows, each, window)
    for rows, each, window, query in product((2_000, 20_000), (1, 10, 100), (4, 12, 48), (SUM, MAX))
)
QUICK_SHAPES = (Shape(SUM, 2_000, 10, 12), Shape(MAX, 2_000, 1, 4))


def measured(shape: Shape) -> dict[str, float]:
    """The CPU seconds of a slide by each method."""
    with patch.object(backends, "BACKEND", "llvm"):
        return {method: _slide(shape, method) for method in shape.predicted}


def _slide(shape: Shape, method: str) -> float:
    losses = Losses(shape.rows, shape.each, 0.1)
    case = Case(shape.query, "rows", method, shape.rows, shape.window)
    taken = []
    with closing(subject_of(case)) as subject, closing(DirectInDuckDB(case)) as oracle:
        filling = losses.partitions(range(shape.window))
        subject.bring(filling)
        oracle.bring(filling)
        subject.slide()
        for number in range(shape.window, shape.window + SLIDES):
            partition = [losses.partition(number)]
            subject.bring(partition)
            oracle.bring(partition)
            begin = time.process_time()
            subject.slide()
            taken.append(time.process_time() - begin)
        oracle.check(subject.answer(), f"{shape.name}/{method}")
    gc.collect()
    return sorted(taken)[1]


def regrets(shapes: tuple[Shape, ...]) -> Iterator[tuple[Shape, dict[str, float], float]]:
    """Each shape, what its methods cost, and the regret of the one that is chosen."""
    for shape in shapes:
        found = measured(shape)
        yield shape, found, found[shape.chosen] / min(found.values())


def told(shape: Shape, found: dict[str, float], regret: float) -> str:
    """A line about a shape."""
    listed = ", ".join(f"{method} {1e3 * seconds:.2f}" for method, seconds in sorted(found.items(), key=_seconds))
    return f"{shape.name}: {shape.chosen} is chosen, regret {regret:.2f}; CPU ms a slide: {listed}"


def _seconds(item: tuple[str, float]) -> float:
    return item[1]
