"""An index of primary keys at run time: machine code over a map from keys to the numbers of rows."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.changes.zset import Row
from tidemill.model.types import Field
from tidemill.runtimes.native.llvm.codegen.jit import load
from tidemill.runtimes.native.llvm.codegen.layout import Status
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.input_rows import InputBatch
from tidemill.runtimes.native.llvm.io.native_map import NativeMap
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.table.emit_index import emit_index
from tidemill.runtimes.native.llvm.table.table_rows import RowNumbers


class KeyIndex:
    """The number of the row under each primary key. What an epoch does to it can be undone until ``settle``."""

    def __init__(
        self, key: tuple[Field, ...], places: Sequence[int], memory: Memory, strings: StringDictionary
    ) -> None:
        """``places`` says where a row has the columns of the ``key``."""
        code = emit_index(key)
        library = load(code.module)
        self._key = key
        self._memory, self._strings = memory, strings
        self._map = NativeMap(code.map, library, memory, strings)
        self._pack = code.record.packer(places, strings)
        number, pointer, text = ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p

        def function(name: str, *arguments: Any) -> Any:
            return ctypes.CFUNCTYPE(ctypes.c_int32, *arguments)(library.address(name))

        self._find_columns = function("find.columns", number, pointer, pointer, pointer)
        self._find_records = function("find.records", number, text, pointer, pointer)
        self._move_columns = function("move.columns", number, pointer, pointer, pointer, number, pointer)
        self._move_records = function("move.records", number, text, pointer, number, pointer)

    @property
    def touched(self) -> bool:
        """True if the open epoch has changed it."""
        return self._map.touches > 0

    def keys_of(self, batch: pa.RecordBatch) -> InputBatch:
        """The keys of a batch, and its weights, as machine code reads them."""
        return InputBatch(batch, self._key, self._strings)

    def find(self, keys: InputBatch) -> RowNumbers:
        """The number of the row under each key, -1 where there is none."""
        numbers = np.empty(keys.rows, np.int64)
        self._find_columns(keys.rows, keys.columns, numbers.ctypes.data, self._map.address)
        return numbers

    def find_rows(self, rows: Sequence[tuple[Row, int]]) -> tuple[bytes, RowNumbers]:
        """The packed keys of a few weighted rows, and the number of the row under each."""
        packed, numbers = self._pack(rows), np.empty(len(rows), np.int64)
        self._find_records(len(rows), packed, numbers.ctypes.data, self._map.address)
        return packed, numbers

    def move(self, keys: InputBatch, numbers: RowNumbers, first: int) -> bool:
        """Take the keys out of rows that leave, then those in of rows that arrive, numbered from ``first`` on.

        ``numbers`` are what ``find`` has found. False where a key leaves that is not there or arrives that is, or there
        is no room: then a part may be done.
        """
        address = numbers.ctypes.data
        status = self._move_columns(keys.rows, keys.columns, keys.weights, address, first, self._map.address)
        return bool(status == Status.OK)

    def move_rows(self, packed: bytes, numbers: RowNumbers, first: int) -> bool:
        """The same for a few rows whose keys are ``packed``."""
        status = self._move_records(len(numbers), packed, numbers.ctypes.data, first, self._map.address)
        return bool(status == Status.OK)

    def settle(self) -> None:
        """Take the index as it is for that from which the next epoch starts."""
        self._map.settle()

    def rollback(self) -> None:
        """Undo the epoch."""
        with self._memory.unbounded():
            self._map.rollback()

    def free(self) -> None:
        """Give the memory back. The index is not to be used any more."""
        self._map.free()
