"""Subqueries that occur in a relation more than once: each is computed and stored once."""

from __future__ import annotations

from collections import Counter

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Project,
    Recursive,
    Repeat,
    TopK,
    UnionAll,
    Window,
)
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import children, walk
from tidemill.compiler.analysis.canonical import CanonicalForm, canonical

GROUPED = (Aggregate, Distinct, TopK, Window, Match)
"""The nodes whose rows come from a map of their own: each begins a stage."""


def common_subqueries(relation: Relation) -> Counter[CanonicalForm]:
    """Occurrences of each grouped subquery of ``relation``, by its canonical form."""
    return Counter(canonical(node) for node in walk(relation) if is_grouped(node))


def shared(relation: Relation) -> set[CanonicalForm]:
    """Relations that occur in ``relation`` more than once and are worth a stage, by canonical form.

    These are sums, whose blocks would multiply, and joins that several terms of a grouped sum have in common. Relations
    inside of them do not count, nor do joins inside of equal grouped subqueries, which are one stage: cut out by
    themselves, they would lose the conditions above them.
    """
    grouped = (node.input for node in walk(relation) if isinstance(node, GROUPED))
    joins = (_repeated(input_, Join) for input_ in grouped if isinstance(input_, UnionAll))
    return _repeated(relation, UnionAll).union(*joins)


def _repeated(relation: Relation, kind: type[Relation]) -> set[CanonicalForm]:
    seen: Counter[CanonicalForm] = Counter()
    stages: set[CanonicalForm] = set()

    def visit(node: Relation) -> None:
        if kind is Join and isinstance(node, GROUPED):
            form = canonical(node)
            if form in stages:
                return
            stages.add(form)
        elif isinstance(node, kind):
            form = canonical(node)
            seen[form] += 1
            if seen[form] > 1:
                return
        for child in children(node):
            visit(child)

    visit(relation)
    return {form for form, times in seen.items() if times > 1}


def is_grouped(relation: Relation) -> bool:
    """True if ``relation`` is grouped, recursive or made partition by partition, with at most filters, projections and
    repetition above it.
    """
    return isinstance(below_projections(relation), (*GROUPED, Recursive, TimePartitioned))


def below_projections(relation: Relation) -> Relation:
    """The relation below the filters and projections at the top of ``relation``."""
    while isinstance(relation, Filter | Project | Repeat):
        relation = relation.input
    return relation
