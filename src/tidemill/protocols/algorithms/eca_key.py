"""The ECA-Key algorithm (5.4), for views that show the key of every relation: no compensation, and deletes ask nothing.

COLLECT is a working copy of the view. A deleted row takes its rows out of it by key. An inserted row asks ``V<U>``, and
what comes is added unless it is there already: with all keys in it a row of the view occurs once, so a second one is
an anomaly that means nothing. When nothing is unanswered, the copy is the view.

One thing the paper overlooks (case II(a) of its appendix C takes it for granted that a deleted key cannot come back in
an answer): a row that is deleted while the query *about it* is under way is bound in that query, and the answer has it
although it is gone. So a query remembers the keys that were deleted while it was under way, and what its answer says
of them is left out. Should such a key be inserted again, then the query for that insert brings its rows.

Why it is strongly consistent: let a row of V be made of the base rows b1 ... bn, and nothing be unanswered. If all of
them are in the source, then the last of them to be inserted had a query, which was evaluated when all were there, and
no delete of their keys came after that insert, so the row was added and has stayed. If one of them is not, then its
delete took the row out of COLLECT, and out of every answer that was then still to come and is not about a later insert
of that key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from tidemill.changes.zset import Row, ZSet
from tidemill.protocols.compensation.relevance import changes_read_by, drop_irrelevant_terms
from tidemill.protocols.compensation.view_keys import LeafKey, RowsByKey, shown_keys
from tidemill.protocols.protocol import Action, AskSource, InitialView, InstallChange, Level
from tidemill.sources.remote_queries.local_evaluation import evaluate_locally
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm
from tidemill.sources.source import Position


@dataclass
class _InsertQuery:
    """A query under way about rows that were inserted, and the keys that were deleted since it was asked."""

    query: SignedQuery
    deleted: set[tuple[LeafKey, Row]] = field(default_factory=set)


class EcaKey:
    """Section 5.4 of the paper. Every leaf's key must be among the outputs of the view."""

    level = Level.STRONG

    def __init__(self, start: InitialView) -> None:
        self._view = start.view
        self._keys = shown_keys(start.view, start.keys)
        if len(self._keys) < len(start.view.leaves):
            raise ValueError("the view does not show the key of every relation")
        self._copy = RowsByKey(self._keys, start.rows)
        self._change = ZSet()
        self._unanswered: dict[int, _InsertQuery] = {}
        self._positions = dict(start.positions)
        self._numbers = count(1)

    @property
    def collect(self) -> ZSet:
        """The working copy of the view."""
        return self._copy.rows

    @property
    def unanswered(self) -> dict[int, SignedQuery]:
        """The queries under way."""
        return {number: inserted.query for number, inserted in self._unanswered.items()}

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Delete by key; then ask for the rows that inserts make. A changed row is both."""
        self._positions[source] = position
        read = changes_read_by(self._view, changes)
        for key in self._keys:
            for row, weight in read[key.leaf.relation].items():
                if weight < 0:
                    self._key_delete(key, key.of(row))
        query = drop_irrelevant_terms(self._inserts(read))
        if not query.remote.terms:
            self._add(evaluate_locally(query))
            return self._settle()
        number = next(self._numbers)
        self._unanswered[number] = _InsertQuery(query)
        return [AskSource(number, query.remote, source)]

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Add what is not there yet, and was not deleted meanwhile."""
        self._positions[source] = position
        deleted = self._unanswered.pop(number).deleted
        keys = {key for key, _ in deleted}
        self._add(ZSet({row: 1 for row in rows if not any((key, key.shown_by(row)) in deleted for key in keys)}))
        return self._settle()

    @property
    def idle(self) -> bool:
        """Whether no query is under way."""
        return not self._unanswered

    def _inserts(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        """``V<U>`` for the rows that are new; a row of the view that several leaves bring comes once for each."""
        terms = []
        for leaf in self._view.leaves:
            new = ZSet({row: weight for row, weight in changes[leaf.relation].items() if weight > 0})
            if new:
                terms.append(SignedTerm(1, {leaf.alias: new}))
        return SignedQuery(self._view, tuple(terms))

    def _key_delete(self, key: LeafKey, values: Row) -> None:
        self._alter(-self._copy.made_of(key, values))
        for inserted in self._unanswered.values():
            inserted.deleted.add((key, values))

    def _add(self, rows: ZSet) -> None:
        self._alter(ZSet({row: 1 for row in rows if row not in self._copy.rows}))

    def _alter(self, change: ZSet) -> None:
        self._copy.add(change)
        self._change.update_by(change)

    def _settle(self) -> Sequence[Action]:
        if self._unanswered:
            return []
        change, self._change = self._change, ZSet()
        return [InstallChange(change, dict(self._positions))]
