"""The changes of a running epoch as each view sees them: everything but the rows that are held back from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.engine.quarantine.held_rows import HeldRow, HeldRows
from tidemill.engine.quarantine.row_groups import Group, RowGroups

__all__ = ["Decision", "Guard", "Guards", "Holding"]


@dataclass(frozen=True)
class Guard:
    """An input of a view with groups, and the rows of it that are held back from the view."""

    groups: RowGroups
    held: HeldRows

    def touched(self, change: ZSet) -> tuple[list[ZSet], dict[Row, HeldRow]]:
        """The groups that a change touches, each with its rows in the change and those held back, summed; and the rest.

        A row that was skipped is alone in its group: the others of its group go on without it.
        """
        rows = {*change, *self.held}
        keys = self.groups.of_rows(rows) if rows else {}
        keys |= {row: ("row", row) for row, held in self.held.items() if held.is_skipped}
        found: dict[Group, ZSet] = {keys[row]: ZSet() for row in change}
        for row, weight in (*change.items(), *((row, held.weight) for row, held in self.held.items())):
            if keys[row] in found:
                found[keys[row]].add(row, weight)
        return list(found.values()), {row: held for row, held in self.held.items() if keys[row] not in found}

    def to_try(self, change: ZSet) -> tuple[list[ZSet], dict[Row, HeldRow]]:
        """The groups that a change touches and that may be computed now, and the rows that stay where they are."""
        groups, held = self.touched(change)
        skipped = {row for row, one in self.held.items() if one.is_skipped}
        held |= {row: replace(self.held[row], weight=g[row]) for g in groups for row in g if row in skipped}
        return [rows for rows in groups if skipped.isdisjoint(rows)], held

    def decide(self, change: ZSet) -> Decision:
        """The decision that releases every group that ``change`` touches, and leaves skipped rows where they are."""
        groups, held = self.to_try(change)
        passed = ZSet()
        for rows in groups:
            passed.update_by(rows)
        return Decision(passed, held)


Guards = Mapping[str, Guard]
"""The inputs of a view with groups, by name."""


@dataclass(frozen=True)
class Decision:
    """The change of an input that a view with groups sees in an epoch, and the rows held back from it afterwards."""

    passed: ZSet
    held: HeldRows


@dataclass
class Holding:
    """The changes of one epoch as each guarded view sees them, and which view is at work, should it fail."""

    guards: Mapping[str, Guards]
    """By view."""
    decided: Mapping[str, Mapping[str, Decision]]
    """By view and input."""
    whole: Mapping[str, ChangeSet] = field(default_factory=dict)
    """The whole change of each table, where it comes in two parts: deletes, then inserts."""
    working: str = ""
    offered: dict[str, dict[str, ChangeSet]] = field(default_factory=dict)
    """By view, the changes of its inputs."""
    made: dict[str, dict[str, Decision]] = field(default_factory=dict)
    """By view and input."""
    _served: set[tuple[str, str]] = field(default_factory=set)

    def shown(self, view: str, stage: str, relation: str, change: ChangeSet) -> ChangeSet | None:
        """The part of a change that a stage of a view sees; None if it sees nothing of it."""
        self.working = view
        whole = self.whole.get(relation, change)
        self.offered.setdefault(view, {})[relation] = whole
        guard, decided = self.guards.get(view, {}).get(relation), self.decided.get(view, {}).get(relation)
        if guard is None or not (guard.held or decided is not None):
            return change
        made = self.made.setdefault(view, {})
        if relation not in made:
            made[relation] = decided or guard.decide(whole.zset())
        pairs = self._part(stage, relation, made[relation].passed, is_part=change.rows < whole.rows)
        return ChangeSet.of(pairs, whole.fields) if pairs else None

    def _part(self, stage: str, relation: str, passed: ZSet, *, is_part: bool) -> list[tuple[Row, int]]:
        """Rows of a change for a stage, which gets the whole change, or its deletes and then its inserts."""
        again = (stage, relation) in self._served
        self._served.add((stage, relation))
        if not is_part:
            return [] if again else list(passed.items())
        return [(row, weight) for row, weight in passed.items() if (weight > 0) == again]
