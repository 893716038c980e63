"""The ECA-Key algorithm (5.4), for views that show the key of every relation: no compensation, no queries for deletes.

COLLECT is a working copy of the view. A deleted base row removes its view rows from it by key. An inserted base row
sends ``V<U>``, and the answer is added except for rows already present: a row of the view contains all keys and so
occurs once; a duplicate is an anomaly to be ignored. When no query is unanswered, the copy is the view.

The paper overlooks one case (case II(a) of its appendix C assumes that a deleted key cannot come back in an answer): a
row that is deleted while the query *about it* is unanswered is bound in that query, so the answer contains it although
it is deleted. So a query records the keys that are deleted while it is unanswered, and their rows are left out of its
answer. If such a key is inserted again, the query for that insert brings its rows.

Why it is strongly consistent: let a row of V derive from the base rows b1 ... bn, and no query be unanswered. If all of
them are in the source, then the query for the last one inserted was evaluated when all were present, and no delete of
their keys followed that insert, so the row was added and has stayed. If one of them is not in the source, its delete
removed the row from COLLECT, and from every answer still to come that is not about a later insert of that key.
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
    """An unanswered query for inserted rows, and the keys deleted since it was sent."""

    query: SignedQuery
    deleted: set[tuple[LeafKey, Row]] = field(default_factory=set)


class EcaKey:
    """ECA-Key, section 5.4 of the paper. The key of every leaf must be among the outputs of the view."""

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
        """The unanswered queries."""
        return {number: inserted.query for number, inserted in self._unanswered.items()}

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Delete by key; then query the rows that derive from inserts. An updated row is a delete and an insert."""
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
        """Add the rows that are not present yet and were not deleted meanwhile."""
        self._positions[source] = position
        deleted = self._unanswered.pop(number).deleted
        keys = {key for key, _ in deleted}
        self._add(ZSet({row: 1 for row in rows if not any((key, key.shown_by(row)) in deleted for key in keys)}))
        return self._settle()

    @property
    def idle(self) -> bool:
        """True if no query is unanswered."""
        return not self._unanswered

    def _inserts(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        """``V<U>`` for inserted rows; a view row that derives from inserts of several leaves occurs once for each."""
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
