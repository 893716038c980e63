"""Maps under test: every function that is emitted for statements, made callable from Python.

Cells travel in slots of 16 bytes, so that one signature serves keys of all types.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llvmlite import ir

from tidemill.model import types as t
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen import jit
from tidemill.runtimes.native.llvm.codegen.control_flow import Local, define, number
from tidemill.runtimes.native.llvm.codegen.layout import F64, I8, I32, I64, I128, PTR, NullableValue, at, cell_type
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.native_map import NativeMap
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.maps.map_code import MapCode, OrderColumns, RangeLimit
from tidemill.runtimes.native.llvm.scalars import double_sums

ENDS = (None, False, True)
"""No end, an open one, a closed one."""


@dataclass(frozen=True)
class Shape:
    """A map and what is kept beside it."""

    map: Map
    indexes: tuple[tuple[str, ...], ...] = ()
    orders: tuple[OrderColumns, ...] = ()
    guarded: tuple[str, ...] = ()


def slots(values: Sequence[Any]) -> Any:
    """Numbers in slots: doubles by their bits, integers in 128 bits; None as 0."""
    packed = b""
    for value in values:
        if isinstance(value, float):
            packed += struct.pack("<dq", value, 0)
        else:
            packed += int(value or 0).to_bytes(16, "little", signed=True)
    return ctypes.create_string_buffer(packed, max(len(packed), 1))


def flags(values: Sequence[Any]) -> Any:
    """Which values are None."""
    return ctypes.create_string_buffer(bytes(value is None for value in values), max(len(values), 1))


class Lab:
    """One map with its code."""

    def __init__(self, shape: Shape, budget: int | None = None) -> None:
        self.shape = shape
        self.code, self.loaded, self.scratch_code = compiled(shape)
        self.memory = Memory(budget)
        self.strings = StringDictionary(Memory())
        self.native = NativeMap(self.code, self.loaded, self.memory, self.strings)
        self.scratch = NativeMap(self.scratch_code, self.loaded, Memory(), self.strings)

    def _call(self, name: str, result: Any, *arguments: Any) -> Any:
        types = [ctypes.c_int64 if isinstance(a, int) else ctypes.c_void_p for a in arguments]
        return ctypes.CFUNCTYPE(result, *types)(self.loaded.address(f"lab.{name}"))(*arguments)

    def add(self, key: Sequence[Any], weight: int, values: Sequence[Any], scratch: bool = False) -> int:
        """Gives the status."""
        target = self.scratch if scratch else self.native
        name = "add_scratch" if scratch else "add"
        return self._call(name, ctypes.c_int32, target.address, slots(key), flags(key), weight, slots(values))

    def sweep(self) -> int:
        return self._call("sweep", ctypes.c_int32, self.native.address)

    def assign(self) -> int:
        return self._call("assign", ctypes.c_int32, self.native.address, self.scratch.address)

    def find(self, key: Sequence[Any]) -> tuple[Any, ...] | None:
        """Weight and values as expressions see them, or None."""
        out = ctypes.create_string_buffer(16 * (1 + len(self.shape.map.values)))
        if not self._call("find", ctypes.c_int32, self.native.address, slots(key), flags(key), out):
            return None
        types = [t.BIGINT, *(value.type for value in self.shape.map.values)]
        return tuple(self._read(out.raw, i, type_) for i, type_ in enumerate(types))

    def loop(self, index: tuple[str, ...] | None, key: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Key and weight of the entries of a slice."""
        width = len(self.shape.map.keys) + 1
        out = ctypes.create_string_buffer(16 * width * max(len(self.native), 1))
        name = f"loop.{'all' if index is None else self.shape.indexes.index(index)}"
        count = self._call(name, ctypes.c_int64, self.native.address, slots(key), flags(key), out)
        types = [*(field.type for field in self.shape.map.keys), t.BIGINT]
        cells = [self._read(out.raw, i, types[i % width]) for i in range(count * width)]
        return [tuple(cells[i : i + width]) for i in range(0, len(cells), width)]

    def sum_range(
        self, order: OrderColumns, prefix: Sequence[Any], lower: tuple[Any, bool] | None, upper: tuple[Any, bool] | None
    ) -> tuple[int, ...]:
        """Weight and sums of a range."""
        values = self._summed()
        out = ctypes.create_string_buffer(16 * (1 + len(values)))
        ends = [None if end is None else end[1] for end in (lower, upper)]
        cells = [*prefix, *((None if end is None else end[0]) for end in (lower, upper))]
        name = f"sum.{self.shape.orders.index(order)}.{ends[0]}.{ends[1]}"
        status = self._call(name, ctypes.c_int32, self.native.address, slots(cells), flags(cells), out)
        assert status == 0
        return tuple(self._read(out.raw, i, t.BIGINT) for i in range(1 + len(values)))

    def seek(self, order: OrderColumns, prefix: Sequence[Any], after: bool, threshold: int) -> Any:
        """The key at which the running weight passes ``threshold``, or None."""
        out = ctypes.create_string_buffer(16)
        name = f"seek.{self.shape.orders.index(order)}.{after}"
        arguments = (self.native.address, slots(prefix), flags(prefix), threshold, out)
        if not self._call(name, ctypes.c_int32, *arguments):
            return None
        field = next(field for field in self.shape.map.keys if field.name == order[1])
        return self._read(out.raw, 0, field.type)

    def negatives(self, value: str) -> int:
        return self._call(f"negatives.{value}", ctypes.c_int64, self.native.address)

    def _summed(self) -> list[Any]:
        return [value for value in self.shape.map.values if value.type != t.DOUBLE]

    def _read(self, raw: bytes, place: int, type_: t.Type) -> Any:
        slot = raw[16 * place : 16 * place + 16]
        if slot[15] == 0x7F and slot[14] == 0xFF and slot[8:14] == b"NULL\0\0":
            return None
        return struct.unpack("<d", slot[:8])[0] if type_ == t.DOUBLE else int.from_bytes(slot, "little", signed=True)


NULL_MARK = int.from_bytes(b"NULL\0\0\xff\x7f", "little")


@lru_cache(maxsize=64)
def compiled(shape: Shape) -> tuple[MapCode, jit.Library, MapCode]:
    """The code of a shape, of a scratch map of the same keys and values, and of the functions that call them."""
    module = ir.Module("lab")
    code = MapCode(module, shape.map, shape.indexes, shape.orders, shape.guarded)
    bare = Map("scratch", shape.map.keys, shape.map.values)
    scratch = MapCode(module, bare, journaled=False)
    Emitter(module, shape, code, scratch).emit()
    return code, jit.load(module), scratch


class Emitter:
    """Emits what ``Lab`` calls."""

    def __init__(self, module: ir.Module, shape: Shape, code: MapCode, scratch: MapCode) -> None:
        self.module, self.shape, self.code, self.scratch = module, shape, code, scratch
        self.fields = {field.name: field for field in shape.map.keys}

    def emit(self) -> None:
        names = [field.name for field in self.shape.map.keys]
        self._adding("add", self.code, names)
        self._adding("add_scratch", self.scratch, names)
        self._define("sweep", I32, [PTR], lambda b, a: b.ret(self.code.sweep(b, a[0])))
        self._define("assign", I32, [PTR, PTR], lambda b, a: b.ret(self.code.assign(b, a[0], self.scratch, a[1])))
        self._finding(names)
        self._looping("all", None)
        for i, index in enumerate(self.shape.indexes):
            self._looping(str(i), index)
        for i, order in enumerate(self.shape.orders):
            for lower, upper in itertools.product(ENDS, ENDS):
                self._summing(i, order, lower, upper)
            for after in (False, True):
                self._seeking(i, order, after)
        for value in self.shape.guarded:
            self._define(
                f"negatives.{value}", I64, [PTR], lambda b, a, value=value: b.ret(self.code.negatives(b, a[0], value))
            )

    def _define(self, name: str, result: Any, types: list[Any], body: Any) -> None:
        define(self.module, f"lab.{name}", result, types, body, exported=True)

    def _cells(self, b: ir.IRBuilder, names: Sequence[str], base: Any, nulls: Any) -> list[NullableValue]:
        cells = []
        for i, name in enumerate(names):
            type_ = cell_type(self.fields[name].type)
            value = b.load(at(b, base, 16 * i), typ=type_, align=1)
            null = b.icmp_unsigned("!=", b.load(at(b, nulls, i), typ=I8), number(0, I8))
            cells.append(NullableValue(value, null if self.fields[name].nullable else None))
        return cells

    def _adding(self, name: str, code: MapCode, names: Sequence[str]) -> None:
        def body(b: ir.IRBuilder, arguments: tuple[Any, ...]) -> None:
            handle, keys, nulls, weight, values = arguments
            numbers = []
            for i, value in enumerate(self.shape.map.values):
                if value.type == t.DOUBLE:
                    term = b.load(at(b, values, 16 * i), typ=F64, align=1)
                    numbers.append(double_sums.term(b, term, weight))
                else:
                    numbers.append(b.load(at(b, values, 16 * i), typ=I128, align=1))
            b.ret(code.add(b, handle, self._cells(b, names, keys, nulls), weight, numbers))

        self._define(name, I32, [PTR, PTR, PTR, I64, PTR], body)

    def _finding(self, names: Sequence[str]) -> None:
        def body(b: ir.IRBuilder, arguments: tuple[Any, ...]) -> None:
            handle, keys, nulls, out = arguments
            entry = self.code.find(b, handle, self._cells(b, names, keys, nulls))
            with b.if_then(b.icmp_unsigned("==", entry, ir.Constant(PTR, None))):
                b.ret(number(0, I32))
            self._write(b, out, number(0), NullableValue(self.code.weight(b, entry)))
            for i in range(len(self.shape.map.values)):
                self._write(b, out, number(1 + i), NullableValue(self.code.value(b, entry, i)))
            b.ret(number(1, I32))

        self._define("find", I32, [PTR, PTR, PTR, PTR], body)

    def _looping(self, name: str, index: tuple[str, ...] | None) -> None:
        def body(b: ir.IRBuilder, arguments: tuple[Any, ...]) -> None:
            handle, keys, nulls, out = arguments
            count, place = Local(b, number(0)), Local(b, number(0))

            def each(b: ir.IRBuilder, entry: Any) -> None:
                cells = [self.code.key(b, entry, i) for i in range(len(self.shape.map.keys))]
                for cell in [*cells, NullableValue(self.code.weight(b, entry))]:
                    self._write(b, out, place.get(), cell)
                    place.set(b.add(place.get(), number(1)))
                count.set(b.add(count.get(), number(1)))

            self.code.loop(b, handle, index, self._cells(b, index or (), keys, nulls), each)
            b.ret(count.get())

        self._define(f"loop.{name}", I64, [PTR, PTR, PTR, PTR], body)

    def _summing(self, i: int, order: OrderColumns, lower: bool | None, upper: bool | None) -> None:
        prefix, column = order

        def body(b: ir.IRBuilder, arguments: tuple[Any, ...]) -> None:
            handle, keys, nulls, out = arguments
            *cells, low, high = self._cells(b, [*prefix, column, column], keys, nulls)
            limits = [
                None if closed is None else RangeLimit(cell, closed) for cell, closed in ((low, lower), (high, upper))
            ]
            totals = self.code.sum_range(b, handle, order, cells, *limits)
            summed = [totals.weight, *(value for value in totals.values if value is not None)]
            for place, value in enumerate(summed):
                self._write(b, out, number(place), NullableValue(value))
            b.ret(number(0, I32))

        self._define(f"sum.{i}.{lower}.{upper}", I32, [PTR, PTR, PTR, PTR], body)

    def _seeking(self, i: int, order: OrderColumns, after: bool) -> None:
        def body(b: ir.IRBuilder, arguments: tuple[Any, ...]) -> None:
            handle, keys, nulls, threshold, out = arguments
            cells = self._cells(b, order[0], keys, nulls)
            holds = lambda b, weight, _: b.icmp_signed("<=", weight, threshold)  # noqa: E731
            found, cell = self.code.seek(b, handle, order, cells, after, holds)
            self._write(b, out, number(0), cell)
            b.ret(b.zext(found, I32))

        self._define(f"seek.{i}.{after}", I32, [PTR, PTR, PTR, I64, PTR], body)

    def _write(self, b: ir.IRBuilder, out: Any, place: Any, cell: NullableValue) -> None:
        slot = at(b, out, b.mul(place, number(16)))
        value = cell.value
        if value.type == F64:
            b.store(number(0, I128), slot, align=1)
            b.store(value, slot, align=1)
        else:
            b.store(value if value.type == I128 else b.sext(value, I128), slot, align=1)
        if cell.is_null is not None:
            with b.if_then(cell.is_null):
                b.store(number(NULL_MARK), at(b, slot, 8), align=1)
