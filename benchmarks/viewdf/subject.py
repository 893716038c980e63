"""The subject of a case: a view in a warehouse, a program by hand, or the query run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

import tidemill
from benchmarks.viewdf.case import APPEND_ONLY, DIRECT, DUCKDB, HAND, NATIVE, Case
from benchmarks.viewdf.data import GROWING_SCHEMA, MINUTE, SCHEMA
from benchmarks.viewdf.direct import DirectInDuckDB
from benchmarks.viewdf.hand import by_hand
from benchmarks.viewdf.views import SHOWN, VIEW, definitions
from tidemill.model.schema import WEIGHT


class Subject(Protocol):
    """Takes partitions in the order of time, and knows the rows of the last window."""

    def bring(self, partitions: Sequence[pa.Table]) -> None:
        """The next partitions are there, in memory or as files: they are now, whoever reads them."""

    def slide(self) -> None:
        """The window moves on to the last of them: this is what is timed."""

    def answer(self) -> pa.Table:
        """The rows of the last window."""

    def close(self) -> None:
        """Let go of everything."""


def subject_of(case: Case) -> Subject:
    """Ready for its first partition."""
    if case.method == DUCKDB:
        return DirectInDuckDB(case)
    if case.method == HAND:
        return by_hand(case)
    if case.runtime == NATIVE:
        return KeptView(case, tidemill.open(":memory:", runtime="native"))
    # Who measures in this process does not wait for Spark.
    from benchmarks.viewdf.spark import DirectOnSpark, KeptOnSpark

    return DirectOnSpark(case) if case.method == DIRECT else KeptOnSpark(case)


class KeptView:
    """A view that the warehouse keeps; each slide is an epoch."""

    def __init__(self, case: Case, warehouse: tidemill.Warehouse) -> None:
        self._case = case
        self._warehouse = warehouse
        self._waiting: list[pa.Table] = []
        self._last = 0
        try:
            warehouse.sql(GROWING_SCHEMA if case.method == APPEND_ONLY else SCHEMA)
            for statement in definitions(case):
                warehouse.sql(statement)
            # Of what was published only the last epoch is looked at, the change after the one before it.
            warehouse.vacuum(2)
        except Exception:
            self.close()
            raise

    def bring(self, partitions: Sequence[pa.Table]) -> None:
        """They wait for the next epoch."""
        self._waiting.extend(partitions)
        self._last = pc.min(partitions[-1]["ts"]).value // MINUTE

    def slide(self) -> None:
        """One epoch."""
        self._warehouse.apply({"s": pa.concat_tables(self._waiting)})
        self._waiting.clear()

    def answer(self) -> pa.Table:
        """What the last epoch published of its last partition: all of it, since it changed no earlier one."""
        shown = SHOWN[self._case.query]
        batches = self._warehouse.view(VIEW).batches(since=self._warehouse.epoch - 1)
        if not batches:
            return pa.table({name: pa.nulls(0) for name in shown})
        published = pa.concat_tables(batch.arrow() for batch in batches)
        minutes = pc.divide(published["ts"].cast(pa.int64()), MINUTE)
        last = published.filter(pc.equal(minutes, self._last))
        assert pc.all(pc.equal(last[WEIGHT], 1), min_count=0).as_py(), "a slide brings rows and takes none away"
        return last.select(shown)

    def close(self) -> None:
        """Close the warehouse."""
        self._warehouse.close()
