"""Relevance: changes and query terms that are empty whatever the source holds.

Rows that differ only in columns that the view does not read cancel each other (an update of those columns). A term is
empty if no combination of its bound tuples meets the conditions on bound leaves alone: the paper's *irrelevant* update,
and many compensations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Named, column
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import Row, ZSet
from tidemill.model.errors import ArithmeticFault
from tidemill.sources.remote_queries.local_evaluation import IndexedRelations
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm, SpjView


def changes_read_by(view: SpjView, changes: Mapping[str, ZSet]) -> dict[str, ZSet]:
    """The changes of the relations that ``view`` reads, netted over the columns that it reads.

    Rows that agree in these columns become one of them, with their weights summed.
    """
    result = {}
    for relation in view.relations:
        leaves = [leaf for leaf in view.leaves if leaf.relation == relation]
        places = {place for leaf in leaves for place, field in enumerate(leaf.fields) if field.name in view.read}
        result[relation] = _net(changes.get(relation, ZSet()), sorted(places))
    return result


def _net(rows: ZSet, places: list[int]) -> ZSet:
    one_of: dict[Row, Row] = {}
    return ZSet.summed(
        (one_of.setdefault(tuple([row[place] for place in places]), row), weight) for row, weight in rows.items()
    )


def drop_irrelevant_terms(query: SignedQuery) -> SignedQuery:
    """``query`` without the terms that add nothing in any state. Bound sets stay the very same: terms can be packed."""
    return replace(query, terms=tuple(term for term in query.terms if _relevant(query.view, term) is not None))


def drop_irrelevant_tuples(query: SignedQuery) -> SignedQuery:
    """``query`` without the terms, and the bound tuples of the others, that add nothing in any state."""
    terms = (_relevant(query.view, term) for term in query.terms)
    return replace(query, terms=tuple(term for term in terms if term is not None))


def _relevant(view: SpjView, term: SignedTerm) -> SignedTerm | None:
    """The term with those bound tuples that meet the conditions on bound leaves alone, or None if there are none."""
    pairs = zip(view.conditions, view.ties, strict=True)
    conditions = tuple(condition for condition, tie in pairs if tie <= term.bound.keys())
    if not conditions:
        return term if all(term.bound.values()) else None
    leaves = tuple(leaf for leaf in view.leaves if leaf.alias in term.bound)
    outputs = tuple(Named(field.name, column(field)) for leaf in leaves for field in leaf.fields)
    if not leaves:
        return term
    try:
        matching = IndexedRelations().rows(SpjView(leaves, conditions, outputs), term)
    except ArithmeticFault:
        return term  # the other relations decide if the faulty combination occurs at all
    return replace(term, bound=_only(matching, leaves, term.bound)) if matching else None


def _only(matching: ZSet, leaves: Sequence[Scan], bound: Mapping[str, ZSet]) -> dict[str, ZSet]:
    """The bound tuples that are in some combination; where all of them are, the very same set."""
    kept: dict[str, ZSet] = {}
    start = 0
    for leaf in leaves:
        end = start + len(leaf.fields)
        rows = {row[start:end] for row in matching}
        whole = bound[leaf.alias]
        kept[leaf.alias] = whole if len(rows) == len(whole) else ZSet({row: whole[row] for row in rows})
        start = end
    return {alias: kept[alias] for alias in bound}
