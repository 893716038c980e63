"""Staleness of a view: the epochs and time partitions that it does not show, and for how long."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.staleness_marks import late_since
from tidemill.model.partition_lengths import DAY, is_calendar, period_number
from tidemill.model.schema import EPOCH, Table
from tidemill.model.types import Field
from tidemill.storage.store import Store

__all__ = ["Staleness", "Unseen", "staleness_of"]


@dataclass(frozen=True)
class Staleness:
    """Unseen epochs of a view's tables, their partitions (None without partitioning), and for how long, in seconds."""

    epochs: int = 0
    partitions: int | None = None
    seconds: float = 0.0


Unseen = tuple[set[int], set[int]]
"""Epochs that changed a table, and the partitions that they touched."""


def staleness_of(
    catalog: Catalog, store: Store, view: View, known: dict[tuple[str, int], Unseen] | None = None
) -> Staleness:
    """The present staleness of a view; of partitioned tables it reads the times of the changes that it does not show.

    ``known`` has what was found for other views of the same epoch, and is added to.
    """
    known = {} if known is None else known
    tables = [catalog.tables[name] for name in catalog.ancestors(view) if name in catalog.tables]
    cut = any(table.partitioning is not None and table.partitioning.is_cut for table in tables)
    mark = late_since(catalog, store.positions, view)
    if mark is None:
        return Staleness(partitions=0 if cut else None)
    since = max(mark.epoch - 1, store.oldest)
    epochs: set[int] = set()
    partitions = []
    for table in tables:
        if (table.name, since) not in known:
            known[table.name, since] = _unseen(store, table, since)
        unseen, numbers = known[table.name, since]
        epochs |= unseen
        partitions.append(len(numbers))
    return Staleness(len(epochs), max(partitions) if cut else None, max(time.time() - mark.time, 0.0))


def _unseen(store: Store, table: Table, since: int) -> Unseen:
    """The epochs after ``since`` that changed a table, and the partitions that they touched."""
    cut = table.partitioning
    if cut is None or not cut.is_cut:
        with store.pin() as snapshot:
            return snapshot.epochs(table.name, since), set()
    fields: tuple[Field, ...] = tuple(f for f in table.fields if f.name == cut.column)
    rows = store.read(table.name, fields, since=since)
    epochs = set(np.unique(rows.column(EPOCH).to_numpy()).tolist())
    instants = rows.column(cut.column).drop_null().cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    unit = DAY if is_calendar(cut.every) else cut.every
    return epochs, {period_number(instant * unit, cut.every) for instant in np.unique(instants // unit).tolist()}
