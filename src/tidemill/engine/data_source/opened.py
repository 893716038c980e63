"""A warehouse that a Python worker of Spark opens for one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from tidemill.engine.engine import Engine
from tidemill.engine.epochs.placement import Placement
from tidemill.engine.results import expand_arrow
from tidemill.storage.filesystem.addresses import warehouse_root
from tidemill.storage.folder_store import FolderStore

__all__ = ["ComputedRows", "opened_engine", "opened_store"]


@contextmanager
def opened_store(warehouse: str, *, read_only: bool = True) -> Iterator[FolderStore]:
    """The store of a warehouse that exists; ``LockHeld`` if it shall be written and another process does."""
    store = FolderStore.open(warehouse_root(warehouse), create=False, read_only=read_only)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def opened_engine(warehouse: str, *, read_only: bool = True) -> Iterator[Engine]:
    """The engine of a warehouse that exists; it computes in this process, for a worker of Spark has no session."""
    with opened_store(warehouse, read_only=read_only) as store:
        engine = Engine(store, Placement(store, "native", None, False, None), read_only=read_only)
        try:
            yield engine
        finally:
            engine.close()


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """The rows of a view that are not stored, as of an epoch: one task computes them from the view's maps."""

    warehouse: str
    view: str
    epoch: int

    def tables(self) -> Iterator[pa.Table]:
        """All rows, as one table."""
        with opened_engine(self.warehouse) as engine:
            yield expand_arrow(engine.contents(self.view, self.epoch))
