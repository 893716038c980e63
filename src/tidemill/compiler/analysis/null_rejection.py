"""Conditions that reject a row for which a subquery finds nothing."""

from __future__ import annotations

from collections.abc import Collection

from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar
from tidemill.algebra.functions.registry import FUNCTIONS


def is_strict_in(scalar: Scalar, part: Scalar) -> bool:
    """True if ``scalar`` is NULL wherever ``part`` of it is. Errs towards no.

    >>> from tidemill.algebra.expressions.call import call
    >>> from tidemill.model.types import INT
    >>> a, b = Column("a", INT), Column("b", INT)
    >>> is_strict_in(call("lt", a, call("add", b, Literal(1, INT))), b), is_strict_in(call("coalesce", a, b), b)
    (True, False)
    """
    if scalar == part:
        return True
    match scalar:
        case Cast(input=input_):
            return is_strict_in(input_, part)
        case Call(function=function, arguments=arguments):
            return FUNCTIONS[function].strict and any(is_strict_in(argument, part) for argument in arguments)
    return False


def is_null_over_nothing(value: Scalar, sums: Collection[Column]) -> bool:
    """True if ``value`` is NULL where all ``sums``, the columns of SUM and AVG, are. Errs towards no."""
    match value:
        case Literal(value=None):
            return True
        case Case(branches=branches, default=default):
            return all(is_null_over_nothing(result, sums) for result in (*(r for _, r in branches), default))
    return any(is_strict_in(value, column) for column in sums)
