"""The ECA-Local algorithm (5.5), which the paper leaves open: updates that need no query are applied locally.

It is ECA, whose invariant (see ``eca``) holds after every message,

    MV + COLLECT + (all of UQS, evaluated now) = V, evaluated now,

and an update is *local* if both sides can follow it without a query. There are three kinds:

* It is irrelevant: its tuples fail the conditions on their leaf, or differ only in columns that the view does not read.
  Then ``T<U>`` is empty for V and for every unanswered term (``relevance``). The same test drops compensations whose
  tuples do not join with each other.
* All leaves are bound: the terms are evaluated locally, as in ECA.
* It deletes rows whose key the view shows. The paper is concerned about the *right version* of the view, and proposes
  to hold updates back and to split answers. Neither is needed, because a key-delete is linear: K keeps the rows of a
  Z-set that do not show the key, and K(a + b) = K(a) + K(b). So K is applied to each summand of the invariant: of V it
  is the view after the delete; of MV + COLLECT it is computed locally, though that sum is the view in no single state;
  for an unanswered term T, which is evaluated after the delete, there are two cases. If the leaf is not bound, the
  source no longer finds a row of that key: K(T, before) is T, now, and nothing remains to be done. If the leaf is bound
  to a tuple of that key, an insert whose query is still unanswered, the source would still use it; exactly that subset
  of T is subtracted by a query, which joins UQS and is compensated like all others.

The invariant holds after each kind, and nothing is installed while UQS is not empty, so the argument for ECA applies:
strong consistency. An updated row is a delete and an insert: the delete is local if the key is shown, and the rest is
one query. If a view shows the key of some relation, its rows are held locally once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidemill.changes.zset import Row, ZSet
from tidemill.protocols.algorithms.eca import Eca
from tidemill.protocols.compensation.pack_terms import pack_terms
from tidemill.protocols.compensation.relevance import changes_read_by, drop_irrelevant_terms
from tidemill.protocols.compensation.view_keys import LeafKey, RowsByKey, shown_keys
from tidemill.protocols.protocol import InitialView
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm


class EcaLocal(Eca):
    """ECA-Local, section 5.5 of the paper."""

    def __init__(self, start: InitialView) -> None:
        super().__init__(start)
        self._keys = _keys_of_whole_relations(start)
        self._held = RowsByKey(self._keys, start.rows if self._keys else ZSet())

    def _query(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        """Apply deletes by key first; the rest of the update sees the state after them."""
        read = changes_read_by(self._view.view, changes)
        taken_back = self._key_deletes(read)
        asked = (self._view - self._under_way() - taken_back).after_all(self._others(read))
        return pack_terms(drop_irrelevant_terms(taken_back + asked))

    def _key_deletes(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        """Remove the view rows that derive from deleted rows; returns the terms to subtract from unanswered queries."""
        under_way = self._under_way()
        terms = under_way.terms
        back: list[SignedTerm] = []
        for key in self._keys:
            gone = {key.of(row) for row, weight in changes.get(key.leaf.relation, {}).items() if weight < 0}
            if not gone:
                continue
            for values in gone:
                self._gather(-self._held.made_of(key, values))
            parts = [part for term in terms for part in _parts(term, key, gone)]
            back += [replace(term, sign=-term.sign) for term, dead in parts if dead]
            terms = tuple(term for term, dead in parts if not dead)
        return replace(under_way, terms=tuple(back))

    def _others(self, changes: Mapping[str, ZSet]) -> dict[str, ZSet]:
        """The changes that are not deletes by key."""
        local = {key.leaf.relation for key in self._keys}
        return {
            relation: ZSet({row: weight for row, weight in change.items() if weight > 0})
            if relation in local
            else change
            for relation, change in changes.items()
        }

    def _know(self, number: int, rows: ZSet) -> None:
        """Collect locally evaluated rows at once, so that deletes by key find them."""
        self._gather(rows)

    def _gather(self, rows: ZSet) -> None:
        super()._gather(rows)
        if self._keys:
            self._held.add(rows)


def _keys_of_whole_relations(start: InitialView) -> list[LeafKey]:
    """The keys that the view shows, of relations whose key it shows under every alias."""
    shown = shown_keys(start.view, start.keys)
    aliases = {key.leaf.alias for key in shown}
    hidden = {leaf.relation for leaf in start.view.leaves if leaf.alias not in aliases}
    return [key for key in shown if key.leaf.relation not in hidden]


def _parts(term: SignedTerm, key: LeafKey, gone: set[Row]) -> Iterator[tuple[SignedTerm, bool]]:
    """Split a term by the tuples bound to the leaf of ``key``: those whose key is in ``gone``, and the others."""
    rows = term.bound.get(key.leaf.alias)
    if rows is None:
        yield term, False
        return
    for dead in (True, False):
        some = ZSet({row: weight for row, weight in rows.items() if (key.of(row) in gone) == dead})
        if some:
            yield replace(term, bound={**term.bound, key.leaf.alias: some}), dead
