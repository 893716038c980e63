"""Types whose sums are exact, and the ring's products and sums as expressions.

They are those of ``algebra.functions.ring_arithmetic``: exact, where SQL's own would round or overflow.
"""

from __future__ import annotations

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.model import types as t
from tidemill.model.types import BIGINT, Type

ZERO: Scalar = Literal(0, BIGINT)
ONE: Scalar = Literal(1, BIGINT)


def is_ring(type_: Type) -> bool:
    """True if sums of this type are exact, so that a product of sums is the sum of products."""
    return isinstance(type_, t.Integral | t.Decimal)


def ring_type(type_: Type) -> Type:
    """The type in which numbers of ``type_`` are summed up; a condition is counted."""
    return t.Decimal(t.MAX_PRECISION, type_.scale) if isinstance(type_, t.Decimal) else BIGINT


def times(left: Scalar, right: Scalar) -> Scalar:
    """The exact product."""
    if left == ONE or right == ONE:
        return right if left == ONE else left
    result = call("ring_product", left, right)
    both = isinstance(left, Literal) and isinstance(right, Literal)
    return Literal(evaluate_scalar(result, {}), result.type) if both else result


def plus(left: Scalar, right: Scalar) -> Scalar:
    """The exact sum."""
    if left == ZERO or right == ZERO:
        return right if left == ZERO else left
    return call("ring_sum", left, right)
