"""A table with a primary key: changes are checked against its rows and taken in, batch by batch in machine code.

What is plainly right is accepted: every row comes or goes once, those that go are there, those that come have a key
that is free by then. A row that goes and comes back as it was has not changed, and is left out. Anything else may still
be right, such as a row that comes and goes again. It is not taken in, and the caller sums the change and looks more
closely.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.schema import WEIGHT, Table
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.native_map import out_of_memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.table.emit_index import ABSENT, emit_index
from tidemill.runtimes.native.llvm.table.key_index import KeyIndex
from tidemill.runtimes.native.llvm.table.table_rows import RowNumbers, TableRows, net_rows, same_rows, shared_rows

FEW_ROWS = 64
"""Row count up to which Python rows are checked one by one."""

MANY_LEFT = 1 << 17
"""Removed rows from which, if they are the majority, the remaining rows are renumbered."""


class LlvmTable:
    """The rows of one table, read when a change first comes."""

    def __init__(
        self,
        table: Table,
        rows: Callable[[str], ChangeSet],
        memory: Memory,
        strings: StringDictionary,
        used: set[LlvmTable],
    ) -> None:
        """``rows`` gives the table as it is now; ``used`` gets this one whenever it may be about to change."""
        self.table = table
        self._places = table.key_positions
        self._key = tuple(table.fields[i] for i in self._places)
        self._others = [f.name for f in table.fields if f not in self._key]
        emit_index(self._key)  # raises where there is no native form
        self._read, self._memory, self._strings, self._used = rows, memory, strings, used
        self._index: KeyIndex | None = None
        self._rows = TableRows(table.fields)
        self._gone: list[RowNumbers] = []
        self._settled = 0, 0
        self._since_begin = False

    @property
    def ready(self) -> bool:
        """True if the rows have been read."""
        return self._index is not None

    def take(self, change: ChangeSet) -> ChangeSet | None:
        """Take in a change that is plainly right, and return it without rows that it leaves as they were.

        None where it is not plainly right, or there is no room for it.
        """
        self._used.add(self)
        index = self._index or self._load()
        untouched = not index.touched
        if change.is_python_only and len(change) <= FEW_ROWS:
            taken = change if self._take_rows(index, change.pairs()) else None
        else:
            taken = self._take_columns(index, change)
        if taken is None and untouched:
            self.rollback()
        elif taken is None:
            self.free()  # what this epoch did before must stay, and is in the contents that are read next
        return taken

    def find(self, keys: Collection[Row]) -> dict[Row, Row]:
        """The row under each of ``keys`` that is there; none of them has a NULL."""
        assert self._index is not None
        rows = []
        for key in keys:
            row = [None] * len(self.table.fields)
            for place, value in zip(self._places, key, strict=True):
                row[place] = value
            rows.append((tuple(row), 1))
        _, numbers = self._index.find_rows(rows)
        found = zip(keys, numbers.tolist(), strict=True)
        return {key: self._rows.row(number) for key, number in found if number != ABSENT}

    # -- columns --------------------------------------------------------------------------------------------------

    def _take_columns(self, index: KeyIndex, change: ChangeSet) -> ChangeSet | None:
        given = change.arrow().combine_chunks().to_batches()
        taken: list[pa.RecordBatch] = []
        for batch in given:
            net = self._take_batch(index, batch)
            if net is None:
                return None
            taken.append(net)
        if all(net is batch for net, batch in zip(taken, given, strict=True)):
            return change
        return ChangeSet.of_arrow(pa.Table.from_batches(taken), change.fields)

    def _take_batch(self, index: KeyIndex, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Take in a batch; returns what it changes, None where that is not plain."""
        weights = batch.column(WEIGHT).to_numpy()
        leaves, comes = weights == -1, weights == 1
        if not (leaves | comes).all():
            return None
        keys = index.keys_of(batch)
        found = index.find(keys)
        if leaves.any():
            # The rows that were found have the keys by which they were.
            back = self._unchanged(pa.Table.from_batches([batch]).select(self._others), found, leaves)
            if back is None:
                return None
            if len(back):
                changed = ~np.isin(found, back)
                batch, found = batch.filter(pa.array(changed)), found[changed]
                leaves, comes = leaves[changed], comes[changed]
                keys = index.keys_of(batch)
        elif found.size and found.max() >= 0:
            return None
        if not index.move(keys, found, len(self._rows)):
            return None
        arrived = batch
        if leaves.any():
            self._gone.append(found[leaves])
            arrived = batch.filter(pa.array(comes))
        self._rows.append(pa.Table.from_batches([arrived]))
        return batch

    def _unchanged(self, rows: pa.Table, found: RowNumbers, leaves: npt.NDArray[np.bool_]) -> RowNumbers | None:
        """The numbers of rows that leave and come back as they were, each once.

        None where a row leaves that is not there, or another row stays under a key that comes.
        """
        leaving, updates = np.flatnonzero(leaves), np.flatnonzero(~leaves & (found >= 0))
        left, kept = found[leaving], found[updates]
        if left.min() < 0:
            return None
        order, held = self._rows.take_by_part(left, rows.column_names)
        if not same_rows(rows.take(pa.array(leaving[order])), held):
            return None
        sorter = np.argsort(left)
        places = sorter[np.searchsorted(left, kept, sorter=sorter).clip(max=len(left) - 1)]
        if not (left[places] == kept).all():
            return None
        shared = shared_rows(rows, updates, leaving[places])
        if shared is None or not shared.any():
            return None if shared is None else kept[:0]
        back = kept[shared]
        # One row of each sign under each of these keys: anything else is for the caller to sum.
        return back if np.isin(found, back).sum() == 2 * len(np.unique(back)) == 2 * len(back) else None

    # -- a few rows -----------------------------------------------------------------------------------------------

    def _take_rows(self, index: KeyIndex, pairs: Sequence[tuple[Row, int]]) -> bool:
        packed, numbers = index.find_rows(pairs)
        found = numbers.tolist()
        leaving = {}
        for (row, weight), number in zip(pairs, found, strict=True):
            if weight == -1 and number >= 0 and self._rows.row(number) == row:
                leaving[number] = row
            elif weight != 1:
                return False
        for (row, weight), number in zip(pairs, found, strict=True):
            if weight == 1 and number >= 0 and (number not in leaving or leaving[number] == row):
                return False
        if not index.move_rows(packed, numbers, len(self._rows)):
            return False
        if leaving:
            self._gone.append(np.array(list(leaving)))
        self._rows.append_rows([row for row, weight in pairs if weight == 1])
        return True

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _load(self) -> KeyIndex:
        # Whatever is read in the epoch under way includes changes that a rollback takes back.
        self._since_begin = True
        return self._fill(net_rows(self._read(self.table.name)))

    def _fill(self, rows: pa.Table) -> KeyIndex:
        """Take these rows for the table, numbered from 0 on."""
        index, held = KeyIndex(self._key, self._places, self._memory, self._strings), TableRows(self.table.fields)
        try:
            for batch in rows.combine_chunks().to_batches():
                nowhere = np.empty(batch.num_rows, np.int64)
                if not index.move(index.keys_of(batch), nowhere, len(held)):
                    raise out_of_memory(f'table "{self.table.name}"')
                held.append(pa.Table.from_batches([batch]))
        except BaseException:
            index.free()  # half a table must not be taken for one
            raise
        index.settle()
        self._index, self._rows, self._gone = index, held, []
        return index

    def settle(self) -> None:
        """Take the rows as they are for those from which the next epoch starts."""
        self._since_begin = False
        if self._index is None:
            return
        gone = sum(map(len, self._gone))
        if gone > max(MANY_LEFT, len(self._rows) - gone):
            self._drop_gone()
        else:
            self._index.settle()
        self._settled = len(self._rows), len(self._gone)

    def _drop_gone(self) -> None:
        """Number the rows that are there anew, without those that have left."""
        rows = self._rows.kept(np.concatenate(self._gone))
        self.free()
        with self._memory.unbounded():  # it takes less than it did
            self._fill(rows)

    def rollback(self) -> None:
        """Undo the epoch."""
        if self._since_begin:
            self.free()
        elif self._index is not None:
            self._index.rollback()
            count, gone = self._settled
            self._rows.truncate(count)
            del self._gone[gone:]

    def free(self) -> None:
        """Give the memory back; the next change reads the rows again."""
        if self._index is not None:
            self._index.free()
        self._index = None
        self._rows, self._gone = TableRows(self.table.fields), []
