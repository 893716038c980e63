"""Which grouped subqueries stand in a relation more than once: each of them is computed and kept once."""

from __future__ import annotations

from collections import Counter

from tidemill.algebra.relations import Aggregate, Distinct, Filter, Project, Relation
from tidemill.algebra.walk import walk
from tidemill.compiler.rewrites.canonical import canonical


def repeats(relation: Relation) -> Counter[Relation]:
    """How often each grouped subquery of ``relation`` occurs, by its canonical form."""
    return Counter(canonical(node) for node in walk(relation) if is_grouped(node))


def is_grouped(relation: Relation) -> bool:
    """Whether ``relation`` is an aggregation or DISTINCT, with at most filters and projections above it."""
    return isinstance(core(relation), Aggregate | Distinct)


def core(relation: Relation) -> Relation:
    """What lies below the filters and projections at the top of ``relation``."""
    while isinstance(relation, Filter | Project):
        relation = relation.input
    return relation
