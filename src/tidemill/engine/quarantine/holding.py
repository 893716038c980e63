"""The changes of a running epoch as each view sees them: everything but the rows that are held back from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.engine.quarantine.held_rows import HeldRow, HeldRows
from tidemill.engine.quarantine.row_groups import Group, RowGroups

__all__ = ["Decision", "Guard", "Holding"]


@dataclass(frozen=True)
class Guard:
    """A view with groups, and the rows that are held back from it."""

    view: str
    groups: RowGroups
    held: HeldRows

    def touched(self, change: ZSet) -> tuple[list[ZSet], dict[Row, HeldRow]]:
        """The groups that a change touches, each with its rows in the change and those held back, summed; and the rest.

        A row that was skipped is alone in its group: the others of its group go on without it.
        """
        rows = {*change, *self.held}
        keys = self.groups.of(rows) if rows else {}
        keys |= {row: ("row", row) for row, held in self.held.items() if held.is_skipped}
        found: dict[Group, ZSet] = {keys[row]: ZSet() for row in change}
        for row, weight in (*change.items(), *((row, held.weight) for row, held in self.held.items())):
            if keys[row] in found:
                found[keys[row]].add(row, weight)
        return list(found.values()), {row: held for row, held in self.held.items() if keys[row] not in found}

    def decide(self, change: ZSet) -> Decision:
        """The decision that releases every group that ``change`` touches, and leaves skipped rows where they are."""
        groups, held = self.touched(change)
        passed = ZSet()
        for row, weight in (pair for rows in groups for pair in rows.items()):
            before = self.held.get(row)
            if before is not None and before.is_skipped:
                held[row] = replace(before, weight=weight)
            else:
                passed.add(row, weight)
        return Decision(passed, held)


@dataclass(frozen=True)
class Decision:
    """The change that a view with groups sees in an epoch, and the rows that are held back from it afterwards."""

    passed: ZSet
    held: HeldRows


@dataclass
class Holding:
    """The changes of one epoch as each guarded view sees them, and which view is at work, should it fail."""

    guards: Mapping[str, Guard]
    decided: Mapping[str, Decision]
    whole: Mapping[str, ChangeSet] = field(default_factory=dict)
    """The whole change of each table, where it comes in two parts: deletes, then inserts."""
    working: str = ""
    offered: dict[str, dict[str, ChangeSet]] = field(default_factory=dict)
    """By view, the changes of its inputs."""
    made: dict[str, Decision] = field(default_factory=dict)
    _served: set[tuple[str, str]] = field(default_factory=set)

    def shown(self, view: str, stage: str, relation: str, change: ChangeSet) -> ChangeSet | None:
        """The part of a change that a stage of a view sees; None if it sees nothing of it."""
        self.working = view
        whole = self.whole.get(relation, change)
        self.offered.setdefault(view, {})[relation] = whole
        guard = self.guards.get(view)
        if guard is None or relation != guard.groups.input or not (guard.held or view in self.decided):
            return change
        if (stage, relation) in self._served:
            return None
        self._served.add((stage, relation))
        made = self.made.get(view)
        if made is None:
            made = self.made[view] = self.decided.get(view) or guard.decide(whole.zset())
        return ChangeSet.of(made.passed.items(), whole.fields) if made.passed else None
