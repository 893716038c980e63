"""Comparisons as ranges of keys, and as turning points of running sums.

``a.price - b.price > 1000`` bounds ``a.price`` below by ``b.price + 1000``: once ``b`` is known, the rows that join
with it are a range of an ordered map, whose sum takes O(log n) steps. And a condition that compares a sum over the keys
beyond ``x`` with a number changes from false to true once as ``x`` grows, because such sums only shrink: the key is
found by one descent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce

from tidemill.algebra.expressions.scalars import Call, Cast, Column, Literal, Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.analysis.failures import is_exact
from tidemill.compiler.analysis.ring import ZERO, is_ring, plus, times
from tidemill.model import types as t
from tidemill.model.types import BIGINT
from tidemill.program.statements import RangeBound

ORDERED = (t.Integral, t.Decimal, t.Date, t.Time, t.Timestamp)
"""Types whose order every runtime has in its ordered maps."""

INTEGER_BOUNDS = {"gt": "integer_above", "ge": "integer_from", "lt": "integer_below", "le": "integer_to"}
"""The first or last integer that compares so with a DOUBLE."""

FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True, slots=True)
class VariableBound:
    """A lower or an upper bound on one variable, from a comparison."""

    variable: str
    below: bool
    bound: RangeBound


LinearForm = dict[Scalar, int]
"""A linear form: expressions with whole coefficients."""


def bound_on(condition: Scalar, variable: str) -> VariableBound | None:
    """``condition`` as a bound on ``variable``; None if it is none.

    >>> from tidemill.algebra.expressions.call import call
    >>> from tidemill.algebra.text import text_of
    >>> a, b = Column("a", BIGINT), Column("b", BIGINT)
    >>> found = bound_on(call("gt", call("subtract", a, b), Literal(1000, BIGINT)), "a")
    >>> found.below, text_of(found.bound.scalar)
    (True, 'b + 1000')
    """
    match condition:
        case Call(function="lt" | "le" | "gt" | "ge" as name, arguments=(left, right)):
            return _plain(name, left, right, variable) or _moved(name, left, right, variable)
    return None


def _plain(name: str, left: Scalar, right: Scalar, variable: str) -> VariableBound | None:
    """The variable stands alone on one side."""
    for function, side, other in ((name, left, right), (FLIPPED[name], right, left)):
        match side:
            case Cast(input=Column(of=t.Integral()) as column, of=t.Double()):
                if column.name == variable and variable not in columns_in(other):
                    whole = Call(INTEGER_BOUNDS[function], (other,), BIGINT)
                    return VariableBound(variable, function in ("gt", "ge"), RangeBound(whole, closed=True))
        found = _bare(side)
        if isinstance(found, Column) and found.name == variable and variable not in columns_in(other):
            bound = _bare(other) if is_ring(found.type) else other
            return _limit(function, found, bound) if isinstance(found.of, ORDERED) else None
    return None


def _moved(name: str, left: Scalar, right: Scalar, variable: str) -> VariableBound | None:
    """The variable stands in a sum: all else is moved to the other side."""
    if not (is_ring(left.type) and is_ring(right.type)):
        return None
    form = _difference(_linear(left), _linear(right))
    own = [(unit, factor) for unit, factor in form.items() if variable in columns_in(unit)]
    match own:
        case [(Column() as column, 1 | -1 as sign)]:
            rest = [times(Literal(-sign * factor, BIGINT), unit) for unit, factor in form.items() if unit != column]
            return _limit(name if sign > 0 else FLIPPED[name], column, reduce(plus, rest, ZERO))
    return None


def _limit(function: str, column: Column, bound: Scalar) -> VariableBound:
    return VariableBound(column.name, function in ("gt", "ge"), RangeBound(bound, closed=function in ("ge", "le")))


def is_empty(one: VariableBound, other: VariableBound) -> bool:
    """True if no value lies within both limits on a variable, whatever their bounds are."""
    if one.below == other.below or not all(is_ring(side.bound.scalar.type) for side in (one, other)):
        return False
    lower, upper = (one, other) if one.below else (other, one)
    form = _difference(_linear(lower.bound.scalar), _linear(upper.bound.scalar))
    gap = Decimal(0)
    for unit, factor in form.items():
        if not isinstance(unit, Literal):
            return False
        gap += Decimal(unit.value) * factor
    return gap > 0 or (gap == 0 and not (lower.bound.closed and upper.bound.closed))


def _linear(scalar: Scalar) -> LinearForm:
    match scalar:
        case Cast(input=input_) if is_exact(scalar):
            return _linear(input_)
        case Call(function="add" | "ring_sum", arguments=(left, right)) if is_ring(scalar.type):
            return _sum(_linear(left), _linear(right))
        case Call(function="subtract", arguments=(left, right)) if is_ring(scalar.type):
            return _difference(_linear(left), _linear(right))
        case Call(function="negate", arguments=(input_,)):
            return _scaled(_linear(input_), -1)
        case Call(function="ring_product", arguments=(Literal(value=int(factor)), other)):
            return _scaled(_linear(other), factor)
    return {scalar: 1}


def _sum(one: LinearForm, other: LinearForm) -> LinearForm:
    result = dict(one)
    for unit, factor in other.items():
        result[unit] = result.get(unit, 0) + factor
    return {unit: factor for unit, factor in result.items() if factor}


def _difference(one: LinearForm, other: LinearForm) -> LinearForm:
    return _sum(one, _scaled(other, -1))


def _scaled(form: LinearForm, factor: int) -> LinearForm:
    return {unit: factor * own for unit, own in form.items()}


def _bare(scalar: Scalar) -> Scalar:
    """``scalar`` without widening casts."""
    while isinstance(scalar, Cast) and is_exact(scalar):
        scalar = scalar.input
    return scalar


# ------------------------------------------------------------------------------------------------------- monotony


def falls(condition: Scalar, numbers: Set[str]) -> bool:
    """True if ``condition`` can only turn from true to false as ``numbers`` grow.

    >>> from tidemill.algebra.expressions.call import call
    >>> n = Column("n", BIGINT)
    >>> falls(call("gt", Literal(9, BIGINT), n), {"n"}), falls(call("gt", n, Literal(9, BIGINT)), {"n"})
    (True, False)
    """
    match condition:
        case Call(function="lt" | "le", arguments=(left, right)):
            return _direction(left, numbers) in (0, 1) and _direction(right, numbers) in (0, -1)
        case Call(function="gt" | "ge", arguments=(left, right)):
            return _direction(left, numbers) in (0, -1) and _direction(right, numbers) in (0, 1)
    return False


def _direction(scalar: Scalar, numbers: Set[str]) -> int | None:
    """1 where ``scalar`` never falls as ``numbers`` grow, -1 where it never rises, 0 where it stays; None: unknown."""
    if not columns_in(scalar) & numbers:
        return 0
    match scalar:
        case Column():
            return 1
        case Cast(input=input_, of=t.Integral() | t.Decimal(), lenient=False) if is_ring(input_.type):
            return _direction(input_, numbers)
        case Call(function="bigint_checked", arguments=(input_,)):
            return _direction(input_, numbers)
        case Call(function="negate", arguments=(input_,)):
            return _turned(_direction(input_, numbers))
        case Call(function="add" | "ring_sum", arguments=(left, right)):
            return _together(_direction(left, numbers), _direction(right, numbers))
        case Call(function="subtract", arguments=(left, right)):
            return _together(_direction(left, numbers), _turned(_direction(right, numbers)))
        case Call(function="multiply" | "ring_product", arguments=(one, other)):
            return _direction_of_product(one, other, numbers)
    return None


def _direction_of_product(one: Scalar, other: Scalar, numbers: Set[str]) -> int | None:
    constant, varying = (one, other) if isinstance(one, Literal) else (other, one)
    if not isinstance(constant, Literal) or constant.value is None:
        return None
    direction = _direction(varying, numbers)
    return direction if constant.value >= 0 else _turned(direction)


def _turned(direction: int | None) -> int | None:
    return None if direction is None else -direction


def _together(one: int | None, other: int | None) -> int | None:
    if one is None or other is None or one * other < 0:
        return None
    return one or other


def range_of(limits: Iterable[VariableBound]) -> tuple[RangeBound | None, RangeBound | None] | None:
    """Limits on one variable as a range, lower end first; None where an end is given twice."""
    ends: Mapping[bool, list[RangeBound]] = {True: [], False: []}
    for one in limits:
        ends[one.below].append(one.bound)
    if any(len(bounds) > 1 for bounds in ends.values()):
        return None
    return tuple(ends[side][0] if ends[side] else None for side in (True, False))  # type: ignore[return-value]
