"""A hash index over columns of cells: machine code links the numbers of rows with equal keys in chains."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.changes.zset import Row
from tidemill.runtimes.native.llvm.codegen.jit import Library, load
from tidemill.runtimes.native.llvm.containers.chained_index import DELETED, emit_index
from tidemill.runtimes.native.llvm.io.arrow_columns import CellArray
from tidemill.runtimes.native.llvm.table.cell_column import CellColumn, resized
from tidemill.runtimes.native.llvm.table.table_rows import RowNumbers

FEW_ROWS = 64
"""Row count up to which rows are linked without letting other threads run."""

_DELETED = np.uint32(DELETED)


class _IndexFunctions(NamedTuple):
    """The functions of an index, which take ``ctypes`` values."""

    link: Any
    link_unique: Any
    unlink: Any
    find: Any

    @classmethod
    def of(cls, library: Library, *, brief: bool) -> _IndexFunctions:
        """The functions of a loaded index."""
        return cls(*[library.function(name, ctypes.c_int64, brief=brief) for name in cls._fields])


class RowIndex:
    """A chained index (see ``containers.chained_index``)."""

    def __init__(self, columns: Sequence[CellColumn]) -> None:
        self._columns = columns
        self._library = load(emit_index(tuple(column.type for column in columns)))
        self._few, self._many = (_IndexFunctions.of(self._library, brief=brief) for brief in (True, False))
        self._bits = 1
        self._heads = np.zeros(2, np.uint32)
        self.links = np.zeros(0, np.uint32)
        """For each row the one before it in its chain, and whether it is deleted."""
        self._locate()
        self._ask_for(1)

    def _functions(self, rows: int) -> _IndexFunctions:
        return self._few if rows <= FEW_ROWS else self._many

    def _locate(self) -> None:
        """Note the addresses of all arrays, which are arguments of every call."""
        self.words = [address(self._heads), address(self.links), 64 - self._bits]
        self._arrays = [*map(ctypes.c_void_p, self.words[:2]), ctypes.c_int64(self.words[2])]
        self._cells = addresses([column.cells for column in self._columns])
        self._nulls = addresses([column.nulls for column in self._columns])

    @property
    def bytes(self) -> int:
        return self._heads.nbytes + self.links.nbytes

    def resize(self, room: int, count: int, deleted: npt.NDArray[Any]) -> None:
        """Have room for so many rows, as the columns have; with too few heads for them the rows are linked again."""
        if room > len(self._heads):
            self.rebuild(room, count, deleted)
        else:
            self.links = resized(self.links, room)
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
            rows = ctypes.c_int64(start), ctypes.c_int64(stop)
            self._functions(stop - start).link(*rows, self._cells, self._nulls, *self._arrays)

    def link_unique(self, start: int, stop: int) -> int:
        """Link rows until one has the key of another; returns how far it came."""
        if start == stop:
            return stop
        rows = ctypes.c_int64(start), ctypes.c_int64(stop)
        return int(self._functions(stop - start).link_unique(*rows, self._cells, *self._arrays))

    def unlink(self, start: int, stop: int) -> None:
        """Unlink the last rows."""
        if start < stop:
            rows = ctypes.c_int64(start), ctypes.c_int64(stop)
            self._functions(stop - start).unlink(*rows, self._cells, self._nulls, *self._arrays)

    def mark(self, numbers: RowNumbers) -> None:
        """Mark rows as deleted."""
        if len(numbers) == 1:
            number = numbers.item()
            self.links[number] = self.links.item(number) | DELETED
        else:
            self.links[numbers] |= _DELETED

    def unmark(self, numbers: RowNumbers) -> None:
        """Take such marks away."""
        self.links[numbers] &= ~_DELETED

    def find(self, keys: Sequence[CellArray]) -> RowNumbers:
        """The number of a row under each key, -1 where there is none."""
        numbers = np.empty(len(keys[0]), np.int64)
        found = ctypes.c_void_p(address(numbers))
        self._many.find(ctypes.c_int64(len(numbers)), addresses(keys), self._cells, found, *self._arrays)
        return numbers

    def find_few(self, rows: Sequence[Row], places: Sequence[int]) -> list[int]:
        """The number of a row under each key, -1 where there is none; ``rows`` have their keys at ``places``."""
        count = len(rows)
        if count > len(self._found):
            self._ask_for(count)
        for column, place, cells in zip(self._columns, places, self._asked, strict=True):
            convert = column.convert_value
            for number, row in enumerate(rows):
                cells[number] = row[place] if convert is None else convert(row[place])
        self._few.find(ctypes.c_int64(count), self._asked_addresses, self._cells, self._found, *self._arrays)
        return self._found[:count]

    def _ask_for(self, keys: int) -> None:
        """Have cells for so many keys at once, which are used again and again."""
        self._asked = [column.empty(keys) for column in self._columns]
        self._asked_addresses, self._found = addresses(self._asked), (ctypes.c_int64 * keys)()


def address(array: npt.NDArray[Any]) -> int:
    """The address of the elements of an array."""
    return int(array.ctypes.data)


def addresses(arrays: Sequence[npt.NDArray[Any]]) -> Any:
    """An array of the addresses of arrays, null for one without elements."""
    return (ctypes.c_void_p * len(arrays))(*[address(array) if array.size else None for array in arrays])
