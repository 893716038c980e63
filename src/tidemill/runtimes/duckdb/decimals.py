"""Arithmetic on DECIMAL. The types of results are Spark's, and DuckDB's own are cast to them.

Sums and products are exact in both. DuckDB divides in DOUBLE, so quotients are made of whole numbers of 128 bits, which
round half up as Spark does.
"""

from __future__ import annotations

from tidemill.model.types import MAX_PRECISION, Decimal
from tidemill.runtimes.duckdb.sql_text import NotLowered, cast_sql

HUGE_DIGITS = 37
"""Digits of whole numbers that 128 bits hold even when doubled."""


def sum_sql(symbol: str, left: str, right: str, of: Decimal) -> str:
    """``left + right`` or ``left - right``, where the type of the result keeps all digits."""
    return cast_sql(f"({cast_sql(left, of)} {symbol} {cast_sql(right, of)})", of)


def product_sql(left: str, right: str, of: Decimal) -> str:
    """``left * right``, where the type of the result keeps all digits."""
    return cast_sql(f"({left} * {right})", of)


def quotient_sql(left: str, one: Decimal, right: str, other: Decimal, of: Decimal) -> str:
    """``left / right`` of these types, rounded half up to the scale of ``of``; ``right`` must not be zero.

    Spark rounds to 38 places first. With so few digits that is the same as rounding once.
    """
    shift = of.scale - one.scale + other.scale
    if shift < 0 or one.precision + shift > HUGE_DIGITS or of.scale + one.scale + other.precision > HUGE_DIGITS - 1:
        raise NotLowered(f"the quotient of {one} and {other}")
    return divided_sql(f"{unscaled_sql(left, one)} * {10**shift}::HUGEINT", unscaled_sql(right, other), of)


def average_sql(total: str, count: str, argument: Decimal, of: Decimal) -> str:
    """A sum of values of type ``argument``, as a whole number of their last digit, over a count, in AVG's type."""
    shift = of.scale - argument.scale
    if argument.precision + 10 + shift > HUGE_DIGITS:
        raise NotLowered(f"AVG of {argument}")
    return divided_sql(f"({total}) * {10**shift}::HUGEINT", f"CAST({count} AS HUGEINT)", of)


def divided_sql(left: str, right: str, of: Decimal) -> str:
    """A quotient of whole numbers, rounded half up, as so many last digits of ``of``."""
    doubled = f"(2 * abs({left}) + abs({right})) // (2 * abs({right}))"
    sign = f"CASE WHEN (({left}) < 0) <> (({right}) < 0) THEN -1 ELSE 1 END"
    return scaled_sql(f"({doubled}) * ({sign})", of)


def unscaled_sql(text: str, of: Decimal) -> str:
    """A DECIMAL as the whole number of its last digits: 12.34 is 1234."""
    if of.precision + of.scale + 1 > MAX_PRECISION:
        raise NotLowered(f"{of} as a whole number")
    power = cast_sql(str(10**of.scale), Decimal(of.scale + 1, 0))
    return f"CAST({cast_sql(text, of)} * {power} AS HUGEINT)"


def scaled_sql(digits: str, of: Decimal) -> str:
    """A number of units in the last place as a DECIMAL: 1234 is 12.34."""
    if not of.scale:
        return cast_sql(digits, of)
    unit = cast_sql(f"'0.{'1':>0{of.scale}}'", Decimal(of.scale, of.scale))
    return cast_sql(f"{cast_sql(digits, Decimal(of.precision, 0))} * {unit}", of)
