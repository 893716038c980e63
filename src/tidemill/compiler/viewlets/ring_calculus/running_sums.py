"""Conditions on running sums in the one form that a descent can answer.

A *running sum* is a nested aggregate over all keys on one side of a variable. Without its own key, and with amounts
that are not negative, it only shrinks from key to key, so a condition that falls as it grows turns once. Other
conditions are rewritten into such ones:

- ``SUM`` is NULL over nothing: a comparison with it also asks for a count above zero.
- A sum with the variable's own key is the total less the sum on the other side: ``sum(<= x) = total - sum(> x)``.
- A condition that rises with the sum is everything less its opposite: ``[K < s] = [K is known] - [K >= s]``.

Each rewritten query is counted with a sign; their sum is the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar, is_nullable
from tidemill.algebra.relational.walk import children, columns_in, substitute, with_children
from tidemill.compiler.analysis.ring import ZERO, plus, times
from tidemill.compiler.viewlets.ring_calculus.queries import CalculusQuery, Lift
from tidemill.compiler.viewlets.ring_calculus.ranges import falls
from tidemill.model.types import BIGINT
from tidemill.program.statements import RangeBound

OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

STRICT = frozenset((*OPPOSITE, "add", "subtract", "multiply", "negate", "bigint_checked", "ring_sum", "ring_product"))
"""Functions that are NULL where an argument is."""

SignedQuery = tuple[CalculusQuery, int]


def falling(query: CalculusQuery) -> list[SignedQuery] | None:
    """Queries, with signs, whose sum is ``query`` and whose conditions on running sums fall as these grow.

    None if there is no such condition, or one that cannot be rewritten.
    """
    lifts = [lift for lift in query.lifts if _is_running(lift)]
    if not lifts:
        return None
    opened = [_opened(lift) if lift.bounds[0].closed else (lift,) for lift in lifts]
    values = {n.name: v for lift, new in zip(lifts, opened, strict=True) for n, v in _values(lift, new).items()}
    numbers = {number.name for new in opened for number in new[0].numbers}
    found: list[tuple[tuple[Scalar, ...], int]] = [((), 1)]
    for condition in query.conditions:
        terms = _terms(condition, lifts, values, numbers)
        if terms is None:
            return None
        found = [((*before, *added), sign * own) for before, sign in found for added, own in terms]
    rest = [lift for lift in query.lifts if lift not in lifts]
    return [
        (replace(query, conditions=conditions, lifts=(*rest, *(one for new in opened for one in new))), sign)
        for conditions, sign in found
    ]


def _is_running(lift: Lift) -> bool:
    """True if a lift sums up all keys on one side of a variable."""
    match lift.bounds:
        case (RangeBound(scalar=Column()),):
            return True
    return False


def _opened(lift: Lift) -> tuple[Lift, ...]:
    """The sum on the other side of the variable, without its own key, and the sum of all keys."""
    (bound,) = lift.bounds
    end = RangeBound(bound.scalar, closed=False)
    other = (None, end) if lift.lower is not None else (end, None)
    beyond = Lift(f"{lift.alias}, beyond", lift.query, lift.lookup, *other)
    return beyond, Lift(f"{lift.alias}, all", replace(lift.query, keys=lift.query.keys[:-1]), lift.lookup)


def _values(lift: Lift, opened: Sequence[Lift]) -> dict[Column, Scalar]:
    """The numbers of a lift, in those of the lifts that stand for it."""
    if len(opened) == 1:
        return {number: number for number in lift.numbers}
    beyond, total = opened
    pairs = zip(lift.numbers, total.numbers, beyond.numbers, strict=True)
    return {number: plus(whole, times(Literal(-1, BIGINT), part)) for number, whole, part in pairs}


def _terms(
    condition: Scalar, lifts: Sequence[Lift], values: dict[str, Scalar], numbers: set[str]
) -> list[tuple[tuple[Scalar, ...], int]] | None:
    """The choices of conditions, with signs, whose sum is ``condition``; None if one would not fall."""
    own = {number.name for lift in lifts for number in lift.numbers}
    if not columns_in(condition) & own:
        return [((condition,), 1)]
    counts: list[Scalar] = []
    known = _unwrapped(condition, own, counts)
    if known is None:
        return None
    found: list[tuple[tuple[Scalar, ...], int]] = [((), 1)]
    for one in (*dict.fromkeys(call("gt", count, ZERO) for count in counts), known):
        terms = list(_turned(substitute(one, values), numbers))
        if not terms:
            return None
        found = [((*before, *added), sign * other) for before, sign in found for added, other in terms]
    return found


def _unwrapped(scalar: Scalar, numbers: set[str], counts: list[Scalar]) -> Scalar | None:
    """``scalar`` with the sums in ``CASE WHEN count = 0 THEN NULL ELSE sum END``, whose counts are collected.

    None if something between a comparison and such a sum may be known where the sum is NULL.
    """
    if not columns_in(scalar) & numbers:
        return scalar
    match scalar:
        case Column():
            return scalar
        case Case(
            branches=((Call(function="eq", arguments=(Column() as count, Literal(value=0))), Literal(value=None)),)
        ):
            if scalar.default is None or count.name not in numbers or not isinstance(scalar.default, Scalar):
                return None
            counts.append(count)
            return _unwrapped(scalar.default, numbers, counts)
        case Cast() | Call():
            if isinstance(scalar, Call) and scalar.function not in STRICT:
                return None
            below = [_unwrapped(child, numbers, counts) for child in children(scalar)]
            return None if None in below else with_children(scalar, [child for child in below if child is not None])
    return None


def _turned(condition: Scalar, numbers: set[str]) -> Iterator[tuple[tuple[Scalar, ...], int]]:
    """A comparison that falls, or everything less its opposite if that falls; nothing if neither does."""
    if falls(condition, numbers):
        yield (condition,), 1
        return
    match condition:
        case Call(function=name, arguments=(left, right)) if name in OPPOSITE:
            opposite = call(OPPOSITE[name], left, right)
            given = [side for side in (left, right) if is_nullable(side)]
            if falls(opposite, numbers) and not any(columns_in(side) & numbers for side in given):
                yield tuple(call("is_not_null", side) for side in given), 1
                yield (opposite,), -1
