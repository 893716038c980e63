"""The last steps of variances, correlations and regressions: differences of sums in which almost all digits cancel.

For values that are close together and far from zero, the sum of their squares and the square of their sum agree in most
digits. So a product comes with its rounding error, a sum as a double-double, and the difference is taken with about 32
digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from tidemill.algebra.functions.function import Function, always, takes
from tidemill.model import types as t
from tidemill.model.types import Type

SPLITTER = 134217729.0
"""2**27 + 1 splits a double into two halves whose products are exact."""

LARGEST = 1e300
"""Magnitude above which the halves would overflow."""


def product_error(left: float, right: float) -> float:
    """The exact rounding error of ``left * right``; 0 if it is too large to compute.

    >>> product_error(0.1, 0.1) + 0.1 * 0.1 == 0.1 * 0.1, product_error(3.0, 4.0)
    (True, 0.0)
    """
    product = left * right
    if not math.isfinite(product) or abs(left) > LARGEST or abs(right) > LARGEST:
        return 0.0
    one, other = _half(left), _half(right)
    cross = (one * other - product) + one * (right - other) + (left - one) * other
    return cross + (left - one) * (right - other) + 0.0


def _half(value: float) -> float:
    return SPLITTER * value - (SPLITTER * value - value)


def deviation(count: int, *halves: float) -> float:
    """The sum of ``(x - mean of x) * (y - mean of y)`` over ``count`` rows.

    ``halves`` are the sums of x, of y, of their products and of the rounding errors of these, each as a high half and a
    low one. If a sum is NaN or infinite, the result is not a finite number.

    >>> deviation(2, 3.0, 0.0, 3.0, 0.0, 5.0, 0.0, 0.0, 0.0)
    0.5
    """
    if not all(map(math.isfinite, halves)):
        return math.nan
    pairs = zip(halves[::2], halves[1::2], strict=True)
    one, other, products, errors = (Fraction(high) + Fraction(low) for high, low in pairs)
    try:
        return float(products + errors - one * other / count) + 0.0
    except OverflowError:
        return math.nan


def correlation(both: float, one: float, other: float) -> float | None:
    """The deviation of two arguments together, on the scale of those of each; NULL where one does not vary."""
    scale = math.sqrt(one) * math.sqrt(other)
    return both / scale + 0.0 if scale else None


def slope(both: float, alone: float) -> float | None:
    """The slope of the line through pairs, from their deviation and that of x; NULL where x does not vary."""
    return both / alone + 0.0 if alone else None


def intercept(both: float, alone: float, y: float, x: float, count: int) -> float | None:
    """The value of that line at zero, from the sums of y and x besides."""
    steep = slope(both, alone)
    return None if steep is None else y / count - steep * (x / count) + 0.0


def determination(both: float, y: float, x: float) -> float | None:
    """The share of the deviation of y that the line explains: all where y does not vary, NULL where x does not."""
    if not x:
        return None
    return both * both / y / x if y else 1.0


# ---------------------------------------------------------------------------------------------------------- in Spark


def _let(values: Mapping[str, str], body: str, name: str = "v") -> str:
    """``body`` with ``v.name`` for each of ``values``, which are computed once. It has no such form of its own."""
    members = ", ".join(f"'{member}', {text}" for member, text in values.items())
    return f"transform(array(named_struct({members})), {name} -> {body})[0]"


def _with_halves(names: str, body: str) -> str:
    """``body`` with the upper half of each of these values as ``h.name``, and the rest of it as ``r.name``."""
    halves = {name: f"({SPLITTER}D * v.{name} - ({SPLITTER}D * v.{name} - v.{name}))" for name in names}
    rests = {name: f"(v.{name} - h.{name})" for name in names}
    return _let(halves, _let(rests, body, "r"), "h")


def _spelled_error(x: str, y: str) -> str:
    """The rounding error of ``v.x * v.y``."""
    return f"(((h.{x} * h.{y} - v.{x} * v.{y}) + h.{x} * r.{y} + r.{x} * h.{y}) + r.{x} * r.{y})"


def spell_product_error(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    """``product_error`` in Spark SQL."""
    safe = f"abs(v.x * v.y) < double('Infinity') AND abs(v.x) <= {LARGEST}D AND abs(v.y) <= {LARGEST}D"
    error = _with_halves("xy", _spelled_error("x", "y"))
    body = f"CASE WHEN v.x * v.y IS NULL THEN NULL WHEN {safe} THEN {error} ELSE 0D END"
    return _let(dict(zip("xy", arguments, strict=True)), body)


def spell_deviation(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    """``deviation`` in Spark SQL, by way of the mean of x as one double, ``m``, and what is missing from it, ``e``.

    The products less m times the sum of y are a difference of two doubles that nearly agree, so it is exact; all that
    remains is small.
    """
    count, x, *_ = arguments
    names = ("n", "x", "x_low", "y", "y_low", "q", "q_low", "r", "r_low")
    values = dict(zip(names, arguments, strict=True)) | {"n": f"CAST({count} AS DOUBLE)", "m": f"({x} / {count})"}
    missing = f"(((v.x - v.n * v.m) - {_spelled_error('n', 'm')} + v.x_low) / v.n)"
    small = f"v.q_low + v.r + v.r_low - {_spelled_error('m', 'y')} - v.m * v.y_low - {missing} * v.y"
    near = _with_halves("nmy", f"(v.q - v.m * v.y) + ({small})")
    return _let(values, f"CASE WHEN abs(v.q) < double('Infinity') THEN {near} ELSE double('NaN') END")


_CORRELATION = "({0} / nullif(sqrt({1}) * sqrt({2}), 0D))"

_SLOPE = "({0} / nullif({1}, 0D))"

VARIANCE_FUNCTIONS = (
    Function(
        "product_error", takes(t.DOUBLE, t.DOUBLE, gives=t.DOUBLE), product_error, "", spelling=spell_product_error
    ),
    Function("deviation", takes(t.BIGINT, *[t.DOUBLE] * 8, gives=t.DOUBLE), deviation, "", spelling=spell_deviation),
    Function(
        "correlation",
        takes(t.DOUBLE, t.DOUBLE, t.DOUBLE, gives=t.DOUBLE),
        correlation,
        _CORRELATION,
        null_when=always,
    ),
    Function("slope", takes(t.DOUBLE, t.DOUBLE, gives=t.DOUBLE), slope, _SLOPE, null_when=always),
    Function(
        "intercept",
        takes(t.DOUBLE, t.DOUBLE, t.DOUBLE, t.DOUBLE, t.BIGINT, gives=t.DOUBLE),
        intercept,
        f"({{2}} / {{4}} - {_SLOPE} * ({{3}} / {{4}}))",
        null_when=always,
    ),
    Function(
        "determination",
        takes(t.DOUBLE, t.DOUBLE, t.DOUBLE, gives=t.DOUBLE),
        determination,
        "CASE WHEN {1} = 0D AND {2} <> 0D THEN 1D ELSE {0} * {0} / nullif({1}, 0D) / nullif({2}, 0D) END",
        null_when=always,
    ),
)
