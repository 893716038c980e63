"""Sums over a range of one variable, instead of loops over its values."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.compiler.viewlets.auxiliary_views import AuxiliaryViews
from tidemill.compiler.viewlets.plans import TurningPointStep, number, weight
from tidemill.compiler.viewlets.ring_calculus.bindings import BindingPattern, QueryPart
from tidemill.compiler.viewlets.ring_calculus.queries import Lift
from tidemill.compiler.viewlets.ring_calculus.ranges import VariableBound, bound_on, falls, range_of
from tidemill.program.statements import RangeBound

Resolve = Callable[[Scalar], Scalar]


@dataclass(frozen=True, slots=True)
class VariableRange:
    """A range of ``variable`` in which all ``conditions`` hold. ``turns`` find its ends."""

    variable: str
    lower: RangeBound | None
    upper: RangeBound | None
    conditions: tuple[Scalar, ...]
    turns: tuple[TurningPointStep, ...]


def find_range(
    part: QueryPart, pattern: BindingPattern, fixed: Set[str], views: AuxiliaryViews, resolve: Resolve, turning: bool
) -> VariableRange | None:
    """The range of the first variable of ``part`` that the statement only compares with known values.

    ``fixed`` are variables whose own values it needs. ``resolve`` turns known variables into columns of steps.
    """
    compared = {name for condition in pattern.pulled for name in pattern.reached(columns_in(condition))}
    for variable in sorted(part.variables & compared - fixed):
        span = _Spanning(variable, part, pattern, views, resolve, turning).span()
        if span is not None:
            return span
    return None


@dataclass(frozen=True, slots=True)
class _Spanning:
    """One variable that may be spanned."""

    variable: str
    part: QueryPart
    pattern: BindingPattern
    views: AuxiliaryViews
    resolve: Resolve
    turning: bool

    def span(self) -> VariableRange | None:
        conditions = [c for c in self.pattern.pulled if self.variable in self.pattern.reached(columns_in(c))]
        limits: list[VariableBound] = []
        turns: list[TurningPointStep] = []
        for condition in conditions:
            found = self._limit(condition, turns)
            if found is None:
                return None
            limits.append(found)
        ends = range_of(limits)
        return None if ends is None else VariableRange(self.variable, *ends, tuple(conditions), tuple(turns))

    def _limit(self, condition: Scalar, turns: list[TurningPointStep]) -> VariableBound | None:
        lifts = [lift for lift in self.pattern.lifts_in(columns_in(condition)) if self.variable in lift.inputs]
        if lifts:
            turn = self._turn(condition, lifts)
            if turn is None:
                return None
            turns.append(turn)
            return VariableBound(self.variable, turn.after, RangeBound(turn.key, closed=True))
        found = bound_on(condition, self.variable)
        if found is None or self._is_unknown(columns_in(found.bound.scalar)):
            return None
        return VariableBound(
            self.variable, found.below, RangeBound(self.resolve(found.bound.scalar), found.bound.closed)
        )

    def _is_unknown(self, names: Set[str]) -> bool:
        """True if ``names`` depend on variables that are not bound yet."""
        return not self.pattern.reached(names).isdisjoint(self.pattern.unknown)

    def _turn(self, condition: Scalar, lifts: list[Lift]) -> TurningPointStep | None:
        """The condition as a turning point: it must be monotonic in sums over all keys beyond the variable."""
        lift, *others = lifts
        numbers = {number_.name for number_ in lift.numbers}
        known = not self._is_unknown(columns_in(condition) - numbers)
        if not (self.turning and known and not others and falls(condition, numbers)):
            return None
        if not (self._is_beyond(lift) and self._covers(lift)):
            return None
        found = self.views.find(lift.query)
        own = f"sums of {found.view.name}"
        columns = (weight(own), *(number(own, value) for value in found.values))
        names = {name.name: column for name, column in zip(lift.numbers, columns, strict=True)}
        return TurningPointStep(
            found.view, found.keys[-1], lift.lower is not None, self.resolve(substitute(condition, names)), own
        )

    def _is_beyond(self, lift: Lift) -> bool:
        """True if the lift sums up all keys on one side of the variable, the variable's own value excluded."""
        match lift.bounds:
            case (RangeBound(scalar=Column(name=self.variable), closed=False),):
                return not lift.lookup
        return False

    def _covers(self, lift: Lift) -> bool:
        """True if every value of the variable is a key of the lift, so that it can be found among these."""
        atom, key = lift.query.atoms[0], lift.query.keys[0]
        if len(lift.query.atoms) > 1 or lift.query.conditions or lift.query.lifts or not isinstance(key, Column):
            return False
        column = atom.column(key.name)
        own = [a for a in self.part.atoms if a.relation == atom.relation and self.variable in a.variables]
        return not column.nullable and any(a.column(self.variable) == column for a in own)
