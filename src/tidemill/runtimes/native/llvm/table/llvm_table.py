"""A table with a primary key: changes are checked against its rows and taken in, batch by batch in machine code.

What is plainly right is accepted: every row comes or goes once, those that go are there, those that come have a key
that is free by then. Anything else may still be right, such as a row that comes and goes in one change. It is not
taken in, and the caller sums the change and looks more closely.
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
from tidemill.runtimes.native.llvm.table.key_index import KeyIndex, RowNumbers
from tidemill.runtimes.native.llvm.table.table_rows import TableRows, may_share_a_row, net_rows, same_rows

FEW_ROWS = 64
"""Up to so many rows that are Python's are looked at one by one."""

MANY_LEFT = 1 << 17
"""Rows that have left and are still here: from so many on, and if they are most, the table is read again."""


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
        emit_index(self._key)  # raises where there is no native form
        self._read, self._memory, self._strings, self._used = rows, memory, strings, used
        self._index: KeyIndex | None = None
        self._rows = TableRows(table.fields)
        self._live = 0
        self._settled = 0, 0
        self._since_begin = False

    @property
    def ready(self) -> bool:
        """True if the rows have been read."""
        return self._index is not None

    def take(self, change: ChangeSet) -> bool:
        """Take in a change that is plainly right. False where it is not, or there is no room for it."""
        self._used.add(self)
        index = self._index or self._load()
        untouched = not index.touched
        few = change.is_python_only and len(change) <= FEW_ROWS
        if self._take_rows(index, change.pairs()) if few else self._take_columns(index, change.arrow()):
            return True
        if untouched:
            self.rollback()
        else:
            self.free()  # what this epoch did before must stay, and is in the contents that are read next
        return False

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

    def _take_columns(self, index: KeyIndex, table: pa.Table) -> bool:
        return all(self._take_batch(index, batch) for batch in table.combine_chunks().to_batches())

    def _take_batch(self, index: KeyIndex, batch: pa.RecordBatch) -> bool:
        weights = batch.column(WEIGHT).to_numpy()
        leaves, comes = weights == -1, weights == 1
        if not (leaves | comes).all():
            return False
        keys = index.keys_of(batch)
        found = index.find(keys)
        if leaves.any():
            if not self._is_plain(pa.Table.from_batches([batch]).drop_columns([WEIGHT]), found, leaves):
                return False
        elif found.size and found.max() >= 0:
            return False
        if not index.move(keys, found, len(self._rows)):
            return False
        arrived = int(comes.sum())
        self._live += 2 * arrived - batch.num_rows
        self._rows.append(pa.Table.from_batches([batch if arrived == batch.num_rows else batch.filter(comes)]))
        return True

    def _is_plain(self, rows: pa.Table, found: RowNumbers, leaves: npt.NDArray[np.bool_]) -> bool:
        """True if all rows that leave are there, and no other row stays under a key or comes back as it was."""
        left = found[leaves]
        if left.min() < 0 or not same_rows(rows.filter(pa.array(leaves)), self._rows.take(left)):
            return False
        updates = ~leaves & (found >= 0)
        kept = found[updates]
        if not np.isin(kept, left).all():
            return False
        return not len(kept) or not may_share_a_row(rows.filter(pa.array(updates)), self._rows.take(kept))

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
        arrived = [row for row, weight in pairs if weight == 1]
        self._live += 2 * len(arrived) - len(pairs)
        self._rows.append_rows(arrived)
        return True

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _load(self) -> KeyIndex:
        # Whatever is read in the epoch under way includes changes that a rollback takes back.
        self._since_begin = True
        index = KeyIndex(self._key, self._places, self._memory, self._strings)
        try:
            for batch in net_rows(self._read(self.table.name)).combine_chunks().to_batches():
                nowhere = np.empty(batch.num_rows, np.int64)
                if not index.move(index.keys_of(batch), nowhere, len(self._rows)):
                    raise out_of_memory(f'table "{self.table.name}"')
                self._rows.append(pa.Table.from_batches([batch]))
        except BaseException:
            index.free()  # half a table must not be taken for one
            self._rows = TableRows(self.table.fields)
            raise
        index.settle()
        self._live = len(self._rows)
        self._index = index
        return index

    def settle(self) -> None:
        """Take the rows as they are for those from which the next epoch starts."""
        self._since_begin = False
        if self._index is not None and len(self._rows) - self._live > max(MANY_LEFT, self._live):
            self.free()
        elif self._index is not None:
            self._index.settle()
            self._settled = len(self._rows), self._live

    def rollback(self) -> None:
        """Undo the epoch."""
        if self._since_begin:
            self.free()
        elif self._index is not None:
            self._index.rollback()
            count, self._live = self._settled
            self._rows.truncate(count)

    def free(self) -> None:
        """Give the memory back; the next change reads the rows again."""
        if self._index is not None:
            self._index.free()
        self._index = None
        self._rows = TableRows(self.table.fields)
