"""Reads of a session, from which nothing comes that it may not see, and of which it is told what they do not show.

Where a session may see some rows of a table alone, these are found first, and its query is answered over them. So no
expression of the query is ever evaluated for another row: it could tell of it by an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import scans, walk_all
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.engine.access.rights import Rights, rights_of
from tidemill.engine.access.row_conditions import meeting, meeting_rows
from tidemill.engine.calls.running_calls import RunningCalls
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.reading.reader import Versions, WarehouseReader
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.quarantine.notes import quarantine_note, quarantine_notes, tell_reader
from tidemill.engine.subscriptions.change_batches import ChangeBatch, batch_of
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Field
from tidemill.runtimes.runtime import NotAnswered

__all__ = ["AllowedReads"]


class AllowedReads:
    """Reads of the session of a thread; the owner's reads are those of the ``reader``.

    ``contents`` and ``answer`` are those that everything else goes through.
    """

    def __init__(
        self,
        state: EngineState,
        calls: RunningCalls,
        reader: WarehouseReader,
        contents: Callable[..., ChangeSet],
        answer: Callable[..., ChangeSet],
    ) -> None:
        self._state = state
        self._calls = calls
        self._reader = reader
        self._contents = contents
        self._answer = answer

    @property
    def rights(self) -> Rights:
        """The rights of the session that this thread works for."""
        return rights_of(self._calls.session, self._state.catalog)

    @property
    def _limited(self) -> Rights | None:
        """The rights of a session that may not read everything."""
        if not self._calls.by_thread:
            return None
        rights = self.rights
        return None if rights.reads_all else rights

    def contents(self, name: str, until: int | None = None) -> ChangeSet:
        """The rows of a table or view that the session may see, now or as of an epoch."""
        with self.telling([name], until):
            rights = self._limited
            if rights is None:
                return self._contents(name, until)
            return self._visible(name, until, rights.required("SELECT", name))

    def answer(self, relation: Relation, first: Relation | None = None) -> ChangeSet:
        """The rows of a query over what the session may see."""
        with self.telling(scans(relation)):
            return self._answer_allowed(relation, first)

    def _answer_allowed(self, relation: Relation, first: Relation | None) -> ChangeSet:
        rights = self._limited
        if rights is None:
            return self._answer(relation, first)
        named = self._named(relation)
        conditions = [rights.required("SELECT", name) for name in named]
        if not any(conditions):
            return self._answer(relation, first)
        return self._answer_over({name: self.contents(name) for name in named}, relation, first)

    def answer_given(self, relation: Relation, given: Mapping[str, ChangeSet]) -> ChangeSet:
        """The rows of a query over what the session may see, and over relations whose rows are ``given``."""
        with self.telling(scans(relation) - given.keys()):
            if self._limited is None:
                return self._reader.answer_given(relation, given)
            return self._answer_over({**{n: self.contents(n) for n in self._named(relation)}, **given}, relation, None)

    def answer_at(self, versions: Versions, relation: Relation, first: Relation | None = None) -> ChangeSet:
        """The rows of a query over what the session may see of earlier epochs."""
        for name, until in versions.values():
            self.tell([name], until)
        if self._limited is None:
            return self._reader.answer_at(versions, relation, first)
        found = {name: self.contents(stored, until) for name, (stored, until) in versions.items()}
        return self._answer_over(found, relation, first)

    def find(self, table: Table, keys: Collection[Row]) -> Mapping[Row, Sequence[Row]]:
        """The rows of a table with these primary keys that the session may see, by key."""
        found, rights = self._reader.find(table, keys), self._limited
        if rights is None:
            return found
        seen = self._meeting(rights, table.name, table.fields, (row for rows in found.values() for row in rows))
        kept = {key: [row for row in rows if row in seen] for key, rows in found.items()}
        return {key: rows for key, rows in kept.items() if rows}

    def batch(self, name: str, batch: ChangeBatch) -> ChangeBatch:
        """The changes of an epoch in a view that the session may see: a row that it no longer sees has left."""
        rights = self._limited
        return batch if rights is None else batch_of(batch, self._meeting(rights, name, batch.fields, batch.net))

    def changes(self, name: str, change: ChangeSet) -> ChangeSet:
        """The changes of a table or view that the session may see."""
        rights = self._limited
        if rights is None:
            return change
        net = change.zset()
        seen = self._meeting(rights, name, change.fields, net)
        return ChangeSet.of([(row, weight) for row, weight in net.items() if row in seen], change.fields)

    # -- what rows do not show ------------------------------------------------------------------------------------

    def notes(self, names: Iterable[str], until: int | None = None) -> tuple[str, ...]:
        """Notes for readers of these relations: views in quarantine do not show everything."""
        catalog, marks, rights = self._state.catalog, self._state.quarantine.marks, self._limited
        until = None if until is None or until >= self._state.store.epoch else until
        if rights is None:
            return quarantine_notes(catalog, marks, names, until)
        return tuple(
            f'view "{name}" does not show all changes of its tables: some rows cannot be computed'
            for name in names
            if quarantine_notes(catalog, marks, [name], until)
        )

    def tell(self, names: Iterable[str], until: int | None = None) -> None:
        """Tell this thread's reader of these relations what they do not show."""
        tell_reader(self.notes(names, until))

    def tell_of(self, view: View) -> None:
        """Tell whoever defines a view what it will not show."""
        tell_reader(filter(None, [quarantine_note(self._state.catalog, self._state.quarantine.marks, view)]))

    @contextmanager
    def telling(self, names: Iterable[str], until: int | None = None) -> Iterator[None]:
        """Context in which these relations are read: their reader is told of what was so before and after."""
        if until is None and not self._state.catalog.guarded:
            yield
            return
        store, names = self._state.store, list(names)
        epoch, notes = store.epoch, self.notes(names, until)
        yield
        after = self.notes(names) if until is None and store.epoch != epoch else ()
        tell_reader(dict.fromkeys((*notes, *after)))

    def _named(self, relation: Relation) -> set[str]:
        """The tables and views that a query names, also where it has rows of its own under such a name."""
        scanned = {node.relation for node in walk_all(relation) if isinstance(node, Scan)}
        return {name for name in scanned if name in self._state.catalog}

    def _meeting(self, rights: Rights, name: str, fields: Sequence[Field], rows: Iterable[Row]) -> set[Row]:
        conditions = rights.required("SELECT", name)
        return meeting_rows(name, fields, conditions, rows) if conditions else set(rows)

    def _visible(self, name: str, until: int | None, conditions: Sequence[str]) -> ChangeSet:
        if not conditions:
            return self._contents(name, until)
        catalog = self._state.catalog
        fields = catalog.fields_at(catalog.entry(name).name, until)
        wanted = meeting(name, fields, conditions)
        found = self._answer(wanted) if until is None else self._reader.answer_at({name: (name, until)}, wanted)
        return ChangeSet.of(found.pairs(), fields)

    def _answer_over(self, given: Mapping[str, ChangeSet], relation: Relation, first: Relation | None) -> ChangeSet:
        """The rows of a query over relations that are all ``given``."""

        def columns(name: str, fields: Sequence[Field]) -> pa.Table:
            return given[name].arrow().select([*(f.name for f in fields), WEIGHT])

        placement = self._state.placement
        if placement.answers_in_columns(sum(map(len, given.values()))):
            with suppress(NotAnswered):
                return placement.answer_in_columns(first or relation, columns)
        tables = {name: change.zset() for name, change in given.items()}
        return ChangeSet.of(evaluate(relation, tables).items(), relation.fields)
