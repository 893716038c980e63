"""LATENESS and RETAIN of a table that is there already: what its readers and late changes allow, and its head."""

from __future__ import annotations

import pyarrow.compute as pc

from tidemill.changes.arrow import instants
from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.partitions.change_bounds import forgetful_views
from tidemill.engine.partitions.lateness import HEAD_PREFIX, floor_of, head_of, head_text, retained_from
from tidemill.model.errors import Unsupported
from tidemill.model.schema import EPOCH, LATE, Table, late_table
from tidemill.storage.store import Store

__all__ = ["bound_positions", "require_bounds"]


def bound_positions(store: Store, before: Table, after: Table) -> dict[str, str]:
    """The head of a table with other bounds, and the instant from which nothing is forgotten, as they are stored."""
    old, new = before.partitioning, after.partitioning
    if old == new or new is None:
        return {}
    position = HEAD_PREFIX + after.name
    if late_table(after) is None:
        return {position: ""}
    if late_table(before) is None or old is None:
        last = _last_head(store, after)
        return {position: "" if last is None else str(last)}
    head = head_of(store.positions, after.name)
    if head is None:
        return {}
    floor = retained_from(old, head, floor_of(store.positions, after.name))
    # The latest time within a partition is not known where heads were partitions: its first instant is no later.
    return {position: head_text(head * old.head_unit // new.head_unit, floor)}


def _last_head(store: Store, table: Table) -> int | None:
    """The last partition, or the latest time, of which rows are stored."""
    cut = table.partitioning
    assert cut is not None
    fields = tuple(field for field in table.fields if field.name == cut.column)
    last = pc.max(instants(store.read(table.name, fields).column(cut.column))).as_py()
    return None if last is None else int(last) // cut.head_unit


def require_bounds(catalog: Catalog, store: Store, before: Table, after: Table) -> None:
    """Refuse bounds without which late changes would be lost, or rows that were forgotten would be missed."""
    if late_table(before) is not None and late_table(after) is None:
        _require_no_late_changes(catalog, store, before)
        forgetful = forgetful_views(catalog)
        readers = [name for name in forgetful if before.name in catalog.ancestors(catalog.views[name])]
        if readers:
            raise Unsupported(
                f'"{before.name}" cannot be without LATENESS',
                detail=f"It is read by {', '.join(readers)}, which may have forgotten what could not change.",
                hint="Drop those first, or SET LATENESS to a longer time.",
            )
    readers = [view.name for view in catalog.readers(before.name)]
    if before.forgets and not after.forgets and readers:
        raise Unsupported(
            f'"{before.name}" cannot be without RETAIN',
            detail=f"It is read by {', '.join(readers)}, which count rows that were forgotten.",
            hint="Drop those first, or SET RETAIN to a longer time.",
        )


def _require_no_late_changes(catalog: Catalog, store: Store, table: Table) -> None:
    late = late_table(table)
    assert late is not None
    readers = [view.name for view in catalog.readers(late.name)]
    if readers:
        raise Unsupported(
            f'"{late.name}" cannot be dropped with LATENESS',
            detail=f"It is read by {', '.join(readers)}.",
            hint="Drop those first.",
        )
    rows = store.read(late.name, late.fields)
    if ChangeSet.of_arrow(rows.drop_columns([EPOCH]), late.fields).zset():
        raise Unsupported(
            f'"{table.name}" has late changes',
            detail=f"They are in {table.name}{LATE}.",
            hint=f"REPLAY LATE {table.name}, or DELETE FROM {late.name}.",
        )
