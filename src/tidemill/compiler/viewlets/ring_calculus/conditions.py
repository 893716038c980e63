"""Simplification of conditions on nested aggregates.

SQL wraps an aggregate in CASE and COALESCE, because a sum over nothing is NULL. The numbers of a lift are zero there,
so most of it can be removed: a comparison of sums remains, which becomes a range or a descent.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar
from tidemill.algebra.relational.walk import columns_in, transform, walk
from tidemill.compiler.analysis.failures import may_fail
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BOOLEAN

NEVER = Literal(False, BOOLEAN)

FAILS = object()
"""Stands for the value of an expression that fails."""


def plain(condition: Scalar) -> Scalar:
    """A simpler condition that is true exactly where ``condition`` is.

    It relies on a law of lifts: where the count is zero, so are the sums.
    """
    return settled(_decided(_without_null(transform(condition, _without_coalesce))))


def _without_coalesce(node: Scalar) -> Scalar:
    """``COALESCE(CASE WHEN count = 0 THEN NULL ELSE sum END, 0)`` is the sum, which is 0 over nothing."""
    match node:
        case Call(function="coalesce", arguments=(Case() as sum_, Literal(value=otherwise))):
            value = _known_part(sum_)
            if value is not None and _at_zero(value) == otherwise:
                return value
    return node


def _without_null(condition: Scalar) -> Scalar:
    """A comparison that says of a sum of 0 what it says of a sum over no rows needs no test for the latter."""
    simpler = transform(condition, lambda node: (_known_part(node) or node) if isinstance(node, Case) else node)
    alone = isinstance(condition, Call) and condition.function in ("lt", "le", "gt", "ge", "eq")
    if simpler == condition or not alone or not _of_one_lift(simpler):
        return condition
    of_zero, of_nothing = _at_zero(simpler), _at_zero(condition)
    return simpler if FAILS not in (of_zero, of_nothing) and (of_zero is True) == (of_nothing is True) else condition


def _known_part(node: Case) -> Scalar | None:
    """The sum in ``CASE WHEN count = 0 THEN NULL ELSE sum END``, where both are numbers of one lift."""
    match node:
        case Case(branches=((Call(function="eq", arguments=(count, Literal(value=0))), Literal(value=None)),)) if (
            _of_one_lift(node) and columns_in(count)
        ):
            return node.default
    return None


def _of_one_lift(scalar: Scalar) -> bool:
    return len({name.rpartition(".")[0] for name in columns_in(scalar)}) == 1


def _at_zero(scalar: Scalar) -> object:
    """Value of ``scalar`` where all that it reads is zero; ``FAILS`` if it has none, as an average has."""
    zeros = {n.name: Decimal(0) if isinstance(n.of, t.Decimal) else 0 for n in walk(scalar) if isinstance(n, Column)}
    try:
        return evaluate_scalar(scalar, zeros)
    except (ArithmeticFault, ZeroDivisionError):
        return FAILS


def _decided(condition: Scalar) -> Scalar:
    """``1 <= CASE WHEN c THEN 1 ELSE 0 END`` is ``c``."""
    for guard in _guards(condition):
        yes, no = (_constant(_assuming(condition, guard, holds)) for holds in (True, False))
        if yes is True and (no is False or no is None):
            return guard
    return condition


def _guards(condition: Scalar) -> Iterator[Scalar]:
    for node in walk(condition):
        if isinstance(node, Case) and not any(isinstance(below, Case) for below in walk(node.branches[0][0])):
            yield node.branches[0][0]


def _assuming(scalar: Scalar, guard: Scalar, holds: bool) -> Scalar:
    def chosen(node: Scalar) -> Scalar:
        match node:
            case Case(branches=((condition, value),), default=default) if condition == guard:
                return value if holds else default
        return node

    return transform(scalar, chosen)


def _constant(scalar: Scalar) -> object:
    """The value of an expression that reads nothing; of any other, itself."""
    try:
        return scalar if columns_in(scalar) else evaluate_scalar(scalar, {})
    except ArithmeticFault:
        return scalar


def is_fragile(scalar: Scalar) -> bool:
    """True if ``scalar`` can fail, and so must not be computed for rows for which SQL would not compute it.

    An overflow of a nested sum does not count, since it does not depend on the row that reads it.
    """

    def unchecked(node: Scalar) -> Scalar:
        match node:
            case Call(function="bigint_checked", arguments=(sum_,)):
                return sum_
            case Cast(input=input_, of=t.Decimal() as of) if input_.type == t.Decimal(t.MAX_PRECISION, of.scale):
                return Column("sum", of)
        return node

    return may_fail(transform(scalar, unchecked))


def settled(condition: Scalar) -> Scalar:
    """A comparison of an expression with itself as false, or as a test for NULL; other conditions as they are."""
    match condition:
        case Call(function="lt" | "gt" | "ne", arguments=(left, right)) if left == right:
            return NEVER
        case Call(function="eq" | "le" | "ge", arguments=(left, right)) if left == right:
            return Call("is_not_null", (left,), BOOLEAN)
    return condition
