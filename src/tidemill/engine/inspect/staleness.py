"""Staleness of a view: the epochs and time partitions that it does not show, and for how long."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.view import View
from tidemill.engine.epochs.staleness_marks import late_since
from tidemill.model.schema import EPOCH, Table
from tidemill.model.types import Field
from tidemill.storage.store import Store

__all__ = ["Staleness", "staleness_of"]


@dataclass(frozen=True)
class Staleness:
    """Unseen epochs of a view's tables, their partitions (None without partitioning), and for how long, in seconds."""

    epochs: int = 0
    partitions: int | None = None
    seconds: float = 0.0


def staleness_of(catalog: Catalog, store: Store, view: View) -> Staleness:
    """The present staleness of a view; reads the times of the changes that it does not show."""
    tables = [catalog.tables[name] for name in catalog.ancestors(view) if name in catalog.tables]
    cut = any(table.partitioning is not None for table in tables)
    mark = late_since(catalog, store.positions, view)
    if mark is None:
        return Staleness(partitions=0 if cut else None)
    since = max(mark.epoch - 1, store.oldest)
    epochs: set[int] = set()
    partitions = []
    for table in tables:
        unseen, numbers = _unseen(store, table, since)
        epochs |= unseen
        partitions.append(len(numbers))
    return Staleness(len(epochs), max(partitions) if cut else None, max(time.time() - mark.time, 0.0))


def _unseen(store: Store, table: Table, since: int) -> tuple[set[int], set[int]]:
    """The epochs after ``since`` that changed a table, and the partitions that they touched."""
    cut = table.partitioning
    fields: tuple[Field, ...] = tuple(f for f in table.fields if cut is not None and f.name == cut.column)
    rows = store.read(table.name, fields, since=since)
    epochs = set(np.unique(rows.column(EPOCH).to_numpy()).tolist())
    if cut is None:
        return epochs, set()
    instants = rows.column(cut.column).drop_null().cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    return epochs, set(np.unique(instants // cut.every).tolist())
