"""DECIMAL by Spark's rules: how wide a result is, and exact arithmetic that rounds half up and refuses overflow.

Python's own decimals are exact once their context is wide enough; ``EXACT`` is. A value of DECIMAL(p, s) always has
exactly s digits after the point, so equal values print alike.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import ROUND_HALF_UP
from functools import lru_cache

from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import MAX_PRECISION, Decimal, Integral, Type

DecimalTypeRule = Callable[[Decimal, Decimal], Decimal]
"""The type of a result, from those of the two operands."""

EXACT = decimal.Context(prec=160, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999)
"""Holds the quotient of any two DECIMALs to 38 places, and every sum and product exactly."""

MINIMUM_SCALE = 6
"""The digits after the point that Spark keeps when a result type would need more than 38 digits."""

_QUOTIENT = decimal.Decimal(1).scaleb(-MAX_PRECISION)


def adjusted(precision: int, scale: int) -> Decimal:
    """DECIMAL(precision, scale), or where that is too wide the type that keeps the whole part and loses scale.

    >>> str(adjusted(40, 10)), str(adjusted(60, 30))
    ('DECIMAL(38,8)', 'DECIMAL(38,8)')
    """
    if precision <= MAX_PRECISION:
        return Decimal(precision, scale)
    whole = precision - scale
    return Decimal(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, MINIMUM_SCALE)))


def bounded(precision: int, scale: int) -> Decimal:
    """DECIMAL(precision, scale) with both cut at 38 digits."""
    return Decimal(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def decimal_for(type_: Type) -> Decimal:
    """The narrowest DECIMAL that holds every value of an integer type; a DECIMAL is itself."""
    match type_:
        case Decimal():
            return type_
        case Integral():
            return Decimal(type_.digits, 0)
    raise ValueError(f"{type_} has no decimal form")


def decimal_for_integer(value: int) -> Decimal:
    """The narrowest DECIMAL that holds ``value``: the type of an integer literal beside a DECIMAL."""
    return Decimal(max(1, len(str(abs(value)))), 0)


def sum_type(left: Decimal, right: Decimal) -> Decimal:
    """The type of ``left + right`` and of ``left - right``."""
    scale = max(left.scale, right.scale)
    return adjusted(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def product_type(left: Decimal, right: Decimal) -> Decimal:
    """The type of ``left * right``."""
    return adjusted(left.precision + right.precision + 1, left.scale + right.scale)


def quotient_type(left: Decimal, right: Decimal) -> Decimal:
    """The type of ``left / right``."""
    scale = max(MINIMUM_SCALE, left.scale + right.precision + 1)
    return adjusted(left.precision - left.scale + right.scale + scale, scale)


def remainder_type(left: Decimal, right: Decimal) -> Decimal:
    """The type of ``left % right``."""
    scale = max(left.scale, right.scale)
    return adjusted(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def wider(left: Decimal, right: Decimal) -> Decimal:
    """The type that holds both, for comparisons and for values side by side. Beyond 38 digits, scale is lost."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale <= MAX_PRECISION:
        return Decimal(whole + scale, scale)
    return Decimal(MAX_PRECISION, max(0, MAX_PRECISION - whole))


def quantized(value: decimal.Decimal, type_: Decimal) -> decimal.Decimal:
    """``value`` rounded half up to the scale of ``type_``; a value with too many digits is an error.

    >>> quantized(decimal.Decimal("2.345"), Decimal(4, 2))
    Decimal('2.35')
    """
    result = fitted(value, type_)
    if result is None:
        raise ArithmeticFault(f"{value} does not fit {type_}", hint="Use a wider DECIMAL, or TRY_CAST to get NULL.")
    return result


def fitted(value: decimal.Decimal, type_: Decimal) -> decimal.Decimal | None:
    """As ``quantized``, but None for a value with too many digits."""
    if value.adjusted() > MAX_PRECISION:
        return None  # and EXACT would be too narrow to round it
    result = EXACT.quantize(value, unit(type_.scale))
    if not result:
        return result.copy_abs()
    return result if result.adjusted() < type_.precision - type_.scale else None


def divided(left: decimal.Decimal, right: decimal.Decimal) -> decimal.Decimal:
    """``left / right`` to 38 places, as Spark computes it before it rounds to the result type."""
    if not right:
        raise division_by_zero()
    return EXACT.quantize(EXACT.divide(left, right), _QUOTIENT)


def division_by_zero() -> ArithmeticFault:
    """The error for a zero divisor."""
    return ArithmeticFault("division by zero", hint="Use TRY_DIVIDE or NULLIF to get NULL instead.")


@lru_cache(maxsize=64)
def unit(scale: int) -> decimal.Decimal:
    """One in the last place: 0.01 for scale 2."""
    return decimal.Decimal(1).scaleb(-scale)
