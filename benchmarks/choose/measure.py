"""One view by one strategy: filled, changed by each mix for a while, and compared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from unittest.mock import patch

import tidemill
from benchmarks.choose.mixes import MIXES, Mix
from benchmarks.choose.workloads import Epoch, Workload
from benchmarks.dbtoaster.oracle import WrongAnswer
from tidemill.compiler import choose, choose_recomputation
from tidemill.engine.epochs.placement import Placement
from tidemill.model.errors import TidemillError
from tidemill.program.stages import Stage
from tidemill.runtimes.native.backends import COMPILE_AFTER_ROWS
from tidemill.serving.cli.bench_runner import Figure

BENCH = "choose"

AGAIN = "again"
"""Every epoch computes the view again by DuckDB, where it can: what recomputing costs without this project."""

RECOMPUTING = ("recompute", AGAIN)

OVER_BEST, OVER_RECOMPUTING = "auto over the best fixed strategy", "auto over recomputing"
"""The ratios that goals are set for."""

STRATEGIES = {
    "auto": "",
    "delta": "WITH (strategy = 'delta')",
    "viewlet": "WITH (strategy = 'viewlet')",
    "joingraph": "WITH (strategy = 'joingraph')",
    "recompute": "WITH (strategy = 'recompute')",
    AGAIN: "WITH (strategy = 'delta')",
}
"""How a view names each of them; ``auto`` goes without saying, and comes last when they are measured."""

FIRST = 2
"""Epochs of one row before answers are compared."""

WARM_SECONDS = 0.1
"""Seconds of epochs that are not timed, at the beginning of a mix: in them code is compiled, and indexes are built."""

COMPILING = 33.0
"""How many times as long as a mix is timed large epochs run, at most, until stages are compiled: 2 s in a whole run,
where 20,000 rows of TPC-H's Q7 take 1 in Python."""

PARTS = 3
"""Epochs are timed in so many parts, the fastest of which counts."""

ENOUGH = 10.0
"""How many times as long as it should a mix may take until no further part is timed."""

MOST = 500
"""Epochs of a part."""

LONGEST = 3.0
"""Predicted seconds of an epoch beyond which a mix is not run."""

ENTRY_BYTES = 200
"""Bytes of an entry in a dictionary of this process, about."""


@dataclass(frozen=True)
class Outcome:
    """Seconds of the processor for each changed row by mix, and the state; ``reason`` says why nothing was measured.

    ``program`` are the stages without what no runtime looks at; ``answer`` is a hash of the rows of the view after the
    first epochs. ``left_out`` are mixes that would have taken too long.
    """

    case: str
    strategy: str
    per_row: Mapping[str, float] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    bytes: int = 0
    chosen: str = ""
    reason: str = ""
    program: tuple[Stage, ...] = ()
    answer: int = 0

    def figures(self) -> Iterator[Figure]:
        """Microseconds a row for each mix, and bytes."""
        if self.reason:
            yield Figure(BENCH, f"{self.case}/-/{self.strategy}", "us/row", 0.0, "us", f"not run: {self.reason}")
            return
        for mix in self.left_out:
            reason = f"not run: an epoch would take more than {LONGEST:g} s"
            yield Figure(BENCH, f"{self.case}/{mix}/{self.strategy}", "us/row", 0.0, "us", reason)
        for mix, seconds in self.per_row.items():
            yield Figure(BENCH, f"{self.case}/{mix}/{self.strategy}", "us/row", 1e6 * seconds, "us", self.chosen)
        yield Figure(BENCH, f"{self.case}/state/{self.strategy}", "bytes", self.bytes, "bytes", self.chosen)


def measure_all(
    case: str, workload: Workload, strategies: Sequence[str], mixes: Sequence[str], limit: float
) -> list[Outcome]:
    """The outcomes of ``strategies``; ``WrongAnswer`` if they differ in their answers.

    Where ``auto`` has chosen the program of another strategy, that one's figures are its own.
    """
    found: list[Outcome] = []
    for strategy in sorted(strategies, key=lambda strategy: strategy == "auto"):
        outcome = _measure(case, workload, strategy, mixes, limit, found)
        for other in found:
            if outcome.answer != other.answer and not outcome.reason and not other.reason:
                raise WrongAnswer(f"{case}: {strategy} and {other.strategy} show different rows")
        found.append(outcome)
    return found


def _measure(
    case: str, workload: Workload, strategy: str, mixes: Sequence[str], limit: float, before: Sequence[Outcome]
) -> Outcome:
    try:
        with _computing_again(strategy == AGAIN), tidemill.open(":memory:", runtime="native") as warehouse:
            warehouse.sql(workload.declarations)
            warehouse.apply({name: table for name, table in workload.base.items() if table.num_rows})
            warehouse.sql(f"CREATE MATERIALIZED VIEW answer {STRATEGIES[strategy]} AS {workload.query}")
            stages = warehouse._engine.catalog.view("answer").program.stages
            program = tuple(replace(stage, note="", strategy="") for stage in stages)
            for other in before:
                if other.program == program and AGAIN not in (strategy, other.strategy):
                    return replace(other, strategy=strategy, chosen=f"as {other.strategy}")
            chosen = " and ".join(dict.fromkeys(stage.strategy for stage in stages))
            empty = Outcome(case, strategy, chosen=chosen, program=program)
            return _changed(warehouse, workload, empty, mixes, limit)
    except TidemillError as error:
        return Outcome(case, strategy, reason=error.what)


def _changed(
    warehouse: tidemill.Warehouse, workload: Workload, outcome: Outcome, mixes: Sequence[str], limit: float
) -> Outcome:
    """The outcome of all mixes, one after the other, over the same tables."""
    take, recomputes = workload.arrivals(), outcome.strategy in RECOMPUTING
    spent, changed = _timed(warehouse, islice(iter(lambda: take(1), None), FIRST), LONGEST * FIRST)
    view = warehouse.view("answer")
    answer = hash(frozenset(Counter(view.rows()).items()))
    per_row = {"single": spent / changed} if recomputes and "single" in mixes else {}
    # A row costs less in a batch than alone, and a recomputation the same for any change.
    left_out, expected = [], spent / FIRST / 10
    total = sum(table.num_rows for table in workload.base.values())
    for name in (name for name in MIXES if name in mixes and name not in per_row):
        mix = MIXES[name]
        if expected * (1 if recomputes else max(mix.rows, mix.share * total)) > LONGEST:
            left_out.append(name)
            continue
        measured = _measured(warehouse, mix, mix.epochs(take, warehouse), limit, compiles=not recomputes)
        if measured is not None:
            per_row[name] = measured
            if recomputes:
                expected = max(expected, measured * max(mix.rows, mix.share * total))
            elif mix.rows > 1:
                expected = measured
    if not recomputes:
        view.verify()
    held = sum(ENTRY_BYTES * size.entries if size.bytes is None else size.bytes for size in view.sizes())
    return replace(outcome, per_row=per_row, left_out=left_out, bytes=held, answer=answer)


def _measured(
    warehouse: tidemill.Warehouse, mix: Mix, epochs: Iterator[Epoch], limit: float, compiles: bool
) -> float | None:
    """Seconds of the processor for a changed row; None if no rows were left."""
    step = 1 if mix.rows else 2
    spent, changed = _timed(warehouse, epochs, WARM_SECONDS, step)
    if spent > LONGEST:
        return spent / changed
    if compiles and mix.rows > 1:
        # A stage that DuckDB has filled is compiled once it has taken in so many rows itself.
        _timed(warehouse, islice(epochs, COMPILE_AFTER_ROWS // mix.rows), COMPILING * limit)
    timed: list[tuple[float, int]] = []
    while len(timed) < PARTS and sum(spent for spent, _ in timed) < ENOUGH * limit:
        timed.append(_timed(warehouse, epochs, limit / PARTS, step))
    return min((spent / changed for spent, changed in timed if changed), default=None)


@contextmanager
def _computing_again(always: bool) -> Iterator[None]:
    """Context in which every epoch computes its views again, where DuckDB can."""
    with ExitStack() as stack:
        if always:
            stack.enter_context(patch.object(choose, "COLUMN_WORK", -1))
            stack.enter_context(patch.object(choose_recomputation, "LEAST_CHANGED", 0))
            stack.enter_context(patch.object(choose_recomputation, "WORTH", -1.0))
            stack.enter_context(patch.object(Placement, "stays_in_python", lambda *_: True))
        yield


def _timed(warehouse: tidemill.Warehouse, epochs: Iterator[Epoch], limit: float, step: int = 1) -> tuple[float, int]:
    """Seconds of the processor, and rows that changed, in a multiple of ``step`` epochs."""
    spent, changed, count = 0.0, 0, 0
    while (count < MOST and spent < limit) or count % step:
        epoch = next(epochs, None)
        if epoch is None:
            break
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
