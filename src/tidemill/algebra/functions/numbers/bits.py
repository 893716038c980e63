"""Bits of integers: operators, shifts, and single bits. Distances of shifts count modulo the width of the value."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.functions.function import Function, expect, expect_count, takes
from tidemill.algebra.values.coercion import beside_string, common_type
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type


def shift_left(of: t.Integral, value: int, distance: int) -> int:
    """``value << distance``; bits that leave at the top are lost.

    >>> shift_left(t.INT, 1, 31), shift_left(t.INT, 1, 33)
    (-2147483648, 2)
    """
    return wrapped(of, value << distance % of.bits)


def shift_right(of: t.Integral, value: int, distance: int) -> int:
    """``value >> distance``: the sign moves in from the top."""
    return value >> distance % of.bits


def shift_right_unsigned(of: t.Integral, value: int, distance: int) -> int:
    """``value >>> distance``: zeros move in from the top.

    >>> shift_right_unsigned(t.INT, -1, 28)
    15
    """
    return wrapped(of, value % (1 << of.bits) >> distance % of.bits)


def wrapped(of: t.Integral, value: int) -> int:
    """The integer of that type with the same lowest bits."""
    return (value + of.limit) % (2 * of.limit) - of.limit


def bit_count(value: int | bool) -> int:
    """The number of ones in the 64 bits of a value.

    >>> bit_count(5), bit_count(-1)
    (2, 64)
    """
    return (value % 2**64).bit_count()


def bit_get(value: int, position: int, bits: int) -> int:
    """The bit at ``position`` of a value of so many ``bits``; the lowest one is at 0.

    >>> bit_get(11, 0, 32), bit_get(11, 2, 32)
    (1, 0)
    """
    if not 0 <= position < bits:
        raise ArithmeticFault(f"BIT_GET reads positions from 0 to {bits - 1}, not {position}")
    return value >> position & 1


def _pair(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    left, right = types
    if left == right == t.VOID:
        return (t.INT, t.INT), t.INT
    if {left, right} <= {t.STRING, t.VOID}:
        raise _not_whole(t.STRING)
    common = common_type([beside_string(right) if left == t.STRING else left, right])
    if not isinstance(common, t.Integral):
        raise _not_whole(common)
    return (common, common), common


def _alone(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    return (of := whole_number(types[0]),), of


def _shift(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    of = t.BIGINT if types[0] == t.BIGINT else expect(types[0], t.INT)
    return (of, expect(types[1], t.INT)), of


def _count_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    return (t.BOOLEAN if types[0] == t.BOOLEAN else whole_number(types[0]),), t.INT


def whole_number(given: Type) -> t.Integral:
    """The type of an operand whose bits are read; whatever is no whole number is refused."""
    if given == t.VOID:
        return t.INT
    if isinstance(given, t.Integral):
        return given
    raise _not_whole(given)


def _not_whole(given: Type) -> TypeMismatch:
    return TypeMismatch(f"a whole number was expected, not {given}", hint="Convert it with CAST.")


BITS = (
    Function("bitwise_and", _pair, lambda one, other: one & other, "({0} & {1})", python="({0} & {1})", total=True),
    Function("bitwise_or", _pair, lambda one, other: one | other, "({0} | {1})", python="({0} | {1})", total=True),
    Function("bitwise_xor", _pair, lambda one, other: one ^ other, "({0} ^ {1})", python="({0} ^ {1})", total=True),
    Function("bitwise_not", _alone, lambda value: ~value, "(~ {0})", python="(~{0})", total=True),
    Function("shiftleft", _shift, shift_left, "shiftleft({0}, {1})", typed=True, total=True),
    Function("shiftright", _shift, shift_right, "shiftright({0}, {1})", typed=True, total=True),
    Function(
        "shiftrightunsigned", _shift, shift_right_unsigned, "shiftrightunsigned({0}, {1})", typed=True, total=True
    ),
    Function("bit_count", _count_types, bit_count, "bit_count({0})", total=True),
    Function("bit_get", takes(t.BIGINT, t.INT, t.INT, gives=t.TINYINT), bit_get, "bit_get({0}, {1})"),
)
