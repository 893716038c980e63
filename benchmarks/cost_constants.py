"""The costs of elementary operations, fitted to what views take: ``python -m benchmarks.cost_constants [ROWS ...]``.

Each view is kept over the same table, in generated Python and in machine code, by epochs of so many new rows. Its time
a row is what counts should explain: that of the table alone, its stages and statements once an epoch, and by row the
predicted visits, updates and emissions. The costs that do so best, none of them negative,
are printed in nanoseconds, and beside each view what they make of it. The constants of
``compiler/statistics/work_counts.py`` are ratios of these.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import tidemill
from tidemill.compiler.statistics.predictions import ProgramEstimate
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.engine.definitions.stored_statistics import stored_statistics
from tidemill.program.stages import Stage
from tidemill.runtimes.native import backends

ROWS, KEYS, GROUPS = 5_000, 500, 50
SECONDS, PARTS = 0.3, 5
STRATEGIES = ("delta", "viewlet")

TABLES = """
    CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT NOT NULL, g BIGINT NOT NULL, a BIGINT NOT NULL);
    CREATE TABLE u (k BIGINT PRIMARY KEY, r BIGINT NOT NULL);
    CREATE TABLE w (id BIGINT PRIMARY KEY, k BIGINT NOT NULL, g BIGINT NOT NULL)
"""

_COPIES = " UNION ALL ".join(f"SELECT id, {one} FROM t" for one in ("a", "g", "k", "a + g AS b"))
_COUNTS = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
_COUNTED = f"SELECT n, COUNT(*) AS m FROM ({_COUNTS}) c GROUP BY n"

VIEWS = {
    "copy": "SELECT id, a FROM t",
    "copies": _COPIES,
    "sum by key": "SELECT id, SUM(a) AS s FROM t GROUP BY id",
    "sum by group": "SELECT k, SUM(a) AS s, COUNT(*) AS n FROM t GROUP BY k",
    "lookup": "SELECT t.id, u.r FROM t JOIN u ON t.k = u.k",
    "lookup, sum": "SELECT u.r, SUM(t.a) AS s FROM t JOIN u ON t.k = u.k GROUP BY u.r",
    "two lookups": "SELECT t.id, u.r, v.r AS r2 FROM t JOIN u ON t.k = u.k JOIN u v ON v.k = t.g",
    "matches": "SELECT t.id, w.id AS other FROM t JOIN w ON t.k = w.k",
    "matches, few kept": "SELECT t.id, w.id AS other FROM t JOIN w ON t.k = w.k WHERE w.g = 7",
    "matches, counted": "SELECT t.id, COUNT(*) AS n FROM t JOIN w ON t.k = w.k GROUP BY t.id",
    "partners": "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.k = b.k",
    "partners of a group": "SELECT a.g, SUM(a.a * b.a) AS s FROM t a JOIN t b ON a.k = b.k GROUP BY a.g",
    "counts, looked up": f"SELECT c.k, c.n, u.r FROM ({_COUNTS}) c JOIN u ON c.k = u.k",
    "counts of counts": _COUNTED,
    "counts of these": f"SELECT m, COUNT(*) AS o FROM ({_COUNTED}) d GROUP BY m",
    "greatest": "SELECT k, MAX(a) AS a FROM t GROUP BY k",
}


class Counts(NamedTuple):
    """Operations for one row: epochs, stages and statements are those of an epoch, divided by its rows."""

    rows: float
    epochs: float
    stages: float
    statements: float
    visits: float
    updates: float
    emissions: float


class Measured(NamedTuple):
    """A view by one strategy: nanoseconds a row, and the operations."""

    name: str
    took: float
    counts: Counts


def measure(name: str, strategy: str, count: int) -> Measured:
    """One view, or with the empty name the table alone, by epochs of ``count`` rows."""
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(TABLES)
        wh.apply({"u": [(1, (k, k % GROUPS)) for k in range(KEYS)]})
        wh.apply({"t": [(1, (i, i % KEYS, i // KEYS, i)) for i in range(ROWS)]})
        wh.apply({"w": [(1, (i, i % KEYS, i * 7 // KEYS % GROUPS)) for i in range(ROWS)]})
        if name:
            wh.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {VIEWS[name]}")
        counts = predicted_counts(wh, count) if name else Counts(1.0, 1 / count, 0, 0, 0, 0, 0)
        batches = new_rows(Random(1), count)
        timed(wh, batches, count)  # code is compiled, and indexes are built
        took = min(timed(wh, batches, count) for _ in range(PARTS))
        return Measured(f"{name}, {strategy}, {count:,} rows" if name else f"no view, {count:,} rows", took, counts)


def predicted_counts(wh: tidemill.Warehouse, count: int) -> Counts:
    """The counts for one new row of ``t``; nothing else changes."""
    catalog, store = wh._engine.catalog, wh._engine.store
    known = stored_statistics(catalog, store)
    known = Statistics(known.rows, known.distinct, known.shares, {"t": 1.0, "u": 0.0, "w": 0.0})
    stages = catalog.view("v").full_program.stages
    estimate = ProgramEstimate(known.sizes(["t", "u", "w"], catalog.tables), batch=count)
    for stage in stages:
        estimate.add(stage)
    row = estimate.counts
    statements = sum(map(running_statements, stages))
    fixed = (1.0, 1 / count, len(stages) / count, statements / count)
    return Counts(*fixed, row.visits, row.updates, row.emissions)


def running_statements(stage: Stage) -> int:
    """The statements of a stage that run when ``t`` changes."""
    return sum(len(trigger.statements) for trigger in stage.triggers if trigger.relation not in ("u", "w"))


def new_rows(random: Random, count: int) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """Batches of rows of ``t`` that were never there."""
    number = ROWS
    while True:
        numbers = range(number, number + count)
        yield [(1, (i, random.randrange(KEYS), random.randrange(GROUPS), random.randrange(10**6))) for i in numbers]
        number += count


def timed(wh: tidemill.Warehouse, batches: Iterator[Any], count: int) -> float:
    """Nanoseconds of the processor for a row."""
    spent, rows = 0.0, 0
    while spent < SECONDS / PARTS:
        batch = next(batches)
        clock = time.process_time()
        wh.apply({"t": batch})
        spent += time.process_time() - clock
        rows += count
    return 1e9 * spent / rows


def fit(counts: npt.NDArray[np.float64], times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The costs with the least squared error of logarithms: twice as long is as wrong as half as long.

    They are found one at a time, by steps that become smaller, from the same cost for each.
    """

    def error(costs: npt.NDArray[np.float64]) -> float:
        return float((np.log(np.maximum(counts @ costs, 1.0) / times) ** 2).sum())

    costs = np.full(counts.shape[1], times.sum() / counts.sum())
    for step in (4.0, 2.0, 1.5, 1.2, 1.1, 1.05, 1.02):
        better = True
        while better:
            better = False
            for place in range(len(costs)):
                for factor in (step, 1 / step, 0.0):
                    other = costs.copy()
                    other[place] *= factor
                    if error(other) < error(costs) - 1e-9:
                        costs, better = other, True
    return costs


def main(batches: list[int]) -> None:
    """Measure all views by both back ends, and print what was fitted."""
    for backend in ("python", "llvm"):
        backends.BACKEND = backend
        found: list[Measured] = []
        for count in batches:
            found.append(measure("", "", count))
            found += [measure(name, strategy, count) for name in VIEWS for strategy in STRATEGIES]
        costs = fit(np.array([one.counts for one in found]), np.array([one.took for one in found]))
        shown = ", ".join(f"{name} {cost:,.0f} ns" for name, cost in zip(Counts._fields, costs, strict=True))
        print(f"\n{backend}: {shown}")
        for one in found:
            print(f"  {one.name:<40} {one.took:>9,.0f} ns, fitted {costs @ np.array(one.counts):>9,.0f}")


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]] or [10])
