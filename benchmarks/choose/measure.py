"""One view by one strategy: filled, changed by each mix for a while, and compared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from unittest.mock import patch

import tidemill
from benchmarks.choose.mixes import MIXES
from benchmarks.choose.workloads import Epoch, Workload
from benchmarks.dbtoaster.oracle import WrongAnswer
from tidemill.compiler import choose, choose_recomputation
from tidemill.engine.epochs import recomputation
from tidemill.engine.epochs.placement import Placement
from tidemill.model.errors import TidemillError
from tidemill.runtimes.native import backends
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

FIRST, REACHING = 2, 100
"""Epochs of one row before answers are compared, at least and at most: until a row reaches the view."""

WARM_SECONDS = 0.1
"""Seconds of epochs that are not timed, at the beginning of a mix: in them code is compiled, and indexes are built."""

COMPILING = 33.0
"""How many times as long as a mix is timed large epochs run, at most, until stages are compiled: 2 s in a whole run,
where 20,000 rows of TPC-H's Q7 take 1 in Python."""

WARM_ROWS, COMPILED_AFTER = 20_000, 2_000
"""Rows that arrive in large epochs that are not timed, and rows after which a stage is compiled here, a tenth of the
usual ones: what is measured is the state that lasts. Orders that come and go in one epoch do not reach any stage."""

PARTS = 4
"""Epochs are timed in so many parts, the fastest of which counts."""

PART_ROWS = 3_000
"""Rows that arrive in a part: some streams have no more than 36,000."""

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

    ``answer`` is a hash of the rows of the view after the first epochs; ``left_out`` are mixes that were not run, with
    the reason for each.
    """

    case: str
    strategy: str
    per_row: Mapping[str, float] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    bytes: int = 0
    chosen: str = ""
    reason: str = ""
    answer: int = 0

    def figures(self) -> Iterator[Figure]:
        """Microseconds a row for each mix, and bytes."""
        if self.reason:
            yield Figure(BENCH, f"{self.case}/-/{self.strategy}", "us/row", 0.0, "us", f"not run: {self.reason}")
            return
        for mix, reason in self.left_out.items():
            yield Figure(BENCH, f"{self.case}/{mix}/{self.strategy}", "us/row", 0.0, "us", f"not run: {reason}")
        for mix, seconds in self.per_row.items():
            yield Figure(BENCH, f"{self.case}/{mix}/{self.strategy}", "us/row", 1e6 * seconds, "us", self.chosen)
        yield Figure(BENCH, f"{self.case}/state/{self.strategy}", "bytes", self.bytes, "bytes", self.chosen)


def measure_all(
    case: str, workload: Workload, strategies: Sequence[str], mixes: Sequence[str], limit: float
) -> list[Outcome]:
    """The outcomes of ``strategies``; ``WrongAnswer`` if they differ in their answers.

    They take turns in each mix, so that what else the machine does meets all of them alike. Where ``auto`` has chosen
    the program of another strategy, that one's figures are its own.
    """
    contenders: list[Contender] = []
    with ExitStack() as stack:
        stack.enter_context(patch.object(backends, "COMPILE_AFTER_ROWS", COMPILED_AFTER))
        for strategy in sorted(strategies, key=lambda strategy: strategy == "auto"):
            one = Contender(case, strategy)
            one.attempt(lambda: one.start(stack, workload, contenders))  # noqa: B023
            for other in contenders:
                if one.is_running and other.is_running and one.answer != other.answer:
                    raise WrongAnswer(f"{case}: {strategy} and {other.strategy} show different rows")
            contenders.append(one)
        for name in (name for name in MIXES if name in mixes):
            _take_turns(name, [one for one in contenders if one.is_running], limit)
        for one in contenders:
            one.attempt(one.finish)
    return [one.outcome() for one in contenders]


def _take_turns(name: str, contenders: Sequence[Contender], limit: float) -> None:
    """Measure one mix: each contender warms up, then they are timed by turns."""
    running = [one for one in contenders if one.enters(name)]
    for one in running:
        one.attempt(lambda: one.warm_up(limit))  # noqa: B023
    for _ in range(PARTS):
        for one in running:
            one.attempt(lambda: one.time_part(limit))  # noqa: B023
    for one in running:
        one.leave(name)


class Contender:
    """A view by one strategy, in a warehouse of its own, and what was measured of it so far."""

    def __init__(self, case: str, strategy: str) -> None:
        self.case, self.strategy = case, strategy
        self.reason, self.answer, self._bytes = "", 0, 0
        self._same: Contender | None = None
        self._recomputes = strategy in RECOMPUTING
        self._per_row: dict[str, float] = {}
        self._left_out: dict[str, str] = {}

    @property
    def is_running(self) -> bool:
        """True unless it was refused, or has the program of another."""
        return not self.reason and self._same is None

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step; an error is the reason why there are no figures."""
        if not self.is_running:
            return
        try:
            with _computing_again(self.strategy == AGAIN):
                step()
        except TidemillError as error:
            self.reason = error.what

    def start(self, stack: ExitStack, workload: Workload, before: Sequence[Contender]) -> None:
        """Fill the tables and the view, and apply the first epochs."""
        self._warehouse = stack.enter_context(tidemill.open(":memory:", runtime="native"))
        self._warehouse.sql(workload.declarations)
        self._warehouse.apply({name: table for name, table in workload.base.items() if table.num_rows})
        self._warehouse.sql(f"CREATE MATERIALIZED VIEW answer {STRATEGIES[self.strategy]} AS {workload.query}")
        stages = self._warehouse._engine.catalog.view("answer").program.stages
        self._chosen = " and ".join(dict.fromkeys(stage.strategy for stage in stages))
        self._program = tuple(replace(stage, note="", strategy="") for stage in stages)
        for other in before:
            if other.is_running and other._program == self._program and AGAIN not in (self.strategy, other.strategy):
                self._same = other
                return
        if self.strategy == AGAIN and not _is_computed_again(self._warehouse):
            self.reason = "DuckDB cannot compute it again"
            return
        read = {name for stage in stages for name in stage.inputs}
        self._is_reached = workload.arriving is None or not read.isdisjoint(workload.arriving)
        self._total = sum(table.num_rows for table in workload.base.values())
        self._take = workload.arrivals()
        spent, changed = self._first_epochs(read)
        self.answer = hash(frozenset(Counter(self._warehouse.view("answer").rows()).items()))
        # A row costs less in a batch than alone, and a recomputation the same for any change.
        self._alone = spent / changed
        self._expected = spent / 10 if self._recomputes else self._alone / 10

    def _first_epochs(self, read: Collection[str]) -> tuple[float, int]:
        """Apply epochs of one row until one reaches a table of the view, and time that one.

        It is not the very first, which builds indexes.
        """
        for count in range(1, REACHING + 1):
            epoch = self._take(1) or {}
            timed = _timed(self._warehouse, iter((epoch,)), LONGEST)
            if count >= FIRST and not epoch.keys().isdisjoint(read):
                break
        return timed

    def enters(self, name: str) -> bool:
        """Begin a mix; False if its epochs would take too long or nothing, or if it is known what they take."""
        self._mix = MIXES[name]
        self._timed_parts: list[tuple[float, int]] = []
        if self._mix.rows and not self._is_reached:
            self._left_out[name] = "no rows arrive in the tables of the view"
            return False
        if self._recomputes and name == "single":
            self._per_row[name] = self._alone
            return False
        self._rows = max(self._mix.rows, self._mix.share * self._total)
        if self._expected * (1 if self._recomputes else self._rows) > LONGEST:
            self._left_out[name] = f"an epoch would take more than {LONGEST:g} s"
            return False
        self._epochs = self._mix.epochs(self._take, self._warehouse)
        self._step = 1 if self._mix.rows else 2
        return True

    def warm_up(self, limit: float) -> None:
        """Run epochs that do not count, unless one of them takes so long that it has to."""
        epochs, seconds = self._epochs, WARM_SECONDS
        if self._mix.rows > 1 and not self._recomputes:
            epochs, seconds = islice(epochs, WARM_ROWS // self._mix.rows), COMPILING * limit
        timed = _timed(self._warehouse, epochs, seconds, self._step)
        if timed[0] > LONGEST:
            self._timed_parts.append(timed)

    def time_part(self, limit: float) -> None:
        """Time some epochs, unless those before took long enough."""
        if sum(spent for spent, _ in self._timed_parts) < ENOUGH * limit:
            part = islice(self._epochs, max(PART_ROWS // self._mix.rows, 1)) if self._mix.rows else self._epochs
            self._timed_parts.append(_timed(self._warehouse, part, limit / PARTS, self._step))

    def leave(self, name: str) -> None:
        """Note the fastest part of the mix, if any rows were left for it."""
        found = [spent / changed for spent, changed in self._timed_parts if changed]
        if not found:
            return
        self._per_row[name] = min(found)
        if self._recomputes:
            self._expected = max(self._expected, min(found) * self._rows)
        elif self._mix.rows != 1:
            self._expected = min(found)

    def finish(self) -> None:
        """Verify the view, and count the bytes of its maps."""
        view = self._warehouse.view("answer")
        if not self._recomputes:
            view.verify()
        self._bytes = sum(ENTRY_BYTES * size.entries if size.bytes is None else size.bytes for size in view.sizes())

    def outcome(self) -> Outcome:
        """The figures of all mixes; those of another with the same program are its own."""
        if self._same is not None:
            return replace(self._same.outcome(), strategy=self.strategy, chosen=f"as {self._same.strategy}")
        if self.reason:
            return Outcome(self.case, self.strategy, reason=self.reason)
        return Outcome(
            self.case, self.strategy, self._per_row, self._left_out, self._bytes, self._chosen, answer=self.answer
        )


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


def _is_computed_again(warehouse: tidemill.Warehouse) -> bool:
    state = warehouse._engine.state
    placed = state.pipeline["answer"]
    translated = all(map(state.placement.has_columnar_fill, placed.program.stages))
    return translated and recomputation._can_be_computed(state, placed)


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
