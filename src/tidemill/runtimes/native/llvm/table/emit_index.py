"""The index of a primary key as an LLVM module: a map from each key to the number of its row.

=====================  =================================================================================
``find.columns``       the row numbers of the keys of an Arrow batch, -1 where a key is not there
``find.records``       the same for packed keys
``move.columns``       take keys out that leave, then those in that arrive, with new numbers
``move.records``       the same for packed keys
=====================  =================================================================================

The number of a row is a ring value of its key's entry: a row that leaves takes its number with it, and an entry of
which nothing is left is gone. So the journal of an epoch is that of every map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from llvmlite import ir

from tidemill.model import types as t
from tidemill.model.types import Field
from tidemill.program.maps import Map, RingField
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    EmitBody,
    IRValue,
    Local,
    check,
    count_up,
    define,
    in_blocks,
    number,
)
from tidemill.runtimes.native.llvm.codegen.frame import FIRST_FAULT, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I32, I64, I128, NULL_POINTER, PTR, NullableValue, at
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.io.input_rows import InputRecord, load_cells, load_weight
from tidemill.runtimes.native.llvm.maps.map_code import MapCode
from tidemill.runtimes.native.llvm.scalars.conversions import to_stored

REFUSED = FIRST_FAULT
"""The status of a change in which a key arrives that is there, or leaves that is not."""

ABSENT = -1
"""The number of no row."""

PREFETCH_KEYS = 32
"""Keys whose memory is requested before the first of them is looked up."""

ROW_NUMBER = "_row"


@dataclass(frozen=True, slots=True)
class IndexCode:
    """A module, the map of keys in it, and the form of a packed key."""

    module: ir.Module
    map: MapCode
    record: InputRecord


def emit_index(key: tuple[Field, ...]) -> IndexCode:
    """The module of an index by these columns; raises ``NotCompiled`` where one of them has no native form."""
    for field in key:
        if isinstance(field.type, t.Void) or field.nullable:
            raise NotCompiled(f"a primary key of type {field.type}")
    # Whatever they are called, keys of equal types have the same code.
    return _emitted(tuple(replace(field, name=f"key{place}") for place, field in enumerate(key)))


@lru_cache(maxsize=64)
def _emitted(key: tuple[Field, ...]) -> IndexCode:
    return _IndexEmitter(key).emit()


class _Keys(Protocol):
    """The keys of a change, by number."""

    def cells(self, builder: ir.IRBuilder, row: IRValue) -> list[NullableValue]: ...

    def weight(self, builder: ir.IRBuilder, row: IRValue) -> IRValue: ...


@dataclass(frozen=True, slots=True)
class _ColumnKeys:
    fields: tuple[Field, ...]
    columns: IRValue
    weights: IRValue

    def cells(self, builder: ir.IRBuilder, row: IRValue) -> list[NullableValue]:
        return load_cells(builder, self.columns, row, self.fields)

    def weight(self, builder: ir.IRBuilder, row: IRValue) -> IRValue:
        return load_weight(builder, self.weights, row)


@dataclass(frozen=True, slots=True)
class _RecordKeys:
    record: InputRecord
    records: IRValue

    def cells(self, builder: ir.IRBuilder, row: IRValue) -> list[NullableValue]:
        return self.record.cells(builder, self._at(builder, row))

    def weight(self, builder: ir.IRBuilder, row: IRValue) -> IRValue:
        return self.record.weight(builder, self._at(builder, row))

    def _at(self, builder: ir.IRBuilder, row: IRValue) -> IRValue:
        return at(builder, self.records, builder.mul(row, number(self.record.size)))


class _IndexEmitter:
    def __init__(self, key: tuple[Field, ...]) -> None:
        self._fields = key
        self._module = ir.Module("index")
        self._map = MapCode(self._module, Map("index", key, (RingField(ROW_NUMBER, t.BIGINT),)))
        self._record = InputRecord(key)

    def emit(self) -> IndexCode:
        self._define("find.columns", [I64, PTR, PTR, PTR], self._emit_find_columns)
        self._define("find.records", [I64, PTR, PTR, PTR], self._emit_find_records)
        self._define("move.columns", [I64, PTR, PTR, PTR, I64, PTR], self._emit_move_columns)
        self._define("move.records", [I64, PTR, PTR, I64, PTR], self._emit_move_records)
        return IndexCode(self._module, self._map, self._record)

    def _define(self, name: str, arguments: list[ir.Type], body: EmitBody) -> None:
        define(self._module, name, I32, arguments, body, exported=True)

    # -- lookups ------------------------------------------------------------------------------------------------

    def _emit_find_columns(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """``(count, columns, numbers, handle)``."""
        count, columns, numbers, handle = arguments
        keys = _ColumnKeys(self._fields, columns, NULL_POINTER)
        prefetch = self._prefetch_function()
        with in_blocks(builder, count, PREFETCH_KEYS) as (start, stop):
            builder.call(prefetch, [start, stop, columns, handle])
            with count_up(builder, start, stop) as row:
                self._find(builder, keys, row, numbers, handle)
        builder.ret(number(0, I32))

    def _emit_find_records(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """``(count, records, numbers, handle)``."""
        count, records, numbers, handle = arguments
        with count_up(builder, number(0), count) as row:
            self._find(builder, _RecordKeys(self._record, records), row, numbers, handle)
        builder.ret(number(0, I32))

    def _find(self, builder: ir.IRBuilder, keys: _Keys, row: IRValue, numbers: IRValue, handle: IRValue) -> None:
        found = Local(builder, number(ABSENT))
        entry = self._map.find(builder, handle, self._stored(builder, keys, row))
        with builder.if_then(builder.icmp_unsigned("!=", entry, NULL_POINTER)):
            found.set(builder.trunc(self._map.value(builder, entry, 0), I64))
        builder.store(found.get(), _element(builder, numbers, row))

    def _prefetch_function(self) -> ir.Function:
        """``prefetch(start, stop, columns, handle)``: request the memory in which these keys would be."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            start, stop, columns, handle = arguments
            prefetcher = Prefetcher(builder, PREFETCH_KEYS * self._map.pointers)
            keys = _ColumnKeys(self._fields, columns, NULL_POINTER)
            with count_up(builder, start, stop) as row:
                cells = self._stored(builder, keys, row)
                named = {f.name: cell for f, cell in zip(self._fields, cells, strict=True)}
                self._map.prefetch(builder, handle, named, prefetcher)
            prefetcher.request_pointees()
            builder.ret_void()

        return define(self._module, "prefetch", ir.VoidType(), [I64, I64, PTR, PTR], body, "noinline")

    # -- changes ------------------------------------------------------------------------------------------------

    def _emit_move_columns(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """``(count, columns, weights, numbers, first, handle)``."""
        count, columns, weights, numbers, first, handle = arguments
        self._move(builder, _ColumnKeys(self._fields, columns, weights), count, numbers, first, handle)

    def _emit_move_records(self, builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
        """``(count, records, numbers, first, handle)``."""
        count, records, numbers, first, handle = arguments
        self._move(builder, _RecordKeys(self._record, records), count, numbers, first, handle)

    def _move(
        self, builder: ir.IRBuilder, keys: _Keys, count: IRValue, numbers: IRValue, first: IRValue, handle: IRValue
    ) -> None:
        """Rows leave with the number that was found for them; those that arrive are numbered from ``first`` on.

        A key must be there when it leaves and not when it arrives, also where it comes twice in this change.
        """
        with count_up(builder, number(0), count) as row:
            weight = keys.weight(builder, row)
            with builder.if_then(builder.icmp_signed("<", weight, number(0)), likely=False):
                self._refuse(builder, keys, row, handle, "==")
                held = builder.load(_element(builder, numbers, row), typ=I64)
                self._add(builder, keys, row, handle, number(-1), builder.neg(held))
        following = Local(builder, first)
        with count_up(builder, number(0), count) as row:
            weight = keys.weight(builder, row)
            with builder.if_then(builder.icmp_signed(">", weight, number(0)), likely=True):
                self._refuse(builder, keys, row, handle, "!=")
                self._add(builder, keys, row, handle, number(1), following.get())
                following.set(builder.add(following.get(), number(1)))
        builder.ret(number(0, I32))

    def _refuse(self, builder: ir.IRBuilder, keys: _Keys, row: IRValue, handle: IRValue, found: str) -> None:
        """Return where the entry of a key is null (``==``), or where it is not (``!=``)."""
        entry = self._map.find(builder, handle, self._stored(builder, keys, row))
        with builder.if_then(builder.icmp_unsigned(found, entry, NULL_POINTER), likely=False):
            builder.ret(number(REFUSED, I32))

    def _add(
        self, builder: ir.IRBuilder, keys: _Keys, row: IRValue, handle: IRValue, weight: IRValue, held: IRValue
    ) -> None:
        cells = self._stored(builder, keys, row)
        check(builder, self._map.add(builder, handle, cells, weight, [builder.sext(held, I128)]))

    def _stored(self, builder: ir.IRBuilder, keys: _Keys, row: IRValue) -> list[NullableValue]:
        cells = keys.cells(builder, row)
        return [to_stored(builder, cell, f.type) for cell, f in zip(cells, self._fields, strict=True)]


def _element(builder: ir.IRBuilder, numbers: IRValue, row: IRValue) -> IRValue:
    return builder.gep(numbers, [row], source_etype=I64)
