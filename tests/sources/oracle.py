"""The meaning of a signed query: its terms as algebra, for the evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, Project
from tidemill.changes.zset import ZSet
from tidemill.sources.remote_queries.group_sums import add_groups
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm, SpjView


def answer(query: SignedQuery, relations: Mapping[str, ZSet]) -> ZSet:
    """The signed rows of the query in a state of the source."""
    total = ZSet()
    for term in query.terms:
        total.update_by(_rows(query.view, term, relations))
    return add_groups(total.items(), len(query.view.outputs)) if query.view.sums else total


def _rows(view: SpjView, term: SignedTerm, relations: Mapping[str, ZSet]) -> ZSet:
    """Each leaf has a name of its own here, under which the evaluator finds what stands for it."""
    contents = {leaf.alias: term.bound.get(leaf.alias, relations.get(leaf.relation)) for leaf in view.leaves}
    known = {alias: rows for alias, rows in contents.items() if rows is not None}
    first, *others = (replace(leaf, relation=leaf.alias) for leaf in view.leaves)
    tree: Relation = first
    for leaf in others:
        tree = Join(tree, leaf)
    condition = conjunction(view.conditions)
    rows = evaluate(Project(tree if condition is None else Filter(tree, condition), (*view.outputs, *view.sums)), known)
    signed = rows if term.sign > 0 else -rows
    return _grouped(view, signed) if view.sums else signed


def _grouped(view: SpjView, rows: ZSet) -> ZSet:
    """The groups of a view with sums: how many rows each has, and their sums without NULLs."""
    width, groups = len(view.outputs), dict[tuple[Any, ...], list[Any]]()
    for row, weight in rows.items():
        numbers = groups.setdefault(row[:width], [0] * (1 + len(view.sums)))
        for place, value in enumerate((1, *row[width:])):
            numbers[place] += weight * (value or 0)
    return ZSet({(*group, *numbers): 1 for group, numbers in groups.items() if any(numbers)})
