"""Constants as Spark types them: ``1`` is INT, ``1L`` BIGINT, ``1.5`` DECIMAL(2,1), ``1e3`` DOUBLE."""

from __future__ import annotations

import decimal
import math

from sqlglot import exp

from tidemill.algebra.expressions.scalars import Literal
from tidemill.model.errors import ParseError
from tidemill.model.types import BIGINT, DOUBLE, INT, MAX_PRECISION, STRING, Decimal

INT_RANGE = range(-(2**31), 2**31)
BIGINT_RANGE = range(-(2**63), 2**63)


def from_literal(node: exp.Literal, negative: bool = False) -> Literal:
    """The constant that ``node`` spells; a minus sign is part of it, so that ``-2147483648`` is an INT."""
    if node.is_string:
        return Literal(node.this, STRING)
    return from_number(("-" if negative else "") + node.this)


def from_number(text: str) -> Literal:
    """A number by its spelling.

    >>> from_number("0.05")
    Literal(value=Decimal('0.05'), of=Decimal(precision=2, scale=2))
    """
    if "e" in text.lower():
        return _double(text)
    if "." not in text:
        return from_integer(int(text))
    value = decimal.Decimal(text)
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    return Literal(value, _decimal(max(len(digits), scale), scale))


def _double(text: str) -> Literal:
    value = float(text) + 0.0  # the sum is 0.0 where the text says -0.0
    if math.isinf(value):
        raise ParseError(f"{text} is too large for a DOUBLE")
    return Literal(value, DOUBLE)


def from_integer(value: int) -> Literal:
    """INT where it fits, then BIGINT, then a DECIMAL of just enough digits."""
    if value in INT_RANGE:
        return Literal(value, INT)
    if value in BIGINT_RANGE:
        return Literal(value, BIGINT)
    if abs(value) >= 10**MAX_PRECISION:
        raise ParseError(f"a number has at most {MAX_PRECISION} digits")
    return Literal(decimal.Decimal(value), _decimal(len(str(abs(value))), 0))


def _decimal(precision: int, scale: int) -> Decimal:
    if precision > MAX_PRECISION:
        raise ParseError(f"a number has at most {MAX_PRECISION} digits")
    return Decimal(precision, scale)
