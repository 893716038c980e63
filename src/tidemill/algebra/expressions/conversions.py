"""Casts of expressions: those that a user asks for, and those that types make necessary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Cast, Lambda, Literal, Scalar
from tidemill.algebra.values.casts import can_cast, cast_value
from tidemill.algebra.values.decimals import decimal_for_integer
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type


def convert(scalar: Scalar, target: Type) -> Scalar:
    """``scalar`` as a ``target``: itself, a converted literal, or a ``Cast``; for a lambda, its result.

    >>> convert(Literal(1, t.INT), t.BIGINT)
    Literal(value=1, of=BigInt())
    """
    if scalar.type == target:
        return scalar
    if isinstance(scalar, Literal):
        try:
            value = cast_value(scalar.value, scalar.type, target)
        except ArithmeticFault:
            return Cast(scalar, target)  # fails where it is evaluated, which may be nowhere
        return Literal(value, target)
    if isinstance(scalar, Lambda):
        return replace(scalar, body=convert(scalar.body, target))
    return Cast(scalar, target)


def cast(scalar: Scalar, target: Type, lenient: bool = False) -> Scalar:
    """CAST, or TRY_CAST where ``lenient``, as the user asked for it; refused where no such conversion exists."""
    if not can_cast(scalar.type, target):
        raise TypeMismatch(f"{scalar.type} cannot be cast to {target}")
    if isinstance(scalar, Literal) and lenient:
        return Literal(cast_value(scalar.value, scalar.type, target, lenient), target)
    return Cast(scalar, target, lenient) if lenient and scalar.type != target else convert(scalar, target)


def typed(scalar: Scalar) -> Scalar:
    """``scalar`` as a value of a fixed type: a literal then keeps its type whatever its digits are."""
    return replace(scalar, typed=True) if isinstance(scalar, Literal) else scalar


def narrow_literals(arguments: Sequence[Scalar]) -> list[Scalar]:
    """Integer literals beside a DECIMAL as the narrowest DECIMAL that holds them: ``price * 2`` stays narrow.

    ``price * CAST(2 AS INT)`` does not: its type is explicit.
    """
    if not any(isinstance(argument.type, t.Decimal) for argument in arguments):
        return list(arguments)
    return [_narrow(argument) for argument in arguments]


def _narrow(argument: Scalar) -> Scalar:
    match argument:
        case Literal(value=int(value), of=t.Integral(), typed=False):
            return convert(argument, decimal_for_integer(value))
    return argument
