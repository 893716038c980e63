"""A table without a primary key: its distinct rows with their counts, by which deletions are checked in columns.

A row is found by a hash of all its columns, and then compared: equal hashes of different rows are no match, and the
caller sums such a change and checks it row by row. Rows that have gone keep their place with the count 0, so that
nothing is moved when they come back. Changes that only bring rows need no check: the table misses their epochs, and
reads them from the store when rows are next deleted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.hashing import hash_rows
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import BIGINT, Array, Field, Struct, Void
from tidemill.runtimes.integrity import SAFE_WEIGHT
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.containers.chained_index import MAX_ROWS
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.table.cell_column import CellColumn, resized
from tidemill.runtimes.native.llvm.table.llvm_table import TableSource
from tidemill.runtimes.native.llvm.table.row_index import RowIndex
from tidemill.runtimes.native.llvm.table.table_rows import RowNumbers, TableRows, equal_values

FIRST_ROWS = 64
"""The number of rows that there is room for at first."""

HASH = Field("hash", BIGINT, nullable=False)

Weights = npt.NDArray[np.int64]


class CountedRows:
    """The rows of one table and how often each is there, read when rows are first deleted."""

    def __init__(
        self, table: Table, contents: TableSource, memory: Memory, strings: StringDictionary, used: set[CountedRows]
    ) -> None:
        """``used`` gets this table whenever it may be about to change."""
        for field in table.fields:
            if isinstance(field.type, Array | Struct | Void):
                raise NotCompiled(f"rows with a column of type {field.type}")
        self.table = table
        self._names = [field.name for field in table.fields]
        self._contents, self._memory, self._strings, self._used = contents, memory, strings, used
        self._store: _RowStore | None = None
        self._moves: list[tuple[RowNumbers, Weights]] = []
        self._settled = self._looked_at = 0
        self._since_begin = self._is_refused = False
        self._epoch: int | None = None
        """The epoch that a table shows which has missed some."""

    @property
    def ready(self) -> bool:
        """True if the rows have been read, though they may have missed epochs."""
        return self._store is not None

    @property
    def has_taken(self) -> bool:
        """True if the epoch under way was taken in here: others that change the table are missed."""
        return bool(self._moves)

    @property
    def is_paused(self) -> bool:
        """True if the table holds rows that have missed epochs."""
        return self._epoch is not None

    def take(self, change: ChangeSet) -> ChangeSet | None:
        """Take in a change, and return it summed by row; None, and nothing is taken in, if a row leaves more often than
        it is there, or if that is not certain."""
        self._used.add(self)
        try:
            store = self._current()
            return None if store is None else self._take(store, change)
        except BaseException:
            self.free()  # half of a change must not be taken for all of it
            raise

    def _current(self) -> _RowStore | None:
        """The rows as of now, read or caught up if need be; None if they cannot be counted here."""
        if self._epoch is not None:
            self._catch_up(self._epoch)
        return self._load() if self._store is None else self._store

    def _take(self, store: _RowStore, change: ChangeSet) -> ChangeSet | None:
        rows, moves = store.rows, len(self._moves)
        table = change.arrow().combine_chunks()
        numbers = self._add(store, table)
        if numbers is None or (store.counts[numbers] < 0).any():
            self._undo(store, rows, moves)
            return None
        return _summed(change, table, numbers)

    def _add(self, store: _RowStore, table: pa.Table) -> RowNumbers | None:
        """Add the weights of rows, and return their numbers; None where different rows have one hash, where weights
        are so large that their sums must be checked, or where memory is refused."""
        weights = table.column(WEIGHT).to_numpy()
        if len(weights) and max(-int(weights.min()), int(weights.max())) > SAFE_WEIGHT:
            return None
        numbers = store.numbers_of(table.select(self._names))
        if numbers is not None:
            np.add.at(store.counts, numbers, weights)
            self._moves.append((numbers, weights))
        return numbers

    def _undo(self, store: _RowStore, rows: int, moves: int) -> None:
        """Take back all but the first ``moves`` changes, with all but the first ``rows`` distinct rows."""
        for numbers, weights in self._moves[moves:]:
            np.subtract.at(store.counts, numbers, weights)
        del self._moves[moves:]
        store.truncate(rows)

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _load(self) -> _RowStore | None:
        """Read the rows; None, and they are not read again, if they cannot be told apart or do not fit."""
        if self._is_refused:
            return None
        # Whatever is read in the epoch under way includes changes that a rollback takes back.
        self._since_begin = True
        self._store = store = _RowStore(self.table, self._memory, self._strings)
        if self._add(store, self._contents.rows(self.table.name).arrow().combine_chunks()) is None:
            self._is_refused = True
            self.free()
            return None
        self._moves.clear()
        self._settled = self._looked_at = store.rows
        return store

    def _catch_up(self, since: int) -> None:
        """Take in what the table has missed, or give the rows back where they are better read again."""
        missed = self._contents.missed_rows(self.table, since)
        self._epoch = None
        if missed is None or self._store is None or self._add(self._store, missed.arrow().combine_chunks()) is None:
            self.free()
        else:
            self.settle()

    def pause(self) -> None:
        """Note that the next epochs are committed without the table, or this one: it is caught up when next used."""
        if self._moves:
            self.free()
        elif self._store is not None and self._epoch is None:
            self._epoch = self._contents.epoch

    def settle(self) -> None:
        """Take the rows as they are for those from which the next epoch starts."""
        self._since_begin = False
        self._moves.clear()
        if self._store is None:
            return
        self._settled = self._store.rows
        if self._settled > 2 * self._looked_at:
            self._looked_at = self._settled
            if 2 * np.count_nonzero(self._store.counts[: self._settled]) < self._settled:
                self.free()  # most rows have gone: the next change reads those that are there

    def rollback(self) -> None:
        """Undo the epoch."""
        store, self._store = self._store, None  # an interrupt must not leave it half undone
        if store is None:
            return
        if self._since_begin:
            store.free()
            self.free()
        else:
            self._undo(store, self._settled, 0)
            self._store = store

    def free(self) -> None:
        """Give the memory back; the next deletion reads the rows again."""
        if self._store is not None:
            self._store.free()
        self._store, self._epoch = None, None
        self._moves.clear()
        self._settled = self._looked_at = 0


class _RowStore:
    """Distinct rows by number, each with its count and its hash, by which it is found."""

    def __init__(self, table: Table, memory: Memory, strings: StringDictionary) -> None:
        self._memory = memory
        self._held = TableRows(table.fields)
        self._hashes = CellColumn(HASH, FIRST_ROWS, strings)
        self._index = RowIndex([self._hashes])
        self._index.rebuild(FIRST_ROWS, 0, np.zeros(FIRST_ROWS, np.uint8))
        self.counts: Weights = np.zeros(FIRST_ROWS, np.int64)
        self.rows = 0
        self._row_bytes = 0.0
        self._bytes = 0
        self._charge()

    def numbers_of(self, rows: pa.Table) -> RowNumbers | None:
        """The number of each row; rows that were never there are appended, with the count 0.

        None where different rows have one hash, or where memory is refused: then ``truncate`` it.
        """
        hashes = hash_rows(rows.columns).view(np.int64)
        numbers = self._index.find([hashes])
        new = np.flatnonzero(numbers < 0)
        found = np.flatnonzero(numbers >= 0)
        if len(new):
            first, ranks = _first_of_each(hashes[new])
            numbers[new] = self.rows + ranks
            added = rows if len(first) == rows.num_rows else rows.take(pa.array(new[first]))
            if not self._append(added, hashes[new[first]]):
                return None
            repeated = np.ones(len(new), np.bool_)
            repeated[first] = False
            found = np.concatenate((found, new[repeated]))
        return numbers if self._equal(rows, found, numbers) else None

    def _equal(self, rows: pa.Table, places: RowNumbers, numbers: RowNumbers) -> bool:
        """True if the rows at these places are those that are here under their numbers."""
        if not len(places):
            return True
        order, held = self._held.take_by_part(numbers[places], rows.column_names)
        at = places[order]
        given = rows if len(at) == rows.num_rows and (np.diff(at) == 1).all() else rows.take(pa.array(at))
        pairs = zip(given.columns, held.columns, strict=True)
        return all(one.equals(other) or bool(equal_values(one, other).all()) for one, other in pairs)

    def _append(self, rows: pa.Table, hashes: npt.NDArray[np.int64]) -> bool:
        """Append rows that are not here; False where memory is refused."""
        last = self.rows + rows.num_rows
        self._row_bytes = max(self._row_bytes, rows.nbytes / max(rows.num_rows, 1))
        if last > MAX_ROWS or not self._reserve(last):
            return False
        self._held.append(rows)
        self._hashes.cells[self.rows : last] = hashes
        self.counts[self.rows : last] = 0
        self.rows = self._index.link_unique(self.rows, last)
        return True

    def _reserve(self, rows: int) -> bool:
        """See that there is room for so many rows; False where memory is refused."""
        room = len(self.counts)
        if rows > room:
            room = max(rows + rows // 8, room + room // 2)
            self._hashes.resize(room)
            self.counts = resized(self.counts, room)
            self._index.resize(room, self.rows, np.zeros(room, np.uint8))
        self._charge()
        return self._memory.used <= self._memory.budget

    def _charge(self) -> None:
        bytes_ = self._hashes.bytes + self._index.bytes + self.counts.nbytes + int(self._row_bytes * len(self.counts))
        self._memory.charge(bytes_ - self._bytes)
        self._bytes = bytes_

    def truncate(self, rows: int) -> None:
        """Forget all but the first ``rows`` rows."""
        self._index.unlink(rows, self.rows)
        self._held.truncate(rows)
        self.rows = rows

    def free(self) -> None:
        """Give the memory back. The store is not to be used any more."""
        self._memory.charge(-self._bytes)
        self._bytes = 0


def _first_of_each(hashes: npt.NDArray[np.int64]) -> tuple[RowNumbers, RowNumbers]:
    """The places of the first of equal hashes, in order, and for each hash the rank of its first.

    >>> [found.tolist() for found in _first_of_each(np.array([7, 3, 7, 5]))]
    [[0, 1, 3], [0, 1, 0, 2]]
    """
    _, first, groups = np.unique(hashes, return_index=True, return_inverse=True)
    ranks = np.empty(len(first), np.int64)
    order = np.argsort(first)
    ranks[order] = np.arange(len(first))
    return first[order], ranks[groups]


def _summed(change: ChangeSet, table: pa.Table, numbers: RowNumbers) -> ChangeSet:
    """The change with each row once, as it is if it has no row twice."""
    order = np.argsort(numbers, kind="stable")
    first = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    if len(first) == len(numbers):
        return change
    totals = np.add.reduceat(table.column(WEIGHT).to_numpy()[order], first)
    kept = np.sort(order[first[totals != 0]])
    weights = np.zeros(len(numbers), np.int64)
    weights[order[first]] = totals
    rows = table.drop_columns([WEIGHT]).take(pa.array(kept)).append_column(WEIGHT, pa.array(weights[kept]))
    return ChangeSet.of_arrow(rows, change.fields)
