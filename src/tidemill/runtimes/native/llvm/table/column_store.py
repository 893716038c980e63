"""The rows of a table as columns of cells with hash indexes, shared by all that look rows up.

Columns of fixed width, those of the primary key and their index are always there: changes are checked by them. Other
columns and indexes are added when a stage first needs them, and exist once, whatever number of stages read them. Stages
see a row only once it is *shown*; the index of the primary key has it at once.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tidemill.changes.zset import Row
from tidemill.model.schema import Table
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.containers.chained_index import MAX_ROWS
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.maps.table_reader import IndexColumns, TableReader
from tidemill.runtimes.native.llvm.table.cell_column import (
    CellColumn,
    Cells,
    Flags,
    is_fixed_width,
    resized,
)
from tidemill.runtimes.native.llvm.table.row_index import RowIndex, address
from tidemill.runtimes.native.llvm.table.sift import SiftedRows, sift
from tidemill.runtimes.native.llvm.table.table_rows import RowNumbers

FIRST_ROWS = 64
"""The number of rows that there is room for at first."""

CONVERTED_ROWS = 1 << 16
"""Rows of a large table that are converted at a time: what is made on the way stays in the same few pages."""

_versions = itertools.count()

RowCells = dict[str, Cells]
"""Rows as cells, by column."""


def stored_columns(table: Table) -> tuple[str, ...]:
    """The columns that are always here: those of fixed width, and the primary key.

    Others take room in the dictionary of strings, which gives none back: so only those that stages read are added.
    """
    return tuple(f.name for f in table.fields if is_fixed_width(f.type) or f.name in table.primary_key)


class ColumnStore:
    """Columns of a table by row number, and indexes over them.

    ``version`` changes whenever one of its addresses does: then the handles of readers are outdated.
    """

    def __init__(self, table: Table, memory: Memory, strings: StringDictionary) -> None:
        self._memory, self._strings = memory, strings
        self._fields = {f.name: f for f in table.fields}
        self._places = {f.name: place for place, f in enumerate(table.fields)}
        self._room = FIRST_ROWS
        self.rows = 0
        """The number of rows, shown or not, deleted or not."""
        self._shown = ctypes.c_int64(0)
        self._deleted = np.zeros(FIRST_ROWS, np.uint8)
        self._columns = {name: CellColumn(self._fields[name], FIRST_ROWS, strings) for name in stored_columns(table)}
        self._key = [self._columns[name] for name in table.primary_key]
        self._key_names = table.primary_key
        self._key_places = table.key_positions
        self._key_index = RowIndex(self._key)
        self._key_index.rebuild(FIRST_ROWS, 0, self._deleted)
        self._indexes: dict[IndexColumns, RowIndex] = {}
        self._readers: set[TableReader] = set()
        self._bytes = 0
        self._whole = True
        """False while something changes: an interruption may have left it half done."""
        self._moved()

    # -- rows that come as columns --------------------------------------------------------------------------------

    def convert(self, rows: pa.Table) -> RowCells:
        """The cells of rows."""
        return {name: column.convert(rows.column(name)) for name, column in self._columns.items()}

    def find(self, rows: RowCells) -> RowNumbers:
        """The number of the row under each primary key, -1 where there is none."""
        return self._key_index.find([rows[name].cells for name in self._key_names])

    def same(self, numbers: RowNumbers, rows: RowCells, places: RowNumbers) -> Flags:
        """The mask of the rows ``numbers`` that equal those of ``rows`` at ``places``, as far as their cells are here.

        Their primary keys are equal.
        """
        found = np.ones(len(numbers), np.bool_)
        for name, column in self._columns.items():
            if name not in self._key_names:
                found &= column.same(numbers, rows[name].at(places))
        return found

    def load(self, rows: pa.Table) -> bool:
        """Append and show the rows of an empty store, as ``append`` does."""
        self._whole = False
        if not self._reserve(rows.num_rows):
            self._whole = True
            return False
        for first in range(0, rows.num_rows, CONVERTED_ROWS):
            part = rows.slice(first, CONVERTED_ROWS)
            if not self.append(self.convert(part)):
                return False
        self.show(rows.num_rows, ())
        return True

    @property
    def names(self) -> Collection[str]:
        """The columns that are here."""
        return self._columns.keys()

    def sift(self, weights: RowNumbers, found: RowNumbers, gone: list[RowNumbers]) -> SiftedRows | None:
        """The rows of a change by what they do, those that leave deleted and noted in ``gone``; None if it is not
        plain.

        ``found`` has the number of the row under each key.
        """
        self._whole = False
        rows = sift(weights, found, self._key_index.links)
        if rows is not None:
            gone.append(rows.left.copy())
        self._whole = True
        return rows

    def restore(self, numbers: RowNumbers) -> None:
        """Take back that rows were deleted, which are shown still."""
        self._whole = False
        self._key_index.unmark(numbers)
        self._whole = True

    def append(self, rows: RowCells, places: RowNumbers | None = None) -> bool:
        """Append rows, or those at some places, which are not shown yet.

        False where a key is there already, or where memory is refused.
        """
        first, count = self.rows, len(rows[self._key_names[0]].cells) if places is None else len(places)
        self._whole = False
        if not self._reserve(first + count):
            self._whole = True
            return False
        for name, column in self._columns.items():
            column.write(first, rows[name], places)
        return self._link_keys(first + count)

    def _link_keys(self, last: int) -> bool:
        self.rows = self._key_index.link_unique(self.rows, last)
        self._whole = True
        return self.rows == last

    # -- a few rows -----------------------------------------------------------------------------------------------

    def find_keys(self, keys: Sequence[Row]) -> list[int]:
        """The number of the row under each of a few primary keys, -1 where there is none."""
        return self._key_index.find_few(keys, range(len(self._key)))

    def find_rows(self, rows: Sequence[Row]) -> list[int]:
        """The number of the row under the primary key of each of a few rows, -1 where there is none."""
        return self._key_index.find_few(rows, self._key_places)

    def has_row(self, number: int, row: Row) -> bool:
        """True if the row of that number, which has the key of ``row``, equals it, as far as its cells are here."""
        equal = True
        for column, place in self._beside_key:
            equal = equal and column.has(number, row[place])
        return equal

    def append_rows(self, rows: Sequence[Row]) -> bool:
        """Append a few rows, as ``append`` does."""
        last = self.rows + len(rows)
        self._whole = False
        if last > self._room and not self._reserve(last):
            self._whole = True
            return False
        for number, row in enumerate(rows, self.rows):
            for column, place in self._placed:
                column.set(number, row[place])
        return self._link_keys(last)

    def value(self, number: int, name: str) -> Any:
        """The value of a row in a column that is always here."""
        return self._columns[name].value(number)

    # -- changes --------------------------------------------------------------------------------------------------

    def delete(self, numbers: RowNumbers) -> None:
        """Delete rows, which stay shown."""
        self._whole = False
        self._key_index.mark(numbers)
        self._whole = True

    def show(self, rows: int, deleted: Sequence[RowNumbers]) -> None:
        """Show the first ``rows`` rows, without those that were ``deleted``."""
        self._whole = False
        for index in self._indexes.values():
            index.link(self._shown.value, rows)
        self._shown.value = rows
        for numbers in deleted:
            self._deleted[numbers] = 1
            for index in self._indexes.values():
                index.mark(numbers)
        self._whole = True

    def undo(self, rows: int, deleted: Sequence[RowNumbers]) -> bool:
        """Forget all but the first ``rows`` rows, and what was ``deleted`` since.

        False if a change was interrupted: then nothing is sure.
        """
        if not self._whole:
            return False
        self._whole = False
        self._key_index.unlink(rows, self.rows)
        for index in self._indexes.values():
            index.unlink(rows, self._shown.value)
            # A row with NULL in a key column, or one that is not shown, is in no chain, but may be marked as deleted.
            index.links[rows : self.rows] = 0
        self._deleted[rows : self.rows] = 0
        self.rows, self._shown.value = rows, min(rows, self._shown.value)
        for numbers in deleted:
            there = numbers[numbers < rows]
            self._deleted[there] = 0
            for index in (self._key_index, *self._indexes.values()):
                index.unmark(there)
        self._whole = True
        return True

    def drop(self, gone: RowNumbers) -> None:
        """Forget rows that are deleted, and number the others from 0 on; all of them are shown."""
        self._whole = False
        kept = np.ones(self.rows, np.bool_)
        kept[gone] = False
        self.rows = self._shown.value = int(kept.sum())
        self._room = max(self.rows + self.rows // 8, FIRST_ROWS)
        self._deleted = np.zeros(self._room, np.uint8)
        for column in self._columns.values():
            column.keep(kept, self._room)
        for index in (self._key_index, *self._indexes.values()):
            index.rebuild(self._room, self.rows, self._deleted)
        self._moved()
        self._whole = True

    # -- readers --------------------------------------------------------------------------------------------------

    def serves(self, reader: TableReader, indexes: Sequence[IndexColumns]) -> bool:
        """True if the columns of a reader and some of its indexes are there."""
        return reader in self._readers and all(columns in self._indexes for columns in indexes)

    def serve(self, reader: TableReader, indexes: Sequence[IndexColumns], rows: Callable[[], pa.Table]) -> bool:
        """Add the columns of a reader, and some of its indexes; ``rows`` gives all rows. False where memory is
        refused."""
        self._whole = False
        if lacking := [f.name for f in reader.map.keys if f.name not in self._columns]:
            for name, values in zip(lacking, rows().select(lacking).columns, strict=True):
                column = CellColumn(self._fields[name], self._room, self._strings)
                for first in range(0, len(values), CONVERTED_ROWS):
                    column.write(first, column.convert(values.slice(first, CONVERTED_ROWS)))
                self._columns[name] = column
        for columns in indexes:
            if columns not in self._indexes:
                index = RowIndex([self._columns[name] for name in columns])
                index.rebuild(self._room, self._shown.value, self._deleted)
                self._indexes[columns] = index
        self._moved()
        self._readers.add(reader)
        self._whole = True
        return self._memory.used <= self._memory.budget

    def handle(self, reader: TableReader) -> list[int]:
        """The words of the handle of a reader, which are good until ``version`` changes.

        An index that is not there has no rows: nothing may be looked up in it, but prefetching may touch it.
        """
        words = [ctypes.addressof(self._shown), address(self._deleted)]
        for f in reader.map.keys:
            column = self._columns[f.name]
            words += [address(column.cells), address(column.nulls)]
        for columns in reader.indexes:
            words += self._indexes[columns].words if columns in self._indexes else NO_ROWS
        return words

    # -- memory ---------------------------------------------------------------------------------------------------

    def free(self) -> None:
        """Give the memory back. The store is not to be used any more."""
        self._memory.charge(-self._bytes)
        self._bytes = 0

    def _reserve(self, rows: int) -> bool:
        """See that there is room for so many rows; False where memory is refused."""
        if rows <= self._room:
            return True
        # A table that is loaded at once has room for its next changes: to grow copies all columns and links all rows.
        room = max(rows + rows // 8, self._room + self._room // 2)
        if rows > MAX_ROWS or self._memory.used + self._bytes * (room - self._room) // self._room > self._memory.budget:
            return False
        deleted, self._deleted = self._deleted, resized(self._deleted, room)
        for column in self._columns.values():
            column.resize(room)
        self._key_index.resize(room, self.rows, self._key_index.links >> 31)
        for index in self._indexes.values():
            index.resize(room, self._shown.value, deleted)
        self._room = room
        self._moved()
        return True

    def _moved(self) -> None:
        """Note that columns, addresses, and with them sizes, have changed."""
        parts: list[CellColumn | RowIndex] = [*self._columns.values(), self._key_index, *self._indexes.values()]
        bytes_ = sum(part.bytes for part in parts) + self._deleted.nbytes
        self._memory.charge(bytes_ - self._bytes)
        self._bytes = bytes_
        self._placed = [(column, self._places[name]) for name, column in self._columns.items()]
        self._beside_key = [(column, place) for column, place in self._placed if place not in self._key_places]
        self.version = next(_versions)
        self._memory.moves += 1


class VersionedRows(Protocol):
    """Rows whose columns may move."""

    @property
    def version(self) -> int | None:
        """Changes whenever they do."""


class TableHandle:
    """The handle of one reader in memory: of the rows that a store shows, or of no rows."""

    def __init__(self, reader: TableReader) -> None:
        self.reader = reader
        self._words = (ctypes.c_int64 * (reader.layout.size // 8))()
        self.address = ctypes.addressof(self._words)
        self._version: int | None = None
        self.show_nothing()

    def show(self, store: ColumnStore) -> None:
        """Show the rows of ``store``, which serves the reader."""
        if store.version != self._version:
            self._set(store.handle(self.reader))
            self._version = store.version

    def show_nothing(self) -> None:
        """Show no row."""
        columns, indexes = len(self.reader.map.keys), len(self.reader.indexes)
        self._set([_NOTHING, _NOTHING, *[_NOTHING] * 2 * columns, *NO_ROWS * indexes])
        self._version = None

    def hide_outdated(self, table: VersionedRows | None) -> None:
        """Show no row any more if the columns of ``table`` have moved."""
        if self._version is not None and (table is None or table.version != self._version):
            self.show_nothing()

    def _set(self, words: Sequence[int]) -> None:
        self._words[:] = [*words]


_ZEROS = np.zeros(2, np.int64)
_NOTHING = int(_ZEROS.ctypes.data)

NO_ROWS = [_NOTHING, _NOTHING, 63]
"""The words of an index without rows: a hash has one of two heads, both empty."""
