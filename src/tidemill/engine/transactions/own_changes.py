"""The rows that a transaction reads: stored rows with its own changes, and views computed over these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import With
from tidemill.algebra.relational.walk import scans
from tidemill.changes.arrow import to_arrow
from tidemill.changes.zset import Row
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.transactions.pending import PendingTransaction
from tidemill.model.errors import Unsupported
from tidemill.model.schema import WEIGHT, names_of
from tidemill.model.types import Field
from tidemill.program.joingraph import Serve
from tidemill.runtimes.runtime import KeyLookup

__all__ = ["OwnRows", "guarded_views", "with_changed_views", "with_own_rows"]


def with_changed_views(pending: PendingTransaction, catalog: Catalog, relation: Relation) -> Relation:
    """A query in which views over tables that the transaction has changed are computed from their definitions.

    Those that set rows aside are left as they are: they are computed by themselves. Notes all that it reads; see
    ``PendingTransaction.note_read``.
    """
    read = scans(relation)
    below = _tables_below(catalog, read)
    pending.note_read(read | below)
    changed = below & set(pending.tables)
    if not changed:
        return relation
    definitions: dict[str, Relation] = {}
    for name in sorted(read):
        definitions |= _definitions(catalog, name, changed)
    return With(tuple(definitions.items()), relation) if definitions else relation


def _tables_below(catalog: Catalog, names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        view = catalog.views.get(name)
        found |= {name} if view is None else _tables_below(catalog, view.inputs)
    return found


def _definitions(catalog: Catalog, name: str, changed: Collection[str]) -> dict[str, Relation]:
    """The definitions of a view over changed tables and of those below it, lowest first.

    Views that are not refreshed with every epoch show what they show.
    """
    view = catalog.views.get(name)
    if view is None or view.refresh.deferred or not _tables_below(catalog, [name]) & set(changed):
        return {}
    if name in catalog.guarded:
        return {}
    for below in view.inputs:
        _require_rows(catalog, view, below)
    found: dict[str, Relation] = {}
    for below in view.inputs:
        found |= _definitions(catalog, below, changed)
    return found | {name: view.relation}


def guarded_views(pending: PendingTransaction, catalog: Catalog, names: Iterable[str]) -> list[View]:
    """Those of ``names`` that are views that set rows aside, over tables that the transaction has changed."""
    changed, found = set(pending.tables), []
    for view in (catalog.guarded[name] for name in names if name in catalog.guarded):
        if not view.refresh.deferred and not changed.isdisjoint(_tables_below(catalog, [view.name])):
            for below in view.inputs:
                _require_rows(catalog, view, below)
            found.append(view)
    return found


def _require_rows(catalog: Catalog, view: View, below: str) -> None:
    """Refuse a view over changed tables that cannot be computed from rows that are there."""
    under = catalog.views.get(below)
    table = catalog.tables.get(below)
    gone = table is not None and (catalog.is_stream(below) or table.forgets)
    if gone or view.remote_subplans or (under is not None and under.serve is Serve.SUBSCRIBE):
        raise Unsupported(
            f'view "{view.name}" cannot be read in this transaction',
            detail=f'The transaction has changed what it shows, and rows of "{below}" are not kept.',
            hint="Read it before the change, or after COMMIT.",
        )


def with_own_rows(pending: PendingTransaction, name: str, stored: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Some columns of a table with the changes of the transaction behind them, unsummed."""
    change = pending.change_of(name)
    if not change:
        return stored
    names = [*names_of(fields), WEIGHT]
    own = to_arrow(list(change.items()), pending.fields_of(name)).select(names)
    return pa.concat_tables([stored.select(names), own])


class OwnRows:
    """Lookup of rows by primary key, as a transaction sees them."""

    def __init__(self, pending: PendingTransaction, stored: KeyLookup) -> None:
        self._pending = pending
        self._stored = stored

    def find(self, relation: str, positions: tuple[int, ...], keys: Collection[Row]) -> dict[Row, list[Row]]:
        """The rows of a relation that have one of ``keys`` at ``positions``, by that key."""
        found = {key: list(rows) for key, rows in self._stored.find(relation, positions, keys).items()}
        wanted = set(keys)
        for row, weight in self._pending.change_of(relation).items():
            key = tuple(row[position] for position in positions)
            if key not in wanted:
                continue
            if weight > 0:
                found.setdefault(key, []).extend([row] * weight)
            elif row in found.get(key, ()):
                found[key].remove(row)
        return {key: rows for key, rows in found.items() if rows}
