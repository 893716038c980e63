"""The rows of a table as columns of cells with hash indexes, shared by all that look rows up.

The columns of the primary key and their index are always there: changes are checked by them. Other columns and indexes
are added when a stage first needs them, and exist once, whatever number of stages read them. Stages see a row only once
it is *shown*; the index of the primary key has it at once.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.native.llvm.codegen.jit import load
from tidemill.runtimes.native.llvm.codegen.layout import NUMPY_FORMATS, cell_type, is_window
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.containers.chained_index import DELETED, MAX_ROWS, emit_index
from tidemill.runtimes.native.llvm.io.arrow_columns import CellArray, cells_of, nulls_of, one_chunk
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.maps.table_reader import IndexColumns, TableReader
from tidemill.runtimes.native.llvm.scalars.conversions import inner_number
from tidemill.runtimes.native.llvm.table.table_rows import RowNumbers

FIRST_ROWS = 64
"""The number of rows that there is room for at first."""

_DELETED = np.uint32(DELETED)

_versions = itertools.count()

Keys = list[CellArray]
"""The cells of primary keys, column by column."""


class ColumnStore:
    """Columns of a table by row number, and indexes over them.

    ``version`` changes whenever one of its addresses does: then the handles of readers are outdated.
    """

    def __init__(self, table: Table, memory: Memory, strings: StringDictionary) -> None:
        self._memory, self._strings = memory, strings
        self._fields = {f.name: f for f in table.fields}
        self._places = {f.name: place for place, f in enumerate(table.fields)}
        self._room = FIRST_ROWS
        self._rows = 0
        self._shown = ctypes.c_int64(0)
        self._deleted = np.zeros(FIRST_ROWS, np.uint8)
        self._columns = {name: _Column(self._fields[name], FIRST_ROWS, strings) for name in table.primary_key}
        self._key = dict(self._columns)
        self._key_index = _Index(list(self._key.values()))
        self._key_index.rebuild(FIRST_ROWS, 0, self._deleted)
        self._indexes: dict[IndexColumns, _Index] = {}
        self._readers: set[TableReader] = set()
        self._bytes = 0
        self._whole = True
        """False while something changes: an interruption may have left it half done."""
        self._moved()

    def __len__(self) -> int:
        return self._rows

    @property
    def bytes(self) -> int:
        """The bytes of all columns and indexes."""
        return self._bytes

    # -- by primary key -------------------------------------------------------------------------------------------

    def keys_of(self, rows: pa.Table) -> Keys:
        """The primary keys of rows that are columns."""
        return [column.convert(rows.column(name)) for name, column in self._key.items()]

    def cells_of_keys(self, keys: Sequence[Row]) -> Keys:
        """A few primary keys."""
        return [column.convert_values([key[i] for key in keys]) for i, column in enumerate(self._key.values())]

    def find(self, keys: Keys) -> RowNumbers:
        """The number of the row under each key, -1 where there is none."""
        return self._key_index.find(keys)

    # -- changes --------------------------------------------------------------------------------------------------

    def append(self, rows: pa.Table | list[Row]) -> bool:
        """Append rows, which are not shown yet. False where a key is there already, or where memory is refused."""
        first, last = self._rows, self._rows + len(rows)
        self._whole = False
        if not self._reserve(last):
            self._whole = True
            return False
        for name, column in self._columns.items():
            if isinstance(rows, list):
                place = self._places[name]
                column.write_values(first, [row[place] for row in rows])
            else:
                column.write(first, rows.column(name))
        self._rows = self._key_index.link_unique(first, last)
        self._whole = True
        return self._rows == last

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
        self._key_index.unlink(rows, self._rows)
        for index in self._indexes.values():
            index.unlink(rows, self._shown.value)
        self._deleted[rows : self._rows] = 0
        self._rows, self._shown.value = rows, min(rows, self._shown.value)
        for numbers in deleted:
            there = numbers[numbers < rows]
            self._deleted[there] = 0
            for index in (self._key_index, *self._indexes.values()):
                index.unmark(there)
        self._whole = True
        return True

    # -- readers --------------------------------------------------------------------------------------------------

    def serves(self, reader: TableReader) -> bool:
        """True if the columns and indexes of a reader are there."""
        return reader in self._readers

    def serve(self, reader: TableReader, rows: Callable[[], pa.Table]) -> bool:
        """Add the columns and indexes that a reader needs; ``rows`` gives all rows. False where memory is refused."""
        self._whole = False
        if lacking := [f.name for f in reader.map.keys if f.name not in self._columns]:
            for name, values in zip(lacking, rows().select(lacking).columns, strict=True):
                column = _Column(self._fields[name], self._room, self._strings)
                column.write(0, values)
                self._columns[name] = column
        for columns in reader.indexes:
            if columns not in self._indexes:
                index = _Index([self._columns[name] for name in columns])
                index.rebuild(self._room, self._shown.value, self._deleted)
                self._indexes[columns] = index
        self._moved()
        self._readers.add(reader)
        self._whole = True
        return self._memory.used <= self._memory.budget

    def handle(self, reader: TableReader) -> list[int]:
        """The words of the handle of a reader, which are good until ``version`` changes."""
        words = [ctypes.addressof(self._shown), _address(self._deleted)]
        for f in reader.map.keys:
            column = self._columns[f.name]
            words += [_address(column.cells), _address(column.nulls)]
        for columns in reader.indexes:
            words += self._indexes[columns].words
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
        room = max(rows, self._room + self._room // 2)
        if rows > MAX_ROWS or self._memory.used + self._bytes * (room - self._room) // self._room > self._memory.budget:
            return False
        deleted, self._deleted = self._deleted, _resized(self._deleted, room)
        for column in self._columns.values():
            column.resize(room)
        self._key_index.resize(room, self._rows, self._key_index.links >> 31)
        for index in self._indexes.values():
            index.resize(room, self._shown.value, deleted)
        self._room = room
        self._moved()
        return True

    def _moved(self) -> None:
        """Note that addresses, and with them sizes, have changed."""
        parts: list[_Column | _Index] = [*self._columns.values(), self._key_index, *self._indexes.values()]
        bytes_ = sum(part.bytes for part in parts) + self._deleted.nbytes
        self._memory.charge(bytes_ - self._bytes)
        self._bytes = bytes_
        self.version = next(_versions)


class _Column:
    """The cells of a column, and a flag for each that is NULL."""

    def __init__(self, field: Field, room: int, strings: StringDictionary) -> None:
        self._field = field
        self._strings = strings
        self.type = cell_type(field.type)
        self._pairs = NUMPY_FORMATS[str(self.type)] == "V16"
        """True if a cell has 128 bits: then it is two words."""
        self._format = "<i8" if self._pairs else NUMPY_FORMATS[str(self.type)]
        self.cells: CellArray = np.zeros((room, 2) if self._pairs else room, self._format)
        self.nulls = np.zeros(room if field.nullable else 0, np.uint8)
        self._convert = _converter(field.type, strings)

    @property
    def bytes(self) -> int:
        return self.cells.nbytes + self.nulls.nbytes

    def resize(self, room: int) -> None:
        """Have room for so many rows."""
        self.cells = _resized(self.cells, room)
        if self._field.nullable:
            self.nulls = _resized(self.nulls, room)

    def convert(self, column: pa.ChunkedArray) -> CellArray:
        """The cells of values that are a column."""
        cells = np.ascontiguousarray(cells_of(one_chunk(column), self._field.type, self._strings))
        return cells.view(np.int64).reshape(-1, 2) if self._pairs else cells

    def convert_values(self, values: Sequence[Any]) -> CellArray:
        """The cells of a few values, none of which is NULL."""
        return np.array([self._convert(value) for value in values], self._format)

    def write(self, first: int, column: pa.ChunkedArray) -> None:
        """Set the cells from row ``first`` on."""
        for chunk in column.chunks:
            last = first + len(chunk)
            self.cells[first:last] = self.convert(chunk)
            if self._field.nullable:
                nulls = nulls_of(chunk)
                self.nulls[first:last] = 0 if nulls is None else nulls
            first = last

    def write_values(self, first: int, values: Sequence[Any]) -> None:
        """Set a few cells from row ``first`` on to values of rows."""
        for row, value in enumerate(values, first):
            self.cells[row] = 0 if value is None else self._convert(value)
            if self._field.nullable:
                self.nulls[row] = value is None


class _Index:
    """A chained index (see ``containers.chained_index``)."""

    def __init__(self, columns: Sequence[_Column]) -> None:
        self._columns = columns
        self._library = load(emit_index(tuple(column.type for column in columns)))
        rows, index = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p], [ctypes.c_void_p] * 2
        self._link = self._function("link", *rows, ctypes.c_void_p, *index)
        self._link_unique = self._function("link_unique", *rows, *index)
        self._unlink = self._function("unlink", *rows, ctypes.c_void_p, *index)
        self._find = self._function("find", ctypes.c_int64, *[ctypes.c_void_p] * 3, *index)
        self._bits = 1
        self._heads = np.zeros(2, np.uint32)
        self.links = np.zeros(0, np.uint32)
        """For each row the one before it in its chain, and whether it is deleted."""
        self._locate()

    def _function(self, name: str, *arguments: Any) -> Any:
        """A function whose last arguments are the arrays of the index and the shift."""
        return ctypes.CFUNCTYPE(ctypes.c_int64, *arguments, ctypes.c_int64)(self._library.address(name))

    def _locate(self) -> None:
        """Note the addresses of all arrays, which are arguments of every call."""
        self.words = [_address(self._heads), _address(self.links), 64 - self._bits]
        self._cells = _addresses([column.cells for column in self._columns])
        self._nulls = _addresses([column.nulls for column in self._columns])

    @property
    def bytes(self) -> int:
        return self._heads.nbytes + self.links.nbytes

    def resize(self, room: int, count: int, deleted: npt.NDArray[Any]) -> None:
        """Have room for so many rows, as the columns have; with too few heads for them the rows are linked again."""
        if room > len(self._heads):
            self.rebuild(room, count, deleted)
        else:
            self.links = _resized(self.links, room)
            self._locate()

    def rebuild(self, room: int, count: int, deleted: npt.NDArray[Any]) -> None:
        """Link the first ``count`` rows, with room for more; ``deleted`` flags those that are hidden."""
        self._bits = max(room.bit_length(), 1)
        self._heads, self.links = np.zeros(1 << self._bits, np.uint32), np.zeros(room, np.uint32)
        self.links[:count][deleted[:count] != 0] = DELETED
        self._locate()
        self.link(0, count)

    def link(self, start: int, stop: int) -> None:
        """Link rows."""
        if start < stop:
            self._link(start, stop, self._cells, self._nulls, *self.words)

    def link_unique(self, start: int, stop: int) -> int:
        """Link rows until one has the key of another; returns how far it came."""
        return int(self._link_unique(start, stop, self._cells, *self.words)) if start < stop else stop

    def unlink(self, start: int, stop: int) -> None:
        """Unlink the last rows."""
        if start < stop:
            self._unlink(start, stop, self._cells, self._nulls, *self.words)

    def mark(self, numbers: RowNumbers) -> None:
        """Mark rows as deleted."""
        self.links[numbers] |= _DELETED

    def unmark(self, numbers: RowNumbers) -> None:
        """Take such marks away."""
        self.links[numbers] &= ~_DELETED

    def find(self, keys: Keys) -> RowNumbers:
        """The number of a row under each key, -1 where there is none."""
        numbers = np.empty(len(keys[0]), np.int64)
        self._find(len(numbers), _addresses(keys), self._cells, _address(numbers), *self.words)
        return numbers


class TableHandle:
    """The handle of one reader in memory: of the rows that a store shows, or of no rows."""

    def __init__(self, reader: TableReader) -> None:
        self.reader = reader
        self._words = (ctypes.c_int64 * (reader.layout.size // 8))()
        self.address = ctypes.addressof(self._words)
        self._none = np.zeros(2, np.int64)
        self._version: int | None = None
        self.show_nothing()

    def show(self, store: ColumnStore) -> None:
        """Show the rows of ``store``, which serves the reader."""
        if store.version != self._version:
            self._set(store.handle(self.reader))
            self._version = store.version

    def show_nothing(self) -> None:
        """Show no row."""
        none = _address(self._none)
        columns, indexes = len(self.reader.map.keys), len(self.reader.indexes)
        # A hash has one of two heads, both empty.
        self._set([none, none, *[none] * 2 * columns, *[none, none, 63] * indexes])
        self._version = None

    def _set(self, words: Sequence[int]) -> None:
        self._words[:] = [*words]


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)


def _addresses(arrays: Sequence[npt.NDArray[Any]]) -> Any:
    """An array of the addresses of arrays, null for one without elements."""
    return (ctypes.c_void_p * len(arrays))(*[_address(array) if array.size else None for array in arrays])


def _resized(array: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """The same elements with room for more, which are 0."""
    larger = np.zeros((room, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _converter(type_: t.Type, strings: StringDictionary) -> Callable[[Any], Any]:
    """From a value that is not NULL to its cell."""
    if isinstance(type_, t.String | t.Array | t.Struct) and not is_window(type_):
        return strings.intern
    if NUMPY_FORMATS[str(cell_type(type_))] == "V16":
        return lambda value: _halves(int(inner_number(value, type_)))
    if isinstance(type_, t.Double):
        return lambda value: value + 0.0 if value == value else np.nan  # no -0.0, and one NaN
    if isinstance(type_, t.Int | t.BigInt):
        return lambda value: value
    return lambda value: inner_number(value, type_)


def _halves(number: int) -> tuple[int, int]:
    """A number of 128 bits as two signed words, the low one first.

    >>> _halves(-1), _halves(1 << 63)
    ((-1, -1), (-9223372036854775808, 0))
    """
    low = number & (1 << 64) - 1
    return low - (1 << 64) if low >> 63 else low, number >> 64
