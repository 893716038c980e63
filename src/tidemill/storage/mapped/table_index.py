"""Rows of a segment in memory by key: scanned at first, then found by an index."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tidemill.changes.arrow import integer_array
from tidemill.changes.hashing import Hashes
from tidemill.changes.sorted_hashes import Positions, find_positions, index_rows, sought_hashes
from tidemill.storage.mapped.lookup_costs import making_cost


class TableIndexes:
    """The indexes of one table that never changes, each made when scans have cost as much (``lookup_costs.py``)."""

    def __init__(self) -> None:
        self.at_once = False
        """True if many lookups are to come, so that the first one makes an index."""
        self._entries: dict[pa.Schema, Hashes] = {}
        self._spent = 0.0
        self._batches: list[pa.RecordBatch] = []

    def find(self, table: pa.Table, schema: pa.Schema, keys: Mapping[str, pa.Array]) -> pa.Table | None:
        """The rows with one of ``keys``, and rarely others, with the columns of ``schema``; None if a scan is due."""
        by = pa.schema([schema.field(name) for name in keys])
        entries = self._entries.get(by)
        if entries is None:
            self._spent += table.num_rows * len(by)
            if not self.at_once and self._spent < making_cost(table.num_rows, 0, 1):
                return None
            entries = self._entries[by] = index_rows(table.select(by.names).cast(by).columns)
            self._spent, self._batches = 0.0, self._batches or table.to_batches()
        sought = sought_hashes(pa.table(dict(keys)).cast(by).columns)
        return self._taken(table, schema, find_positions(entries, table.num_rows, sought))

    def _taken(self, table: pa.Table, schema: pa.Schema, at: Positions) -> pa.Table:
        """The rows at these places. Arrow would put all batches together for that."""
        starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        bounds = np.searchsorted(at, starts)
        taken = [
            batch.select(schema.names).take(integer_array(at[first:last] - start))
            for batch, start, first, last in zip(self._batches, starts, bounds, bounds[1:], strict=False)
            if first < last
        ]
        return pa.Table.from_batches(taken, table.select(schema.names).schema).cast(schema)
