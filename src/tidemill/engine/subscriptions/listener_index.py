"""Index of listeners by the values that they filter by."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.run_end_encoding import taken
from tidemill.changes.zset import Row
from tidemill.engine.subscriptions.row_filter import RowFilter
from tidemill.model.types import Field

RowSpans = list[tuple[int, int]]
"""Ranges of rows of a change: start and length of each."""

FilterColumns = tuple[int, ...]
"""The positions of the columns that a listener filters by; empty without a filter."""


MAX_ROWWISE_ROWS = 64
"""Number of rows up to which rows are matched one by one; larger changes are matched in columns."""


@dataclass(eq=False)
class Inbox:
    """The queue of one listener: epochs after ``since``, and which rows of each. If ``behind``, it reads the store.

    ``awaited``: a thread may wait for the next epoch. Everything here is guarded by the lock of ``wake``, which the
    whole publisher shares.
    """

    wake: threading.Condition
    view: str
    since: int
    behind: bool
    where: RowFilter | None
    buffer: int
    waiting: deque[tuple[int, FilterColumns, RowSpans]] = field(default_factory=deque)
    ended: bool = False
    awaited: bool = False
    on_ready: Callable[[], object] | None = None
    """Called, with the lock held, when there is something new to take."""

    def tell(self) -> None:
        """Wake the threads that wait for it, and call whoever asked to be called."""
        self.wake.notify_all()
        self.call()

    def call(self) -> None:
        """Call whoever asked to be called; an error of theirs is not one of the thread that commits."""
        if self.on_ready is not None:
            with suppress(Exception):
                self.on_ready()

    @property
    def columns(self) -> FilterColumns:
        """The positions of the columns that it filters by."""
        return () if self.where is None else self.where.positions


class ListenerIndex:
    """The listeners that filter by the same columns, indexed by their values."""

    def __init__(self, fields: tuple[Field, ...], columns: FilterColumns) -> None:
        self._fields = fields
        self._columns = columns
        self._asked: dict[Row, dict[Inbox, None]] = {}
        self._filter: RowFilter | None = None

    @property
    def idle(self) -> bool:
        """True if there are no listeners."""
        return not self._asked

    def add(self, inbox: Inbox) -> None:
        """Add a listener."""
        for key in _keys(inbox):
            self._asked.setdefault(key, {})[inbox] = None
        self._filter = None

    def remove(self, inbox: Inbox) -> None:
        """Remove a listener."""
        for key in _keys(inbox):
            del self._asked[key][inbox]
            if not self._asked[key]:
                del self._asked[key]
        self._filter = None

    def sort(self, change: ChangeSet) -> tuple[ChangeSet, dict[Inbox, RowSpans]]:
        """The rows that match any listener, grouped by key, and the ranges of them for each listener."""
        if not self._columns:
            return change, {inbox: [(0, len(change))] for inbox in self._asked.get((), ())}
        if self._filter is None:
            self._filter = RowFilter(self._fields, self._columns, self._asked)
        few = change.is_python_only or len(change) <= MAX_ROWWISE_ROWS
        sorted_, parts = (_sort_rows if few else _sort_columns)(change, self._filter)
        found: dict[Inbox, RowSpans] = {}
        for key, start, length in parts:
            for inbox in self._asked[key]:
                found.setdefault(inbox, []).append((start, length))
        return sorted_, found


def _keys(inbox: Inbox) -> list[Row]:
    return [()] if inbox.where is None else inbox.where.keys


def _sort_rows(change: ChangeSet, where: RowFilter) -> tuple[ChangeSet, Iterator[tuple[Row, int, int]]]:
    """Group matching rows that are Python tuples, one by one."""
    found: dict[Row, list[tuple[Row, int]]] = {}
    asked = where.asked
    for pair in change.pairs():
        key = where.key(pair[0])
        if key in asked:
            found.setdefault(key, []).append(pair)
    starts = np.cumsum([0, *map(len, found.values())]).tolist()
    rows = [pair for pairs in found.values() for pair in pairs]
    return ChangeSet.of(rows, change.fields), (
        (key, start, len(pairs)) for (key, pairs), start in zip(found.items(), starts, strict=False)
    )


def _sort_columns(change: ChangeSet, where: RowFilter) -> tuple[ChangeSet, Iterator[tuple[Row, int, int]]]:
    """Group matching rows in columns: no tuples are built, and of encoded columns only matching rows are decoded."""
    found = [(table, *where.matches(table)) for table in change.encoded()]
    codes = np.concatenate([codes for _, _, codes in found])
    order = np.argsort(codes, kind="stable")
    sorted_ = codes[order]
    starts = np.flatnonzero(np.diff(sorted_, prepend=-1))
    lengths = np.diff(np.append(starts, len(sorted_)))
    parts = zip(sorted_[starts].tolist(), starts.tolist(), lengths.tolist(), strict=True)
    asked = pa.concat_tables(taken(table, rows) for table, rows, _ in found).take(pa.array(order)).combine_chunks()
    return ChangeSet.of_arrow(asked, change.fields), (
        (where.keys[code], start, length) for code, start, length in parts
    )


def rows_in_spans(change: ChangeSet, spans: RowSpans) -> ChangeSet:
    """The rows of a change in some ranges, in the same form, tuples or columns."""
    if spans == [(0, len(change))]:
        return change
    if change.is_python_only:
        pairs = change.pairs()
        return ChangeSet.of([pair for start, length in spans for pair in pairs[start : start + length]], change.fields)
    parts = [change.arrow().slice(start, length) for start, length in spans]
    return ChangeSet.of_arrow(parts[0] if len(parts) == 1 else pa.concat_tables(parts), change.fields)
