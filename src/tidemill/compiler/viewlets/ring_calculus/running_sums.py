"""Conditions on running sums in the one form that a descent can answer.

A *running sum* is a nested aggregate over all keys on one side of a variable. Without its own key, and with amounts
that are not negative, it only shrinks from key to key, so a condition that falls as it grows turns once. Other
conditions are rewritten into such ones:

- ``SUM`` is NULL over nothing: a comparison with it also asks for a count above zero.
- A sum with the variable's own key is the total less the sum on the other side: ``sum(<= x) = total - sum(> x)``.
- A condition that rises with the sum is everything less its opposite: ``[K < s] = [K is known] - [K >= s]``.
- A descent finds keys of the sum. Values beyond the last of them have the total: see ``RunningSum.reaching``.

Each rewritten query is counted with a sign; their sum is the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar, is_nullable
from tidemill.algebra.relational.walk import children, columns_in, substitute, with_children
from tidemill.compiler.analysis.ring import ZERO, plus, times
from tidemill.compiler.viewlets.ring_calculus.queries import Atom, CalculusQuery, Lift
from tidemill.compiler.viewlets.ring_calculus.ranges import falls
from tidemill.model.types import BIGINT
from tidemill.program.statements import RangeBound

OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

STRICT = frozenset((*OPPOSITE, "add", "subtract", "multiply", "negate", "bigint_checked", "ring_sum", "ring_product"))
"""Functions that are NULL where an argument is."""

SignedQuery = tuple[CalculusQuery, int]

SignedConditions = tuple[tuple[Scalar, ...], int]


def falling(query: CalculusQuery) -> list[SignedQuery] | None:
    """Queries, with signs, whose sum is ``query`` and whose conditions on running sums fall as these grow.

    None if there is no such condition, or one that cannot be rewritten.
    """
    running = {lift.alias: RunningSum.of(lift, query) for lift in query.lifts if _is_running(lift)}
    sums = [one for one in running.values() if one is not None]
    if not sums or len(sums) < len(running):
        return None
    found: list[SignedConditions] = [((), 1)]
    for condition in query.conditions:
        terms = _terms(condition, sums)
        if terms is None:
            return None
        found = _product(found, terms)
    for one in sums:
        found = [signed for conditions in found for signed in one.reaching(conditions)]
    rest = [lift for lift in query.lifts if lift.alias not in running]
    lifts = (*rest, *(lift for one in sums for lift in (one.beyond, one.total)))
    return [(replace(query, conditions=conditions, lifts=lifts), sign) for conditions, sign in found]


def _is_running(lift: Lift) -> bool:
    """True if a lift sums up all keys on one side of a variable."""
    match lift.bounds:
        case (RangeBound(scalar=Column()),):
            return True
    return False


def _product(one: Sequence[SignedConditions], other: Sequence[SignedConditions]) -> list[SignedConditions]:
    return [((*left, *right), sign * own) for left, sign in one for right, own in other]


@dataclass(frozen=True, slots=True)
class RunningSum:
    """A running sum without the variable's own key, the sum of all keys, and the numbers of the ``lift`` in both.

    ``covered``: every value of the variable is a key of the lift.
    """

    lift: Lift
    beyond: Lift
    total: Lift
    covered: bool

    @classmethod
    def of(cls, lift: Lift, query: CalculusQuery) -> RunningSum | None:
        """The running sum of a lift; None if NULLs or types stand in the way."""
        (bound,), key = lift.bounds, lift.query.keys[-1]
        assert isinstance(bound.scalar, Column)
        column, covered = bound.scalar, covers(lift, query.state)
        bindings = [atom.column(column.name) for atom in query.state if column.name in atom.variables]
        if is_nullable(key) or key.type != column.type or not any(not f.nullable for f in bindings):
            return None
        end, after = RangeBound(column, closed=False), (lift.lower is not None) is not bound.closed
        lower, upper = (end, None) if after else (None, end)
        beyond = Lift(f"{lift.alias}, beyond", lift.query, lift.lookup, lower, upper, inner=not covered)
        all_ = Lift(f"{lift.alias}, all", replace(lift.query, keys=lift.query.keys[:-1]), lift.lookup)
        return cls(lift, beyond, all_, covered)

    @property
    def values(self) -> dict[str, Scalar]:
        """The numbers of the lift: ``sum(<= x) = total - sum(> x)``."""
        if not self.lift.bounds[0].closed:
            return {n.name: part for n, part in zip(self.lift.numbers, self.beyond.numbers, strict=True)}
        numbers = zip(self.lift.numbers, self.total.numbers, self.beyond.numbers, strict=True)
        return {n.name: plus(whole, times(Literal(-1, BIGINT), part)) for n, whole, part in numbers}

    def reaching(self, signed: SignedConditions) -> list[SignedConditions]:
        """Conditions that a descent to a key of the lift answers, for values of the variable that need not be keys.

        Beyond the last key the sum is the total, so if the conditions hold of that they hold of all sums:
        ``[C] = [C of the total] + [C from a key on] - [both]``.
        """
        conditions, sign = signed
        own = {number.name for number in self.beyond.numbers}
        from_key = tuple(c for c in conditions if columns_in(c) & own)
        if self.covered or not from_key:
            return [signed]
        rest = tuple(c for c in conditions if c not in from_key)
        whole = {part.name: all_ for part, all_ in zip(self.beyond.numbers, self.total.numbers, strict=True)}
        of_total = tuple(substitute(c, whole) for c in from_key)
        choices = ((of_total, 1), (from_key, 1), ((*of_total, *from_key), -1))
        return [((*rest, *added), sign * own_sign) for added, own_sign in choices]


def covers(lift: Lift, atoms: Sequence[Atom]) -> bool:
    """True if an atom has just the rows that the lift sums up, so that each value of its variable is a key of it.

    NULL is none, so the column must not be nullable.
    """
    (bound,), (*equal, key) = lift.bounds, lift.query.keys
    if len(lift.query.atoms) > 1 or lift.query.conditions or lift.query.lifts or is_nullable(key):
        return False
    (own,) = lift.query.atoms
    pairs = [*zip(lift.lookup, equal, strict=True), (bound.scalar, key)]
    return any(atom.relation == own.relation and all(_is_same(*pair, atom, own) for pair in pairs) for atom in atoms)


def _is_same(outer: Scalar, inner: Scalar, atom: Atom, own: Atom) -> bool:
    """True if two variables are the same column of their atoms."""
    match outer, inner:
        case Column(name=one), Column(name=other) if one in atom.variables and other in own.variables:
            return atom.column(one) == own.column(other)
    return False


def _terms(condition: Scalar, sums: Sequence[RunningSum]) -> list[SignedConditions] | None:
    """The choices of conditions, with signs, whose sum is ``condition``; None if one would not fall."""
    own = {number.name for one in sums for number in one.lift.numbers}
    if not columns_in(condition) & own:
        return [((condition,), 1)]
    numbers = {number.name for one in sums for number in one.beyond.numbers}
    values = {name: value for one in sums for name, value in one.values.items()}
    counts: list[Scalar] = []
    known = _unwrapped(_without_zero(condition, own), own, counts)
    if known is None:
        return None
    found: list[SignedConditions] = [((), 1)]
    for one in (*dict.fromkeys(call("gt", count, ZERO) for count in counts), known):
        terms = list(_turned(substitute(one, values), numbers))
        if not terms:
            return None
        found = _product(found, terms)
    return found


def _without_zero(condition: Scalar, numbers: set[str]) -> Scalar:
    """A test of a number for zero as a comparison: it is never less, or a guard is broken."""
    match condition:
        case Call(function="eq" | "ne" as name, arguments=(Column() as number, Literal(value=0) as zero)):
            return call("le" if name == "eq" else "gt", number, zero) if number.name in numbers else condition
    return condition


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
            if count.name not in numbers:
                return None
            counts.append(count)
            return _unwrapped(scalar.default, numbers, counts)
        case Cast() | Call():
            if isinstance(scalar, Call) and scalar.function not in STRICT:
                return None
            below = [_unwrapped(child, numbers, counts) for child in children(scalar)]
            return None if None in below else with_children(scalar, [child for child in below if child is not None])
    return None


def _turned(condition: Scalar, numbers: set[str]) -> Iterator[SignedConditions]:
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
