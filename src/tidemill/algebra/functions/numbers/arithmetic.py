"""The arithmetic operators, and their TRY_ forms. Integers that overflow and zero divisors are errors (ANSI)."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN
from typing import Any

from tidemill.algebra.functions.function import Function, Inference, always, expect_count
from tidemill.algebra.values import decimals
from tidemill.algebra.values.casts import checked
from tidemill.algebra.values.coercion import beside_string, common_type
from tidemill.algebra.values.decimals import EXACT, quantized
from tidemill.algebra.values.singles import single
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type


def numeric(rule: decimals.DecimalTypeRule, divides: bool = False) -> Inference:
    """The signature of a binary operator: DECIMALs keep their own types and follow ``rule``, other numbers widen.

    With ``divides`` integers become DOUBLE, as ``/`` wants, and so does whatever divides a bare NULL.
    """

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 2)
        left, right = operands(types[0], types[1])
        if divides and isinstance(types[0], t.Void):
            left = right = t.DOUBLE
        common = common_type((left, right))
        if isinstance(common, t.Decimal):
            one, other = decimals.decimal_for(left), decimals.decimal_for(right)
            return (one, other), rule(one, other)
        if divides:
            common = t.DOUBLE
        return (common, common), common

    return infer


def operands(left: Type, right: Type) -> tuple[Type, Type]:
    """The types of two operands as numbers: a STRING or NULL takes after the other one, which must not be a STRING."""
    result = _number_beside(left, right), _number_beside(right, left)
    texts = t.STRING in (left, right) and {left, right} <= {t.STRING, t.VOID}
    if texts or not all(map(t.is_numeric, result)):
        raise TypeMismatch(f"arithmetic on {left} and {right}", hint="Convert them to numbers with CAST.")
    return result


def _number_beside(type_: Type, other: Type) -> Type:
    match type_:
        case t.Void():
            return t.DOUBLE if isinstance(other, t.Void) else other
        case t.String():
            return beside_string(other)
    return type_


def unary(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """One number to a number of the same type."""
    expect_count(types, 1, 1)
    type_ = t.DOUBLE if isinstance(types[0], t.Void | t.String) else types[0]
    if not t.is_numeric(type_):
        raise TypeMismatch(f"a number was expected, not {type_}", hint="Convert it with CAST.")
    return (type_,), type_


def add(of: Type, left: Any, right: Any) -> Any:
    """``left + right``."""
    return _settled(of, EXACT.add(left, right) if isinstance(of, t.Decimal) else left + right)


def subtract(of: Type, left: Any, right: Any) -> Any:
    """``left - right``."""
    return _settled(of, EXACT.subtract(left, right) if isinstance(of, t.Decimal) else left - right)


def multiply(of: Type, left: Any, right: Any) -> Any:
    """``left * right``."""
    return _settled(of, EXACT.multiply(left, right) if isinstance(of, t.Decimal) else left * right)


def divide(of: Type, left: Any, right: Any) -> Any:
    """``left / right``: a DOUBLE or a DECIMAL."""
    if isinstance(of, t.Decimal):
        return quantized(decimals.divided(left, right), of)
    if not right:
        raise decimals.division_by_zero()
    try:
        return canonical_double(left / right)
    except OverflowError:
        return math.copysign(math.inf, left) * math.copysign(1.0, right)


def remainder(of: Type, left: Any, right: Any) -> Any:
    """The remainder of ``left`` divided by ``right``, with the sign of ``left``."""
    if not right:
        raise decimals.division_by_zero()
    if isinstance(of, t.Decimal):
        return quantized(EXACT.remainder(left, right), of)
    if isinstance(of, t.Floating):
        return canonical_double(math.fmod(left, right)) if math.isfinite(left) else math.nan
    result = abs(left) % abs(right)
    return -result if left < 0 else result


def positive_remainder(of: Type, left: Any, right: Any) -> Any:
    """PMOD: the remainder, shifted up by ``right`` where it is negative."""
    result = remainder(of, left, right)
    if not result < 0:
        return result
    return remainder(of, add(of, result, right), right)


def quotient(of: Type, left: Any, right: Any) -> int:
    """DIV: the whole part of the quotient, a BIGINT."""
    if not right:
        raise decimals.division_by_zero()
    if isinstance(left, decimal.Decimal):
        return checked(t.BIGINT, int(EXACT.divide(left, right).to_integral_value(ROUND_DOWN, EXACT)))
    result = abs(left) // abs(right)
    return checked(t.BIGINT, result if (left < 0) == (right < 0) else -result)


def negate(of: Type, value: Any) -> Any:
    """``-value``."""
    return _settled(of, EXACT.minus(value) if isinstance(of, t.Decimal) else -value)


def absolute(of: Type, value: Any) -> Any:
    """ABS."""
    return _settled(of, value.copy_abs() if isinstance(of, t.Decimal) else abs(value))


def average(of: t.Decimal, total: decimal.Decimal, count: int) -> decimal.Decimal:
    """A DECIMAL sum over a count: the last step of AVG, in AVG's own type.

    Spark has no such operator. Its ``/`` keeps enough digits for values of up to 24; of wider ones it drops some.
    """
    return quantized(decimals.divided(total, decimal.Decimal(count)), of)


def mean(total: Any, count: int) -> float:
    """Any other sum over a count: the last step of AVG in DOUBLE."""
    return canonical_double(float(total) / count)


def _settled(of: Type, value: Any) -> Any:
    """A raw result as a value of its type, or the error that it does not fit."""
    match of:
        case t.Float():
            return single(value)
        case t.Double():
            return canonical_double(value)
        case t.Decimal():
            return quantized(value, of)
    return checked(of, value)


def lenient(apply: Callable[..., Any]) -> Callable[..., Any]:
    """``apply`` with NULL in place of an arithmetic error: the TRY_ functions."""

    def tried(of: Type, *arguments: Any) -> Any:
        try:
            return apply(of, *arguments)
        except ArithmeticFault:
            return None

    return tried


def _quotient_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    left, right = operands(types[0], types[1])
    common = t.BIGINT if set(types) == {t.VOID} else common_type((left, right))
    if isinstance(common, t.Floating):
        raise TypeMismatch("DIV divides whole numbers and DECIMALs, not DOUBLEs", hint="Use / and then FLOOR.")
    wide = t.BIGINT if isinstance(common, t.Integral) else common
    return (wide, wide), t.BIGINT


def _average_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    total = types[0]
    if not isinstance(total, t.Decimal):
        raise TypeMismatch(f"a DECIMAL sum was expected, not {total}")
    # The sum of DECIMAL(p, s) is ten digits wider than its values, their average four.
    return (total, t.BIGINT), decimals.bounded(total.precision - 6, total.scale + 4)


def _mean_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    (total,), _ = unary(types[:1])
    return (total, t.BIGINT), t.DOUBLE


_SUM = numeric(decimals.sum_type)
_PRODUCT = numeric(decimals.product_type)
_QUOTIENT = numeric(decimals.quotient_type, divides=True)
_REMAINDER = numeric(decimals.remainder_type)

ARITHMETIC = (
    Function("add", _SUM, add, "({0} + {1})", typed=True, overflows=True),
    Function("subtract", _SUM, subtract, "({0} - {1})", typed=True, overflows=True),
    Function("multiply", _PRODUCT, multiply, "({0} * {1})", typed=True, overflows=True),
    Function("divide", _QUOTIENT, divide, "({0} / {1})", typed=True),
    Function("remainder", _REMAINDER, remainder, "({0} % {1})", typed=True),
    Function("pmod", _REMAINDER, positive_remainder, "pmod({0}, {1})", typed=True),
    Function("div", _quotient_types, quotient, "({0} div {1})", typed=True),
    Function("negate", unary, negate, "(- {0})", typed=True, overflows=True),
    Function("positive", unary, lambda value: value, "(+ {0})", python="{0}"),
    Function("abs", unary, absolute, "abs({0})", typed=True),
    Function("try_add", _SUM, lenient(add), "try_add({0}, {1})", typed=True, null_when=always, total=True),
    Function(
        "try_subtract", _SUM, lenient(subtract), "try_subtract({0}, {1})", typed=True, null_when=always, total=True
    ),
    Function(
        "try_multiply", _PRODUCT, lenient(multiply), "try_multiply({0}, {1})", typed=True, null_when=always, total=True
    ),
    Function(
        "try_divide", _QUOTIENT, lenient(divide), "try_divide({0}, {1})", typed=True, null_when=always, total=True
    ),
    Function("try_mod", _REMAINDER, lenient(remainder), "try_mod({0}, {1})", typed=True, null_when=always, total=True),
    Function("average", _average_types, average, "CAST({0} / CAST({1} AS DECIMAL(20,0)) AS {type})", typed=True),
    Function(
        "try_average",
        _average_types,
        lenient(average),
        "try_cast({0} / CAST({1} AS DECIMAL(20,0)) AS {type})",
        typed=True,
        null_when=always,
        total=True,
    ),
    Function("mean", _mean_types, mean, "(CAST({0} AS DOUBLE) / {1})"),
    Function("bigint_checked", unary, lambda value: checked(t.BIGINT, value), "{0}"),
)
