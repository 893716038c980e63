"""Triangles of a skewed graph: what one changed edge costs, with heavy and light parts and without.

``python -m benchmarks.graphivm.triangles`` counts the triangles of graphs of 10,000 and 40,000 edges by each strategy,
lets edges come and go, and prints for each size the lines of generated Python that a change of one edge runs, their
mean and the most, and the CPU time of an edge in machine code, in epochs of a hundred. All answers must be the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill
from benchmarks.dbtoaster.oracle import WrongAnswer

QUERY = "SELECT COUNT(*) AS n FROM edges e, edges f, edges g WHERE e.b = f.a AND f.b = g.a AND g.b = e.a"

STRATEGIES = ("delta", "viewlet", "joingraph")
SIZES = (10_000, 40_000)
"""Edges by default. To fill a view of 160,000 by deltas takes more than 15 GB: DuckDB makes all paths of two edges."""

DEGREE = 10
"""Edges for each node, in the mean. That of rank k has a share of them in proportion to 1 / k."""

TRACED, EPOCHS, BATCH = 40, 20, 100
"""Single changes whose lines are counted; and epochs that are timed, of so many edges each."""

WARM = 10
"""Changes before any figure: they read the state from the store, and build what it is found by."""

Edges = list[tuple[int, int]]


@dataclass(frozen=True)
class Cost:
    """The cost of one changed edge: lines of generated Python, the most of any, and microseconds in machine code."""

    strategy: str
    edges: int
    lines: float
    most: int
    micros: float

    def __str__(self) -> str:
        return f"{self.strategy:9} {self.edges:7,}  {self.lines:9,.0f}  {self.most:9,}  {self.micros:8,.1f} us"


def skewed(edges: int, seed: int) -> Edges:
    """Edges between nodes of unequal degrees, the most frequent of which begins and ends a tenth of them."""
    random = np.random.default_rng(seed)
    nodes = max(edges // DEGREE, 2)
    shares = 1.0 / np.arange(1, nodes + 1)
    ends = random.choice(nodes, size=(edges, 2), p=shares / shares.sum())
    return [(int(a), int(b)) for a, b in ends]


def measure(strategy: str, size: int, limit: float) -> tuple[Cost, list[int]]:
    """The cost of changes by one strategy, and the counts after those that were timed."""
    first, more = skewed(size, 7), skewed(TRACED + EPOCHS * BATCH, 8)
    lines = _lines(strategy, first, more[:TRACED], limit)
    seconds, counts = _seconds(strategy, first, more[TRACED:])
    return Cost(strategy, size, mean(lines), max(lines), 1e6 * seconds / (2 * EPOCHS * BATCH)), counts


def _open(strategy: str, edges: Edges, backend: str) -> tidemill.Warehouse:
    warehouse = tidemill.open(":memory:", runtime="native", backend=backend)
    warehouse.sql("CREATE TABLE edges (a INT, b INT)")
    a, b = zip(*edges, strict=True)
    warehouse.apply({"edges": pa.table({"a": pa.array(a, pa.int32()), "b": pa.array(b, pa.int32())})})
    warehouse.sql(f"CREATE MATERIALIZED VIEW triangles WITH (strategy = '{strategy}') AS {QUERY}")
    return warehouse


def _lines(strategy: str, edges: Edges, changes: Edges, limit: float) -> list[int]:
    """The lines that each change runs, once others have brought all state into memory; at most so many seconds."""
    with _open(strategy, edges, "python") as warehouse:
        for edge in edges[:WARM]:
            warehouse.apply({"edges": [(1, edge)]})
        end, found = time.process_time() + limit, []
        for edge in changes:
            found.append(lines_run(partial(warehouse.apply, {"edges": [(1, edge)]})))
            if time.process_time() > end:
                break
        return found


def lines_run(apply: Callable[[], object]) -> int:
    """The lines of generated code that an epoch runs: each loop runs some for every row that it visits."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith("<"):
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        apply()
    finally:
        sys.settrace(None)
    return count


def _seconds(strategy: str, edges: Edges, changes: Edges) -> tuple[float, list[int]]:
    """CPU time of epochs in which edges come, and then others go; and the count after each."""
    with _open(strategy, edges, "llvm") as warehouse:
        for edge in edges[:WARM]:
            warehouse.apply({"edges": [(1, edge)]})
        present = Counter(edges) + Counter(edges[:WARM])
        taken, counts = 0.0, []
        for start in range(0, EPOCHS * BATCH, BATCH):
            for weight, moved in ((1, changes[start : start + BATCH]), (-1, edges[start : start + BATCH])):
                begin = time.process_time()
                warehouse.apply({"edges": [(weight, edge) for edge in moved]})
                taken += time.process_time() - begin
                present.update({edge: weight * times for edge, times in Counter(moved).items()})
            counts.append(warehouse.view("triangles").rows()[0][0])
        if triangles(present) != counts[-1]:
            raise WrongAnswer(f"{strategy} counts {counts[-1]} triangles")
        return taken, counts


def triangles(edges: Counter[tuple[int, int]]) -> int:
    """The number of triangles, from both ends of each edge; DuckDB would make all paths of two edges for it.

    >>> triangles(Counter({(1, 2): 2, (2, 3): 1, (3, 1): 1, (4, 4): 1}))
    7
    """
    after: defaultdict[int, dict[int, int]] = defaultdict(dict)
    before: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for (a, b), times in edges.items():
        after[a][b] = before[b][a] = times
    total = 0
    for (a, b), times in edges.items():
        few, many = sorted((after[b], before[a]), key=len)
        total += times * sum(count * many[node] for node, count in few.items() if node in many)
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each strategy at each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, nargs="+", default=SIZES)
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    parser.add_argument("--seconds", type=float, default=20.0, help="of single changes, which are traced")
    options = parser.parse_args(arguments)
    for size in options.edges:
        answers: list[int] | None = None
        for strategy in options.strategies:
            cost, counts = measure(strategy, size, options.seconds)
            if answers is not None and counts != answers:
                raise WrongAnswer(f"{strategy} counts other triangles than {options.strategies[0]}")
            answers = counts
            print(cost, flush=True)


if __name__ == "__main__":
    main()
