"""Programs written by hand, as the thesis has them in each figure: the same steps over Arrow tables, and no engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.viewdf.case import FULL, MAX, PATTERN, SUM, Case
from benchmarks.viewdf.data import HIGH

PAIR = ["src", "dest"]
RUNS = pa.schema([*((name, pa.string()) for name in PAIR), ("count", pa.int64()), ("sum_loss", pa.int64())])


def by_hand(case: Case) -> ByHand:
    """The program for the query of ``case``."""
    programs: dict[str, type[ByHand]] = {SUM: SumByHand, MAX: MaxByHand, PATTERN: PatternByHand}
    return programs[case.query](case.window)


class ByHand(ABC):
    """Takes partitions in, one after the other, and has the rows of the view's last one."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._waiting: deque[pa.Table] = deque()
        self._panes: deque[pa.Table] = deque()

    def bring(self, partitions: Sequence[pa.Table]) -> None:
        """The next partitions are there."""
        self._waiting.extend(partitions)

    def slide(self) -> None:
        """Take them in."""
        while self._waiting:
            self.take(self._waiting.popleft())

    def close(self) -> None:
        """Let go of the partitions."""
        self._panes.clear()

    @abstractmethod
    def take(self, partition: pa.Table) -> None:
        """The next partition."""

    @abstractmethod
    def answer(self) -> pa.Table:
        """The rows of the last partition of the view."""


class SumByHand(ByHand):
    """The window before, more what has come and less what has left; a group stays while it has rows."""

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self._sums: pa.Table | None = None

    def take(self, partition: pa.Table) -> None:
        """One sum of three small tables."""
        counted = partition.append_column("n", pa.repeat(pa.scalar(1, pa.int64()), len(partition)))
        self._panes.append(_summed([counted.drop(["ts"])]))
        parts = [self._panes[-1]] if self._sums is None else [self._sums, self._panes[-1]]
        if len(self._panes) > self._window:
            parts.append(_negative(self._panes.popleft()))
        sums = _summed(parts)
        self._sums = sums.filter(pc.greater(sums["n"], 0))

    def answer(self) -> pa.Table:
        """The sums."""
        assert self._sums is not None, "a partition comes first"
        return self._sums.drop(["n"])


class MaxByHand(ByHand):
    """The maxima of all partitions of the window, put together for each slide."""

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self._maxima: pa.Table | None = None

    def take(self, partition: pa.Table) -> None:
        """The maxima of one partition, and which ones are in the window."""
        self._panes.append(_greatest([partition.drop(["ts"])]))
        if len(self._panes) > self._window:
            self._panes.popleft()
        self._maxima = _greatest(self._panes)

    def answer(self) -> pa.Table:
        """The maxima."""
        assert self._maxima is not None, "a partition comes first"
        return self._maxima


class PatternByHand(ByHand):
    """Algorithm 4 of the thesis: how long the run of each pair is, and its sum."""

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self._runs = RUNS.empty_table()

    def take(self, partition: pa.Table) -> None:
        """Pairs with a high loss go on, or begin; all others end."""
        high = partition.filter(pc.greater(partition["loss"], HIGH)).drop(["ts"])
        both = high.join(self._runs, keys=PAIR, join_type="left outer")
        count = pc.add(pc.coalesce(both["count"], 0), 1)
        total = pc.add(pc.coalesce(both["sum_loss"], 0), both["loss"])
        self._runs = pa.table({"src": both["src"], "dest": both["dest"], "count": count, "sum_loss": total})

    def answer(self) -> pa.Table:
        """The runs that are long enough."""
        return self._runs.filter(pc.greater_equal(self._runs["count"], FULL))


def _summed(parts: Sequence[pa.Table]) -> pa.Table:
    wide = [part.set_column(2, "loss", part["loss"].cast(pa.int64())) for part in parts]
    return (
        pa.concat_tables(wide)
        .group_by(PAIR)
        .aggregate([("loss", "sum"), ("n", "sum")])
        .rename_columns([*PAIR, "loss", "n"])
    )


def _negative(part: pa.Table) -> pa.Table:
    return pa.table([part["src"], part["dest"], pc.negate(part["loss"]), pc.negate(part["n"])], part.column_names)


def _greatest(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).group_by(PAIR).aggregate([("loss", "max")]).rename_columns([*PAIR, "loss"])
