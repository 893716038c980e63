"""Where clocks stand, and the changes that advance them.

A clock is a relation of one row (``model.clocks``), stored like any other, and its instant is a position as well. Both
are committed with the epoch that advances it, so all views of an epoch see the same, and a restart goes on from there.
An event clock advances in the epoch of the rows that do it; the wall clock in an epoch of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow.compute as pc

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.partitions.lateness import times_of
from tidemill.model.clocks import NOW, Clock, instant_of
from tidemill.model.schema import names_of

__all__ = ["BEFORE_EVENTS", "LATEST", "ClockAdvance", "advanced", "last_time"]

BEFORE_EVENTS = datetime(1000, 1, 1)
"""The instant of an event clock of a table that has had no row yet."""

LATEST = datetime(9000, 1, 1)
"""The instant that no clock goes beyond: after it there is room to add intervals."""

EPOCH = datetime(1970, 1, 1)


def advanced(clock: Clock, old: datetime | None, new: datetime) -> ChangeSet:
    """The change of a clock's relation."""
    gone = [] if old is None else [((old,), -1)]
    return ChangeSet.of([*gone, ((new,), 1)], (NOW,))


@dataclass
class ClockAdvance:
    """The event clocks that changes of an epoch advance; ``before`` has their instants among the positions."""

    catalog: Catalog
    before: Mapping[str, str]
    moved: dict[str, str] = field(default_factory=dict)
    """The positions of clocks that have advanced."""

    def with_clocks(self, changes: Mapping[str, ChangeSet]) -> Mapping[str, ChangeSet]:
        """The changes, and those of the clocks that they advance."""
        found = dict(changes)
        for clock in self.catalog.clocks.values():
            table, column = clock.column or ("", "")
            change = changes.get(table)
            if change is None or not change.rows or clock.relation in found or not self._has(table, column):
                continue
            new = last_time(change, names_of(self.catalog.tables[table].fields).index(column))
            old = instant_of({**self.before, **self.moved}, clock)
            if new is not None and old is not None and old < new <= LATEST:
                found[clock.relation] = advanced(clock, old, new)
                self.moved[clock.position] = new.isoformat()
        return found

    def _has(self, table: str, column: str) -> bool:
        """False where a table was altered after the last view of its clock was replaced."""
        return table in self.catalog.tables and column in names_of(self.catalog.tables[table].fields)


def last_time(change: ChangeSet, place: int) -> datetime | None:
    """The greatest time among the rows of a change."""
    last = pc.max(times_of(change, place)).as_py()
    return None if last is None else EPOCH + timedelta(microseconds=last)
