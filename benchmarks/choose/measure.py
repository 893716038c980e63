"""One view by one strategy: filled, changed for a while, and compared."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

import tidemill
from benchmarks.choose.workloads import Epoch, Workload
from benchmarks.dbtoaster.oracle import WrongAnswer
from tidemill.changes.zset import Row
from tidemill.model.errors import TidemillError
from tidemill.program.stages import Stage
from tidemill.runtimes.native.backends import COMPILE_AFTER_ROWS
from tidemill.serving.cli.bench_runner import Figure

BENCH = "choose"

STRATEGIES = {
    "auto": "",
    "delta": "WITH (strategy = 'delta')",
    "viewlet": "WITH (strategy = 'viewlet')",
    "viewlet-1": "WITH (strategy = 'viewlet', depth = '1')",
    "joingraph": "WITH (strategy = 'joingraph')",
    "lineage": "WITH (strategy = 'lineage')",
    "recompute": "WITH (strategy = 'recompute')",
}
"""How a view names each of them; ``auto`` goes without saying, and comes last when they are measured."""

FIRST = 4
"""Epochs before answers are compared."""

WARM, WARM_SECONDS = 50, 0.6
"""Epochs of one row that are not timed, at most, and for how long: in them indexes are built."""

BULK_SECONDS = 5.0
"""For so long at most larger epochs are not timed, until stages have taken in enough rows to be compiled."""

PARTS = 3
"""Epochs are timed in so many parts, the fastest of which counts."""

MOST, LEAST = 1_000, 1
"""Epochs of a part."""


@dataclass(frozen=True)
class Outcome:
    """Seconds of the processor for each changed row, and entries of the maps; ``reason`` says why nothing was measured.

    ``program`` are the stages without what no runtime looks at; ``answer`` are the rows of the view after the epochs
    that are not timed.
    """

    case: str
    strategy: str
    per_row: float = 0.0
    entries: int = 0
    rows: int = 0
    chosen: str = ""
    reason: str = ""
    program: tuple[Stage, ...] = ()
    answer: tuple[Row, ...] = ()

    def figures(self) -> Iterator[Figure]:
        """Microseconds a row, and entries."""
        name = f"{self.case}/{self.strategy}"
        if self.reason:
            yield Figure(BENCH, name, "us/row", 0.0, "us", f"not run: {self.reason}")
            return
        yield Figure(BENCH, name, "us/row", 1e6 * self.per_row, "us", f"{self.rows:,} rows; {self.chosen}")
        yield Figure(BENCH, name, "entries", self.entries, "entries", self.chosen)


def measure_all(case: str, workload: Workload, strategies: tuple[str, ...], rows: int, limit: float) -> list[Outcome]:
    """The outcomes of ``strategies`` for epochs of ``rows`` rows; ``WrongAnswer`` if they differ in their answers.

    Where ``auto`` has chosen the program of another strategy, that one's figures are its own.
    """
    found: list[Outcome] = []
    for strategy in sorted(strategies, key=lambda strategy: strategy == "auto"):
        outcome = _measure(case, workload, strategy, rows, limit, found)
        for other in found:
            if outcome.answer != other.answer and not outcome.reason and not other.reason:
                raise WrongAnswer(f"{case}: {strategy} and {other.strategy} show different rows")
        found.append(outcome)
    return found


def _measure(case: str, workload: Workload, strategy: str, rows: int, limit: float, before: list[Outcome]) -> Outcome:
    try:
        with tidemill.open(":memory:", runtime="native") as warehouse:
            warehouse.sql(workload.declarations)
            warehouse.apply({name: table for name, table in workload.base.items() if table.num_rows})
            warehouse.sql(f"CREATE MATERIALIZED VIEW answer {STRATEGIES[strategy]} AS {workload.query}")
            stages = warehouse._engine.catalog.view("answer").program.stages
            program = tuple(replace(stage, note="", strategy="") for stage in stages)
            for other in before:
                if other.program == program:
                    return replace(other, strategy=strategy, chosen=f"as {other.strategy}")
            epochs = workload.epochs(rows)
            _timed(warehouse, islice(epochs, FIRST), inf)
            view = warehouse.view("answer")
            answer = tuple(sorted(view.rows(), key=repr))
            _warm_up(warehouse, epochs, rows)
            parts = [_timed(warehouse, epochs, limit / PARTS) for _ in range(PARTS)]
            spent, changed = min((part for part in parts if part[1]), key=lambda part: part[0] / part[1])
            view.verify()
            held = sum(size.entries for size in view.sizes())
            chosen = " and ".join(dict.fromkeys(stage.strategy for stage in stages))
            return Outcome(case, strategy, spent / changed, held, changed, chosen, "", program, answer)
    except TidemillError as error:
        return Outcome(case, strategy, reason=error.what)


def _warm_up(warehouse: tidemill.Warehouse, epochs: Iterator[Epoch], rows: int) -> None:
    if rows == 1:
        _timed(warehouse, islice(epochs, WARM), WARM_SECONDS)
    else:
        _timed(warehouse, islice(epochs, COMPILE_AFTER_ROWS // rows), BULK_SECONDS)


def _timed(warehouse: tidemill.Warehouse, epochs: Iterator[Epoch], limit: float) -> tuple[float, int]:
    """Seconds of the processor, and rows that changed."""
    spent, changed, count = 0.0, 0, 0
    while count < MOST and (count < LEAST or spent < limit) and (epoch := next(epochs, None)) is not None:
        count += 1
        prepared = _prepared(epoch)
        clock = time.process_time()
        warehouse.apply(prepared)
        spent += time.process_time() - clock
        changed += sum(table.num_rows for table in epoch.values())
    return spent, changed


def _prepared(epoch: Epoch) -> dict[str, object]:
    """One row as a pair, more as Arrow tables."""
    if sum(table.num_rows for table in epoch.values()) > 1:
        return dict(epoch)
    ((name, table),) = epoch.items()
    *row, weight = (column[0].as_py() for column in table.columns)
    return {name: [(weight, tuple(row))]}
