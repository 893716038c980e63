"""Sums of DOUBLE in registers, as ``state.double_sums`` keeps them: double-doubles and counts of what is not finite.

All steps are Knuth's and Dekker's error-free transformations. They are exact wherever the sum fits two doubles, so that
a row which leaves takes away what it brought.
"""

from __future__ import annotations

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, external, number
from tidemill.runtimes.native.llvm.codegen.layout import F64, I64, DoubleSum

DoublePair = tuple[IRValue, IRValue]

ZERO = ir.Constant(F64, 0.0)


def term(builder: ir.IRBuilder, value: IRValue, weight: IRValue) -> DoubleSum:
    """The amount that ``weight`` (i64) rows with ``value`` (f64) add to a DOUBLE ring value."""
    times = builder.sitofp(weight, F64)
    # A weight of more than 53 bits leaves a rest, which is small enough to be multiplied on its own.
    saturated = external(builder.module, "llvm.fptosi.sat.i64.f64", I64, [F64])
    rest = builder.sitofp(builder.sub(weight, builder.call(saturated, [times])), F64)
    high = builder.fmul(value, times)
    low = builder.fadd(builder.fma(value, times, builder.fneg(high)), builder.fmul(value, rest))
    finite = is_finite(builder, value)
    counts = [
        builder.select(holds, weight, number(0))
        for holds in (
            builder.fcmp_unordered("uno", value, value),
            builder.fcmp_ordered("==", value, ir.Constant(F64, float("inf"))),
            builder.fcmp_ordered("==", value, ir.Constant(F64, float("-inf"))),
        )
    ]
    high, low = two_sum(builder, high, low)
    return DoubleSum(builder.select(finite, high, ZERO), builder.select(finite, low, ZERO), *counts)


def plus(builder: ir.IRBuilder, one: DoubleSum, other: DoubleSum) -> DoubleSum:
    """The sum of two sums. Its high part is not finite where the sum leaves the range of DOUBLE."""
    high, error = two_sum(builder, one.high, other.high)
    low, rest = two_sum(builder, one.low, other.low)
    error, lost = two_sum(builder, error, low)
    high, low = two_sum(builder, high, error)
    high, low = two_sum(builder, high, builder.fadd(low, builder.fadd(lost, rest)))
    counts = [builder.add(a, b) for a, b in zip(one.parts()[2:], other.parts()[2:], strict=True)]
    return DoubleSum(high, low, *counts)


def negated(builder: ir.IRBuilder, one: DoubleSum) -> DoubleSum:
    """The negation of ``one``; 0 stays +0."""
    high, low = builder.fsub(ZERO, one.high), builder.fsub(ZERO, one.low)
    return DoubleSum(high, low, *(builder.neg(count) for count in one.parts()[2:]))


def difference(builder: ir.IRBuilder, new: DoubleSum, old: DoubleSum) -> tuple[DoubleSum, IRValue]:
    """The difference from ``old`` to ``new``, and an i1: whether it is exact, in this and any exact arithmetic."""
    back = negated(builder, old)
    terms = [new.high, back.high, new.low, back.low]
    for _ in range(len(terms) - 1):
        for i in range(len(terms) - 1, 0, -1):
            terms[i - 1], terms[i] = two_sum(builder, terms[i - 1], terms[i])
    high, low = two_sum(builder, terms[0], terms[1])
    counts = [builder.sub(a, b) for a, b in zip(new.parts()[2:], old.parts()[2:], strict=True)]
    change = DoubleSum(high, low, *counts)
    again = plus(builder, old, change)
    exact = [(terms[2], ZERO), (terms[3], ZERO), (again.high, new.high), (again.low, new.low)]
    holds: IRValue = ir.Constant(ir.IntType(1), 1)
    for found, expected in exact:
        holds = builder.and_(holds, builder.fcmp_ordered("==", found, expected))
    return change, holds


def seen(builder: ir.IRBuilder, one: DoubleSum) -> IRValue:
    """The value of a sum as expressions see it: rounded to one DOUBLE."""
    nan, inf, minus_inf = (ir.Constant(F64, float(text)) for text in ("nan", "inf", "-inf"))
    nans, ups, downs = (builder.icmp_signed("!=", count, number(0)) for count in one.parts()[2:])
    found = builder.select(downs, minus_inf, one.high)
    found = builder.select(ups, inf, found)
    return builder.select(builder.or_(nans, builder.and_(ups, downs)), nan, found)


def is_finite(builder: ir.IRBuilder, value: IRValue) -> IRValue:
    """An i1: whether a double is neither NaN nor infinite."""
    return builder.fcmp_ordered("==", builder.fsub(value, value), ZERO)


def two_sum(builder: ir.IRBuilder, one: IRValue, other: IRValue) -> DoublePair:
    """The rounded sum of two doubles and its error, which a double always holds."""
    total = builder.fadd(one, other)
    virtual = builder.fsub(total, one)
    left = builder.fsub(one, builder.fsub(total, virtual))
    error = builder.fadd(left, builder.fsub(other, virtual))
    # Adding 0 turns -0 into 0, the only zero that sums have.
    return builder.fadd(total, ZERO), builder.fadd(error, ZERO)
