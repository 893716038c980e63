"""The changes of an epoch in a view, as readers get them, and as read again from the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.engine.boundary import public_class
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.new_views.unique_keys import key_of_view
from tidemill.engine.catalog.views.view import View, unpublished_error
from tidemill.engine.results import present_rows
from tidemill.engine.subscriptions.element_changes import ElementChange, element_changes
from tidemill.engine.subscriptions.row_filter import RowFilter
from tidemill.model.coerce import present
from tidemill.model.errors import EpochGone, FellBehind
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import Field
from tidemill.program.joingraph import Serve
from tidemill.storage.store import Store

UserRow = tuple[Any, ...]
"""A row as users see it."""


@public_class
class ChangeBatch:
    """The changes of one epoch in a view: iterate for ``(weight, row)`` pairs, or read inserts, deletes and updates.

    ``inserts`` and ``deletes`` are rows, ``updates`` pairs of an old and a new row with the same key; a row is in one
    of the three. Without a key of the view an update is a delete and an insert. Each form is computed on first use.
    """

    def __init__(
        self, epoch: int, change: ChangeSet, key: tuple[int, ...] | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        self.epoch = epoch
        self.notes = notes
        """Notes for subscribers: a view in quarantine does not show all changes of its tables."""
        self._change = change
        self._key = key

    @cached_property
    def changes(self) -> list[tuple[int, UserRow]]:
        """The rows with their weights, each once."""
        net = self.net
        return list(zip(net.values(), present_rows(net, self._change.fields), strict=True))

    @property
    def inserts(self) -> list[UserRow]:
        """The inserted rows, with duplicates."""
        return self._sorted_out[0]

    @property
    def deletes(self) -> list[UserRow]:
        """The deleted rows, with duplicates."""
        return self._sorted_out[1]

    @property
    def updates(self) -> list[tuple[UserRow, UserRow]]:
        """The updated rows, as pairs of old and new."""
        return self._sorted_out[2]

    @cached_property
    def elements(self) -> list[ElementChange]:
        """Changes inside of the updated rows: values, and elements of arrays that were inserted or removed.

        The other elements are not looked at, and no rows are built.
        """
        key, fields = self._key or (), self.fields
        return [
            change
            for old, new in _updates_in(self.net, self._key)
            for change in element_changes(self._shown_key(new, key), old, new, fields)
        ]

    def _shown_key(self, row: Row, key: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple([present(row[place], self._change.fields[place].type) for place in key])

    @property
    def rows(self) -> int:
        """The number of weighted rows before equal ones are summed; does not build any."""
        return len(self._change)

    def arrow(self) -> pa.Table:
        """The rows as Arrow, with their weights as ``_weight``."""
        return self._change.arrow()

    def encoded(self) -> Sequence[pa.Table]:
        """The rows as Arrow without decoding: tables whose repetitive columns may be run-end encoded.

        A join turns one row into many that differ in a column or two. The other columns are not expanded here.
        """
        return self._change.encoded()

    @cached_property
    def net(self) -> ZSet:
        """The rows with their weights, summed, in stored form."""
        return self._change.zset()

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the view."""
        return tuple(self._change.fields)

    @cached_property
    def _sorted_out(self) -> tuple[list[UserRow], list[UserRow], list[tuple[UserRow, UserRow]]]:
        pairs = _updates_in(self.net, self._key)
        paired = {row for pair in pairs for row in pair}
        come = [row for row, weight in self.net.items() for _ in range(weight) if row not in paired]
        left = [row for row, weight in self.net.items() for _ in range(-weight) if row not in paired]
        fields = self._change.fields
        old, new = (present_rows([pair[side] for pair in pairs], fields) for side in (0, 1))
        return present_rows(come, fields), present_rows(left, fields), list(zip(old, new, strict=True))

    def __iter__(self) -> Iterator[tuple[int, UserRow]]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __repr__(self) -> str:
        return f"ChangeBatch(epoch={self.epoch}, changes={self.changes})"


def batch_of(batch: ChangeBatch, rows: Set[Row]) -> ChangeBatch:
    """The changes of these rows alone, which are in stored form."""
    kept = [(row, weight) for row, weight in batch.net.items() if row in rows]
    return ChangeBatch(batch.epoch, ChangeSet.of(kept, batch.fields), batch._key, batch.notes)


def _updates_in(net: ZSet, key: tuple[int, ...] | None) -> list[tuple[Row, Row]]:
    """The updates: one row deleted and one inserted with the same key, once each, and no other row has the key."""
    if key is None:
        return []
    by_key: dict[Row, list[Row]] = defaultdict(list)
    for row in net:
        by_key[tuple([row[place] for place in key])].append(row)
    both = (sorted(rows, key=net.weight) for rows in by_key.values() if len(rows) == 2)
    return [(old, new) for old, new in both if (net.weight(old), net.weight(new)) == (-1, 1)]


class ChangeSource(Protocol):
    """The interface of a warehouse for reading stored changes."""

    @property
    def catalog(self) -> Catalog:
        """Its tables and views."""

    @property
    def store(self) -> Store:
        """The store that holds its changes."""

    def reach(self, view: View) -> int:
        """The epoch after which the changes of a view are stored."""


def stored_batches(
    source: ChangeSource, view: View, since: int, until: int | None = None, where: RowFilter | None = None
) -> list[ChangeBatch]:
    """The batches of epochs in ``(since, until]`` from the store; ``FellBehind`` if it no longer has them."""
    if view.serve is Serve.READ:
        raise unpublished_error(view.name, f'view "{view.name}" has no changes to follow')
    store, fields = source.store, view.fields
    if since < view.columns_since:  # rows of before have other columns
        require_reach(source, view, since)
    try:
        table = store.read(view.name, fields, since=since, until=until)
    except EpochGone:
        require_reach(source, view, since)
        raise
    # Checked after the read as well: a log trimmed meanwhile has gaps and raises no error.
    require_reach(source, view, since)
    if where is not None:
        table = where.matching(table)
    key = key_of_view(view, source.catalog)
    found = ((epoch, _summed(change)) for epoch, change in _by_epoch(table, view))
    return [ChangeBatch(epoch, change, key) for epoch, change in found if len(change)]


def require_reach(source: ChangeSource, view: View, since: int) -> None:
    """Raise ``FellBehind`` if changes after epoch ``since`` are missing."""
    reach = source.reach(view)
    if since < reach:
        raise FellBehind(view.name, since, reach, source.store.epoch)


def _by_epoch(table: pa.Table, view: View) -> Iterator[tuple[int, ChangeSet]]:
    """The rows of each epoch, in order."""
    table = table.take(pa.array(np.argsort(table.column(EPOCH).to_numpy(), kind="stable")))
    epochs = table.column(EPOCH).to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), len(epochs)]
    rows = table.select([*(field.name for field in view.fields), WEIGHT])
    for start, end in pairwise(starts):
        if end > start:
            yield int(epochs[start]), ChangeSet.of_arrow(rows.slice(start, end - start), view.fields)


MAX_SUMMED_ROWS = 10_000
"""Number of rows up to which changes read from the store are summed; larger ones are returned as emitted."""


def _summed(change: ChangeSet) -> ChangeSet:
    """The change with each row once. Emitted changes have this form; a rebuilt view deletes all its old rows first."""
    return change if len(change) > MAX_SUMMED_ROWS else ChangeSet.of(change.zset().items(), change.fields)
