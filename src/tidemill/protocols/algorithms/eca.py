"""The Eager Compensating Algorithm (5.2): queries that compensate for updates that unanswered queries will also see.

When an update arrives while queries are unanswered, these will be evaluated after it, since the source sends messages
in order. So the query for the update subtracts what it adds to each of them, ``Q<U>``, before their answers arrive. At
every moment

    MV + COLLECT + (all of UQS, evaluated now) = V, evaluated now

where *now* is the state of the source that the messages so far lead to. An update keeps this (lemma B.2 of the paper),
an answer moves rows from the third summand to the second, and once nothing is unanswered, MV + COLLECT is the view:
only then is it installed. So every state of the view is one of the source, in order, and the final states agree: strong
consistency. Intermediate states are skipped, so it is not complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from tidemill.changes.zset import ZSet
from tidemill.protocols.compensation.pack_terms import pack_terms
from tidemill.protocols.protocol import Action, AskSource, InitialView, InstallChange, Level
from tidemill.sources.remote_queries.local_evaluation import evaluate_locally
from tidemill.sources.remote_queries.signed_query import SignedQuery
from tidemill.sources.source import Position


class Eca:
    """Algorithm 5.2 of the paper: ``unanswered`` is its UQS, ``collect`` its COLLECT.

    Terms whose leaves are all bound are never sent. They are evaluated locally, and their rows, ``known``, count
    towards the answer of the query.
    """

    level = Level.STRONG

    def __init__(self, start: InitialView) -> None:
        self.unanswered: dict[int, SignedQuery] = {}
        self.known: dict[int, ZSet] = {}
        self.collect = ZSet()
        self._view = start.view.query
        self._positions = dict(start.positions)
        self._numbers = count(1)

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Query what the update adds to the view, less what it adds to the unanswered queries."""
        self._positions[source] = position
        query = self._query(changes)
        number = next(self._numbers)
        self._know(number, evaluate_locally(query))
        self.unanswered[number] = query.remote
        if not query.remote.terms:
            return self.answered(number, ZSet(), position, source)
        return [AskSource(number, query.remote, source)]

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Add the answer to COLLECT; after the last unanswered query install COLLECT."""
        self._positions[source] = position
        del self.unanswered[number]
        self._gather(rows + self.known.pop(number, ZSet()))
        if self.unanswered:
            return []
        change, self.collect = self.collect, ZSet()
        return [InstallChange(change, dict(self._positions))]

    @property
    def idle(self) -> bool:
        """True if UQS is empty."""
        return not self.unanswered

    def _query(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        return pack_terms((self._view - self._under_way()).after_all(changes))

    def _under_way(self) -> SignedQuery:
        return replace(self._view, terms=tuple(term for query in self.unanswered.values() for term in query.terms))

    def _know(self, number: int, rows: ZSet) -> None:
        self.known[number] = rows

    def _gather(self, rows: ZSet) -> None:
        self.collect.update_by(rows)
