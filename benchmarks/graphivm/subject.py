"""A case under way: its view in a warehouse of its own, over relations that are filled already."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

import tidemill
from benchmarks.graphivm.case import Case
from benchmarks.graphivm.queries import SCHEMA
from benchmarks.graphivm.workload import Workload
from tidemill.engine.subscriptions.change_batches import ChangeBatch
from tidemill.engine.subscriptions.subscription import Subscription
from tidemill.model.errors import Unsupported

VIEW = "answer"

MEMORY = "14GB"
"""What a case may hold: a strategy that needs more is told so, before the machine swaps."""

UNBOUNDED = 1 << 40
"""The rows that may wait for who takes them after every epoch."""

LOADED, LAST = 200_000, 20_000
"""So many rows are taken in at once when relations are filled; of the last one fewer, for each makes hundreds."""

LOADING = 120.0
"""Seconds in which the relations of a case must be filled."""


clock = time.process_time
"""The clock: CPU time of all threads, so that what else runs on the machine takes none of it."""


class TooSlow(Exception):
    """A strategy does not come to the first event in reasonable time."""


class Subject:
    """The view of one case. Relations are streams: only what the view itself keeps of them is held."""

    def __init__(self, case: Case, workload: Workload) -> None:
        self._case = case
        self._workload = workload
        self._follower: Subscription | None = None
        self._taken: list[ChangeBatch] = []
        self._warehouse = tidemill.open(":memory:", runtime="native", backend=case.backend, memory=MEMORY)
        try:
            for relation in workload.relations:
                self._warehouse.sql(f"CREATE STREAM {relation} ({SCHEMA[relation]})")
            self._warehouse.sql(f"CREATE MATERIALIZED VIEW {VIEW} WITH ({_options(case)}) AS {workload.query}")
            self._require_backend()
            self._load()
            # A collection of all that Python holds by now may take longer than the events.
            gc.collect()
            gc.freeze()
        except BaseException:
            self.close()
            raise

    def _require_backend(self) -> None:
        """A figure of compiled code must not be one of the interpreter that stood in for it."""
        explained = self._warehouse.view(VIEW).explain()
        if self._case.backend == "llvm" and "compiled with LLVM" not in explained:
            raise Unsupported(f"{self._case.name} is not compiled", detail=explained)

    def _load(self) -> None:
        """Fill the relations, the last one last: with it come the rows of the view, a part at a time."""
        begin = clock()
        last = self._workload.relations[-1]
        for relation, table in self._workload.base.items():
            rows = LAST if relation == last else LOADED
            for start in range(0, table.num_rows, rows):
                self._warehouse.apply({relation: table.slice(start, rows)})
                if clock() - begin > LOADING:
                    raise TooSlow(f"its relations were not filled within {LOADING:g} s")

    def follow(self) -> None:
        """From now on somebody takes all that changes in the view, as it is published."""
        self._follower = self._warehouse.subscribe(VIEW, timeout=0, buffer=UNBOUNDED, form="arrow")

    def replay(self, start: int, stop: int) -> float:
        """Take in the events from ``start`` to before ``stop``, one at a time; gives the seconds until they are told.

        That is when the view's changes are committed, and taken by who follows them.
        """
        piece = self._workload.events.cut(start, stop)
        turns = np.ascontiguousarray(piece.turns)
        # Plain copies were made of what was taken before, to compare it: freeing hundreds of megabytes takes time.
        self._taken = []
        begin = clock()
        self._warehouse.replay(piece.tables, turns)
        self._warehouse.flush()
        self._taken = list(self._follower or ())
        return clock() - begin

    def apply(self) -> float:
        """Take in all events at once; gives the seconds."""
        tables = self._workload.events.tables
        begin = clock()
        self._warehouse.apply(tables)
        self._taken = list(self._follower or ())
        return clock() - begin

    def published(self) -> list[pa.Table]:
        """What was taken last, as it lies in memory: columns that repeat are run-end encoded."""
        return [table for batch in self._taken for table in batch.encoded()]

    def decode(self) -> float:
        """Write what was taken last out in plain columns; gives the seconds."""
        begin = clock()
        for batch in self._taken:
            batch.arrow()
        return clock() - begin

    def subscribe(self, where: Mapping[str, int]) -> Subscription:
        """What changes in the rows with these values; it ends, for the time being, where nothing waits."""
        return self._warehouse.subscribe(VIEW, where=where, timeout=0, form="arrow")

    def rows(self) -> tuple[pa.Table, float]:
        """The rows of the view, and the seconds to read them."""
        begin = clock()
        rows = self._warehouse.view(VIEW).arrow()
        return rows, clock() - begin

    def state(self) -> int | None:
        """The bytes of the maps; None on a back end whose maps do not know."""
        sizes = [size.bytes for size in self._warehouse.view(VIEW).sizes()]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def close(self) -> None:
        """Let go of everything."""
        self._warehouse.close()
        gc.unfreeze()
        gc.collect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _options(case: Case) -> str:
    """What the view is made with.

    >>> _options(Case("lookahead", "joins5", "joingraph", "subscribe", word="local"))
    "strategy = 'joingraph', serve = 'subscribe', lookahead = 'local'"
    """
    options = [f"strategy = '{case.strategy}'"]
    if case.strategy == "joingraph":
        options.append(f"serve = '{case.serve}'")
    if case.experiment == "lookahead":
        options.append(f"lookahead = '{case.word}'")
    return ", ".join(options)
