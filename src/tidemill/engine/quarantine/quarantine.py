"""All rows that are held back from the views of a warehouse, and the decisions of the epoch that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.errors_table import ERRORS, errors_table
from tidemill.engine.catalog.views.view import View
from tidemill.engine.quarantine.held_rows import HeldRow, errors_of, held_rows
from tidemill.engine.quarantine.holding import Decision, Guard, Guards, Holding
from tidemill.engine.quarantine.marks import ErrorMark, ErrorMarks
from tidemill.engine.quarantine.row_groups import RowGroups, row_groups
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.storage.store import Store

__all__ = ["Quarantine"]


class Quarantine:
    """Rows held back from views. What is held is read from the store: a mark tells when that has changed."""

    def __init__(self, store: Store, catalog: Callable[[], Catalog]) -> None:
        self._store = store
        self._catalog = catalog
        self.marks = ErrorMarks(store)
        self._read: dict[str, tuple[str, list[HeldRow]]] = {}
        self._groups: dict[int, tuple[View, Mapping[str, RowGroups]]] = {}
        self._watching = False
        self._forgotten: frozenset[str] = frozenset()
        self.decided: dict[str, Mapping[str, Decision]] = {}
        """Changes as the epoch that runs shows them to views whose rows were found to be at fault, by input."""
        self.listed: dict[str, list[HeldRow]] = {}
        """Views without groups that stop in the epoch that runs, with the rows at fault, or that go on, with none."""
        self.retried: dict[str, list[HeldRow]] = {}
        """Views whose held rows come again as changes in the epoch that runs, with those that do not."""
        self.last: Holding | None = None
        """Changes as the last propagation of an epoch has shown them to views."""

    # -- what is held -------------------------------------------------------------------------------------------

    def held(self, view: str) -> list[HeldRow]:
        """The rows that are held back from a view, or are why it is stopped."""
        mark = self._mark(view)
        if mark is None:
            return []
        known = self._read.get(view)
        if known is None or known[0] != str(mark):
            known = self._read[view] = str(mark), held_rows(self._errors(view), self._fields(view))
        return known[1]

    def _errors(self, view: str) -> ZSet:
        fields = errors_table(view).fields
        stored = self._store.read(view + ERRORS, fields)
        return ChangeSet.of_arrow(stored.select([*(f.name for f in fields), WEIGHT]), fields).zset()

    def _fields(self, view: str) -> dict[str, Sequence[Field]]:
        catalog = self._catalog()
        return {name: catalog.entry(name).fields for name in catalog.view(view).inputs}

    def holds(self, view: str) -> bool:
        """True if a view with groups does not show all rows of its input."""
        seen = self._catalog().guarded.get(view)
        return seen is not None and not seen.stopped and self._mark(view) is not None

    def _mark(self, view: str) -> ErrorMark | None:
        return None if view in self._forgotten else self.marks.of(view)

    def groups(self, view: View) -> Mapping[str, RowGroups]:
        """The groups of the inputs of a view; empty if it has none, and stops as a whole."""
        known = self._groups.get(id(view.program))
        if known is None:
            if len(self._groups) > len(self._catalog().guarded):
                self._groups.clear()
            known = self._groups[id(view.program)] = view, row_groups(view, self._catalog().tables)
        return known[1]

    def guards(self, view: View) -> Guards:
        """The inputs of a view with groups, with what is held back from it; none if it stops as a whole."""
        if view.stopped:
            return {}
        held = self.retried.get(view.name)
        held = self.held(view.name) if held is None else held
        return {
            name: Guard(groups, {one.row: one for one in held if one.relation == name})
            for name, groups in self.groups(view).items()
        }

    def hidden(self, view: str) -> dict[str, ChangeSet]:
        """The changes of its inputs that a view in quarantine has not seen."""
        seen = self._catalog().guarded.get(view)
        if seen is not None and seen.stopped:
            return {name: self.since(name, seen.fresh) for name in seen.inputs}
        if not self.holds(view):
            return {}
        fields, found = self._fields(view), dict[str, list[HeldRow]]()
        for one in self.held(view):
            found.setdefault(one.relation, []).append(one)
        return {
            name: ChangeSet.of(((one.row, one.weight) for one in rows), fields[name]) for name, rows in found.items()
        }

    def since(self, relation: str, epoch: int | None) -> ChangeSet:
        """The changes of a relation after an epoch, or all its rows, as they are stored."""
        fields = self._catalog().entry(relation).fields
        stored = self._store.read(relation, fields, since=epoch)
        return ChangeSet.of_arrow(stored.select([*(f.name for f in fields), WEIGHT]), fields)

    @contextmanager
    def forgetting(self, *views: str) -> Iterator[None]:
        """Context in which nothing is held back from views, which are filled anew."""
        self._forgotten = frozenset(views)
        try:
            yield
        finally:
            self._forgotten = frozenset()

    # -- an epoch -----------------------------------------------------------------------------------------------

    def begin(self, whole: Mapping[str, ChangeSet]) -> Holding | None:
        """The changes that an epoch shows to views, if that is not all of its changes, or if a fault is looked for."""
        catalog = self._catalog()
        self.last = None
        if not self._watching and not any(map(self.holds, catalog.guarded)):
            return None
        guards = {view.name: self.guards(view) for view in catalog.guarded.values()}
        self.last = Holding(guards, self.decided, whole)
        return self.last

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Context in which every propagation notes which view is at work."""
        self._watching = True
        self.decided, self.listed, self.retried = {}, {}, {}
        try:
            yield
        finally:
            self._watching = False
            self.decided, self.listed, self.retried = {}, {}, {}

    def changes(self, holding: Holding) -> dict[str, ChangeSet]:
        """The changes of tables of errors that an epoch makes."""
        found = dict(self.listed)
        for view, made in holding.made.items():
            others = [one for one in found.get(view, self.held(view)) if one.relation not in made]
            found[view] = [*others, *(one for decision in made.values() for one in decision.held.values())]
        changes = {view + ERRORS: self.replaced(view, held) for view, held in found.items()}
        return {name: change for name, change in changes.items() if change.rows}

    def replaced(self, view: str, held: Sequence[HeldRow]) -> ChangeSet:
        """The change of the table of errors of ``view`` after which it has these rows."""
        fields = self._fields(view)
        errors = errors_of(view, held, fields) - errors_of(view, self.held(view), fields)
        return ChangeSet.of(errors.items(), errors_table(view).fields)
