"""Rounding, roots, powers, logarithms, and functions of angles."""

from __future__ import annotations

import decimal
import math
import struct
import sys
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP
from typing import Any

from tidemill.algebra.functions.function import Function, always, takes
from tidemill.algebra.functions.numbers.arithmetic import unary
from tidemill.algebra.values.casts import cast_value, checked
from tidemill.algebra.values.decimals import EXACT, quantized, unit
from tidemill.algebra.values.singles import single
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.model.types import Type

LONGEST_DOUBLE = 325
"""No double has more digits than this before its point, nor after it in its shortest text."""

LARGEST_FACTORIAL = 20
"""Its factorial is the last one that fits a BIGINT."""

ROOMY = decimal.Context(prec=2 * LONGEST_DOUBLE)
"""Holds every double to that many places."""


def _rounded(rounding: str) -> Callable[..., Any]:
    """Rounding to a number of places, in the type of the result."""

    def apply(of: Type, value: Any, places: int) -> Any:
        if isinstance(of, t.Double):
            return _rounded_double(value, places, rounding)
        if isinstance(of, t.Float):
            return single(_rounded_double(value, places, rounding))
        number = decimal.Decimal(value).quantize(unit(places), rounding, EXACT)
        if isinstance(of, t.Decimal):
            return quantized(number, of)
        return checked(of, int(number))

    return apply


def _rounded_double(value: float, places: int, rounding: str) -> float:
    if not math.isfinite(value) or places > LONGEST_DOUBLE:
        return value
    # By way of the shortest text, as Spark does: 1.005 rounds to 1.01 although its binary value is below it.
    return canonical_double(float(decimal.Decimal(repr(value)).quantize(unit(places), rounding, ROOMY)))


def _whole(rounding: str) -> Callable[..., Any]:
    """FLOOR and CEIL to a whole number: BIGINT, or a DECIMAL without fraction."""

    def apply(of: Type, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return cast_value(0.0 if value != value else value, t.DOUBLE, of)
        number = decimal.Decimal(value).to_integral_value(rounding, EXACT)
        return quantized(number, of) if isinstance(of, t.Decimal) else checked(of, int(number))

    return apply


def _whole_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    (type_,), _ = unary(types)
    match type_:
        case t.Decimal(precision, scale):
            return (type_,), t.Decimal(min(precision - scale + 1, t.MAX_PRECISION) if scale else precision, 0)
        case t.Floating():
            return (t.DOUBLE,), t.BIGINT
    return (t.BIGINT,), t.BIGINT


def _real(compute: Callable[..., float]) -> Callable[..., float | None]:
    """A function on doubles: NaN where it is undefined, infinity where it is too large."""

    def apply(*values: float) -> float | None:
        try:
            return canonical_double(compute(*values))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return apply


def _logarithm(compute: Callable[[float], float], least: float = 0.0) -> Callable[[float], float | None]:
    """A logarithm: NULL at and below ``least``, where Spark has NULL too."""

    def apply(value: float) -> float | None:
        return None if value <= least else canonical_double(compute(value))

    return apply


def _log_base(base: float, value: float) -> float | None:
    if base <= 0 or value <= 0:
        return None
    divisor = math.log(base)
    return canonical_double(math.log(value) / divisor) if divisor else math.inf if value > 1 else math.nan


def _power(base: float, exponent: float) -> float:
    try:
        return canonical_double(math.pow(base, exponent))
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def _cube_root(value: float) -> float:
    """The cube root by the steps of Java, which are those of fdlibm: a guess, a cubic fit, and one step of Newton's.

    >>> _cube_root(27.0), _cube_root(-0.001)
    (3.0, -0.1)
    """
    if value == 0 or not math.isfinite(value):
        return value
    x = abs(value)
    scale = 1.0 if x >= sys.float_info.min else 2.0**54
    guess = _high_word(x * scale) // 3 + (715_094_163 if scale == 1.0 else 696_219_795)
    root = _from_high_word(guess)
    fitted = 19 / 35 + root * root / x * root
    root *= 5 / 14 + (45 / 28) / (fitted + 99 / 70 + (-864 / 1225) / fitted)
    root = _from_high_word(_high_word(root) + 1)  # 20 bits, so that its square is exact
    quotient = x / (root * root)
    return math.copysign(root + root * ((quotient - root) / (root + root + quotient)), value)


def _high_word(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0]) >> 32


def _from_high_word(word: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", word << 32))[0])


def _inverse_sinh(value: float) -> float:
    return value if math.isinf(value) else math.asinh(value)


def _inverse_tanh(value: float) -> float:
    if abs(value) == 1:
        return math.copysign(math.inf, value)
    return canonical_double(math.atanh(value)) if abs(value) < 1 else math.nan


def _reciprocal(compute: Callable[[float], float]) -> Callable[[float], float]:
    """One over the value of a function: infinity where that is zero."""

    def apply(value: float) -> float:
        divisor = compute(value)
        return 1.0 / divisor if divisor else math.inf

    return apply


def _odd_overflow(compute: Callable[[float], float]) -> Callable[[float], float]:
    """A function whose values for negative arguments are the negative ones: beyond the range of DOUBLE, too."""

    def apply(value: float) -> float:
        try:
            return canonical_double(compute(value))
        except OverflowError:
            return math.copysign(math.inf, value)

    return apply


def _whole_double(value: float) -> float:
    """RINT: the nearest whole number, the even one of two."""
    return canonical_double(float(round(value))) if math.isfinite(value) else value


def _factorial(value: int) -> int | None:
    """The product of the numbers up to ``value``; NULL where it does not fit a BIGINT."""
    return math.factorial(value) if 0 <= value <= LARGEST_FACTORIAL else None


def _hypotenuse(one: float, other: float) -> float:
    """The hypotenuse by the steps of Java, which are those of fdlibm, so that Spark gives the same last digit."""
    long, short = max(abs(one), abs(other)), min(abs(one), abs(other))
    if math.isinf(one) or math.isinf(other):
        return math.inf
    if not short or math.isnan(one + other) or long / short > 2.0**60:
        return abs(one) + abs(other)
    scale = 2.0**-600 if long > 2.0**500 else 2.0**600 if short < 2.0**-500 else 1.0
    return _near_hypotenuse(long * scale, short * scale) / scale


def _near_hypotenuse(long: float, short: float) -> float:
    rest = long - short
    if rest > short:
        high = _from_high_word(_high_word(long))
        return math.sqrt(high * high - (short * -short - (long - high) * (long + high)))
    double, high_short = long + long, _from_high_word(_high_word(short))
    high = _from_high_word(_high_word(double))
    low = high * (short - high_short) + (double - high) * short
    return math.sqrt(high * high_short - (rest * -rest - low))


def width_bucket(value: float, low: float, high: float, buckets: int) -> int | None:
    """The number of the one of equal ``buckets`` from ``low`` to ``high`` that has ``value``, from 1 on.

    Before the first it is 0, beyond the last one more than there are. NULL for ends that are no range.

    >>> width_bucket(5.3, 0.2, 10.6, 5), width_bucket(-0.9, 5.2, 0.5, 2)
    (3, 3)
    """
    if not 0 < buckets < 2**63 - 1 or math.isnan(value) or low == high or not math.isfinite(low + high):
        return None
    first, last = min(low, high), max(low, high)
    if value < first:
        return 0 if low < high else buckets + 1
    if (value >= last) if low < high else (value > last):
        return buckets + 1 if low < high else 0
    distance = value - first if low < high else last - value
    return int(buckets * distance / (last - first)) + 1


def _sign(value: float) -> float:
    return value if value != value else float((value > 0) - (value < 0))


_DOUBLE = takes(t.DOUBLE, gives=t.DOUBLE)
_DOUBLES = takes(t.DOUBLE, t.DOUBLE, gives=t.DOUBLE)
_PLACES = takes(t.DOUBLE, t.INT, gives=t.DOUBLE)

MATHEMATICS = (
    Function("round", _PLACES, _rounded(ROUND_HALF_UP), "round({0}, {1})", typed=True),
    Function("bround", _PLACES, _rounded(ROUND_HALF_EVEN), "bround({0}, {1})", typed=True),
    Function("floor_places", _PLACES, _rounded(ROUND_FLOOR), "floor({0}, {1})", typed=True),
    Function("ceil_places", _PLACES, _rounded(ROUND_CEILING), "ceil({0}, {1})", typed=True),
    Function("floor_whole", _whole_types, _whole(ROUND_FLOOR), "floor({0})", typed=True),
    Function("ceil_whole", _whole_types, _whole(ROUND_CEILING), "ceil({0})", typed=True),
    Function("sqrt", _DOUBLE, _real(math.sqrt), "sqrt({0})"),
    Function("cbrt", _DOUBLE, _real(_cube_root), "cbrt({0})"),
    Function("exp", _DOUBLE, _real(math.exp), "exp({0})"),
    Function("ln", _DOUBLE, _logarithm(math.log), "ln({0})", null_when=always),
    Function("log10", _DOUBLE, _logarithm(math.log10), "log10({0})", null_when=always),
    Function("log2", _DOUBLE, _logarithm(math.log2), "log2({0})", null_when=always),
    Function("log1p", _DOUBLE, _logarithm(math.log1p, -1.0), "log1p({0})", null_when=always),
    Function("log_base", _DOUBLES, _log_base, "log({0}, {1})", null_when=always),
    Function("power", _DOUBLES, _power, "power({0}, {1})"),
    Function("sign", _DOUBLE, _sign, "sign({0})"),
    Function("sin", _DOUBLE, _real(math.sin), "sin({0})"),
    Function("cos", _DOUBLE, _real(math.cos), "cos({0})"),
    Function("tan", _DOUBLE, _real(math.tan), "tan({0})"),
    Function("asin", _DOUBLE, _real(math.asin), "asin({0})"),
    Function("acos", _DOUBLE, _real(math.acos), "acos({0})"),
    Function("atan", _DOUBLE, _real(math.atan), "atan({0})"),
    Function("atan2", _DOUBLES, _real(math.atan2), "atan2({0}, {1})"),
    Function("cot", _DOUBLE, _real(_reciprocal(math.tan)), "cot({0})"),
    Function("csc", _DOUBLE, _real(_reciprocal(math.sin)), "csc({0})"),
    Function("sec", _DOUBLE, _real(_reciprocal(math.cos)), "sec({0})"),
    Function("sinh", _DOUBLE, _odd_overflow(math.sinh), "sinh({0})"),
    Function("cosh", _DOUBLE, _real(math.cosh), "cosh({0})"),
    Function("tanh", _DOUBLE, _real(math.tanh), "tanh({0})"),
    Function("asinh", _DOUBLE, _real(_inverse_sinh), "asinh({0})"),
    Function("acosh", _DOUBLE, _real(math.acosh), "acosh({0})"),
    Function("atanh", _DOUBLE, _inverse_tanh, "atanh({0})"),
    Function("expm1", _DOUBLE, _real(math.expm1), "expm1({0})"),
    Function("rint", _DOUBLE, _whole_double, "rint({0})"),
    Function("hypot", _DOUBLES, _real(_hypotenuse), "hypot({0}, {1})"),
    Function("factorial", takes(t.INT, gives=t.BIGINT), _factorial, "factorial({0})", null_when=always),
    Function(
        "width_bucket",
        takes(t.DOUBLE, t.DOUBLE, t.DOUBLE, t.BIGINT, gives=t.BIGINT),
        width_bucket,
        "width_bucket({args})",
        null_when=always,
    ),
    Function("pi", takes(gives=t.DOUBLE), lambda: math.pi, "pi()", python=repr(math.pi)),
    Function("e", takes(gives=t.DOUBLE), lambda: math.e, "e()", python=repr(math.e)),
    Function("degrees", _DOUBLE, _real(math.degrees), "degrees({0})"),
    Function("radians", _DOUBLE, _real(math.radians), "radians({0})"),
)
