"""Outboxes at run time: what walks have written is handed on as Arrow, where it lies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.run_end_encoding import repeated
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import WEIGHT
from tidemill.runtimes.native.llvm.codegen.layout import NUMPY_FORMATS
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.containers.column_buffer import COLUMN_BUFFER, ColumnBufferCode, null_column
from tidemill.runtimes.native.llvm.io.arrow_columns import CellArray, NullFlags, column_of
from tidemill.runtimes.native.llvm.io.output_code import OutputGlobal
from tidemill.runtimes.native.llvm.io.run_end_encoding import RUN_END, RunEndCode
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary

ColumnCells: TypeAlias = dict[str, CellArray]
"""Columns by their names."""

SPARE_BUFFERS = 2
"""Number of buffers given back by readers that are kept for reuse."""

MAX_OVERSIZE = 8
"""Ratio of capacity to need above which a piece of memory is not kept."""

FEW_ROWS = 64
"""Row count up to which equal rows are summed in a dictionary, for which Arrow would take half a millisecond."""

SHRINK_DIVISOR = 8
"""A column buffer counts on as much as before, less one in so many parts each time."""

_FIELDS = np.dtype([(name, "<i8") for name in ("account", "data", "count", "capacity", "wanted", "some", "all")])
assert _FIELDS.itemsize == COLUMN_BUFFER.size
_EXACT = 2**62


class DetachedBuffer:
    """Memory that has left an output. Arrays over it keep it; when the last one is gone it is given ``back``."""

    def __init__(self, address: int, capacity: int, width: int, back: Callable[[int, int], None]) -> None:
        self._given = address, capacity
        self._back = back
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (capacity * width,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self._back(*self._given)


class ColumnBuffer:
    """One column buffer: ``address`` is what emitted code takes for it."""

    def __init__(self, code: ColumnBufferCode, memory: Memory) -> None:
        self._memory, self._width = memory, code.columns.width
        types = code.columns.types
        self._starts = [(name, code.columns.offset(name), NUMPY_FORMATS[str(kind)]) for name, kind in types.items()]
        self._handle: Any = np.zeros((), _FIELDS)
        self.address = int(self._handle.ctypes.data)
        self._handle["account"] = memory.address
        self._handle["all"] = -1
        self._spare: list[tuple[int, int]] | None = []

    def __del__(self) -> None:
        self.free()

    def __len__(self) -> int:
        return int(self._handle["count"])

    @property
    def bytes(self) -> int:
        """The memory that the column buffer has."""
        return int(self._handle["capacity"]) * self._width

    @property
    def bits(self) -> tuple[int, int]:
        """The bits that some of the weights have, and those that all have."""
        return int(self._handle["some"]), int(self._handle["all"])

    def clear(self) -> None:
        """Forget what is there."""
        self._handle["count"], self._handle["some"], self._handle["all"] = 0, 0, -1

    def take(self) -> ColumnCells:
        """All columns as they lie in memory, which is not the column buffer's any more."""
        address, capacity, count, wanted = (int(self._handle[name]) for name in ("data", "capacity", "count", "wanted"))
        self._memory.charge(-self.bytes)
        # Small epochs between large ones must not take the room from these.
        self._handle["wanted"] = max(count, wanted - wanted // SHRINK_DIVISOR)
        self._handle["data"] = self._handle["capacity"] = 0
        self.clear()
        if not capacity:
            return {name: np.empty(0, kind) for name, _, kind in self._starts}
        memory = np.asarray(DetachedBuffer(address, capacity, self._width, self._recycle))
        if self._spare:
            self._handle["data"], self._handle["capacity"] = self._spare.pop()
            self._memory.charge(self.bytes)
        return {name: np.frombuffer(memory, kind, count, start * capacity) for name, start, kind in self._starts}

    def free(self) -> None:
        """Give the memory back. What was handed on stays as long as it is used."""
        pieces, self._spare = self._spare or [], None
        for address, _ in pieces:
            _free(address)
        self._memory.charge(-self.bytes)
        _free(int(self._handle["data"]))
        self._handle["data"] = self._handle["capacity"] = 0
        self.clear()

    def _recycle(self, address: int, capacity: int) -> None:
        """Keep a piece that no caller reads any more, if it is of use."""
        wanted = int(self._handle["wanted"])
        if (
            self._spare is None
            or len(self._spare) >= SPARE_BUFFERS
            or not wanted <= capacity <= max(wanted, 1024) * MAX_OVERSIZE
        ):
            _free(address)
        else:
            self._spare.append((address, capacity))


class OutputBuffers:
    """The column buffers of an output: one of rows, two of each form of runs; ``addresses`` by their globals."""

    def __init__(self, output: OutputGlobal, memory: Memory, strings: StringDictionary) -> None:
        self._code, self._strings = output.code, strings
        self._rows = ColumnBuffer(output.code, memory)
        self._runs: list[tuple[RunEndCode, ColumnBuffer, ColumnBuffer]] = []
        self.addresses = {output.place.name: self._rows.address}
        for runs in (output.runs or {}).values():
            items, shared = ColumnBuffer(runs.code.items, memory), ColumnBuffer(runs.code.shared, memory)
            self._runs.append((runs.code, items, shared))
            self.addresses |= {runs.items.name: items.address, runs.shared.name: shared.address}
        self._schema = arrow_schema(output.code.fields)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._rows) + sum(len(items) for _, items, _ in self._runs)

    @property
    def bytes(self) -> int:
        """The memory that the output has."""
        return sum(buffer.bytes for buffer in self._buffers)

    @property
    def _buffers(self) -> list[ColumnBuffer]:
        return [self._rows, *(buffer for _, *buffers in self._runs for buffer in buffers)]

    def clear(self) -> None:
        """Forget what is there."""
        for buffer in self._buffers:
            buffer.clear()

    def free(self) -> None:
        """Give the memory back. What was handed on stays as long as it is used."""
        for buffer in self._buffers:
            buffer.free()

    def drain(self, *, distinct: bool = False) -> list[pa.Table]:
        """Take the rows out, net: where all weights have one sign nothing cancels, else equal rows are summed.

        There are none where they are ``distinct``. Runs are handed on as such, in tables of their own.
        """
        some, all_ = reduce(lambda one, other: (one[0] | other[0], one[1] & other[1]), (p.bits for p in self._buffers))
        if some < 0 <= all_ and not distinct:
            return [self._table(_summed(self._all_cells()))]
        tables = [self._table(self._rows.take())] if len(self._rows) else []
        return tables + [self._encoded(*runs) for runs in self._runs if len(runs[1])]

    def _all_cells(self) -> ColumnCells:
        """The cells of all rows, those of runs too."""
        parts = [self._rows.take()]
        for _, items, shared in self._runs:
            cells = shared.take()
            lengths = np.diff(cells.pop(RUN_END), prepend=0)
            parts.append(items.take() | {name: np.repeat(column, lengths) for name, column in cells.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _table(self, cells: ColumnCells) -> pa.Table:
        columns = [self._column(cells, name) for name in self._code.names]
        return pa.Table.from_arrays([*columns, pa.array(cells[WEIGHT])], schema=self._schema)

    def _encoded(self, code: RunEndCode, items: ColumnBuffer, shared: ColumnBuffer) -> pa.Table:
        """Runs as Arrow has them: the columns of items are plain, all others are run-end encoded."""
        own, once = items.take(), shared.take()
        ends = pa.array(once[RUN_END])
        columns = [
            self._column(own, name) if name in code.own else repeated(self._column(once, name), ends)
            for name in self._code.names
        ]
        weights = repeated(pa.array(once[WEIGHT]), ends)
        return pa.Table.from_arrays([*columns, weights], names=self._schema.names)

    def _column(self, cells: ColumnCells, name: str) -> pa.Array:
        field = self._code.fields[self._code.names.index(name)]
        return column_of(cells[name], _flags(cells.get(null_column(name))), field.type, self._strings)


def _summed(cells: ColumnCells) -> ColumnCells:
    """Equal rows as one, and none of weight 0."""
    weights = cells[WEIGHT]
    names = [name for name in cells if name != WEIGHT]
    if len(weights) <= FEW_ROWS or float(np.abs(weights.astype(np.float64)).sum()) >= _EXACT:
        return _summed_exactly(cells, names)
    plain = {name: _plain(cells[name]) for name in names}
    table = pa.table([*plain.values(), pa.array(weights)], names=[*names, WEIGHT])
    found = table.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    sums = found.column(f"{WEIGHT}_sum").combine_chunks().to_numpy()
    kept = sums != 0
    result = {name: _cells(found.column(name).combine_chunks(), cells[name])[kept] for name in names}
    return {**result, WEIGHT: sums[kept]}


def _plain(cells: CellArray) -> pa.Array:
    """Cells as something that Arrow groups by: doubles by their bits, 128 bits as so many bytes."""
    if cells.dtype.kind == "V":
        return pa.Array.from_buffers(pa.binary(16), len(cells), [None, pa.py_buffer(np.ascontiguousarray(cells))])
    return pa.array(cells.view(np.int64) if cells.dtype.kind == "f" else cells)


def _cells(column: pa.Array, like: CellArray) -> CellArray:
    if like.dtype.kind == "V":
        return np.frombuffer(column.buffers()[1], "V16", len(column), column.offset * 16)
    found: CellArray = column.to_numpy()
    return found.view(like.dtype)


def _summed_exactly(cells: ColumnCells, names: list[str]) -> ColumnCells:
    """The same for few rows, or where 64 bits may be too few on the way."""
    totals: dict[tuple[Any, ...], int] = {}
    first: dict[tuple[Any, ...], int] = {}
    rows = zip(*(_plain(cells[name]).to_pylist() for name in names), strict=True)
    for place, (row, weight) in enumerate(zip(rows, cells[WEIGHT].tolist(), strict=True)):
        first.setdefault(row, place)
        totals[row] = totals.get(row, 0) + weight
    kept = {row: total for row, total in totals.items() if total}
    if any(not -(2**63) <= total < 2**63 for total in kept.values()):
        raise ArithmeticFault("a weight leaves 64 bits")
    places = np.array([first[row] for row in kept], dtype=np.int64)
    weights = np.array(list(kept.values()), dtype=np.int64)
    return {**{name: cells[name][places] for name in names}, WEIGHT: weights}


def _flags(bytes_: CellArray | None) -> NullFlags | None:
    return None if bytes_ is None or not bytes_.any() else bytes_.astype(np.bool_)


_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [ctypes.c_void_p], None
