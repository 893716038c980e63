"""Mixes of changes: rows that arrive as the other benchmarks have them, and rows that go and come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidemill
from benchmarks.choose.workloads import Epoch, TakeNext
from tidemill.model.schema import WEIGHT


@dataclass(frozen=True)
class Mix:
    """Epochs of ``rows`` rows that arrive, or of a ``share`` of all rows that go in one and come back in the next."""

    rows: int = 0
    share: float = 0.0

    def epochs(self, take: TakeNext, warehouse: tidemill.Warehouse) -> Iterator[Epoch]:
        """The epochs that come next."""
        if self.rows:
            yield from iter(lambda: take(self.rows), None)
        else:
            yield from going_and_coming(contents_of(warehouse), self.share)


MIXES = {
    "bulk": Mix(rows=1_000),
    "percent": Mix(share=0.01),
    "single": Mix(rows=1),
    "tenth": Mix(share=0.1),
    "all": Mix(share=1.0),
}
"""Mixes in the order in which they are measured: large epochs first, so that everything is compiled early."""

COMPARED = ("bulk", "percent", "single")
"""The mixes on which strategies are compared; with recomputing, ``auto`` is compared on all."""


def going_and_coming(tables: Mapping[str, pa.Table], share: float) -> Iterator[Epoch]:
    """Epochs that delete a share of the rows of each table, drawn at random, and that insert it again, by turns."""
    random = np.random.default_rng(11)
    drawn: Epoch = {}
    for number in count():
        if number % 2 == 0:
            masks = {name: random.random(table.num_rows) < share for name, table in tables.items()}
            drawn = {name: table.filter(pa.array(masks[name])) for name, table in tables.items() if masks[name].any()}
            yield {name: _negated(table) for name, table in drawn.items()}
        else:
            yield drawn


def contents_of(warehouse: tidemill.Warehouse) -> dict[str, pa.Table]:
    """The rows of all tables but those with arrays, each with the sum of its weights."""
    state = warehouse._engine.state
    found = {}
    for name, table in state.catalog.tables.items():
        columns = [field.name for field in table.fields]
        stored = state.store.read(name, table.fields).select([*columns, WEIGHT])
        if any(map(pa.types.is_nested, stored.schema.types)):
            continue
        summed = stored.group_by(columns, use_threads=False).aggregate([(WEIGHT, "sum")])
        found[name] = summed.rename_columns([*columns, WEIGHT]).filter(pc.greater(summed.column(f"{WEIGHT}_sum"), 0))
    return found


def _negated(table: pa.Table) -> pa.Table:
    return table.set_column(table.num_columns - 1, WEIGHT, pc.negate(table.column(WEIGHT)))
