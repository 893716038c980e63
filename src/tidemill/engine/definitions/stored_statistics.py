"""Statistics of what is stored, for the compiler: row counts, and distinct counts of columns, counted when needed."""

from __future__ import annotations

from functools import cache, partial

import pyarrow.compute as pc

from tidemill.compiler.statistics.sizes import Statistics
from tidemill.engine.catalog.catalog import Catalog
from tidemill.model.types import Array, Struct
from tidemill.storage.store import Store

__all__ = ["stored_statistics"]

MAX_COUNTED_ROWS = 1_000_000
"""Largest table, in rows, whose distinct values are counted: that takes some hundredths of a second."""


def stored_statistics(catalog: Catalog, store: Store) -> Statistics:
    """The statistics of all relations whose rows are kept; each column is counted once."""
    kept = (name for name in (*catalog.tables, *catalog.views) if _is_kept(name, catalog))
    return Statistics({name: store.rows(name) for name in kept}, cache(partial(_distinct, catalog, store)))


def _is_kept(name: str, catalog: Catalog) -> bool:
    table = catalog.tables.get(name)
    return not catalog.view(name).computed_on_read if table is None else table.kept


def _distinct(catalog: Catalog, store: Store, relation: str, column: str) -> int | None:
    """The number of distinct values of a column, if the table is small enough to count them, and they are plain."""
    table = catalog.tables.get(relation)
    if table is None or not table.kept or store.rows(relation) > MAX_COUNTED_ROWS:
        return None
    (field,) = (f for f in table.fields if f.name == column)
    if isinstance(field.type, Array | Struct):
        return None
    return int(pc.count_distinct(store.read(relation, [field]).column(column)).as_py())
