"""Builds the plan of a product: each part is bound to a map, and all expressions to columns of steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Call, Column, Scalar, is_nullable
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.algebra.text import text_of
from tidemill.compiler.analysis.ring import plus
from tidemill.compiler.viewlets.auxiliary_views import ViewMatch
from tidemill.compiler.viewlets.delta_queries import DeltaQuery
from tidemill.compiler.viewlets.materialize import Materialization
from tidemill.compiler.viewlets.plans import ROW, EventStep, LoopStep, PlanStep, ReadStep, StatementPlan, number, weight
from tidemill.compiler.viewlets.range_sums import VariableRange, find_range
from tidemill.compiler.viewlets.ring_calculus.bindings import BindingPattern, QueryPart
from tidemill.compiler.viewlets.ring_calculus.conditions import NEVER, settled
from tidemill.compiler.viewlets.ring_calculus.polynomials import (
    Polynomial,
    ProductTerm,
    collected,
    number_of,
    substituted,
)
from tidemill.compiler.viewlets.ring_calculus.queries import Atom, Lift, variables
from tidemill.compiler.viewlets.ring_calculus.ranges import bound_on, is_empty
from tidemill.compiler.viewlets.ring_calculus.running_sums import falling
from tidemill.model.types import BOOLEAN
from tidemill.program.maps import RingField
from tidemill.program.statements import RangeBound


@dataclass(frozen=True, slots=True)
class _FactoredTerm:
    """A term of a query: the factors of the statement, and for each part the sum that is read from it."""

    coefficient: int
    factors: tuple[Scalar, ...]
    shares: Mapping[QueryPart, int]


def plans(
    decisions: Materialization, delta: DeltaQuery, relation: str | None, turning: bool = False
) -> Iterator[StatementPlan]:
    """Plans that compute ``delta`` when ``relation`` changes; without a relation, from the state.

    With ``turning`` a condition on a running sum is answered by a descent where it can be.
    """
    for part in _disjoint(delta) if decisions.depth.ranges else (delta,):
        signed = falling(part.query) if turning and decisions.depth.ranges else None
        turned = [replace(part, query=query, sign=sign * part.sign) for query, sign in signed or ()]
        # Tried on a copy: a plan adds the views that it reads to those of the stage.
        tried = replace(decisions, views=decisions.views.copy())
        if turned and all(_descends(PlanBuilder(tried, one, relation, turning).plan()) for one in turned):
            found = [PlanBuilder(decisions, one, relation, turning).plan() for one in turned]
        else:
            found = [PlanBuilder(decisions, part, relation, turning).plan()]
        yield from (plan for plan in found if plan is not None)


def _descends(plan: StatementPlan | None) -> bool:
    """True if a plan visits no single entries of maps; that is so if the product is always zero."""
    return plan is None or not any(isinstance(step, LoopStep) for step in plan.steps)


def _disjoint(delta: DeltaQuery) -> Iterator[DeltaQuery]:
    """``[a OR b] = [a] + [b] - [a AND b]``, wherever that turns a condition into ranges of one variable."""
    for condition in delta.query.conditions:
        choices = _alternatives(condition, delta)
        if choices:
            rest = tuple(other for other in delta.query.conditions if other is not condition)
            for added, sign in choices:
                query = replace(delta.query, conditions=(*rest, *added))
                yield from _disjoint(replace(delta, query=query, sign=sign * delta.sign))
            return
    yield delta


def _alternatives(condition: Scalar, delta: DeltaQuery) -> list[tuple[tuple[Scalar, ...], int]]:
    """The choices of conditions, with signs, whose sum is an OR of two limits on one unknown variable."""
    match condition:
        case Call(function="or", arguments=(one, other)):
            known = variables(delta.query.events) | delta.bound.keys()
            for name in columns_in(condition) - known:
                first, second = bound_on(one, name), bound_on(other, name)
                if first is not None and second is not None and columns_in(condition) <= known | {name}:
                    both = [] if is_empty(first, second) else [((one, other), -1)]
                    return [((one,), 1), ((other,), 1), *both]
    return []


class PlanBuilder:
    """Builds the plan of one product. ``values`` maps each bound variable to a column of a step."""

    def __init__(self, decisions: Materialization, delta: DeltaQuery, relation: str | None, turning: bool) -> None:
        self.decisions, self.delta, self.query, self.turning = decisions, delta, delta.query, turning
        self.steps: list[PlanStep] = []
        self.values: dict[str, Scalar] = dict(delta.bound)
        self.conditions: list[Scalar] = []
        self._bind_events(relation)
        known, apart, depth = self.values.keys(), delta.moves.keys(), decisions.depth
        exposed = decisions.exposed(self.query, known, apart, relation)
        self.pattern = BindingPattern(self.query, known, apart, exposed, bare=depth.base, whole=depth.whole)
        self.numbers: dict[QueryPart, tuple[Column, ...]] = {}
        self.factors: set[str] = set()

    def plan(self) -> StatementPlan | None:
        """The plan; None if the product is always zero."""
        terms = [[self._split(term) for term in polynomial] for polynomial in self.query.terms]
        fixed = self._fixed([factor for products in terms for product in products for factor in product.factors])
        for part in self.pattern.parts:
            self._materialize(part, fixed)
        conditions = _holding([*self.conditions, *map(self._resolved, self.pattern.pulled)])
        if conditions is None:
            return None
        amounts = [self._amount(products) for products in ([_FactoredTerm(1, (), {})], *terms)]
        keys = tuple(map(self._key, self.query.keys))
        return StatementPlan(tuple(self.steps), frozenset(self.factors), keys, tuple(conditions), tuple(amounts))

    # ------------------------------------------------------------------------------------------------------- events

    def _bind_events(self, relation: str | None) -> None:
        for i, atom in enumerate(self.query.events):
            event = EventStep(atom.relation, atom.alias, 0 if self.decisions.row_by_row else i)
            tied = []
            for name, column in zip(atom.variables, atom.columns, strict=True):
                own = event.column(column)
                if name not in self.values:
                    self.values[name] = own
                elif self.decisions.row_by_row:
                    self.conditions.append(call("eq", self.values[name], own))
                else:
                    tied.append((column.name, self.values[name]))
            if event.number == i:
                self.steps.append(replace(event, lookup=tuple(tied)))
        if relation is not None and not self.steps:
            self.steps.append(EventStep(relation, ROW))

    # -------------------------------------------------------------------------------------------------- what is where

    def _split(self, term: ProductTerm) -> _FactoredTerm:
        """A term split into the factors of the statement and the sums of the parts."""
        homes: dict[QueryPart, list[Scalar]] = {}
        rest = []
        for factor in term.factors:
            home = self.pattern.home(factor)
            if home is None:
                rest.append(factor)
            else:
                homes.setdefault(home, []).append(factor)
        shares = {}
        for part, factors in homes.items():
            share: Polynomial = (ProductTerm(1, tuple(sorted(factors, key=text_of))),)
            if share not in part.terms:
                part.terms.append(share)
            shares[part] = part.terms.index(share)
        return _FactoredTerm(term.coefficient, tuple(rest), shares)

    def _fixed(self, factors: Sequence[Scalar]) -> set[str]:
        """The unknown variables whose own values the statement needs: for factors and for keys."""
        read = {name for factor in factors for name in columns_in(factor)}
        for key in self.query.keys:
            home = self.pattern.home(key)
            if home is None or isinstance(key, Column):
                read |= columns_in(key)
            elif key not in home.keys:
                home.keys.append(key)
        return self.pattern.reached(read) | self.pattern.joins()

    def _needed(self, part: QueryPart, fixed: set[str], conditions: Sequence[Scalar]) -> list[str]:
        """The variables of a part that the statement reads and that no step has bound yet."""
        read = {name for condition in conditions for name in columns_in(condition)}
        return sorted((fixed | self.pattern.reached(read)) & part.variables - self.values.keys())

    # -------------------------------------------------------------------------------------------------------- parts

    def _materialize(self, part: QueryPart, fixed: set[str]) -> None:
        """Bind the keys and numbers of a part: by a sum over a range, by a loop, or by one lookup."""
        known = sorted(part.variables & self.values.keys())
        span = self._span(part, known, fixed)
        if span is not None:
            self.pattern.pulled = [c for c in self.pattern.pulled if c not in span.conditions]
        free = self._needed(part, fixed, self.pattern.pulled)
        keys = [*part.columns([*known, *free]), *part.keys]
        if span is not None:
            self._sum(part, keys, len(known), span)
        elif len(keys) > len(known):
            self._loop(part, keys, len(known))
        else:
            self._read(part, keys)

    def _span(self, part: QueryPart, known: Sequence[str], fixed: set[str]) -> VariableRange | None:
        """A range that replaces a scan, or a lookup that may find many entries; None if there is none."""
        looped = part in self.pattern.parts[: len(self.pattern.exposed)]
        if looped or not self.decisions.depth.ranges:
            return None
        span = find_range(part, self.pattern, fixed, self.decisions.views, self._resolved, self.turning)
        if span is None:
            return None
        left = [condition for condition in self.pattern.pulled if condition not in span.conditions]
        free = self._needed(part, fixed, left)
        groups = [*part.columns(free), *part.keys]
        # Groups are looped over, with a range in each, which pays if they are few. A NULL cannot be looked up.
        scattered = groups and (known or not self.decisions.grouped or any(map(is_nullable, groups)))
        return None if scattered or self._is_single(part, [*known, *free]) else span

    def _is_single(self, part: QueryPart, known: Sequence[str]) -> bool:
        """True if ``known`` determine one row: they have the key of an atom, and its row those of the others."""
        reached, left = set(known), list(part.atoms)
        while found := [atom for atom in left if self._has_key(atom, reached)]:
            reached |= variables(found)
            left = [atom for atom in left if atom not in found]
        return not left

    def _has_key(self, atom: Atom, known: Set[str]) -> bool:
        key = self.decisions.keys.get(atom.relation)
        found = {f.name for name, f in zip(atom.variables, atom.columns, strict=True) if name in known}
        return key is not None and key <= found

    def _sum(self, part: QueryPart, keys: Sequence[Scalar], known: int, span: VariableRange) -> None:
        """The part summed over a range; keys that are not known are looped over first, by a map of their own."""
        if len(keys) > known:
            self._add_loop(self.decisions.views.find(part.domain(keys)), keys, known)
        found = self.decisions.views.find(part.query([*keys, *part.columns([span.variable])]))
        self.steps += [turn for turn in span.turns if turn not in self.steps]
        reading = ReadStep(found.view, self._lookup(found, keys), found.keys[-1].name, span.lower, span.upper)
        self._add_reading(part, reading, found.values)

    def _loop(self, part: QueryPart, keys: Sequence[Scalar], known: int) -> None:
        found = self.decisions.views.find(part.query(keys))
        single = self._is_single(part, [key.name for key in keys[:known] if isinstance(key, Column)])
        loop = self._add_loop(found, keys, known, single)
        self.numbers[part] = _numbers(loop.id, found.values)

    def _read(self, part: QueryPart, keys: Sequence[Scalar]) -> None:
        found = self.decisions.views.find(part.query(keys))
        self._add_reading(part, ReadStep(found.view, self._lookup(found, keys)), found.values)

    def _add_loop(self, found: ViewMatch, keys: Sequence[Scalar], known: int, single: bool = False) -> LoopStep:
        """A loop over a map, which binds the keys that are not known."""
        loop = LoopStep(found.view, self._lookup(found, keys[:known]), single=single)
        while loop in self.steps:
            loop = replace(loop, number=loop.number + 1)
        self.steps.append(loop)
        for key, f in list(zip(keys, found.keys, strict=True))[known:]:
            self.values[key.name if isinstance(key, Column) else text_of(key)] = loop.key(f)
        return loop

    def _add_reading(self, part: QueryPart, reading: ReadStep, values: Sequence[RingField]) -> None:
        while reading in self.steps and not self.decisions.row_by_row:
            reading = replace(reading, number=reading.number + 1)
        self.numbers[part] = _numbers(reading.id, values)
        self.factors.add(reading.id)
        if reading not in self.steps:
            self.steps.append(reading)

    def _lookup(self, found: ViewMatch, keys: Sequence[Scalar]) -> tuple[tuple[str, Scalar], ...]:
        """The values of keys, in the order of the map, so that all lookups by the same keys share one index."""
        values = {f.name: self._key(key) for f, key in zip(found.keys, keys, strict=False)}
        return tuple((f.name, values[f.name]) for f in found.view.keys if f.name in values)

    def _key(self, key: Scalar) -> Scalar:
        """A key of the query: bound by a loop, or computed from known variables."""
        return self.values.get(text_of(key)) or self._resolved(key)

    # -------------------------------------------------------------------------------------------------- expressions

    def _resolved(self, scalar: Scalar) -> Scalar:
        """``scalar`` over columns of steps. A step for a lift is added when its numbers are first read."""
        for lift in self.pattern.lifts_in(columns_in(scalar)):
            if lift.numbers[0].name not in self.values:
                self._read_lift(lift)
        return substitute(scalar, self.values)

    def _read_lift(self, lift: Lift) -> None:
        found = self.decisions.views.find(lift.query)
        lookup = {f.name: self._resolved(key) for f, key in zip(found.keys, lift.lookup, strict=False)}
        in_order = tuple((f.name, lookup[f.name]) for f in found.view.keys if f.name in lookup)
        ordered = found.keys[-1].name if lift.ranged else ""
        reading = ReadStep(found.view, in_order, ordered, self._bound(lift.lower), self._bound(lift.upper))
        if reading not in self.steps:
            self.steps.append(reading)
        moves = self.delta.moves.get(lift.alias, ())
        for i, (own, column) in enumerate(zip(lift.numbers, _numbers(reading.id, found.values), strict=True)):
            self.values[own.name] = plus(column, number_of(self._settled(moves[i]))) if moves else column

    def _bound(self, bound: RangeBound | None) -> RangeBound | None:
        return None if bound is None else RangeBound(self._resolved(bound.scalar), bound.closed)

    def _amount(self, products: Sequence[_FactoredTerm]) -> Polynomial:
        """A term of the query over columns of steps: the weights of events, the numbers of parts, and the rest."""
        weights = [step.id for step in self.steps if isinstance(step, EventStep)]
        events = [weight(weights[0 if self.decisions.row_by_row else i]) for i in range(len(self.query.events))]
        terms = []
        for product in products:
            sums = [self.numbers[part][product.shares.get(part, -1) + 1] for part in self.pattern.parts]
            rest = map(self._resolved, product.factors)
            terms.append(ProductTerm(product.coefficient * self.delta.sign, (*events, *sums, *rest)))
        return self._settled(tuple(terms))

    def _settled(self, polynomial: Polynomial) -> Polynomial:
        """The polynomial over columns of steps, without terms that are zero and conditions that always hold."""
        terms = []
        for term in substituted(polynomial, self.values):
            conditions = _holding([factor for factor in term.factors if factor.type == BOOLEAN])
            if conditions is not None:
                numbers = (factor for factor in term.factors if factor.type != BOOLEAN)
                terms.append(ProductTerm(term.coefficient, (*numbers, *conditions)))
        return collected(terms)


def _numbers(id_: str, values: Sequence[RingField]) -> tuple[Column, ...]:
    return (weight(id_), *(number(id_, value) for value in values))


def _holding(conditions: Sequence[Scalar]) -> list[Scalar] | None:
    """The conditions that are not always true; None if one is never true."""
    left = []
    for condition in map(settled, conditions):
        match condition:
            case Call(function="is_not_null", arguments=(value,)) if not is_nullable(value):
                continue
            case _ if condition == NEVER:
                return None
        left.append(condition)
    return list(dict.fromkeys(left))
