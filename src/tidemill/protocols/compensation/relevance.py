"""Relevance: changes and query terms that are empty whatever the source holds.

Rows that differ only in columns that the view does not read cancel each other (an update of those columns). A term is
empty if no combination of its bound tuples meets the conditions on bound leaves alone: the paper's *irrelevant* update,
and many compensations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Named, column
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
    """``query`` without the terms that add nothing in any state."""
    return replace(query, terms=tuple(term for term in query.terms if _can_match(query.view, term)))


def _can_match(view: SpjView, term: SignedTerm) -> bool:
    """True if some tuples of the bound leaves meet the conditions on these leaves alone."""
    pairs = zip(view.conditions, view.ties, strict=True)
    conditions = tuple(condition for condition, tie in pairs if tie <= term.bound.keys())
    if not conditions:
        return all(term.bound.values())
    leaves = tuple(leaf for leaf in view.leaves if leaf.alias in term.bound)
    outputs = tuple(Named(field.name, column(field)) for leaf in leaves for field in leaf.fields)
    try:
        return not leaves or bool(IndexedRelations().rows(SpjView(leaves, conditions, outputs), term))
    except ArithmeticFault:
        return True  # the other relations decide if the faulty combination occurs at all
