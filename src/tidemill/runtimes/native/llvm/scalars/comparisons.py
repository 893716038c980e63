"""Comparisons of cells that are not NULL. NaN equals itself and is greater than every number."""

from __future__ import annotations

from llvmlite import ir

from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import is_interned, is_window
from tidemill.runtimes.native.llvm.scalars import wide_integers
from tidemill.runtimes.native.llvm.scalars.exact_numbers import from_cell, is_exact

SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""The comparisons, and how they are written between numbers."""

SWAPPED = {"gt": "lt", "ge": "le"}


def is_native(name: str, type_: Type) -> bool:
    """True if ``compare`` compares two values of ``type_`` in that way."""
    ordered = is_exact(type_) or isinstance(type_, t.Boolean | t.Floating)
    return ordered or (name in ("eq", "ne") and _is_whole(type_))


def compare(builder: ir.IRBuilder, name: str, one: ir.Value, other: ir.Value, type_: Type) -> ir.Value:
    """An i1: whether ``one name other``, both of ``type_``."""
    if is_exact(type_):
        return wide_integers.compare(builder, SYMBOLS[name], from_cell(one, type_), from_cell(other, type_))
    match type_:
        case t.Boolean():
            return builder.icmp_unsigned(SYMBOLS[name], one, other)
        case t.Floating():
            return _compare_doubles(builder, name, one, other)
        case _ if _is_whole(type_) and name in ("eq", "ne"):
            # Equal values have one id, and only they.
            return builder.icmp_unsigned(SYMBOLS[name], one, other)
    raise NotCompiled(f"{SYMBOLS[name]} between values of type {type_}")


def _is_whole(type_: Type) -> bool:
    """True of values that are equal if their cells are."""
    return is_interned(type_) or is_window(type_)


def _compare_doubles(builder: ir.IRBuilder, name: str, one: ir.Value, other: ir.Value) -> ir.Value:
    if name in SWAPPED:
        return _compare_doubles(builder, SWAPPED[name], other, one)
    no_number = builder.fcmp_unordered("uno", other, other)
    if name == "le":
        return builder.or_(builder.fcmp_ordered("<=", one, other), no_number)
    if name == "lt":
        is_number = builder.fcmp_ordered("ord", one, one)
        return builder.or_(builder.fcmp_ordered("<", one, other), builder.and_(no_number, is_number))
    both = builder.and_(no_number, builder.fcmp_unordered("uno", one, one))
    equal = builder.or_(builder.fcmp_ordered("==", one, other), both)
    return equal if name == "eq" else builder.not_(equal)
