"""The attributes that a view reads, and the use that it makes of collections (MOVIE, section 5.2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tidemill.compiler.frontends.oql.algebra.operators import MonoidUnnest, Operator, walk
from tidemill.compiler.frontends.oql.calculus.terms import CalculusTerm, PathTerm
from tidemill.compiler.frontends.oql.calculus.terms import walk as terms_of
from tidemill.compiler.frontends.oql.calculus.types import CollectionType, ReferenceType


class CollectionUse(Enum):
    """Use of a collection by a view: output as it is, nested into another collection, or unnested to rows."""

    PROJECTED = "PC"
    NESTED = "NC"
    UNNESTED = "UC"


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
    """An outer unnest belongs to a nest above it; a collection that no unnest reads is output as it is."""
    if isinstance(operator, MonoidUnnest) and operator.path == path:
        return CollectionUse.NESTED if operator.outer else CollectionUse.UNNESTED
    return CollectionUse.PROJECTED
