"""Equivalent queries with fewer terms.

A term is linear in each of the sets that it binds, so terms that differ in one set equal one term with the sum of these
sets. Compensation makes many of them: a query for one update has a term for every unanswered update, and all of them
bind the one new tuple. Packed, they are one term for each relation, however many updates are unanswered. A term and its
negation are evaluated in the same state, so both are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidemill.changes.zset import ZSet
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm

_Alike = tuple[str, frozenset[tuple[str, int]]]


def pack_terms(query: SignedQuery) -> SignedQuery:
    """Sum the terms of ``query`` that differ only in the set that they bound first."""
    alike: dict[_Alike | int, list[SignedTerm]] = {}
    for number, term in enumerate(query.terms):
        alike.setdefault(_alike(term) if term.bound else number, []).append(term)
    terms = [some[0] if len(some) == 1 else _sum(some) for some in alike.values()]
    return replace(query, terms=_without_opposites(term for term in terms if all(term.bound.values())))


def _alike(term: SignedTerm) -> _Alike:
    """Grouping key of terms that can be summed. Sets are compared by identity, since they are passed on unchanged."""
    oldest, *others = term.bound
    return oldest, frozenset((alias, id(term.bound[alias])) for alias in others)


def _sum(terms: list[SignedTerm]) -> SignedTerm:
    oldest = next(iter(terms[0].bound))
    rows = ZSet()
    for term in terms:
        rows.update_by(term.bound[oldest] if term.sign > 0 else -term.bound[oldest])
    return SignedTerm(1, {**terms[0].bound, oldest: rows})


def _without_opposites(terms: Iterable[SignedTerm]) -> tuple[SignedTerm, ...]:
    left: list[SignedTerm] = []
    for term in terms:
        opposite = replace(term, sign=-term.sign)
        if opposite in left:
            left.remove(opposite)
        else:
            left.append(term)
    return tuple(left)
