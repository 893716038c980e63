"""The arithmetic of sums: exact products and sums of weights and ring values, without SQL's own typing.

A SQL product of two DECIMALs is rounded if it would need more than 38 digits, and one of BIGINTs is limited to 64 bits.
Statements that multiply the sums of one map with those of another can afford neither: a deletion must subtract to the
last digit what the insertion added. So a ring number has a single limit, the widest register that every runtime has: 38
digits as a DECIMAL, 128 bits as a BIGINT. Only output values are checked against their type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, expect_count
from tidemill.algebra.values.decimals import EXACT, quantized
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type

LIMIT = 1 << 127

EXACT_SCALE = 6
"""Spark keeps the scale of a product or sum that outgrows 38 digits up to here; beyond it rounds."""


def ring_product(of: Type, left: Any, right: Any) -> Any:
    """``left * right``.

    >>> ring_product(t.BIGINT, 1 << 62, 1 << 62) == 1 << 124
    True
    """
    return _held(of, EXACT.multiply(left, right) if isinstance(of, t.Decimal) else left * right)


def ring_sum(of: Type, left: Any, right: Any) -> Any:
    """``left + right``."""
    return _held(of, EXACT.add(left, right) if isinstance(of, t.Decimal) else left + right)


def _held(of: Type, value: Any) -> Any:
    if isinstance(of, t.Decimal):
        return quantized(value, of)
    if not -LIMIT <= value < LIMIT:
        raise ArithmeticFault(f"a product or sum within a view leaves 128 bits: {value}")
    return value


def scaled(combine: Callable[[int, int], int]) -> Callable[[Sequence[Type]], tuple[tuple[Type, ...], Type]]:
    """The signature of a ring operation; ``combine`` gives the scale of the result from those of the operands."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 2)
        for type_ in types:
            if not isinstance(type_, t.Integral | t.Decimal):
                raise TypeMismatch(f"an exact number was expected, not {type_}")
        wanted = tuple(type_ if isinstance(type_, t.Decimal) else t.BIGINT for type_ in types)
        if not any(isinstance(type_, t.Decimal) for type_ in types):
            return wanted, t.BIGINT
        scale = combine(scale_of(types[0]), scale_of(types[1]))
        if scale > t.MAX_PRECISION:
            raise TypeMismatch(f"the result would need {scale} digits after the point")
        return wanted, t.Decimal(t.MAX_PRECISION, scale)

    return infer


def scale_of(type_: Type) -> int:
    """Digits of a type after the decimal point."""
    return type_.scale if isinstance(type_, t.Decimal) else 0


def spell_product(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    """The product in Spark SQL, where a BIGINT ring number is a DECIMAL(38,0).

    >>> spell_product(["a", "b"], [t.BIGINT, t.Decimal(38, 2)], t.Decimal(38, 2))
    '(CAST(a AS DECIMAL(38,0)) * CAST(b AS DECIMAL(38,2)))'
    """
    one, other = map(_decimal, types)
    left, right = (f"CAST({text} AS {type_})" for text, type_ in zip(arguments, (one, other), strict=True))
    if one.precision + other.precision + 1 <= t.MAX_PRECISION:
        return f"CAST({left} * {right} AS {_decimal(of)})"
    if one.scale + other.scale <= EXACT_SCALE:
        return f"({left} * {right})"
    return _shifted(f"{_unscaled(left)} * {_unscaled(right)}", scale_of(of))


def spell_sum(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    """The sum in Spark SQL."""
    left, right = (f"CAST({text} AS {_decimal(of)})" for text in arguments)
    if scale_of(of) <= EXACT_SCALE:
        return f"({left} + {right})"
    return _shifted(f"{_unscaled(left)} + {_unscaled(right)}", scale_of(of))


def _decimal(type_: Type) -> t.Decimal:
    return type_ if isinstance(type_, t.Decimal) else t.Decimal(t.MAX_PRECISION, 0)


def _unscaled(text: str) -> str:
    """The digits of a DECIMAL as a whole number: 1.50 is 150. Spark has arithmetic for that only where it rounds."""
    return f"CAST(replace(CAST({text} AS STRING), '.', '') AS DECIMAL(38,0))"


def _shifted(text: str, scale: int) -> str:
    """A whole number with its last ``scale`` digits behind the point."""
    return f"CAST(concat(CAST({text} AS STRING), 'E-{scale}') AS DECIMAL(38,{scale}))"


RING = (
    Function("ring_product", scaled(int.__add__), ring_product, "", typed=True, spelling=spell_product, total=True),
    Function("ring_sum", scaled(max), ring_sum, "", typed=True, spelling=spell_sum, total=True),
)
