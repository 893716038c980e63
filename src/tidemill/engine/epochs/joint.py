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
        """What the refresh log is told of them."""
        self.after: list[Callable[[], None]] = []
        """What follows once the commit is visible."""
        self._changes: dict[str, ChangeSet] = {}
        self._unlisted: set[str] = set()
        self._dropped: set[str] = set()

    def add(self, epoch: Epoch) -> None:
        """Add an epoch that was committed jointly."""
        for name in (*epoch.dropped, *epoch.replaced, *epoch.altered, *epoch.renamed):
            self._changes.pop(name, None)
            self._unlisted.add(name)
        self._dropped.update(epoch.dropped)
        for name, change in epoch.changes.items():
            if change.rows and name not in self._unlisted:
                self._add_change(name, change)

    def _add_change(self, name: str, change: ChangeSet) -> None:
        known = self._changes.get(name)
        if change.files is not None:
            self._changes.pop(name, None)
            self._unlisted.add(name)
        elif known is None:
            self._changes[name] = change
        else:
            both = pa.concat_tables([known.arrow(), change.arrow()])
            self._changes[name] = ChangeSet.of_arrow(both, change.fields)

    def whole(self) -> Epoch:
        """One epoch for those who follow changes; of maps whose changes it does not list they read the store."""
        return Epoch(
            self.number,
            self._changes,
            dropped=tuple(self._dropped),
            replaced=tuple(self._unlisted - self._dropped),
        )
