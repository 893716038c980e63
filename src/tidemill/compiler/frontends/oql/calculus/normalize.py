"""Normal form: the rules of Fegaras and Maier that flatten nested comprehensions where possible.

Aggregates, truth values, collections in a head and duplicate elimination stay nested and become nests (see
``algebra.unnest``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.compiler.frontends.oql.calculus.functions import conjuncts, operation
from tidemill.compiler.frontends.oql.calculus.terms import (
    AGGREGATES,
    COLLECTIONS,
    IDEMPOTENT,
    CalculusTerm,
    CollectionTerm,
    Comprehension,
    Generator,
    GroupByTerm,
    MergeTerm,
    Monoid,
    Qualifier,
    VariableTerm,
    bound_variables,
    map_subterms,
    project_record,
    substitute,
    walk,
)
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, RecordType, ReferenceType
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.classes import Collection


def normalize(term: CalculusTerm) -> CalculusTerm:
    """``term`` in normal form; it means the same."""
    return _Normalizer(NameAllocator(name for one in walk(term) for name in bound_variables(one))).normal(term)


class _Normalizer:
    """Applies the rules until none fits. ``names`` are those of all variables, to keep new ones unique."""

    def __init__(self, names: NameAllocator) -> None:
        self.names = names

    def normal(self, term: CalculusTerm) -> CalculusTerm:
        """``term`` in normal form."""
        below = project_record(map_subterms(term, self.normal))
        return self.comprehension(below) if isinstance(below, Comprehension) else below

    def comprehension(self, term: Comprehension) -> CalculusTerm:
        """Apply the first rule that fits a qualifier, and normalize the result."""
        for position, qualifier in enumerate(term.qualifiers):
            before, after = term.qualifiers[:position], term.qualifiers[position + 1 :]
            if isinstance(qualifier, Generator):
                found = self.generator(term, before, qualifier, after)
            else:
                found = _predicate(term, before, qualifier, after)
            if found is not None:
                return self.normal(found)
        return term

    def generator(
        self, term: Comprehension, before: Sequence[Qualifier], generator: Generator, after: Sequence[Qualifier]
    ) -> CalculusTerm | None:
        """A generator over a collection that the query constructs."""
        name = generator.variable.name
        match generator.domain:
            case Comprehension(head=head, qualifiers=inner) as domain if _flattens(domain, term):
                kept = [operation("is_not_null", head)] if _may_be_nil(head, term, generator) else []
                return self.replaced(term, (*before, *inner, *kept), {name: head}, after)
            case CollectionTerm(items=(item,)):
                return self.replaced(term, before, {name: item}, after)
            case MergeTerm(function="union", left=left, right=right) as merge if _splits(merge, term):
                of = term.of
                assert isinstance(of, CollectionType)
                one, other = (
                    replace(term, qualifiers=(*before, replace(generator, domain=side), *after))
                    for side in (left, right)
                )
                return MergeTerm("union", one, other, of)
        return None

    def replaced(
        self,
        term: Comprehension,
        before: Sequence[Qualifier],
        values: dict[str, CalculusTerm],
        after: Sequence[Qualifier],
    ) -> Comprehension:
        """``term`` after ``before``, with values for variables; each copy of a value gets fresh bound variables."""
        rest = replace(term, qualifiers=tuple(after))
        changed = substitute(rest, values, lambda value: rename_bound(value, self.names))
        assert isinstance(changed, Comprehension)
        return replace(changed, qualifiers=(*before, *changed.qualifiers))


def rename_bound(term: CalculusTerm, names: NameAllocator) -> CalculusTerm:
    """``term`` with new names for the variables that it binds.

    Otherwise variables would be captured once a part of a query occurs in two places.
    """
    fresh = {name: names.take(name) for one in walk(term) for name in bound_variables(one)}

    def change(one: CalculusTerm) -> CalculusTerm:
        if isinstance(one, VariableTerm):
            return replace(one, name=fresh.get(one.name, one.name))
        below = map_subterms(one, change)
        if isinstance(below, Comprehension | GroupByTerm):
            return replace(below, qualifiers=tuple(map(bind, below.qualifiers)))
        return below

    def bind(qualifier: Qualifier) -> Qualifier:
        if not isinstance(qualifier, Generator):
            return qualifier
        variable = qualifier.variable
        return replace(qualifier, variable=replace(variable, name=fresh.get(variable.name, variable.name)))

    return change(term) if fresh else term


def _may_be_nil(head: CalculusTerm, around: Comprehension, generator: Generator) -> bool:
    """True for a generator that must filter out nil, which collections do not contain. Aggregates ignore nil anyway."""
    is_object = isinstance(head, VariableTerm) and isinstance(head.type, ReferenceType)
    if is_object or isinstance(head.type, RecordType | CollectionType):
        return False
    return not (around.monoid in AGGREGATES and around.head == generator.variable)


def _flattens(domain: Comprehension, around: Comprehension) -> bool:
    """True if a ``domain`` that removes duplicates may be flattened, because duplicates make no difference."""
    if domain.monoid not in COLLECTIONS:
        return False
    return around.monoid in IDEMPOTENT if domain.monoid is Monoid.SET else around.monoid is not Monoid.LIST


def _splits(merge: MergeTerm, around: Comprehension) -> bool:
    if merge.left.type.stored != merge.right.type.stored or around.order:
        return False
    return around.monoid is Monoid.SET or (around.monoid is Monoid.BAG and merge.of.collection is not Collection.SET)


def _predicate(
    term: Comprehension, before: Sequence[Qualifier], predicate: CalculusTerm, after: Sequence[Qualifier]
) -> CalculusTerm | None:
    parts = conjuncts(predicate)
    if parts != [predicate]:
        return replace(term, qualifiers=(*before, *parts, *after))
    match predicate:
        case Comprehension(monoid=Monoid.SOME, head=head, qualifiers=inner) if term.monoid in IDEMPOTENT:
            # Duplicates make no difference to idempotent monoids.
            return replace(term, qualifiers=(*before, *inner, head, *after))
    return None
