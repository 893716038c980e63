"""The operators of SQL arithmetic and of rings. Each gives a value and where it fails; all are safe to compute anyway.

Exact numbers are computed in as many bits as the result can have, so rounding and the test for overflow come last, as
in ``algebra.values.decimals``. Nothing here looks at NULL: the caller ignores the value and the failure where one
is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Call
from tidemill.model import types as t
from tidemill.model.types import MAX_PRECISION, Type
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled, RowFault
from tidemill.runtimes.native.llvm.scalars import wide_integers
from tidemill.runtimes.native.llvm.scalars.exact_numbers import (
    DIVISION_BY_ZERO,
    Outcome,
    any_of,
    canonical,
    from_cell,
    is_exact,
    rounded_to,
    scale_of,
    to_cell,
    to_decimal,
)
from tidemill.runtimes.native.llvm.scalars.wide_integers import WideInteger

EmitOperator = Callable[[ir.IRBuilder, Call, Sequence[ir.Value]], Outcome]
"""Emits a function for arguments of which none is NULL."""

RING_OVERFLOW = RowFault("a product or sum within a view leaves 128 bits")


def _numbers(call: Call, values: Sequence[ir.Value]) -> list[WideInteger]:
    return [from_cell(value, argument.type) for value, argument in zip(values, call.arguments, strict=True)]


def _aligned(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> tuple[list[WideInteger], int]:
    """The arguments as whole numbers of one scale, and that scale."""
    scales = [scale_of(argument.type) for argument in call.arguments]
    scale = max(scales)
    numbers = zip(_numbers(call, values), scales, strict=True)
    return [wide_integers.shifted(builder, number, scale - own) for number, own in numbers], scale


def _settled(builder: ir.IRBuilder, number: WideInteger, scale: int, of: Type) -> Outcome:
    return to_decimal(builder, number, scale, of) if isinstance(of, t.Decimal) else to_cell(builder, number, of)


def _additive(exact: Callable[..., WideInteger], double: str) -> EmitOperator:
    def emit(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
        if isinstance(call.type, t.Floating):
            return _rounded(builder, getattr(builder, double)(*values), call.type)
        numbers, scale = _aligned(builder, call, values)
        return _settled(builder, exact(builder, *numbers), scale, call.type)

    return emit


def _rounded(builder: ir.IRBuilder, value: ir.Value, of: Type) -> Outcome:
    return Outcome(canonical(builder, rounded_to(builder, value, of)))


def _multiply(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    if isinstance(call.type, t.Floating):
        return _rounded(builder, builder.fmul(*values), call.type)
    product = wide_integers.times(builder, *_numbers(call, values))
    return _settled(builder, product, sum(scale_of(a.type) for a in call.arguments), call.type)


def _divide(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    if isinstance(call.type, t.Double):
        zero = builder.fcmp_ordered("==", values[1], ir.Constant(ir.DoubleType(), 0.0))
        return Outcome(canonical(builder, builder.fdiv(*values)), zero, DIVISION_BY_ZERO)
    return _decimal_quotient(builder, call, values)


def _decimal_quotient(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    """A quotient to 38 places and then to the result's own, as Spark rounds it."""
    assert isinstance(call.type, t.Decimal)
    one, other = _numbers(call, values)
    left, right = (scale_of(argument.type) for argument in call.arguments)
    divisor, zero = _safe(builder, other)
    exact = wide_integers.half_up(builder, wide_integers.shifted(builder, one, MAX_PRECISION - left + right), divisor)
    found = to_decimal(builder, exact, MAX_PRECISION, call.type)
    return _first(builder, zero, found)


def _first(builder: ir.IRBuilder, zero: ir.Value, found: Outcome) -> Outcome:
    """A division: that its divisor is zero comes before anything else that may be wrong with it."""
    if found.failed is None:
        return Outcome(found.value, zero, DIVISION_BY_ZERO)
    # One fault must do for both; a quotient that does not fit is by far the rarer.
    return Outcome(found.value, any_of(builder, zero, found.failed), DIVISION_BY_ZERO)


def _remainder(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    if isinstance(call.type, t.Floating):
        return _double_remainder(builder, values)
    (one, other), scale = _aligned(builder, call, values)
    divisor, zero = _safe(builder, other)
    return _first(builder, zero, _settled(builder, wide_integers.remainder(builder, one, divisor), scale, call.type))


def _double_remainder(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> Outcome:
    zero = builder.fcmp_ordered("==", values[1], ir.Constant(ir.DoubleType(), 0.0))
    return Outcome(canonical(builder, builder.frem(*values)), zero, DIVISION_BY_ZERO)


def _quotient(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    one, other = _numbers(call, values)
    divisor, zero = _safe(builder, other)
    return _first(builder, zero, to_cell(builder, wide_integers.quotient(builder, one, divisor), t.BIGINT))


def _safe(builder: ir.IRBuilder, divisor: WideInteger) -> tuple[WideInteger, ir.Value]:
    """The divisor, or one where it is zero; and whether it is."""
    zero = builder.icmp_signed("==", divisor.value, ir.Constant(divisor.value.type, 0))
    return WideInteger(builder.select(zero, ir.Constant(divisor.value.type, 1), divisor.value), divisor.bits), zero


def _negate(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    if isinstance(call.type, t.Floating):
        return Outcome(canonical(builder, builder.fneg(values[0])))
    (number,) = _numbers(call, values)
    negated = wide_integers.minus(builder, wide_integers.constant(0), number)
    return to_cell(builder, WideInteger(negated.value, _digits(number, call.type)), call.type)


def _absolute(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    if isinstance(call.type, t.Floating):
        return Outcome(builder.call(builder.module.declare_intrinsic("llvm.fabs", [ir.DoubleType()]), values))
    (number,) = _numbers(call, values)
    return to_cell(
        builder, WideInteger(wide_integers.magnitude(builder, number).value, _digits(number, call.type)), call.type
    )


def _digits(number: WideInteger, type_: Type) -> int:
    """The bits of a number whose sign has changed: DECIMALs are symmetric, integers have one more below zero."""
    return number.bits if isinstance(type_, t.Decimal) and type_.precision < MAX_PRECISION else number.bits + 1


def _positive(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    return Outcome(values[0])


def _average(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    return _decimal_quotient(builder, call, values)


def _mean(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    total, count = call.arguments
    top = values[0] if isinstance(total.type, t.Double) else to_double(builder, values[0], total.type)
    bottom = to_double(builder, values[1], count.type)
    zero = builder.fcmp_ordered("==", bottom, ir.Constant(ir.DoubleType(), 0.0))
    return Outcome(canonical(builder, builder.fdiv(top, bottom)), zero, DIVISION_BY_ZERO)


def to_double(builder: ir.IRBuilder, value: ir.Value, type_: Type) -> ir.Value:
    """The double nearest to an exact number."""
    return wide_integers.to_double(builder, from_cell(value, type_), scale_of(type_))


def _bigint_checked(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    return to_cell(builder, from_cell(values[0], call.arguments[0].type), t.BIGINT)


def _ring_product(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    """A product in a ring: never rounded, and as wide as a BIGINT of 128 bits or a DECIMAL of 38 digits."""
    found, failed = wide_integers.product(builder, *_numbers(call, values))
    return _in_ring(builder, WideInteger(found, 127), failed, call.type)


def _ring_sum(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    numbers, _ = _aligned(builder, call, values)
    found = wide_integers.plus(builder, *numbers)
    failed = wide_integers.outside(builder, found, 128)
    return _in_ring(
        builder, WideInteger(wide_integers.resized(builder, found.value, 128), min(found.bits, 127)), failed, call.type
    )


def _in_ring(builder: ir.IRBuilder, number: WideInteger, failed: ir.Value | None, of: Type) -> Outcome:
    if isinstance(of, t.Decimal):
        failed = any_of(builder, failed, wide_integers.beyond(builder, number, 10**of.precision))
    return Outcome(number.value, failed, RING_OVERFLOW)


def _root(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    root = builder.module.declare_intrinsic("llvm.sqrt", [ir.DoubleType()])
    return Outcome(canonical(builder, builder.call(root, values)))


OPERATORS: dict[str, EmitOperator] = {
    "add": _additive(wide_integers.plus, "fadd"),
    "subtract": _additive(wide_integers.minus, "fsub"),
    "multiply": _multiply,
    "divide": _divide,
    "remainder": _remainder,
    "div": _quotient,
    "negate": _negate,
    "positive": _positive,
    "abs": _absolute,
    "average": _average,
    "mean": _mean,
    "bigint_checked": _bigint_checked,
    "ring_product": _ring_product,
    "ring_sum": _ring_sum,
    "sqrt": _root,
}

TRY_OPERATORS = {f"try_{name}": name for name in ("add", "subtract", "multiply", "divide")} | {"try_mod": "remainder"}
"""The forms that give NULL where the operator fails."""


def never_fails(call: Call) -> bool:
    """True if an operator has a value for all arguments."""
    if call.function in ("positive", "sqrt"):
        return True
    if call.function not in ("add", "subtract", "multiply", "negate", "abs"):
        return False
    if isinstance(call.type, t.Floating):
        return True
    return isinstance(call.type, t.Decimal) and call.type.precision < MAX_PRECISION


def emit_operator(builder: ir.IRBuilder, call: Call, values: Sequence[ir.Value]) -> Outcome:
    """The result of an operator on exact numbers or doubles."""
    if not all(is_exact(a.type) or isinstance(a.type, t.Floating) for a in call.arguments):
        raise NotCompiled(f"{call.function} of {', '.join(str(a.type) for a in call.arguments)}")
    return OPERATORS[TRY_OPERATORS.get(call.function, call.function)](builder, call, values)
