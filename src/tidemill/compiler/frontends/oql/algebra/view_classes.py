"""The class of the view that a tree defines, as MOVIE tells views apart when it chooses a plan (section 5.2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tidemill.compiler.frontends.oql.algebra.operators import MonoidJoin, MonoidUnnest, Nest, Operator, walk
from tidemill.compiler.frontends.oql.calculus.terms import CalculusTerm, PathTerm
from tidemill.compiler.frontends.oql.calculus.terms import walk as terms_of
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, ReferenceType
from tidemill.compiler.lineage.maintenance_plans import CollectionUse


@dataclass(frozen=True, slots=True, order=True)
class AttributeRead:
    """An attribute that a view reads, of an object of class ``owner``.

    >>> str(AttributeRead("compositepart", "parts"))
    'compositepart.parts'
    """

    owner: str
    name: str

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}"


class MonoidViewClass(Enum):
    """The most complex operator of a view."""

    REDUCE_GET = "ReduceGet"
    REDUCE_GET_JOIN = "ReduceGetJoin"
    UNNEST = "Unnest"
    NEST = "Nest"


def view_class(tree: Operator) -> MonoidViewClass:
    """The class of a view."""
    operators = {type(one) for one in walk(tree)}
    if Nest in operators:
        return MonoidViewClass.NEST
    if MonoidUnnest in operators:
        return MonoidViewClass.UNNEST
    return MonoidViewClass.REDUCE_GET_JOIN if MonoidJoin in operators else MonoidViewClass.REDUCE_GET


def attributes_read(tree: Operator) -> Iterator[AttributeRead]:
    """The attributes that a view reads."""
    for operator in walk(tree):
        yield from attributes_read_in(operator.terms)


def attributes_read_in(terms: Iterable[CalculusTerm]) -> Iterator[AttributeRead]:
    """The attributes that terms read."""
    return (found for term in terms for one in terms_of(term) if (found := attribute_read_by(one)) is not None)


def attribute_read_by(term: CalculusTerm) -> AttributeRead | None:
    """The attribute that a path ends with, if it is one of an object."""
    if isinstance(term, PathTerm) and isinstance(term.base.type, ReferenceType):
        return AttributeRead(term.base.type.of, term.name)
    return None


def condition_attributes(tree: Operator) -> frozenset[AttributeRead]:
    """The attributes that decide which objects meet in the view: those in conditions, in keys, and within paths."""
    return frozenset(step for operator in walk(tree) for step in attributes_read_in(_conditions(operator)))


def _conditions(operator: Operator) -> Iterator[CalculusTerm]:
    conditions = getattr(operator, "predicates", ())
    yield from conditions
    if isinstance(operator, Nest):
        yield from (term for _, term in operator.keys)
        yield from (term for made in operator.made for term in made.predicates)
    for term in operator.terms:
        yield from (one.base for one in terms_of(term) if isinstance(one, PathTerm))


def collection_roles(tree: Operator) -> dict[AttributeRead, frozenset[CollectionUse]]:
    """The use that a view makes of each collection of its objects."""
    found: dict[AttributeRead, set[CollectionUse]] = {}
    for operator in walk(tree):
        for term in operator.terms:
            for one in terms_of(term):
                step = attribute_read_by(one)
                if step is not None and isinstance(one.type, CollectionType):
                    found.setdefault(step, set()).add(_role(operator, one))
    return {step: frozenset(roles) for step, roles in found.items()}


def _role(operator: Operator, path: CalculusTerm) -> CollectionUse:
    """An outer unnest goes through a collection for a nest above it; what no unnest goes through is just shown."""
    if isinstance(operator, MonoidUnnest) and operator.path == path:
        return CollectionUse.NESTED if operator.outer else CollectionUse.UNNESTED
    return CollectionUse.PROJECTED
