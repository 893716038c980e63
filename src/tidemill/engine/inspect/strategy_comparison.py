"""Strategy comparison: the compiler's predictions with the stored sizes."""

from __future__ import annotations

from functools import partial

import pyarrow.compute as pc

from tidemill.compiler.compare_strategies import compare_strategies, compared_strategies
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.view import View
from tidemill.storage.store import Store

MAX_COUNTED_ROWS = 1_000_000
"""Largest table, in rows, whose distinct values are counted: that takes some hundredths of a second."""


def compare_stored_strategies(view: View, catalog: Catalog, store: Store) -> list[str]:
    """The predicted state and cost of viewlets and of a join graph; empty if the view names another strategy."""
    if view.options.get("strategy", "auto") not in ("auto", *compared_strategies()):
        return []
    sizes = {name: store.rows(name) for name in view.inputs if _is_kept(name, catalog)}
    return compare_strategies(view.name, view.relation, catalog.tables, sizes, partial(_distinct, catalog, store))


def _is_kept(name: str, catalog: Catalog) -> bool:
    table = catalog.tables.get(name)
    return not catalog.view(name).computed_on_read if table is None else table.kept


def _distinct(catalog: Catalog, store: Store, relation: str, column: str) -> int | None:
    """The number of distinct values of a column, if the table is small enough to count them."""
    table = catalog.tables.get(relation)
    if table is None or not table.kept or store.rows(relation) > MAX_COUNTED_ROWS:
        return None
    fields = [f for f in table.fields if f.name == column]
    return int(pc.count_distinct(store.read(relation, fields).column(column)).as_py())
