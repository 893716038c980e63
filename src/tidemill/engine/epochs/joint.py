"""A joint commit: definitions and rows that change in several steps, and that everybody else sees change at once.

The steps are the same as when each is a commit of its own. The store keeps them to this thread until the last one, and
writes one manifest for all; a process that dies before that has changed nothing. All belong to one epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.telemetry.epoch_work import EpochWork

__all__ = ["JointEpoch"]


class JointEpoch:
    """The epochs that a joint commit consists of, as the one that they are together."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.thread = get_ident()
        self.done: list[EpochWork] = []
        """Entries about them for the refresh log."""
        self.after: list[Callable[[], None]] = []
        """Actions to run once the commit is visible."""
        self._changes: dict[str, ChangeSet] = {}
        self._unlisted: set[str] = set()
        self._dropped: set[str] = set()
        self._altered: set[str] = set()

    def add(self, epoch: Epoch) -> None:
        """Add an epoch that was committed jointly."""
        self._dropped.update(epoch.dropped)
        self._altered.update(epoch.altered, epoch.renamed, epoch.renamed.values())
        self._unlisted.update(epoch.dropped, epoch.replaced, self._altered)
        for name, change in epoch.changes.items():
            if change.rows:
                self._add_change(name, change)

    def _add_change(self, name: str, change: ChangeSet) -> None:
        known = self._changes.setdefault(name, change)
        if change.files is not None or known.fields != change.fields:
            self._unlisted.add(name)
        elif known is not change:
            both = pa.concat_tables([known.arrow(), change.arrow()])
            self._changes[name] = ChangeSet.of_arrow(both, change.fields)

    def whole(self) -> Epoch:
        """One epoch for those who follow changes; of maps whose changes it does not list they read the store."""
        listed = {name: change for name, change in self._changes.items() if name not in self._unlisted}
        replaced = tuple(self._unlisted - self._dropped)
        altered = dict.fromkeys(self._altered, ())
        return Epoch(self.number, listed, dropped=tuple(self._dropped), replaced=replaced, altered=altered)
