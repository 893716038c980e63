"""Views that set rows aside, as a transaction sees them: what they will show once it is committed.

Rows that are held back stay so, unless the transaction touches their group, and those of its own rows that cannot be
computed are left out: which ones is found as in an epoch, but by computing the view again over parts of its changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tidemill.algebra.node import Relation
from tidemill.changes.arrow import to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.engine.catalog.views.view import View
from tidemill.engine.quarantine.fault_search import FaultSearch, summed
from tidemill.engine.quarantine.holding import Guards
from tidemill.engine.quarantine.notes import tell_reader
from tidemill.model.errors import ArithmeticFault

__all__ = ["GuardedReads"]

LEFT_OUT = "rows of this transaction cannot be computed: a view that sets such rows aside is read without them"

Answer = Callable[[Relation, Mapping[str, ChangeSet]], ChangeSet]
"""Computes a query over relations that are all given."""


class GuardedReads:
    """Reads such views: ``stored`` are the rows of a relation now, ``own`` how the transaction changes them."""

    def __init__(self, stored: Callable[[str], ChangeSet], own: Callable[[str], ZSet], answer: Answer) -> None:
        self._stored = stored
        self._own = own
        self._answer = answer

    def rows(self, view: View, guards: Guards) -> ChangeSet:
        """The rows of a view, with ``guards`` if it has groups."""
        stored = {name: self._stored(name) for name in view.inputs}
        own = {name: self._own(name) for name in stored}
        read = _Inputs(view, stored, {name: _held(guards, name) for name in stored}, self._answer)
        tried = {name: guards[name].to_try(change)[0] if name in guards else [change] for name, change in own.items()}
        try:
            return read.after({name: summed(groups, range(len(groups))) for name, groups in tried.items()})
        except ArithmeticFault:
            tell_reader([LEFT_OUT])
        if not guards:
            return self._stored(view.name)
        faults = FaultSearch({name: guard.groups for name, guard in guards.items()}, tried, read.fault).run()
        left = {
            name: [place for place in range(len(groups)) if place not in faults.get(name, {})]
            for name, groups in tried.items()
        }
        return read.after({name: summed(tried[name], places) for name, places in left.items()})


class _Inputs:
    """The inputs of a view as it sees them: as they are stored, without what is held back."""

    def __init__(
        self,
        view: View,
        stored: Mapping[str, ChangeSet],
        held: Mapping[str, ZSet],
        answer: Answer,
    ) -> None:
        self._view = view
        self._stored = stored
        self._held = held
        self._answer = answer

    def after(self, changes: Mapping[str, ZSet]) -> ChangeSet:
        """The rows of the view after changes of its inputs."""
        given = {}
        for name, rows in self._stored.items():
            change = changes.get(name, ZSet()) - self._held[name]
            given[name] = _summed(rows, change) if change else rows
        return self._answer(self._view.relation, given)

    def fault(self, changes: Mapping[str, ZSet]) -> ArithmeticFault | None:
        """The error of the view after these changes, if there is one."""
        try:
            self.after(changes)
        except ArithmeticFault as fault:
            return fault
        return None


def _summed(rows: ChangeSet, change: ZSet) -> ChangeSet:
    added = to_arrow(list(change.items()), rows.fields)
    return ChangeSet.of_arrow(pa.concat_tables([rows.arrow(), added]), rows.fields)


def _held(guards: Guards, name: str) -> ZSet:
    held = guards[name].held.values() if name in guards else ()
    return ZSet.summed((one.row, one.weight) for one in held)
