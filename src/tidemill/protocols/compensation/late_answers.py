"""Queries about one state that are answered in a later one: the bookkeeping of lazy compensation.

A query is meant for the state of the source right after an update, but is evaluated after further ones. When the answer
arrives these are known: all updates received in between. The answer less ``Q<these>`` is the intended result. The
correction is a query again, with at least one more leaf bound in every term, so after as many iterations as the view
has leaves nothing is left to query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.changes.zset import ZSet
from tidemill.protocols.compensation.relevance import drop_irrelevant_tuples
from tidemill.sources.remote_queries.local_evaluation import evaluate_locally
from tidemill.sources.remote_queries.signed_query import SignedQuery


@dataclass
class LateAnsweredQuery:
    """An unanswered query, and the later changes that its answer will wrongly include."""

    query: SignedQuery
    later_changes: dict[str, ZSet] = field(default_factory=dict)
    _read: frozenset[str] = field(init=False)
    """The relations that some term reads: changes of the others are in no answer."""

    def __post_init__(self) -> None:
        leaves = [(leaf.alias, leaf.relation) for leaf in self.query.view.leaves]
        bound = [term.bound.keys() for term in self.query.terms]
        self._read = frozenset(name for alias, name in leaves if any(alias not in some for some in bound))

    def note_later_changes(self, changes: Mapping[str, ZSet]) -> None:
        """Record that the source committed ``changes`` before it answered."""
        for relation, change in changes.items():
            if relation in self._read:
                self.later_changes.setdefault(relation, ZSet()).update_by(change)

    @property
    def correction(self) -> SignedQuery:
        """The query whose result must be added to the answer."""
        return -self.query.after_all(self.later_changes)


def split_local(query: SignedQuery) -> tuple[ZSet, LateAnsweredQuery | None]:
    """The rows of ``query`` that can be evaluated locally, and the query for the rest, if there is any."""
    needed = drop_irrelevant_tuples(query)
    return evaluate_locally(needed), LateAnsweredQuery(needed.remote) if needed.remote.terms else None
