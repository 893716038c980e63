"""Sums over a range of one variable, instead of loops over its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.compiler.viewlets.auxiliary_views import AuxiliaryViews
from tidemill.compiler.viewlets.plans import TurningPointStep, number, weight
from tidemill.compiler.viewlets.ring_calculus.bindings import BindingPattern, QueryPart
from tidemill.compiler.viewlets.ring_calculus.queries import Lift
from tidemill.compiler.viewlets.ring_calculus.ranges import VariableBound, bound_on, falls, range_of
from tidemill.compiler.viewlets.ring_calculus.running_sums import covers
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
        running = {c: lifts for c in conditions if (lifts := self._running(c))}
        turns = [
            self._turn(lifts, [c for c, read in running.items() if read == lifts])
            for lifts in dict.fromkeys(running.values())
        ]
        found = [self._limit(condition) for condition in conditions if condition not in running]
        found += [None if turn is None else self._beyond(turn) for turn in turns]
        limits = [limit for limit in found if limit is not None]
        ends = range_of(limits) if len(limits) == len(found) else None
        if ends is None:
            return None
        return VariableRange(self.variable, *ends, tuple(conditions), tuple(turn for turn in turns if turn is not None))

    def _beyond(self, turn: TurningPointStep) -> VariableBound:
        return VariableBound(self.variable, turn.after, RangeBound(turn.key, closed=True))

    def _running(self, condition: Scalar) -> tuple[Lift, ...]:
        """The lifts that a condition reads and that sum up keys next to the variable."""
        return tuple(lift for lift in self.pattern.lifts_in(columns_in(condition)) if self.variable in lift.inputs)

    def _limit(self, condition: Scalar) -> VariableBound | None:
        found = bound_on(condition, self.variable)
        if found is None or self._is_unknown(columns_in(found.bound.scalar)):
            return None
        return VariableBound(
            self.variable, found.below, RangeBound(self.resolve(found.bound.scalar), found.bound.closed)
        )

    def _is_unknown(self, names: Set[str]) -> bool:
        """True if ``names`` depend on variables that are not bound yet."""
        return not self.pattern.reached(names).isdisjoint(self.pattern.unknown)

    def _turn(self, lifts: Sequence[Lift], conditions: Sequence[Scalar]) -> TurningPointStep | None:
        """Conditions as one turning point: they must be monotonic in sums over all keys beyond the variable."""
        lift, *others = lifts
        numbers = {number_.name for number_ in lift.numbers}
        condition = conjunction(conditions)
        assert condition is not None
        known = not self._is_unknown(columns_in(condition) - numbers)
        if not (self.turning and known and not others and all(falls(one, numbers) for one in conditions)):
            return None
        if not (self._is_beyond(lift) and (lift.inner or covers(lift, self.part.atoms))):
            return None
        found = self.views.find(lift.query)
        own = f"sums of {found.view.name}"
        columns = (weight(own), *(number(own, value) for value in found.values))
        names = {name.name: column for name, column in zip(lift.numbers, columns, strict=True)}
        lookup = {f.name: self.resolve(key) for f, key in zip(found.keys, lift.lookup, strict=False)}
        in_order = tuple((f.name, lookup[f.name]) for f in found.view.keys if f.name in lookup)
        after = lift.lower is not None
        return TurningPointStep(
            found.view, in_order, found.keys[-1], after, self.resolve(substitute(condition, names)), own
        )

    def _is_beyond(self, lift: Lift) -> bool:
        """True if the lift sums up all keys on one side of the variable, the variable's own value excluded."""
        match lift.bounds:
            case (RangeBound(scalar=Column(name=self.variable), closed=False),):
                return not self._is_unknown({name for key in lift.lookup for name in columns_in(key)})
        return False
