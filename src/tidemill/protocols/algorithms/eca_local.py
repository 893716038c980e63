"""The ECA-Local algorithm (5.5), which the paper leaves open: updates that need no query are worked in here.

It is ECA, whose balance (see ``eca``) holds after every message,

    MV + COLLECT + (all of UQS, evaluated now) = V, evaluated now,

and an update is *local* where both sides can follow it without asking. There are three kinds:

* It cannot matter: its tuples fail the conditions on their leaf, or differ in columns only that the view does not read.
  Then ``T<U>`` is nothing for V and for every term under way alike (``relevance``). The same test drops compensations
  whose tuples do not join with each other.
* All leaves are bound: the terms are evaluated here, as in ECA.
* It deletes rows whose key the view shows. The paper fears for the *right version* of the view, and proposes to hold
  updates back and to split answers. None of this is needed, because a key-delete is linear: it keeps the rows of any
  Z-set that do not show the key, call it K, and K(a + b) = K(a) + K(b). So K of the balance is taken summand by
  summand: of V it is the view after the delete; of MV + COLLECT it is computed here, though that is the view in no
  state at all; and of a term T under way, which is evaluated after the delete, there are two cases. Where the leaf is
  not bound, the source finds no row of that key any more: K(T, before) is T, now, and nothing is to be done. Where the
  leaf is bound to a tuple of that key, an insert whose query is still under way, the source would go on to use it; that
  part of T, and no more, is taken back by a query, which joins UQS and is compensated as all others are.

The balance holds after each kind, nothing is installed while UQS is not empty, and so the argument for ECA is the
argument here: strong consistency. A changed row is a delete and an insert in one: the first half is local where the key
is shown, and the rest is one query. Where a view shows the key of some relation, its rows are held here once.
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
    """Section 5.5 of the paper."""

    def __init__(self, start: InitialView) -> None:
        super().__init__(start)
        self._keys = _keys_of_whole_relations(start)
        self._held = RowsByKey(self._keys, start.rows if self._keys else ZSet())

    def _query(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        """Deletes by key first; what is left of the update sees the state after them."""
        read = changes_read_by(self._view.view, changes)
        taken_back = self._key_deletes(read)
        asked = (self._view - self._under_way() - taken_back).after_all(self._others(read))
        return pack_terms(drop_irrelevant_terms(taken_back + asked))

    def _key_deletes(self, changes: Mapping[str, ZSet]) -> SignedQuery:
        """Take out the rows made of deleted ones; returns what queries under way must be asked to leave out as well."""
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
        """What is known is gathered at once, so that deletes by key find it."""
        self._gather(rows)

    def _gather(self, rows: ZSet) -> None:
        super()._gather(rows)
        if self._keys:
            self._held.add(rows)


def _keys_of_whole_relations(start: InitialView) -> list[LeafKey]:
    """The keys that the view shows, of relations for which it shows them under every alias."""
    shown = shown_keys(start.view, start.keys)
    aliases = {key.leaf.alias for key in shown}
    hidden = {leaf.relation for leaf in start.view.leaves if leaf.alias not in aliases}
    return [key for key in shown if key.leaf.relation not in hidden]


def _parts(term: SignedTerm, key: LeafKey, gone: set[Row]) -> Iterator[tuple[SignedTerm, bool]]:
    """A term cut in two by the tuples that it binds to the leaf of ``key``: those of keys that are gone, and others."""
    rows = term.bound.get(key.leaf.alias)
    if rows is None:
        yield term, False
        return
    for dead in (True, False):
        some = ZSet({row: weight for row, weight in rows.items() if (key.of(row) in gone) == dead})
        if some:
            yield replace(term, bound={**term.bound, key.leaf.alias: some}), dead
