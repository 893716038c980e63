"""Constant folding: expressions whose value follows from the nullability of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Call, Case, Column, Literal, Scalar, is_nullable
from tidemill.algebra.relational.walk import transform
from tidemill.compiler.analysis.failures import may_fail
from tidemill.model.types import BOOLEAN

STRICT_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
"""Comparisons that are NULL if one side is."""


def fold_constants(scalar: Scalar) -> Scalar:
    """``scalar`` without tests for NULL, and conditions over them, that have the same value for every row.

    Substitution introduces such tests: COUNT of a column tests it for NULL, even if it is never NULL, and a join on a
    column of an outer join compares the NULLs of a row without a partner.

    >>> from tidemill.algebra.text import text_of
    >>> from tidemill.model.types import INT
    >>> known = Call("is_not_null", (Column("o.n", INT, nullable=False),), BOOLEAN)
    >>> text_of(fold_constants(Case(((known, Literal(1, INT)),), Literal(0, INT), INT)))
    '1'
    """
    return transform(scalar, _folded)


def _folded(scalar: Scalar) -> Scalar:
    match scalar:
        case Call("is_null" | "is_not_null" as test, (Literal(value=value),)):
            return Literal((value is None) == (test == "is_null"), BOOLEAN)
        case Call("is_null" | "is_not_null" as test, (Column() as column,)) if not is_nullable(column):
            return Literal(test == "is_not_null", BOOLEAN)
        case Call(function=name, arguments=arguments) if name in STRICT_COMPARISONS and _has_null(arguments):
            return scalar if any(map(may_fail, arguments)) else Literal(None, BOOLEAN)
        case Call("and" | "or" as name, arguments):
            return _connected(scalar, Literal(name == "or", BOOLEAN), arguments)
        case Call("not", (Literal(value=bool() as value),)):
            return Literal(not value, BOOLEAN)
        case Case(branches=branches, default=default):
            possible = tuple((when, then) for when, then in branches if when != Literal(False, BOOLEAN))
            if possible and possible[0][0] == Literal(True, BOOLEAN):
                return possible[0][1]
            return Case(possible, default, scalar.of) if possible else default
    return scalar


def _has_null(arguments: Sequence[Scalar]) -> bool:
    return any(isinstance(argument, Literal) and argument.value is None for argument in arguments)


def _connected(scalar: Call, decisive: Literal, arguments: Sequence[Scalar]) -> Scalar:
    """AND and OR with constants: the ``decisive`` one is the result, the other is dropped."""
    if decisive in arguments:
        return decisive
    open_ = [argument for argument in arguments if argument != Literal(not decisive.value, BOOLEAN)]
    if not open_:
        return Literal(not decisive.value, BOOLEAN)
    return open_[0] if len(open_) == 1 else replace(scalar, arguments=tuple(open_))
