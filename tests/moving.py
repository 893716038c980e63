"""Views that move between two runtimes from epoch to epoch, so that what each holds misses epochs all the time.

Both are native, over one store: what one has missed is what the other has committed, as it is with Spark, and no job
has to be waited for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import pytest

from tidemill.engine.catalog.views.view import ANY_RUNTIME, RuntimeNeeds
from tidemill.engine.epochs.placement import Placement
from tidemill.runtimes.native.runtime import NativeRuntime

TURNS = (0, 1, 1, 0, 0, 0, 1, 0)
"""Which of the two runs an epoch: each misses one in a row, and several."""

BACKENDS = ("llvm", "python")


Change = list[tuple[int, tuple[Any, ...]]]


class History:
    """Random changes of ``customers`` and ``orders`` that are possible: rows come, and rows that are there leave."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._rows: dict[str, dict[int, tuple[Any, ...]]] = {"customers": {}, "orders": {}}
        self._last = 0

    def _new(self, table: str) -> tuple[Any, ...]:
        self._last += 1
        if table == "customers":
            return (self._last, self._random.choice("abc"))
        amount = f"{self._random.randrange(14, 40)}.50"
        return (self._last, self._random.randrange(1, 30), amount, self._random.choice([0.1, 1e17, -1e17, None]))

    def change(self, rows: int) -> dict[str, Change]:
        """So many rows, of which a third leave."""
        changes: dict[str, Change] = {"customers": [], "orders": []}
        for _ in range(rows):
            table = self._random.choice(["customers", "orders", "orders"])
            held = self._rows[table]
            if held and self._random.random() < 0.35:
                changes[table].append((-1, held.pop(self._random.choice(list(held)))))
            else:
                row = self._new(table)
                held[row[0]] = row
                changes[table].append((1, row))
        return changes


class Turns:
    """Whose turn it is: by a pattern, or as the test says with ``stay``."""

    def __init__(self, pattern: Sequence[int]) -> None:
        self._pattern = cycle(pattern)
        self.stay: int | None = None
        self.now = 0

    def next(self) -> None:
        """Another epoch begins."""
        self.now = next(self._pattern) if self.stay is None else self.stay


@contextmanager
def moving(pattern: Sequence[int] = TURNS, backends: tuple[str, str] = BACKENDS) -> Iterator[Turns]:
    """Within this block each epoch of a warehouse is run by the runtime whose turn it is, the first or the second.

    A view that is filled has a turn, too.
    """
    turns = Turns(pattern)

    def made(self: Placement, backend: str) -> NativeRuntime:
        return NativeRuntime(self._store, self.fields_of, backend=backend, room=self.room, table_of=self.table_of)

    def first(self: Placement) -> NativeRuntime:
        self._native = self._native or made(self, backends[0])
        return self._native

    def second(self: Placement) -> NativeRuntime:
        self._dataframes = self._dataframes or made(self, backends[1])  # type: ignore[assignment]
        return self._dataframes  # type: ignore[return-value]

    def work_class(self: Placement, work: int) -> tuple[bool, ...]:
        turns.next()
        return (bool(turns.now),)

    def runtime_for(self: Placement, work: int, needs: RuntimeNeeds = ANY_RUNTIME) -> NativeRuntime:
        return second(self) if turns.now else first(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Placement, "native", property(first))
        patch.setattr(Placement, "dataframes", property(second))
        patch.setattr(Placement, "work_class", work_class)
        patch.setattr(Placement, "runtime_for", runtime_for)
        yield turns
