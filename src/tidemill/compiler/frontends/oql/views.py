"""What kind of view a tree defines, as MOVIE tells views apart when it chooses a plan (section 5.2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tidemill.compiler.frontends.oql.calculus import Path, Term
from tidemill.compiler.frontends.oql.calculus import walk as terms_of
from tidemill.compiler.frontends.oql.kinds import Many, Reference
from tidemill.compiler.frontends.oql.trees import Join, Nest, Tree, Unnest, walk
from tidemill.compiler.lineage.plans import Use


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """An attribute that a view reads, of an object of class ``owner``.

    >>> str(Step("compositepart", "parts"))
    'compositepart.parts'
    """

    owner: str
    name: str

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}"


class ViewClass(Enum):
    """The most complex operator of a view."""

    REDUCE_GET = "ReduceGet"
    REDUCE_GET_JOIN = "ReduceGetJoin"
    UNNEST = "Unnest"
    NEST = "Nest"


def view_class(tree: Tree) -> ViewClass:
    """The class of a view."""
    operators = {type(one) for one in walk(tree)}
    if Nest in operators:
        return ViewClass.NEST
    if Unnest in operators:
        return ViewClass.UNNEST
    return ViewClass.REDUCE_GET_JOIN if Join in operators else ViewClass.REDUCE_GET


def steps(tree: Tree) -> Iterator[Step]:
    """The attributes that a view reads."""
    for operator in walk(tree):
        yield from steps_in(operator.terms)


def steps_in(terms: Iterable[Term]) -> Iterator[Step]:
    """The attributes that terms read."""
    return (found for term in terms for one in terms_of(term) if (found := step_of(one)) is not None)


def step_of(term: Term) -> Step | None:
    """The attribute that a path ends with, if it is one of an object."""
    if isinstance(term, Path) and isinstance(term.base.kind, Reference):
        return Step(term.base.kind.of, term.name)
    return None


def condition_attributes(tree: Tree) -> frozenset[Step]:
    """The attributes that decide which objects meet in the view: those in conditions, in keys, and within paths."""
    return frozenset(step for operator in walk(tree) for step in steps_in(_conditions(operator)))


def _conditions(operator: Tree) -> Iterator[Term]:
    conditions = getattr(operator, "predicates", ())
    yield from conditions
    if isinstance(operator, Nest):
        yield from (term for _, term in operator.keys)
        yield from (term for made in operator.made for term in made.predicates)
    for term in operator.terms:
        yield from (one.base for one in terms_of(term) if isinstance(one, Path))


def collection_roles(tree: Tree) -> dict[Step, frozenset[Use]]:
    """What a view does with each collection of its objects."""
    found: dict[Step, set[Use]] = {}
    for operator in walk(tree):
        for term in operator.terms:
            for one in terms_of(term):
                step = step_of(one)
                if step is not None and isinstance(one.kind, Many):
                    found.setdefault(step, set()).add(_role(operator, one))
    return {step: frozenset(roles) for step, roles in found.items()}


def _role(operator: Tree, path: Term) -> Use:
    """An outer unnest goes through a collection for a nest above it; what no unnest goes through is just shown."""
    if isinstance(operator, Unnest) and operator.path == path:
        return Use.NESTED if operator.outer else Use.UNNESTED
    return Use.PROJECTED
