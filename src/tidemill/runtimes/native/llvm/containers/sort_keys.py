"""Cells as the keys of ordered maps: numbers without sign, which stand in the order of the cells."""

from __future__ import annotations

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, number
from tidemill.runtimes.native.llvm.codegen.layout import F64, I64


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


def _width(type_: ir.Type) -> int:
    return 64 if type_ == F64 else int(type_.width)
