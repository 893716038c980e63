"""The meaning of a signed query: its terms as algebra, for the evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, Project
from tidemill.changes.zset import ZSet
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm, SpjView


def answer(query: SignedQuery, relations: Mapping[str, ZSet]) -> ZSet:
    """The signed rows of the query in a state of the source."""
    total = ZSet()
    for term in query.terms:
        total.update_by(_rows(query.view, term, relations))
    return total


def _rows(view: SpjView, term: SignedTerm, relations: Mapping[str, ZSet]) -> ZSet:
    """Each leaf has a name of its own here, under which the evaluator finds what stands for it."""
    contents = {leaf.alias: term.bound.get(leaf.alias, relations.get(leaf.relation)) for leaf in view.leaves}
    known = {alias: rows for alias, rows in contents.items() if rows is not None}
    first, *others = (replace(leaf, relation=leaf.alias) for leaf in view.leaves)
    tree: Relation = first
    for leaf in others:
        tree = Join(tree, leaf)
    condition = conjunction(view.conditions)
    rows = evaluate(Project(tree if condition is None else Filter(tree, condition), view.outputs), known)
    return rows if term.sign > 0 else -rows
