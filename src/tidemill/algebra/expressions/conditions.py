"""Conditions joined by AND and OR, taken apart and put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tidemill.algebra.expressions.scalars import Call, Literal, Scalar
from tidemill.model.types import BOOLEAN


def conjuncts(scalar: Scalar) -> list[Scalar]:
    """The conditions that AND joins at the top of ``scalar``: all of them are true when it is."""
    match scalar:
        case Call(function="and", arguments=arguments):
            return [part for argument in arguments for part in conjuncts(argument)]
        case Literal(value=True):
            return []
    return [scalar]


def conjunction(conditions: Sequence[Scalar]) -> Scalar | None:
    """All ``conditions`` joined by AND; None for none at all."""
    result: Scalar | None = None
    for condition in conditions:
        result = condition if result is None else Call("and", (result, condition), BOOLEAN)
    return result


def disjunction(conditions: Sequence[Scalar]) -> Scalar:
    """All ``conditions``, at least one, joined by OR."""
    return reduce(lambda left, right: Call("or", (left, right), BOOLEAN), conditions)
