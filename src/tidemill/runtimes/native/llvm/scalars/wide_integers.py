"""Whole numbers of known size: arithmetic that cannot overflow, because each result is as wide as it must be.

INT, BIGINT, scaled DECIMAL and ring numbers are all integers here. Each comes with a bound on its bits; a sum has one
bit more, a product the bits of both. So only one question is ever asked: does the final number fit its type? LLVM takes
integers of any width apart; nothing is left to a library that may not be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from llvmlite import ir

WIDTHS = (32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class WideInteger:
    """An integer from ``-(2 ** bits)`` up to, but not including, ``2 ** bits``."""

    value: ir.Value
    bits: int


def width_of(bits: int) -> int:
    """The narrowest width that holds ``bits`` and a sign.

    >>> width_of(31), width_of(63), width_of(64)
    (32, 64, 128)
    """
    return next(width for width in WIDTHS if bits < width)


@lru_cache(maxsize=256)
def bits_of(digits: int) -> int:
    """The bits of the largest number with so many decimal digits.

    >>> bits_of(18), bits_of(38)
    (60, 127)
    """
    return int(10**digits - 1).bit_length()


def constant(value: int) -> WideInteger:
    """A number known when the code is emitted."""
    bits = max(value.bit_length(), 1)
    return WideInteger(ir.Constant(ir.IntType(width_of(bits)), value), bits)


def resized(builder: ir.IRBuilder, value: ir.Value, width: int) -> ir.Value:
    """The same number in another width; it must fit."""
    if isinstance(value, ir.Constant):
        return ir.Constant(ir.IntType(width), value.constant)
    if value.type.width == width:
        return value
    resize = builder.sext if value.type.width < width else builder.trunc
    return resize(value, ir.IntType(width))


def plus(builder: ir.IRBuilder, one: WideInteger, other: WideInteger) -> WideInteger:
    """``one + other``."""
    bits = max(one.bits, other.bits) + 1
    return WideInteger(builder.add(*_widened(builder, bits, one, other)), bits)


def minus(builder: ir.IRBuilder, one: WideInteger, other: WideInteger) -> WideInteger:
    """``one - other``."""
    bits = max(one.bits, other.bits) + 1
    return WideInteger(builder.sub(*_widened(builder, bits, one, other)), bits)


def times(builder: ir.IRBuilder, one: WideInteger, other: WideInteger) -> WideInteger:
    """``one * other``."""
    bits = one.bits + other.bits + 1  # the two least numbers have a product of just so many
    return WideInteger(builder.mul(*_widened(builder, bits, one, other)), bits)


def product(builder: ir.IRBuilder, one: WideInteger, other: WideInteger) -> tuple[ir.Value, ir.Value | None]:
    """``one * other`` in 128 bits, and an i1: whether that is too narrow; None where it never is.

    Wide numbers are most often small: then one instruction of the machine multiplies them.
    """
    if one.bits + other.bits + 1 < 128:
        return resized(builder, times(builder, one, other).value, 128), None
    narrow, wide = ir.IntType(64), ir.IntType(128)
    factors = [resized(builder, number.value, 128) for number in (one, other)]
    short = [builder.sext(builder.trunc(factor, narrow), wide) for factor in factors]
    fits = [builder.icmp_signed("==", *pair) for pair in zip(factors, short, strict=True)]
    before, long, after = builder.block, builder.append_basic_block("long"), builder.append_basic_block("product")
    quick = builder.mul(*short)
    builder.cbranch(builder.and_(*fits), after, long)
    builder.position_at_end(long)
    pair = builder.call(_multiplication(builder.module), factors)
    slow, failed = builder.extract_value(pair, 0), builder.extract_value(pair, 1)
    builder.branch(after)
    builder.position_at_end(after)
    value, overflow = builder.phi(wide), builder.phi(ir.IntType(1))
    value.add_incoming(quick, before)
    value.add_incoming(slow, long)
    overflow.add_incoming(ir.Constant(ir.IntType(1), 0), before)
    overflow.add_incoming(failed, long)
    return value, overflow


def _multiplication(module: ir.Module) -> ir.Function:
    """``multiply(a, b)`` of 128 bits each: the product, and whether it has more."""
    name = "multiply.128"
    if name in module.globals:
        return module.globals[name]
    kind, bit = ir.IntType(128), ir.IntType(1)
    pair = ir.LiteralStructType([kind, bit])
    function = ir.Function(module, ir.FunctionType(pair, [kind, kind]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    found = times(builder, *(WideInteger(argument, 127) for argument in function.args))
    failed = outside(builder, found, 128)
    assert failed is not None
    builder.ret(_paired(builder, pair, builder.trunc(found.value, kind), failed))
    return function


def shifted(builder: ir.IRBuilder, one: WideInteger, digits: int) -> WideInteger:
    """``one`` with so many zeros appended."""
    return times(builder, one, constant(10**digits)) if digits else one


def magnitude(builder: ir.IRBuilder, one: WideInteger) -> WideInteger:
    """The number without its sign."""
    (value,) = _widened(builder, one.bits + 1, one)
    negative = builder.icmp_signed("<", value, ir.Constant(value.type, 0))
    return WideInteger(builder.select(negative, builder.neg(value), value), one.bits + 1)


def rounded(builder: ir.IRBuilder, one: WideInteger, digits: int) -> WideInteger:
    """``one`` without its last decimal digits, rounded half away from zero."""
    return half_up(builder, one, constant(10**digits)) if digits else one


def half_up(builder: ir.IRBuilder, one: WideInteger, other: WideInteger) -> WideInteger:
    """``one / other``, rounded half away from zero; ``other`` is not 0."""
    top, bottom = magnitude(builder, one), magnitude(builder, other)
    sought = plus(builder, plus(builder, top, top), bottom)
    found, _ = _divided(builder, sought, plus(builder, bottom, bottom))
    return _signed(builder, WideInteger(found.value, one.bits + 1), one, other)


def quotient(builder: ir.IRBuilder, one: WideInteger, other: WideInteger) -> WideInteger:
    """``one / other`` without what is after the point; ``other`` is not 0."""
    found, _ = _divided(builder, magnitude(builder, one), magnitude(builder, other))
    return _signed(builder, WideInteger(found.value, one.bits + 1), one, other)


def remainder(builder: ir.IRBuilder, one: WideInteger, other: WideInteger) -> WideInteger:
    """The remainder of ``one``, with its sign; ``other`` is not 0."""
    _, rest = _divided(builder, magnitude(builder, one), magnitude(builder, other))
    return _signed(builder, WideInteger(rest.value, min(one.bits, other.bits) + 1), one)


def compare(builder: ir.IRBuilder, symbol: str, one: WideInteger, other: WideInteger) -> ir.Value:
    """An i1: whether ``one symbol other``."""
    return builder.icmp_signed(symbol, *_widened(builder, max(one.bits, other.bits), one, other))


def beyond(builder: ir.IRBuilder, one: WideInteger, limit: int) -> ir.Value | None:
    """An i1: whether ``one`` lies outside ``-limit < one < limit``; None where it cannot."""
    if (1 << one.bits) < limit:
        return None
    below = compare(builder, "<=", one, constant(-limit))
    return builder.or_(below, compare(builder, ">=", one, constant(limit)))


def outside(builder: ir.IRBuilder, one: WideInteger, width: int) -> ir.Value | None:
    """An i1: whether ``one`` does not fit a signed integer of ``width`` bits; None where it always does."""
    if one.bits < width:
        return None
    kept = builder.sext(builder.trunc(one.value, ir.IntType(width)), one.value.type)
    return builder.icmp_signed("!=", one.value, kept)


def to_double(builder: ir.IRBuilder, one: WideInteger, scale: int) -> ir.Value:
    """The double nearest to ``one / 10 ** scale``."""
    double = ir.DoubleType()
    if one.bits <= 53 and scale <= 22:
        # Both are exact, so the division rounds once.
        found = builder.sitofp(resized(builder, one.value, 64), double)
        return builder.fdiv(found, ir.Constant(double, float(10**scale))) if scale else found
    if one.bits <= 63 and scale == 0:
        return builder.sitofp(resized(builder, one.value, 64), double)
    power = ir.Constant(ir.IntType(128), 10**scale)
    return builder.call(_nearest(builder.module), [resized(builder, one.value, 128), power])


def _widened(builder: ir.IRBuilder, bits: int, *numbers: WideInteger) -> list[ir.Value]:
    width = max(width_of(bits), *(number.value.type.width for number in numbers))
    return [resized(builder, number.value, width) for number in numbers]


def _signed(builder: ir.IRBuilder, found: WideInteger, *factors: WideInteger) -> WideInteger:
    """``found`` made negative where an odd number of ``factors`` is."""
    negative: ir.Value = ir.Constant(ir.IntType(1), 0)
    for factor in factors:
        negative = builder.xor(negative, builder.icmp_signed("<", factor.value, ir.Constant(factor.value.type, 0)))
    return WideInteger(builder.select(negative, builder.neg(found.value), found.value), found.bits)


def _divided(builder: ir.IRBuilder, one: WideInteger, other: WideInteger) -> tuple[WideInteger, WideInteger]:
    """The quotient and the remainder of two numbers without sign."""
    top, bottom = _widened(builder, max(one.bits, other.bits), one, other)
    width = top.type.width
    if width <= 64:
        return WideInteger(builder.udiv(top, bottom), one.bits), WideInteger(builder.urem(top, bottom), other.bits)
    pair = builder.call(_division(builder.module, width), [top, bottom])
    return WideInteger(builder.extract_value(pair, 0), one.bits), WideInteger(
        builder.extract_value(pair, 1), other.bits
    )


def _division(module: ir.Module, width: int) -> ir.Function:
    """Division of wide numbers, without sign: by the machine where both are narrow, else bit by bit.

    LLVM would call a library for 128 bits, which need not be there.
    """
    name = f"divide.{width}"
    if name in module.globals:
        return module.globals[name]
    kind, narrow = ir.IntType(width), ir.IntType(64)
    pair = ir.LiteralStructType([kind, kind])
    function = ir.Function(module, ir.FunctionType(pair, [kind, kind]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    top, bottom = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    high = builder.lshr(builder.or_(top, bottom), ir.Constant(kind, 64))
    with builder.if_then(builder.icmp_unsigned("==", high, ir.Constant(kind, 0)), likely=True):
        short = builder.trunc(top, narrow), builder.trunc(bottom, narrow)
        found = builder.zext(builder.udiv(*short), kind), builder.zext(builder.urem(*short), kind)
        builder.ret(_paired(builder, pair, *found))
    with builder.if_then(builder.icmp_unsigned("<", top, bottom)):
        builder.ret(_paired(builder, pair, ir.Constant(kind, 0), top))
    builder.ret(_paired(builder, pair, *_long_division(builder, top, bottom)))
    return function


def _long_division(builder: ir.IRBuilder, top: ir.Value, bottom: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The division that children learn, in base two: a step for each bit of the quotient."""
    kind, exact = top.type, ir.Constant(ir.IntType(1), 0)
    zero, one = ir.Constant(kind, 0), ir.Constant(kind, 1)
    steps = builder.sub(builder.ctlz(bottom, exact), builder.ctlz(top, exact))
    before, step, after = builder.block, builder.append_basic_block("step"), builder.append_basic_block("done")
    shifted = builder.shl(bottom, steps)
    builder.branch(step)
    builder.position_at_end(step)
    quotient, rest, divisor, left = (builder.phi(kind) for _ in range(4))
    fits = builder.icmp_unsigned(">=", rest, divisor)
    new_rest = builder.select(fits, builder.sub(rest, divisor), rest)
    new_quotient = builder.or_(builder.shl(quotient, one), builder.zext(fits, kind))
    new_divisor, new_left = builder.lshr(divisor, one), builder.sub(left, one)
    builder.cbranch(builder.icmp_unsigned("==", left, zero), after, step)
    states = ((quotient, zero, new_quotient), (rest, top, new_rest), (divisor, shifted, new_divisor))
    for variable, first, next_ in (*states, (left, steps, new_left)):
        variable.add_incoming(first, before)
        variable.add_incoming(next_, step)
    builder.position_at_end(after)
    return new_quotient, new_rest


def _paired(builder: ir.IRBuilder, pair: ir.Type, one: ir.Value, other: ir.Value) -> ir.Value:
    return builder.insert_value(builder.insert_value(ir.Constant(pair, ir.Undefined), one, 0), other, 1)


def _nearest(module: ir.Module) -> ir.Function:
    """``nearest(n, d)``: the double nearest to n / d, ties to even, for d > 0.

    The quotient is computed to 64 bits at least; whether anything is left over goes into its last bit, so that the one
    conversion to DOUBLE rounds as if it saw the exact quotient.
    """
    name = "nearest"
    if name in module.globals:
        return module.globals[name]
    i128, wide, i64, double = ir.IntType(128), ir.IntType(512), ir.IntType(64), ir.DoubleType()
    function = ir.Function(module, ir.FunctionType(double, [i128, i128]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    number, below = function.args
    negative = builder.icmp_signed("<", number, ir.Constant(i128, 0))
    top = builder.zext(builder.select(negative, builder.neg(number), number), wide)
    with builder.if_then(builder.icmp_unsigned("==", top, ir.Constant(wide, 0))):
        builder.ret(ir.Constant(double, 0.0))
    scaled, divisor = builder.shl(top, ir.Constant(wide, 192)), builder.zext(below, wide)
    pair = builder.call(_division(module, 512), [scaled, divisor])
    quotient = builder.extract_value(pair, 0)
    rest = builder.icmp_unsigned("!=", builder.extract_value(pair, 1), ir.Constant(wide, 0))
    # The first 63 bits of the quotient, and a last bit that stands for all that follow.
    drop = builder.sub(ir.Constant(wide, 512 - 63), builder.ctlz(quotient, ir.Constant(ir.IntType(1), 0)))
    kept = builder.lshr(quotient, drop)
    lost = builder.or_(rest, builder.icmp_unsigned("!=", builder.shl(kept, drop), quotient))
    short = builder.or_(builder.shl(builder.trunc(kept, i64), ir.Constant(i64, 1)), builder.zext(lost, i64))
    mantissa = builder.uitofp(short, double)
    # times 2 ** (drop - 193), as the bits of that double
    exponent = builder.add(builder.trunc(drop, i64), ir.Constant(i64, 1023 - 193))
    scale = builder.bitcast(builder.shl(exponent, ir.Constant(i64, 52)), double)
    found = builder.fmul(mantissa, scale)
    builder.ret(builder.select(negative, builder.fneg(found), found))
    return function
