"""A column of a table as cells in memory that machine code reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.model import types as t
from tidemill.model.types import Field, Type
from tidemill.runtimes.native.llvm.codegen.layout import NUMPY_FORMATS, cell_type, is_interned
from tidemill.runtimes.native.llvm.io.arrow_columns import CellArray, cells_of, nulls_of, one_chunk, values_of
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.scalars.conversions import number_converter
from tidemill.runtimes.native.llvm.table.table_rows import RowNumbers

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of a column: their cells, 0 for NULL, and the flags of the NULLs where there are some."""

    cells: CellArray
    nulls: Flags | None

    def at(self, places: RowNumbers) -> Cells:
        """Those at some places."""
        return Cells(self.cells[places], None if self.nulls is None else self.nulls[places])


class CellColumn:
    """The cells of a column by row number, and a flag for each that is NULL.

    >>> from tidemill.runtimes.native.llvm.codegen.memory import Memory
    >>> column = CellColumn(Field("n", t.BIGINT), 4, StringDictionary(Memory()))
    >>> column.write(0, column.convert(pa.chunked_array([[7, None]])))
    >>> column.value(0), column.value(1), column.has(1, None), column.has(0, 8)
    (7, None, True, False)
    """

    def __init__(self, field: Field, room: int, strings: StringDictionary) -> None:
        self._field = field
        self._strings = strings
        self.type = cell_type(field.type)
        self._is_pair = NUMPY_FORMATS[str(self.type)] == "V16"
        """True if a cell has 128 bits: then it is two words here."""
        self._format = "<i8" if self._is_pair else NUMPY_FORMATS[str(self.type)]
        self.cells = self.empty(room)
        self.nulls = np.zeros(room if field.nullable else 0, np.uint8)
        self._nullable = field.nullable
        self.convert_value = _converter(field.type, strings)
        """From a value that is not NULL to its cell; None if it is its cell."""

    def empty(self, rows: int) -> CellArray:
        """Cells for so many rows apart from the column."""
        return np.zeros((rows, 2) if self._is_pair else rows, self._format)

    @property
    def bytes(self) -> int:
        """The bytes that it takes."""
        return self.cells.nbytes + self.nulls.nbytes

    def resize(self, room: int) -> None:
        """Have room for so many rows."""
        self.cells = resized(self.cells, room)
        if self._field.nullable:
            self.nulls = resized(self.nulls, room)

    def keep(self, kept: Flags, room: int) -> None:
        """Forget all rows but those under a mask, with room for so many."""
        self.cells = resized(self.cells[: len(kept)][kept], room)
        if self._field.nullable:
            self.nulls = resized(self.nulls[: len(kept)][kept], room)

    # -- columns --------------------------------------------------------------------------------------------------

    def convert(self, column: pa.ChunkedArray) -> Cells:
        """The cells of an Arrow column."""
        chunk = one_chunk(column)
        cells = np.ascontiguousarray(cells_of(chunk, self._field.type, self._strings))
        return Cells(cells.view(np.int64).reshape(-1, 2) if self._is_pair else cells, nulls_of(chunk))

    def write(self, first: int, values: Cells, places: RowNumbers | None = None) -> None:
        """Set the cells from row ``first`` on, to all values or to those at some places."""
        last = first + len(values.cells if places is None else places)
        _copy(values.cells, places, self.cells[first:last])
        if self._field.nullable:
            if values.nulls is None:
                self.nulls[first:last] = 0
            else:
                _copy(values.nulls.view(np.uint8), places, self.nulls[first:last])

    def same(self, numbers: RowNumbers, values: Cells) -> Flags:
        """The mask of the rows ``numbers`` that have the value at the same place of ``values``; NULLs are equal."""
        held, given = self.cells[numbers], values.cells
        if isinstance(self._field.type, t.Floating):  # NaN equals NaN: there is one here
            held, given = held.view(np.int64), given.view(np.int64)
        found: Flags = (held == given).all(axis=1) if self._is_pair else held == given
        if self._field.nullable:
            nulls = self.nulls[numbers]
            found &= nulls == 0 if values.nulls is None else nulls == values.nulls
        return found

    # -- a few rows -----------------------------------------------------------------------------------------------

    def set(self, row: int, value: Any) -> None:
        """Set the cell of a row to a value, or to NULL if it is None."""
        if value is None:
            self.cells[row] = 0
        else:
            self.cells[row] = value if self.convert_value is None else self.convert_value(value)
        if self._nullable:
            self.nulls[row] = value is None

    def has(self, number: int, value: Any) -> bool:
        """True if a row has this value, or NULL where it is None."""
        if self._nullable and (self.nulls.item(number) != 0) != (value is None):
            return False
        if value is None:
            return True
        given = value if self.convert_value is None else self.convert_value(value)
        if self._is_pair:
            return bool(tuple(self.cells[number].tolist()) == given)
        held = self.cells.item(number)
        return bool(held == given or (held != held and given != given))

    def value(self, number: int) -> Any:
        """The value of a row."""
        if self._field.nullable and self.nulls[number]:
            return None
        cells = self.cells[number : number + 1]
        return values_of(cells.view("V16").ravel() if self._is_pair else cells, None, self._field.type, self._strings)[
            0
        ]


def is_fixed_width(type_: Type) -> bool:
    """True of a type whose cell is the value itself, and not the id of an interned one."""
    return not is_interned(type_) and not isinstance(type_, t.Void)


def resized(array: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """The same elements with room for more, which are 0."""
    larger = np.zeros((room, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _copy(given: npt.NDArray[Any], places: RowNumbers | None, to: npt.NDArray[Any]) -> None:
    """Copy elements, or those at some places, which all exist: so NumPy need not look before it writes."""
    if places is None:
        to[:] = given
    else:
        given.take(places, axis=0, out=to, mode="clip")


def _converter(type_: Type, strings: StringDictionary) -> Callable[[Any], Any] | None:
    """From a value that is not NULL to its cell; None if it is its cell."""
    if not is_fixed_width(type_):
        return strings.intern
    if NUMPY_FORMATS[str(cell_type(type_))] == "V16":
        wide = number_converter(type_)
        return lambda value: _halves(int(wide(value)))
    if isinstance(type_, t.Floating):
        return lambda value: value + 0.0 if value == value else np.nan  # no -0.0, and one NaN
    if isinstance(type_, t.Integral):
        return None
    return number_converter(type_)


def _halves(number: int) -> tuple[int, int]:
    """A number of 128 bits as two signed words, the low one first.

    >>> _halves(-1), _halves(1 << 63)
    ((-1, -1), (-9223372036854775808, 0))
    """
    low = number & (1 << 64) - 1
    return low - (1 << 64) if low >> 63 else low, number >> 64
