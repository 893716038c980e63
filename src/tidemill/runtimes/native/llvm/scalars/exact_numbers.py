"""Cells as whole numbers and back: what each SQL number is inside, and whether a result fits its type.

Integers of all types, DATE, TIME, TIMESTAMP, INTERVAL and scaled DECIMAL are whole numbers. A BIGINT or DECIMAL from a
map has 128 bits, whatever its type would need: sums are only judged where they leave the program.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled, RowFault
from tidemill.runtimes.native.llvm.codegen.layout import cell_type
from tidemill.runtimes.native.llvm.scalars import wide_integers
from tidemill.runtimes.native.llvm.scalars.wide_integers import WideInteger

DIVISION_BY_ZERO = RowFault("division by zero", "Use TRY_DIVIDE or NULLIF to get NULL instead.")

NAN = ir.Constant(ir.DoubleType(), float("nan"))

_BITS: dict[type[Type], int] = {
    **{kind: kind.bits - 1 for kind in (t.TinyInt, t.SmallInt, t.Int, t.BigInt)},
    t.Date: 31,
    t.Timestamp: 63,
    t.TimestampNtz: 63,
    t.YearMonthInterval: 31,
    t.DayTimeInterval: 63,
    t.Time: 63,
}
"""The bits of a number beside its sign."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, and the i1 under which it is none because of ``fault``; None where it always is one."""

    value: ir.Value
    failed: ir.Value | None = None
    fault: RowFault | None = None


def scale_of(type_: Type) -> int:
    """The digits after the point of an exact number."""
    return type_.scale if isinstance(type_, t.Decimal) else 0


def is_exact(type_: Type) -> bool:
    """True if values of ``type_`` are whole numbers inside, perhaps scaled."""
    return isinstance(type_, t.Decimal) or type(type_) in _BITS


def from_cell(value: ir.Value, type_: Type) -> WideInteger:
    """The whole number in a cell of an exact type."""
    if isinstance(type_, t.Decimal):
        bits = wide_integers.bits_of(type_.precision) if type_.precision < t.MAX_PRECISION else 127
    elif type(type_) in _BITS:
        bits = _BITS[type(type_)]
    else:
        raise NotCompiled(f"{type_} is no exact number")
    return WideInteger(value, 127 if _is_wide(value, type_) else bits)


def _is_wide(value: ir.Value, type_: Type) -> bool:
    return value.type.width == 128 and not isinstance(type_, t.Decimal)


def to_cell(builder: ir.IRBuilder, number: WideInteger, type_: Type) -> Outcome:
    """``number`` as a value of ``type_``, which fails where it does not fit."""
    width = cell_type(type_).width
    if isinstance(type_, t.Decimal):
        failed = wide_integers.beyond(builder, number, 10**type_.precision)
    else:
        failed = wide_integers.outside(builder, number, _BITS[type(type_)] + 1)
    return Outcome(wide_integers.resized(builder, number.value, width), failed, out_of_range(type_))


def to_decimal(builder: ir.IRBuilder, number: WideInteger, scale: int, type_: t.Decimal) -> Outcome:
    """``number / 10 ** scale`` as a DECIMAL, rounded half up where it has too many places."""
    if type_.scale >= scale:
        return to_cell(builder, wide_integers.shifted(builder, number, type_.scale - scale), type_)
    return to_cell(builder, wide_integers.rounded(builder, number, scale - type_.scale), type_)


def out_of_range(type_: Type) -> RowFault:
    """A number that its type does not hold."""
    hint = "Use a wider DECIMAL, or TRY_CAST to get NULL." if isinstance(type_, t.Decimal) else None
    return RowFault(f"a number does not fit {type_}", hint or "Convert an operand to a wider type first.")


def canonical(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The representative of all doubles that SQL holds equal: one NaN, and 0.0 for -0.0."""
    positive = builder.fadd(value, ir.Constant(ir.DoubleType(), 0.0))
    return builder.select(builder.fcmp_unordered("uno", value, value), NAN, positive)


def rounded_to(builder: ir.IRBuilder, value: ir.Value, of: Type) -> ir.Value:
    """A double as a value of FLOAT, which is a double that 32 bits hold, or of DOUBLE."""
    if not isinstance(of, t.Float):
        return value
    return builder.fpext(builder.fptrunc(value, ir.FloatType()), ir.DoubleType())


def any_of(builder: ir.IRBuilder, *conditions: ir.Value | None) -> ir.Value | None:
    """True if one of ``conditions`` holds; None stands for one that never does."""
    found: ir.Value | None = None
    for condition in conditions:
        if condition is not None:
            found = condition if found is None else builder.or_(found, condition)
    return found
