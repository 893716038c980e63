"""Cells as the keys of ordered maps: numbers without sign, which stand in the order of the cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, number
from tidemill.runtimes.native.llvm.codegen.layout import F64, I64, NullableValue


def key_bits(type_: ir.Type) -> int:
    """The bits of the keys of cells of that type: 64, or 128.

    >>> key_bits(ir.IntType(32)), key_bits(F64), key_bits(ir.IntType(128))
    (64, 64, 128)
    """
    return -(-_width(type_) // 64) * 64


def to_sort_key(builder: ir.IRBuilder, cell: IRValue) -> IRValue:
    """The key of a cell. NaN is the greatest DOUBLE, as in Spark."""
    if cell.type == F64:
        bits = builder.bitcast(cell, I64)
        flipped = builder.or_(builder.ashr(bits, number(63)), number(1 << 63))
        return builder.xor(bits, flipped)
    found = builder.xor(cell, number(1 << (cell.type.width - 1), cell.type))
    wide = ir.IntType(key_bits(cell.type))
    return found if found.type == wide else builder.zext(found, wide)


def from_sort_key(builder: ir.IRBuilder, key: IRValue, type_: ir.Type) -> IRValue:
    """The cell of a key."""
    if type_ == F64:
        flipped = builder.or_(builder.not_(builder.ashr(key, number(63))), number(1 << 63))
        return builder.bitcast(builder.xor(key, flipped), F64)
    part = key if key.type == type_ else builder.trunc(key, type_)
    return builder.xor(part, number(1 << (type_.width - 1), type_))


@dataclass(frozen=True, slots=True)
class SortTerm:
    """A cell within a sort key of several; ``nulls_first`` is None where it cannot be NULL."""

    type: ir.Type
    descending: bool
    nulls_first: bool | None

    @property
    def bits(self) -> int:
        """The bits that it takes."""
        return _width(self.type) + (self.nulls_first is not None)


def to_composite_key(
    builder: ir.IRBuilder, cells: Sequence[NullableValue], terms: Sequence[SortTerm], type_: ir.Type
) -> IRValue:
    """The key of several cells, the first of which decides first: their bits one after the other."""
    found: IRValue = number(0, type_)
    for cell, term in zip(cells, terms, strict=True):
        own = ir.IntType(_width(term.type))
        bits = to_sort_key(builder, cell.value)
        bits = bits if bits.type == own else builder.trunc(bits, own)
        bits = builder.not_(bits) if term.descending else bits
        if term.nulls_first is not None:
            assert cell.is_null is not None
            bits = builder.select(cell.is_null, number(0, own), bits)
            flag = builder.not_(cell.is_null) if term.nulls_first else cell.is_null
            found = builder.or_(_shifted(builder, found, 1), builder.zext(flag, type_))
        wide = bits if own == type_ else builder.zext(bits, type_)
        found = wide if own == type_ else builder.or_(_shifted(builder, found, own.width), wide)
    return found


def from_composite_key(builder: ir.IRBuilder, key: IRValue, terms: Sequence[SortTerm]) -> list[NullableValue]:
    """The cells of such a key; those that are NULL have any value."""
    found: list[NullableValue] = []
    place = 0
    for term in reversed(terms):
        own = ir.IntType(_width(term.type))
        bits = builder.lshr(key, number(place, key.type)) if place else key
        bits = bits if bits.type == own else builder.trunc(bits, own)
        place += own.width
        null = None
        if term.nulls_first is not None:
            flag = builder.trunc(builder.lshr(key, number(place, key.type)), ir.IntType(1))
            null = builder.not_(flag) if term.nulls_first else flag
            place += 1
        bits = builder.not_(bits) if term.descending else bits
        found.append(NullableValue(from_sort_key(builder, bits, term.type), null))
    return found[::-1]


def _shifted(builder: ir.IRBuilder, key: IRValue, bits: int) -> IRValue:
    return builder.shl(key, number(bits, key.type))


def _width(type_: ir.Type) -> int:
    return 64 if type_ == F64 else int(type_.width)
