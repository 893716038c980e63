"""Outboxes at run time: what walks have written is handed on as Arrow, where it lies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import WEIGHT
from tidemill.runtimes.native.llvm.columns import Array, Flags, column_of
from tidemill.runtimes.native.llvm.layout import size_of
from tidemill.runtimes.native.llvm.memory import Memory
from tidemill.runtimes.native.llvm.outbox import OUTBOX, OutboxCode, null_of
from tidemill.runtimes.native.llvm.strings import Strings

SPARE = 2
"""So many pieces of memory that readers have given back wait to be used again."""

IDLE = 8
"""A piece with more than so many times the room that was needed is not kept."""

_FIELDS = np.dtype([(name, "<i8") for name in ("account", "data", "count", "capacity", "wanted", "some", "all")])
assert _FIELDS.itemsize == OUTBOX.size
_FORMATS = {"i8": "i1", "i32": "<i4", "i64": "<i8", "i128": "V16", "double": "<f8"}
_EXACT = 2**62


class Piece:
    """Memory that has left an outbox. Arrays over it keep it; when the last one is gone it is given ``back``."""

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


class Outbox:
    """One outbox: ``address`` is what emitted code takes for it."""

    def __init__(self, code: OutboxCode, memory: Memory, strings: Strings) -> None:
        self._code, self._memory, self._strings = code, memory, strings
        self._handle: Any = np.zeros((), _FIELDS)
        self.address = int(self._handle.ctypes.data)
        self._handle["account"] = memory.address
        self._handle["all"] = -1
        self._schema = arrow_schema(code.fields)
        self._spare: list[tuple[int, int]] | None = []

    def __len__(self) -> int:
        return int(self._handle["count"])

    @property
    def bytes(self) -> int:
        """The memory that the outbox has."""
        return int(self._handle["capacity"]) * self._code.columns.width

    def clear(self) -> None:
        """Forget what is there."""
        self._handle["count"], self._handle["some"], self._handle["all"] = 0, 0, -1

    def drain(self) -> pa.Table:
        """Take the rows out, net: where all weights have one sign nothing cancels, else equal rows are summed."""
        count, some, all_ = (int(self._handle[name]) for name in ("count", "some", "all"))
        cells = {name: column[:count] for name, column in self._take()}
        if some < 0 <= all_:
            cells = _summed(cells)
        columns = [
            column_of(cells[name], _flags(cells.get(null_of(name))), field.type, self._strings)
            for name, field in zip(self._code.names, self._code.fields, strict=True)
        ]
        weights = pa.array(cells[WEIGHT])
        return pa.Table.from_arrays([*columns, weights], schema=self._schema)

    def free(self) -> None:
        """Give the memory back. What was handed on stays as long as it is used."""
        pieces, self._spare = self._spare or [], None
        for address, _ in pieces:
            _free(address)
        self._memory.charge(-self.bytes)
        _free(int(self._handle["data"]))
        self._handle["data"] = self._handle["capacity"] = 0
        self.clear()

    def _take(self) -> Iterator[tuple[str, Array]]:
        """All columns as they lie in memory, which is not the outbox's any more."""
        address, capacity, count = (int(self._handle[name]) for name in ("data", "capacity", "count"))
        self._memory.charge(-self.bytes)
        self._handle["wanted"] = count
        self._handle["data"] = self._handle["capacity"] = 0
        self.clear()
        if not capacity:
            return iter([(name, np.empty(0, _FORMATS[str(kind)])) for name, kind in self._code.columns.types.items()])
        piece = Piece(address, capacity, self._code.columns.width, self._take_back)
        if self._spare:
            self._handle["data"], self._handle["capacity"] = self._spare.pop()
            self._memory.charge(self.bytes)
        return self._columns(np.asarray(piece), capacity)

    def _columns(self, memory: Array, capacity: int) -> Iterator[tuple[str, Array]]:
        for name, kind in self._code.columns.types.items():
            start = self._code.columns.offset(name) * capacity
            yield name, memory[start : start + size_of(kind) * capacity].view(_FORMATS[str(kind)])

    def _take_back(self, address: int, capacity: int) -> None:
        """Keep a piece that nobody reads any more, if it is of use."""
        wanted = int(self._handle["wanted"])
        if self._spare is None or len(self._spare) >= SPARE or not wanted <= capacity <= max(wanted, 1024) * IDLE:
            _free(address)
        else:
            self._spare.append((address, capacity))


def _summed(cells: dict[str, Array]) -> dict[str, Array]:
    """Equal rows as one, and none of weight 0."""
    weights = cells[WEIGHT]
    names = [name for name in cells if name != WEIGHT]
    if float(np.abs(weights.astype(np.float64)).sum()) >= _EXACT:
        return _summed_exactly(cells, names)
    plain = {name: _plain(cells[name]) for name in names}
    table = pa.table([*plain.values(), pa.array(weights)], names=[*names, WEIGHT])
    found = table.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    sums = found.column(f"{WEIGHT}_sum").combine_chunks().to_numpy()
    kept = sums != 0
    result = {name: _cells(found.column(name).combine_chunks(), cells[name])[kept] for name in names}
    return {**result, WEIGHT: sums[kept]}


def _plain(cells: Array) -> pa.Array:
    """Cells as something that Arrow groups by: doubles by their bits, 128 bits as so many bytes."""
    if cells.dtype.kind == "V":
        return pa.Array.from_buffers(pa.binary(16), len(cells), [None, pa.py_buffer(np.ascontiguousarray(cells))])
    return pa.array(cells.view(np.int64) if cells.dtype.kind == "f" else cells)


def _cells(column: pa.Array, like: Array) -> Array:
    if like.dtype.kind == "V":
        return np.frombuffer(column.buffers()[1], "V16", len(column), column.offset * 16)
    found: Array = column.to_numpy()
    return found.view(like.dtype)


def _summed_exactly(cells: dict[str, Array], names: list[str]) -> dict[str, Array]:
    """The same where 64 bits may be too few on the way."""
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


def _flags(bytes_: Array | None) -> Flags | None:
    return None if bytes_ is None or not bytes_.any() else bytes_.astype(np.bool_)


_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [ctypes.c_void_p], None
