"""A table with a primary key: changes are checked against its rows and taken in, batch by batch in machine code.

A *plain* change is accepted: every row is inserted or deleted once, deleted rows exist, and inserted rows have a key
that no other row has by then. A row that is deleted and inserted as it was has not changed, and is left out. Other
changes may be valid, too, such as a row that is inserted and deleted again: they are not taken in, and the caller
sums the change and checks it row by row.

Stages look rows up in columns that they share (``column_store``). They see a change only once it is *shown*: after all
stages have been fired with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Void
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.containers.chained_index import ABSENT
from tidemill.runtimes.native.llvm.io.native_map import out_of_memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.maps.table_reader import IndexColumns, TableReader
from tidemill.runtimes.native.llvm.table.column_store import ColumnStore, RowCells, stored_columns
from tidemill.runtimes.native.llvm.table.sift import SiftedRows
from tidemill.runtimes.native.llvm.table.table_rows import RowNumbers, TableRows, net_rows, same_rows, shared_rows

FEW_ROWS = 64
"""Row count up to which Python rows are checked one by one."""

MANY_LEFT = 1 << 17
"""Removed rows from which, if they are the majority, the remaining rows are renumbered."""


class TableSource(Protocol):
    """The source of a table's rows when they are first used."""

    def rows(self, relation: str) -> ChangeSet:
        """The rows as they are now, equal ones perhaps in several parts."""

    def missed_rows(self, table: Table, since: int) -> ChangeSet | None:
        """The changes after an epoch; None if loading the rows again is cheaper."""

    @property
    def epoch(self) -> int:
        """The last epoch that is stored."""


class LlvmTable:
    """The rows of one table, read when a change first comes."""

    def __init__(
        self,
        table: Table,
        contents: TableSource,
        memory: Memory,
        strings: StringDictionary,
        used: set[LlvmTable],
    ) -> None:
        """``used`` gets this table whenever it may be about to change."""
        self.table = table
        for field in [table.fields[place] for place in table.key_positions]:
            if isinstance(field.type, Void) or field.nullable:
                raise NotCompiled(f"a primary key of type {field.type}")
        stored = stored_columns(table)
        self._others = tuple(f for f in table.fields if f.name not in stored)
        """The columns that only whole rows have."""
        self._other_places = [table.fields.index(f) for f in self._others]
        self._contents, self._memory, self._strings, self._used = contents, memory, strings, used
        self._store: ColumnStore | None = None
        self._rows = TableRows(self._others)
        self._gone: list[RowNumbers] = []
        self._gone_rows = 0
        """The number of rows that had gone when the epoch began."""
        self._settled = 0, 0
        self._shown = 0, 0
        self._taken: list[ChangeSet] = []
        self._since_begin = False
        self._epoch: int | None = None
        """The epoch that a table shows which has missed some."""

    @property
    def ready(self) -> bool:
        """True if the rows have been read; they catch up with epochs that were missed."""
        if self._epoch is not None:
            self._catch_up(self._epoch)
        return self._store is not None

    def take(self, change: ChangeSet) -> ChangeSet | None:
        """Take in a plain change, and return it without rows that it leaves as they were.

        None if it is not plain, or if there is no room for it.
        """
        store = self._current()
        untouched = (store.rows, len(self._gone)) == self._settled
        if change.rows <= FEW_ROWS and change.is_python_only:
            taken = change if self._take_rows(store, change.pairs()) else None
        else:
            taken = self._take_columns(store, change)
        if taken is not None:
            self._taken += [change, taken]
        elif untouched:
            self.rollback()
        else:
            self.free()  # what this epoch did before must stay, and is in the contents that are read next
        return taken

    def _current(self) -> ColumnStore:
        """The rows as of now, read or caught up if need be; they may be about to change."""
        self._used.add(self)
        if self._epoch is not None:
            self._catch_up(self._epoch)
        return self._load() if self._store is None else self._store

    @property
    def _now(self) -> tuple[int, int]:
        """The number of rows and that of batches of deleted rows."""
        return 0 if self._store is None else self._store.rows, len(self._gone)

    def find(self, keys: Collection[Row]) -> dict[Row, Row]:
        """The row under each of ``keys`` that is there; none of them has a NULL."""
        assert self._store is not None
        found = zip(keys, self._store.find_keys(list(keys)), strict=True)
        return {key: self._row(self._store, number) for key, number in found if number != ABSENT}

    def _row(self, store: ColumnStore, number: int) -> Row:
        others = dict(zip(self._others, self._rows.row(number), strict=True)) if self._others else {}
        return tuple([others[f] if f in others else store.value(number, f.name) for f in self.table.fields])

    # -- columns --------------------------------------------------------------------------------------------------

    def _take_columns(self, store: ColumnStore, change: ChangeSet) -> ChangeSet | None:
        given = change.arrow().combine_chunks().to_batches()
        taken: list[pa.RecordBatch] = []
        for batch in given:
            net = self._take_batch(store, batch)
            if net is None:
                return None
            taken.append(net)
        if all(net is batch for net, batch in zip(taken, given, strict=True)):
            return change
        return ChangeSet.of_arrow(pa.Table.from_batches(taken), change.fields)

    def _take_batch(self, store: ColumnStore, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Take in a batch; returns what it changes, None where that is not plain."""
        weights = batch.column(WEIGHT).to_numpy()
        rows = pa.Table.from_batches([batch])
        cells = store.convert(rows)
        if (weights == 1).all():
            if self._others:
                self._rows.append(rows)
            return batch if store.append(cells) else None
        found = store.find(cells)
        sifted = store.sift(weights, found, self._gone)
        if sifted is None:
            return None
        back = self._unchanged(store, found, sifted, cells, rows.select(self._unshared(store)))
        if back is None:
            return None
        comes = sifted.comes
        if len(back):
            store.restore(back)
            changed = ~_among(found, back, store.rows)
            batch, comes = batch.filter(pa.array(changed)), comes[changed[comes]]
            self._gone[-1] = sifted.left[changed[sifted.leaving]]
        if self._others:
            self._rows.append(rows.take(pa.array(comes)))
        return batch if store.append(cells, comes) else None

    def _unshared(self, store: ColumnStore) -> list[str]:
        """The columns that only whole rows have, and no stage needs."""
        return [f.name for f in self._others if f.name not in store.names]

    def _unchanged(
        self, store: ColumnStore, found: RowNumbers, rows: SiftedRows, cells: RowCells, others: pa.Table
    ) -> RowNumbers | None:
        """The numbers of rows that leave and come back as they were, each once.

        None where a row leaves that differs from the one that is there under its key.
        """
        if not store.same(rows.left, cells, rows.leaving).all():
            return None
        shared = store.same(rows.kept, cells, rows.updates)
        if others.num_columns:
            order, held = self._rows.take_by_part(rows.left, others.column_names)
            if not same_rows(others.take(pa.array(rows.leaving[order])), held):
                return None
            sorter = np.argsort(rows.left)
            before = rows.leaving[sorter[np.searchsorted(rows.left, rows.kept[shared], sorter=sorter)]]
            equal = shared_rows(others, rows.updates[shared], before)
            if equal is None:
                return None
            shared[shared] = equal
        back = rows.kept[shared]
        # One row of each sign under each of these keys: anything else is for the caller to sum.
        plain = not len(back) or _among(found, back, store.rows).sum() == 2 * len(np.unique(back)) == 2 * len(back)
        return back if plain else None

    # -- a few rows -----------------------------------------------------------------------------------------------

    def _take_rows(self, store: ColumnStore, pairs: Sequence[tuple[Row, int]]) -> bool:
        found = store.find_rows([row for row, _ in pairs])
        leaving: dict[int, Row] = {}
        arrived: list[Row] = []
        replacing: list[tuple[int, Row]] = []
        for (row, weight), number in zip(pairs, found, strict=True):
            if weight == 1:
                arrived.append(row)
                if number >= 0:
                    replacing.append((number, row))
            elif weight == -1 and number >= 0 and number not in leaving and self._has(store, number, row):
                leaving[number] = row
            else:
                return False
        for number, row in replacing:
            if number not in leaving or leaving[number] == row:
                return False
        if leaving:
            self._gone.append(np.array(list(leaving)))
            store.delete(self._gone[-1])
        if not arrived:
            return True
        if self._others:
            self._rows.append_rows([self._others_of(row) for row in arrived])
        return store.append_rows(arrived)

    def _has(self, store: ColumnStore, number: int, row: Row) -> bool:
        """True if the table has ``row`` under that number."""
        return store.has_row(number, row) and (not self._others or self._rows.row(number) == self._others_of(row))

    def _others_of(self, row: Row) -> Row:
        return tuple([row[place] for place in self._other_places])

    # -- what stages see ------------------------------------------------------------------------------------------

    @property
    def version(self) -> int | None:
        """The version of the rows that stages see; None if they are not here."""
        return None if self._store is None else self._store.version

    def share(self, reader: TableReader, indexes: Sequence[IndexColumns] | None = None) -> ColumnStore:
        """The rows that stages see, with all columns that ``reader`` needs, and all of its indexes or some."""
        store, indexes = self._store, reader.indexes if indexes is None else indexes
        if store is not None and self._epoch is None and store.serves(reader, indexes):
            return store
        store = self._current()
        if not store.serve(reader, indexes, lambda: self._rows.first(store.rows)):
            self.free()
            raise out_of_memory(f'table "{self.table.name}"')
        return store

    def show(self, change: ChangeSet) -> None:
        """Show stages a change that was taken in, or its deletes or its inserts alone; others are taken in first.

        Where a change cannot be told from what was taken in, the rows are read again when they are next needed.
        """
        if not self._taken:
            if self.take(ChangeSet.of_arrow(net_rows(change, self.table.primary_key), change.fields)) is None:
                self.free()
                return
        elif change not in self._taken:
            self._show_part(*change.signed())
            return
        self._show()

    def _show_part(self, deletes: ChangeSet, inserts: ChangeSet) -> None:
        rows, gone = self._shown
        if not len(inserts) and len(deletes) == sum(map(len, self._gone[gone:])):
            self._show(inserts=False)
        elif not len(deletes) and len(inserts) == self._now[0] - rows:
            self._show(deletes=False)
        else:
            self.free()

    def _show(self, *, deletes: bool = True, inserts: bool = True) -> None:
        assert self._store is not None
        rows, gone = self._store.rows, len(self._gone)
        shown, hidden = self._shown
        self._shown = rows if inserts else shown, gone if deletes else hidden
        self._store.show(self._shown[0], self._gone[hidden : self._shown[1]])
        if self._shown == (rows, gone):
            self._taken.clear()

    # -- missed epochs --------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Note that the next epochs are committed without the table: it shows the last one until it is next used."""
        if self._store is not None and self._epoch is None:
            self._epoch = self._contents.epoch
            self._memory.moves += 1

    @property
    def is_paused(self) -> bool:
        """True if the table holds rows that have missed epochs."""
        return self._epoch is not None

    def _catch_up(self, since: int) -> None:
        """Take in what the table has missed, or give the rows back where they are better read again."""
        missed = self._contents.missed_rows(self.table, since)
        if missed is None:
            self.free()
            return
        try:
            self._epoch = None
            self.settle()
            self.show(missed)
            self.settle()
        except BaseException:
            self.free()  # rows that have missed a part of it must not be taken for the table
            raise

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _load(self) -> ColumnStore:
        # Whatever is read in the epoch under way includes changes that a rollback takes back.
        self._since_begin = True
        return self._fill(net_rows(self._contents.rows(self.table.name), self.table.primary_key))

    def _fill(self, rows: pa.Table) -> ColumnStore:
        """Take these rows for the table, numbered from 0 on."""
        store, held = ColumnStore(self.table, self._memory, self._strings), TableRows(self._others)
        try:
            if self._others:
                held.append(rows.combine_chunks())
            if not store.load(rows):
                raise out_of_memory(f'table "{self.table.name}"')
        except BaseException:
            store.free()  # half a table must not be taken for one
            raise
        self._store, self._rows, self._gone, self._gone_rows = store, held, [], 0
        self._settled = self._shown = self._now
        return store

    def settle(self) -> None:
        """Take the rows as they are for those from which the next epoch starts."""
        self._since_begin = False
        if self._store is None:
            return
        if self._taken:
            self._show()
        if gone := self._gone[self._settled[1] :]:
            self._gone_rows += sum(map(len, gone))
            if self._gone_rows > max(MANY_LEFT, self._store.rows - self._gone_rows):
                self._drop_gone(self._store)
        self._settled = self._store.rows, len(self._gone)

    def _drop_gone(self, store: ColumnStore) -> None:
        """Renumber the rows that are there, without those that have left."""
        gone = np.concatenate(self._gone)
        try:
            store.drop(gone)
            if self._others:
                rows = self._rows.kept(gone)
                self._rows = TableRows(self._others)
                self._rows.append(rows)
            self._gone, self._gone_rows = [], 0
            self._settled = self._shown = self._now
        except BaseException:
            self.free()  # old numbers must not meet new ones
            raise

    def rollback(self) -> None:
        """Undo the epoch."""
        if self._store is None:
            return
        count, gone = self._settled
        if self._since_begin or not self._store.undo(count, self._gone[gone:]):
            self.free()
            return
        self._rows.truncate(count)
        del self._gone[gone:]
        self._taken.clear()
        self._shown = self._settled

    def free(self) -> None:
        """Give the memory back; the next change reads the rows again."""
        if self._store is not None:
            self._store.free()
        self._store = None
        self._memory.moves += 1
        self._rows, self._gone, self._gone_rows = TableRows(self._others), [], 0
        self._taken.clear()
        self._settled = self._shown = 0, 0
        self._epoch = None


def _among(found: RowNumbers, numbers: RowNumbers, rows: int) -> npt.NDArray[np.bool_]:
    """The mask of those of ``found`` that are among ``numbers``, all of them below ``rows``; -1 is not.

    >>> _among(np.array([2, -1, 0]), np.array([0]), 3).tolist()
    [False, False, True]
    """
    flags = np.zeros(rows + 1, np.bool_)
    flags[numbers] = True
    return flags[found]
