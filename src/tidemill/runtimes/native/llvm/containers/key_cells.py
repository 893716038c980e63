"""Keys of entries: as arguments of functions, as words of a hash, as conditions on a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, number
from tidemill.runtimes.native.llvm.codegen.layout import F64, I1, I64, MapRecord, NullableValue, StructLayout, cell_type
from tidemill.runtimes.native.llvm.containers.hash_table import hash_of, probe


@dataclass(frozen=True, slots=True)
class KeyCells:
    """The cells of a key, 0 where NULL, and the mask of those that are NULL (None where none can be)."""

    cells: tuple[IRValue, ...]
    nulls: IRValue | None

    def arguments(self) -> list[IRValue]:
        """As they are handed to functions."""
        return [*([] if self.nulls is None else [self.nulls]), *self.cells]

    def hash(self, builder: ir.IRBuilder) -> IRValue:
        """Their hash."""
        return hash_of(builder, self.arguments())


class KeyCode:
    """The code for the keys of one map."""

    def __init__(self, map_: Map, record: MapRecord) -> None:
        self._map = map_
        self._record = record
        self._types = [cell_type(key.type) for key in map_.keys]

    def places(self, names: Sequence[str]) -> tuple[int, ...]:
        """The positions of columns in the key."""
        all_names = [key.name for key in self._map.keys]
        return tuple(all_names.index(name) for name in names)

    def types(self) -> list[ir.Type]:
        """The types of ``KeyCells.arguments``."""
        return [*([I64] if self._record.nulls else []), *self._types]

    def of_cells(self, builder: ir.IRBuilder, cells: Sequence[NullableValue]) -> KeyCells:
        """A key from cells of an expression."""
        nulls: IRValue = number(0)
        values = []
        for i, (cell, field) in enumerate(zip(cells, self._map.keys, strict=True)):
            if cell.is_null is None or not field.nullable:
                values.append(cell.value)
                continue
            zero = ir.Constant(cell.value.type, 0.0 if cell.value.type == F64 else 0)
            values.append(builder.select(cell.is_null, zero, cell.value))
            nulls = builder.or_(nulls, builder.shl(builder.zext(cell.is_null, I64), number(i)))
        return KeyCells(tuple(values), nulls if self._record.nulls else None)

    def of_arguments(self, arguments: Sequence[IRValue]) -> KeyCells:
        """A key from arguments of a function."""
        return KeyCells(tuple(arguments[1:]), arguments[0]) if self._record.nulls else KeyCells(tuple(arguments), None)

    def of_record(self, builder: ir.IRBuilder, record: IRValue) -> KeyCells:
        """The key of a record."""
        nulls = self._record.load(builder, record, "nulls") if self._record.nulls else None
        return KeyCells(tuple(self._record.load(builder, record, name) for name in self._record.keys), nulls)

    def write(self, builder: ir.IRBuilder, record: IRValue, keys: KeyCells) -> None:
        """Put a key into a record."""
        if keys.nulls is not None:
            self._record.store(builder, record, "nulls", keys.nulls)
        for name, cell in zip(self._record.keys, keys.cells, strict=True):
            self._record.store(builder, record, name, cell)

    def matches(self, builder: ir.IRBuilder, record: IRValue, keys: KeyCells) -> IRValue:
        """An i1: whether a record has this key, NULLs being equal."""
        held = self.of_record(builder, record)
        return equal(builder, held.arguments(), keys.arguments())

    def matches_at(
        self, builder: ir.IRBuilder, record: IRValue, places: Sequence[int], cells: Sequence[IRValue]
    ) -> IRValue:
        """An i1: whether a record without NULL at ``places`` has these cells there."""
        return equal(builder, [self._record.load(builder, record, f"key{place}") for place in places], cells)

    def has_null(self, builder: ir.IRBuilder, keys: KeyCells, places: Sequence[int]) -> IRValue | None:
        """An i1: whether one of the columns is NULL; None where none can be."""
        bits = sum(1 << place for place in places if self._map.keys[place].nullable)
        if keys.nulls is None or not bits:
            return None
        return builder.icmp_unsigned("!=", builder.and_(keys.nulls, number(bits)), number(0))


def any_null(builder: ir.IRBuilder, cells: Sequence[NullableValue]) -> IRValue | None:
    """An i1: whether one of the cells is NULL; None where none can be."""
    flags = [cell.is_null for cell in cells if cell.is_null is not None]
    if not flags:
        return None
    found = flags[0]
    for flag in flags[1:]:
        found = builder.or_(found, flag)
    return found


def find_cells(builder: ir.IRBuilder, table: IRValue, slot: StructLayout, cells: Sequence[IRValue]) -> IRValue:
    """The slot of a table that holds these cells, as its fields ``cell0``, ``cell1`` ..., or null."""

    def matches(found: IRValue) -> IRValue:
        return equal(builder, [slot.load(builder, found, f"cell{i}") for i in range(len(cells))], cells)

    return probe(builder, table, hash_of(builder, cells), slot.size, matches)


def equal(builder: ir.IRBuilder, some: Sequence[IRValue], others: Sequence[IRValue]) -> IRValue:
    """An i1: whether all cells are the same. Doubles are compared by their bits: equal ones have equal bits here."""
    found: IRValue = number(1, I1)
    for one, other in zip(some, others, strict=True):
        if one.type == F64:
            one, other = builder.bitcast(one, I64), builder.bitcast(other, I64)
        found = builder.and_(found, builder.icmp_unsigned("==", one, other))
    return found
