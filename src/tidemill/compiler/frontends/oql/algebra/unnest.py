"""From comprehensions to operators: the unnesting algorithm of Fegaras.

Generators become gets, joins and unnests, and a predicate goes to the first operator that binds all variables that it
reads. A nested comprehension extends the operators of the outer one by outer joins and outer unnests, so that no outer
binding is lost, and a nest above them binds its value to a new variable. An uncorrelated comprehension is a separate
tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidemill.compiler.frontends.oql.algebra.operators import (
    ClosedTerm,
    Combine,
    Get,
    MonoidJoin,
    MonoidUnnest,
    Nest,
    NestValue,
    Operator,
    Reduce,
    Unit,
    with_terms,
)
from tidemill.compiler.frontends.oql.calculus.functions import OQL_SCALARS
from tidemill.compiler.frontends.oql.calculus.terms import (
    PARTITION,
    CalculusTerm,
    Comprehension,
    Extent,
    Generator,
    GroupByTerm,
    MergeTerm,
    Monoid,
    Operation,
    PathTerm,
    Qualifier,
    RecordTerm,
    VariableTerm,
    free_variables,
    substitute,
)
from tidemill.compiler.frontends.oql.calculus.terms import walk as terms_of
from tidemill.compiler.frontends.oql.calculus.types import CollectionType
from tidemill.model.classes import Collection
from tidemill.model.errors import Unsupported


def unnest(term: CalculusTerm) -> Operator:
    """The operators of a query in normal form."""
    return _Unnester().root(term)


@dataclass
class _PartialPlan:
    """A plan under construction: ``tree`` so far, and the comprehensions that it has already evaluated."""

    tree: Operator | None
    monoid: Monoid
    outer: bool = False
    made: dict[CalculusTerm, VariableTerm] = field(default_factory=dict)

    @property
    def bound(self) -> frozenset[str]:
        return frozenset(v.name for v in self.tree.variables) if self.tree is not None else frozenset()


@dataclass
class _Unnester:
    """Allocates the names of internal variables; X1 is that of the root."""

    count: int = 0

    def variable(self, of: CalculusTerm) -> VariableTerm:
        self.count += 1
        return VariableTerm(f"X{self.count}", of.type)

    def root(self, term: CalculusTerm, variable: VariableTerm | None = None) -> Operator:
        """An uncorrelated tree."""
        match term:
            case Comprehension():
                return self.reduce(term, variable or self.variable(term))
            case MergeTerm(function=function, left=left, right=right, of=of):
                name = variable or self.variable(term)
                return Combine(function, self.root(left), self.root(right), name, of)
        if isinstance(term.type, CollectionType):
            element = VariableTerm("e", term.type.element)
            every = Comprehension(Monoid.BAG, element, (Generator(element, term),), term.type)
            return self.reduce(every, variable or self.variable(term))
        one = Comprehension(Monoid.BAG, term, (), CollectionType(Collection.BAG, term.type))
        return self.reduce(one, variable or self.variable(one))

    def reduce(self, term: Comprehension, variable: VariableTerm) -> Reduce:
        monoid = Monoid.SET if term.monoid is Monoid.SET else Monoid.BAG
        plan = _PartialPlan(None, monoid)
        match term.qualifiers:
            case (Generator(domain=GroupByTerm() as groups), *_) if not free_variables(groups):
                term = self.grouped(plan, term, groups)
        late = self.grow(plan, term.qualifiers)
        predicates = tuple(self.inlined(plan, predicate) for predicate in late)
        head = self.inlined(plan, term.head)
        order = tuple((self.inlined(plan, one), descending) for one, descending in term.order)
        return Reduce(term.monoid, plan.tree or Unit(), variable, head, predicates, order)

    def grow(self, plan: _PartialPlan, qualifiers: Sequence[Qualifier]) -> list[CalculusTerm]:
        """Add the operators of some generators to ``plan``; returns the predicates that are left."""
        predicates = [self.closed(q) for q in qualifiers if not isinstance(q, Generator)]
        nested = [q for q in predicates if any(isinstance(one, Comprehension | MergeTerm) for one in terms_of(q))]
        waiting = [q for q in predicates if q not in nested]
        for generator in (q for q in qualifiers if isinstance(q, Generator)):
            waiting = self.bind(plan, generator, waiting)
        return [*waiting, *nested]

    def bind(self, plan: _PartialPlan, generator: Generator, waiting: list[CalculusTerm]) -> list[CalculusTerm]:
        """Add one generator, with the predicates that can be evaluated now; returns the others."""
        variable, domain = generator.variable, self.domain(plan, generator)
        known = plan.bound | {variable.name}
        here = [q for q in waiting if free_variables(q) <= known]
        if not isinstance(domain, Operator | Extent):
            plan.tree = MonoidUnnest(plan.monoid, plan.tree or Unit(), variable, domain, tuple(here), plan.outer)
            return [q for q in waiting if q not in here]
        own = [q for q in here if free_variables(q) <= {variable.name}]
        source = Get(plan.monoid, domain, variable, tuple(own)) if isinstance(domain, Extent) else domain
        if isinstance(domain, Operator):
            own = []
        across = tuple(q for q in here if q not in own)
        if plan.tree is None:
            plan.tree = source
            here = own
        else:
            plan.tree = MonoidJoin(plan.monoid, plan.tree, source, across, plan.outer)
        return [q for q in waiting if q not in here]

    def domain(self, plan: _PartialPlan, generator: Generator) -> CalculusTerm | Operator:
        """The domain of a generator: an extent, a tree of its own, or a collection that is bound."""
        domain = generator.domain
        if isinstance(domain, Extent):
            return domain
        if isinstance(domain, Comprehension | MergeTerm | GroupByTerm) and not free_variables(domain):
            return self.root(domain, generator.variable)
        if isinstance(domain, GroupByTerm):
            raise Unsupported(
                "a correlated GROUP BY is not supported",
                hint="Group in a separate query, and join it.",
            )
        return self.inlined(plan, domain)

    def grouped(self, plan: _PartialPlan, term: Comprehension, groups: GroupByTerm) -> Comprehension:
        """GROUP BY: a nest by its keys, with the rest of the query above it."""
        first, *rest = term.qualifiers
        assert isinstance(first, Generator)
        groups = self.filtered(plan, groups)
        keys = tuple((VariableTerm(name.lower(), key.type), self.inlined(plan, key)) for name, key in groups.keys)
        partition = VariableTerm(PARTITION, CollectionType(Collection.BAG, groups.member.type))
        made: dict[CalculusTerm, NestValue] = {}

        def change(one: CalculusTerm) -> CalculusTerm | None:
            if isinstance(one, Comprehension) and _is_of_members(one, first.variable.name):
                made.setdefault(one, self.nest_members(one, groups))
                return made[one].variable
            return None

        above = with_terms(replace(term, qualifiers=tuple(rest)), change)
        shown = RecordTerm((*((key.name, key) for key, _ in keys), (PARTITION, partition)))
        above = substitute(above, {first.variable.name: shown})
        assert isinstance(above, Comprehension)
        gathered = list(made.values())
        if PARTITION in free_variables(above):
            gathered.append(NestValue(Monoid.BAG, partition, groups.member))
        plan.tree = Nest(plan.tree or Unit(), tuple(gathered), (), keys)
        return above

    def filtered(self, plan: _PartialPlan, groups: GroupByTerm) -> GroupByTerm:
        """The operators below a group; predicates over nested comprehensions are evaluated in a separate tree."""
        late = self.grow(plan, groups.qualifiers)
        if not late:
            return groups
        row = self.variable(groups.member)
        predicates = tuple(self.inlined(plan, predicate) for predicate in late)
        plan.tree = Reduce(Monoid.BAG, plan.tree or Unit(), row, groups.member, predicates)
        names = {
            v.name: PathTerm(row, name, v.type, name)
            for name, v in groups.member.members
            if isinstance(v, VariableTerm)
        }
        changed = substitute(replace(groups, qualifiers=()), names)
        assert isinstance(changed, GroupByTerm)
        return changed

    def nest_members(self, term: Comprehension, groups: GroupByTerm) -> NestValue:
        """The values that are aggregated over the members of each group."""
        generator, *_ = term.qualifiers
        assert isinstance(generator, Generator)
        values = {generator.variable.name: groups.member}
        rest = substitute(replace(term, qualifiers=term.qualifiers[1:]), values)
        assert isinstance(rest, Comprehension)
        predicates = tuple(q for q in rest.qualifiers if not isinstance(q, Generator))
        return NestValue(term.monoid, self.variable(term), rest.head, predicates, rest.order)

    def closed(self, term: CalculusTerm) -> CalculusTerm:
        """``term`` with trees in place of its uncorrelated comprehensions."""

        def change(one: CalculusTerm) -> CalculusTerm | None:
            if isinstance(one, Comprehension | MergeTerm) and not free_variables(one):
                return ClosedTerm(self.root(one), one.type)
            return None

        return with_terms(term, change)

    def inlined(self, plan: _PartialPlan, term: CalculusTerm) -> CalculusTerm:
        """``term`` with variables, or closed trees, for the comprehensions in it."""

        def change(one: CalculusTerm) -> CalculusTerm | None:
            if isinstance(one, MergeTerm):
                return self.merged(plan, one)
            return plan.made.get(one) or self.nested(plan, one) if isinstance(one, Comprehension) else None

        return with_terms(self.closed(term), change)

    def merged(self, plan: _PartialPlan, term: MergeTerm) -> CalculusTerm:
        """Two correlated collections merged, as arrays."""
        function = f"{term.function}_{term.of.collection.value}"
        if function not in OQL_SCALARS:
            raise Unsupported(
                f"{term.function} of correlated bags is not supported",
                hint="Use sets: select distinct ...",
            )
        return Operation(function, (self.inlined(plan, term.left), self.inlined(plan, term.right)), term.of)

    def nested(self, plan: _PartialPlan, term: Comprehension) -> VariableTerm:
        """A nest for a correlated comprehension."""
        variable = self.variable(term)
        groups = plan.tree.variables if plan.tree is not None else ()
        inner = _PartialPlan(plan.tree, plan.monoid, outer=True)
        late = self.grow(inner, term.qualifiers)
        predicates = tuple(self.inlined(inner, predicate) for predicate in late)
        head = self.inlined(inner, term.head)
        order = tuple((self.inlined(inner, one), descending) for one, descending in term.order)
        assert inner.tree is not None
        plan.tree = Nest(inner.tree, (NestValue(term.monoid, variable, head, predicates, order),), groups)
        plan.made[term] = variable
        return variable


def _is_of_members(term: Comprehension, group: str) -> bool:
    """True for a comprehension over the members of ``group`` that reads nothing else."""
    match term.qualifiers:
        case (Generator(variable=member, domain=PathTerm(base=VariableTerm(name=name), name="partition")), *rest):
            parts = [
                part for part in (*rest, term.head, *(one for one, _ in term.order)) if isinstance(part, CalculusTerm)
            ]
            plain = not any(isinstance(one, Comprehension | MergeTerm) for part in parts for one in terms_of(part))
            alone = not any(isinstance(q, Generator) for q in rest)
            return name == group and plain and alone and all(free_variables(part) <= {member.name} for part in parts)
    return False
