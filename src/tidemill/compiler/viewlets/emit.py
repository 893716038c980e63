"""From plans to statements: the order of steps, the place of conditions, and amounts as expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from tidemill.algebra.expressions.scalars import Call, Column, Named, Scalar
from tidemill.algebra.relational.walk import walk
from tidemill.compiler.analysis.blocks import indexable
from tidemill.compiler.viewlets.aliases import named, under
from tidemill.compiler.viewlets.plans import (
    EventStep,
    LoopStep,
    ReadStep,
    StatementPlan,
    TurningPointStep,
    ids_in,
    needs,
    scalars,
    weight,
)
from tidemill.compiler.viewlets.plans import PlanStep as Planned
from tidemill.compiler.viewlets.ring_calculus.conditions import is_fragile
from tidemill.compiler.viewlets.ring_calculus.polynomials import UNIT, Polynomial, ProductTerm, as_value, scalar_of
from tidemill.compiler.viewlets.ring_calculus.queries import MARK
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map, RingField
from tidemill.program.statements import MapRead, MapSeek, Query, Range, RelationLoop, Step, Version

CHANGE, FACTOR, SUMS, ENTRY, SLICE, SCAN = range(6)
"""Ranks of steps: selective ones first, those that multiply rows last."""


def query_of(plan: StatementPlan, target: Map, row: str = "") -> Query:
    """The plan as the query of a statement that adds to ``target``; ``row`` is the alias of a changed row, if given."""
    steps = tuple(replace(s, alias=row or s.alias) if isinstance(s, EventStep) else s for s in plan.steps)
    return _QueryBuilder(replace(plan, steps=steps), target).query()


def guards_of(plan: StatementPlan) -> list[tuple[str, str]]:
    """The sums, as map and value, that must not be negative for the plan's turning points to be correct."""
    found = []
    for turn in plan.steps:
        if isinstance(turn, TurningPointStep):
            names = [c.name.rpartition(MARK) for c in walk(turn.condition) if isinstance(c, Column)]
            found += [(turn.view.name, name) for id_, _, name in names if id_ == turn.own and name != WEIGHT]
    return list(dict.fromkeys(found))


@dataclass
class _QueryBuilder:
    """Builds the query of one plan; ``placed`` are the steps ordered so far."""

    plan: StatementPlan
    target: Map
    placed: list[Planned] = field(default_factory=list)
    filters: dict[str, list[Scalar]] = field(default_factory=dict)
    lookups: dict[str, list[tuple[str, Scalar]]] = field(default_factory=dict)

    def query(self) -> Query:
        self._place()
        weight_, values = self._amounts()
        names = [f.name for f in self.target.keys] + [value.name for value in self.target.values]
        outputs = tuple(Named(n, s) for n, s in zip(names, (*self.plan.keys, *values), strict=True))
        query = Query(tuple(map(self._step, self.placed)), outputs, tuple(self.filters.get("", ())), weight_)
        return named(query, self.placed)

    # ------------------------------------------------------------------------------------------------------- order

    def _place(self) -> None:
        """Steps in the order of their rank; each condition at the first step that binds all it reads."""
        left = list(self.plan.steps)
        # Conditions that can fail come last, so that they are evaluated for no row that SQL would not evaluate them
        # for.
        fragile = [condition for condition in self.plan.conditions if is_fragile(condition)]
        waiting = [condition for condition in self.plan.conditions if condition not in fragile]
        bound: set[str] = set()
        waiting = self._try(waiting, bound, "")
        while left:
            ready = [step for step in left if needs(step) <= bound]
            step = min(ready, key=lambda step: self._rank(step, waiting, bound))
            left.remove(step)
            waiting = self._take_equalities(step, waiting, bound)
            self.placed.append(step)
            bound.add(step.id)
            waiting = self._try(waiting, bound, step.id)
        waiting = self._try(waiting + fragile, bound, self.placed[-1].id if self.placed else "")
        assert not waiting, "some condition could not be placed"

    def _rank(self, step: Planned, waiting: Sequence[Scalar], bound: set[str]) -> tuple[int, int]:
        match step:
            case EventStep():
                return CHANGE, step.number
            case ReadStep() if self._multiplies(step):
                return FACTOR, 0
            case ReadStep() | TurningPointStep():
                return SUMS, 0
            case LoopStep(single=True):
                return ENTRY, 0
            case LoopStep():
                return (SLICE if step.lookup or any(self._equality(c, step, bound) for c in waiting) else SCAN), 0
            case _:
                assert_never(step)

    def _multiplies(self, step: Planned) -> bool:
        """True if a reading multiplies all amounts: where it finds nothing, nothing is added."""
        return isinstance(step, ReadStep) and not step.bounds and step.id in self.plan.factors

    def _try(self, conditions: Sequence[Scalar], bound: set[str], here: str) -> list[Scalar]:
        """Place the conditions that can be evaluated at the step ``here``; the others remain."""
        self.filters.setdefault(here, []).extend(c for c in conditions if ids_in(c) <= bound)
        return [condition for condition in conditions if not ids_in(condition) <= bound]

    def _take_equalities(self, step: Planned, waiting: list[Scalar], bound: set[str]) -> list[Scalar]:
        """Turn equalities on keys of a loop into its lookup."""
        if not isinstance(step, LoopStep):
            return waiting
        taken = {name for name, _ in step.lookup}
        left = []
        for condition in waiting:
            pair = self._equality(condition, step, bound)
            if pair is None or pair[0] in taken:
                left.append(condition)
            else:
                taken.add(pair[0])
                self.lookups.setdefault(step.id, []).append(pair)
        return left

    def _equality(self, condition: Scalar, loop: LoopStep, bound: set[str]) -> tuple[str, Scalar] | None:
        match condition:
            case Call(function="eq", arguments=(left, right)):
                for side, other in ((left, right), (right, left)):
                    known = bool(ids_in(other)) and ids_in(other) <= bound and indexable(other)
                    if known and isinstance(side, Column) and ids_in(side) == {loop.id}:
                        return side.name.rpartition(MARK)[2], other
        return None

    # ------------------------------------------------------------------------------------------------------- steps

    def _step(self, step: Planned) -> Step:
        filters = tuple(self.filters.get(step.id, ()))
        match step:
            case EventStep():
                return RelationLoop(step.relation, step.id, Version.CHANGE, self._fields(step), step.lookup, filters)
            case TurningPointStep():
                condition = under(step.condition, step.own, step.id)
                return MapSeek(
                    step.view.name,
                    step.id,
                    step.lookup,
                    step.column,
                    step.after,
                    self._values(step),
                    condition,
                    filters,
                )
            case ReadStep() if not self._multiplies(step):
                ends = Range(step.ordered, step.lower, step.upper) if step.bounds else None
                return MapRead(step.view.name, step.id, step.lookup, self._values(step), ends, filters)
        pairs = dict([*step.lookup, *self.lookups.get(step.id, ())])
        lookup = tuple((f.name, pairs[f.name]) for f in step.view.keys if f.name in pairs)
        read = self._read(step.id) | pairs.keys()
        columns = tuple(f for f in step.view.keys if f.name in read)
        values, single = self._values(step), isinstance(step, LoopStep) and step.single
        return RelationLoop(step.view.name, step.id, Version.STATE, columns, lookup, filters, values, single=single)

    def _fields(self, event: EventStep) -> tuple[Field, ...]:
        """The columns of a changed row that are read."""
        fields = {name: Field(name, key.type) for name, key in event.lookup}
        for column in self._columns():
            id_, _, name = column.name.rpartition(MARK)
            if id_ == event.id and name != WEIGHT:
                fields[name] = Field(name, column.of, column.nullable)
        return tuple(fields[name] for name in sorted(fields))

    def _values(self, step: LoopStep | ReadStep | TurningPointStep) -> tuple[RingField, ...]:
        own = step.own if isinstance(step, TurningPointStep) else step.id
        return tuple(value for value in step.view.values if value.name in self._read(own))

    def _read(self, id_: str) -> set[str]:
        """The columns of a step that anything reads."""
        return {c.name.rpartition(MARK)[2] for c in self._columns() if c.name.rpartition(MARK)[0] == id_}

    def _columns(self) -> list[Column]:
        plan = self.plan
        amounts = [factor for amount in plan.amounts for term in amount for factor in term.factors]
        steps = [scalar for step in plan.steps for scalar in scalars(step)]
        return [c for s in (*plan.keys, *plan.conditions, *amounts, *steps) for c in walk(s) if isinstance(c, Column)]

    # ----------------------------------------------------------------------------------------------------- amounts

    def _amounts(self) -> tuple[Scalar | None, list[Scalar]]:
        """The weight and the values, without the weights of rows if the query multiplies by these itself."""
        weights = [weight(s.id) for s in self.placed if isinstance(s, EventStep | LoopStep) or self._multiplies(s)]
        amounts, bare = self.plan.amounts, [_divided(amount, weights) for amount in self.plan.amounts]
        rows = [amount for amount in bare if amount is not None and not self._reads_sums(amount)]
        plain = len(rows) == len(amounts) and rows[0] == UNIT
        assert plain or not self.plan.rounds, "a sum of DOUBLEs is computed from rows, not from sums"
        given = rows if plain else amounts
        values = [as_value(a, value.type) for a, value in zip(given[1:], self.target.values, strict=True)]
        return None if plain else scalar_of(amounts[0]), values

    def _reads_sums(self, amount: Polynomial) -> bool:
        """True if an amount reads a number of a map, rather than rows alone."""
        keys = {f"{s.id}{MARK}{f.name}" for s in self.placed if isinstance(s, LoopStep) for f in s.view.keys}
        events = {step.id for step in self.placed if isinstance(step, EventStep)}
        columns = [c for term in amount for factor in term.factors for c in walk(factor) if isinstance(c, Column)]
        rows = [
            c for c in columns if c.name in keys or (ids_in(c) <= events and not c.name.endswith(f"{MARK}{WEIGHT}"))
        ]
        return len(rows) < len(columns)


def _divided(amount: Polynomial, weights: Sequence[Scalar]) -> Polynomial | None:
    """An amount without ``weights`` as factors; None where a term lacks one."""
    terms = []
    for term in amount:
        factors = list(term.factors)
        for factor in weights:
            if factor not in factors:
                return None
            factors.remove(factor)
        terms.append(ProductTerm(term.coefficient, tuple(factors)))
    return tuple(terms)
