"""The contents of a table for tests of compiled tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import Table


@dataclass
class TableContents:
    """What a store would have of one table: its rows, and what was committed since some epoch."""

    read: Callable[[], ChangeSet]
    missed: ChangeSet | None = None
    epoch: int = 0

    def rows(self, relation: str) -> ChangeSet:
        """The rows as they are now."""
        return self.read()

    def missed_rows(self, table: Table, since: int) -> ChangeSet | None:
        """The changes that were missed, or None."""
        return self.missed
