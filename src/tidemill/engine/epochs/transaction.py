"""The state machine of an epoch: one commit point, and one way to recover from an exception at any moment.

The in-memory state (runtimes, catalog, pipeline, published changes) is a copy of the store. An epoch first changes the
copy and then commits to the store in one step: before that step nothing has happened, after it the epoch is committed.
While it runs the copy cannot be trusted.

::

    SETTLED ──begin──► UNDER WAY ──the store commits, the copy follows──► SETTLED
       │                  │  └─ REVERTIBLE_ERRORS: runtimes roll back ──► SETTLED
       │                  └─ any other exception, Ctrl-C included ─┐
       └──an event is fed──► GATHERING ──flush──► UNDER WAY        │
                                                                   ▼
           the next access reloads the copy from the store (``recover``)

So correctness does not depend on exception handlers: an exception just leaves the phase UNDER WAY, even one raised
while another is handled. If the store cannot tell what is committed (``CommitUnknown``, after a failed fsync), it stays
so, and every access raises an error that the warehouse must be opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from threading import get_ident

from tidemill.model.errors import DataError, SetupError, SourceError, SqlError
from tidemill.storage.store import Store

__all__ = ["REVERTIBLE_ERRORS", "EpochPhase", "EpochTransaction"]

REVERTIBLE_ERRORS = (DataError, SqlError, SourceError, SetupError)
"""Errors raised only where runtimes and catalog can roll back by themselves; all others may come at any moment."""


class EpochPhase(Enum):
    """Relation of the in-memory state to the store."""

    SETTLED = "the same"
    GATHERING = "ahead, by whole events of an epoch that is not closed yet"
    UNDER_WAY = "anything between two epochs"


class EpochTransaction:
    """The phase of a warehouse. Changing it needs the lock of the state; reading it does not.

    ``reload`` rebuilds the in-memory state from the store, ``republish`` makes subscribers read from the store, and
    ``clean_up`` finishes work that an exception has interrupted, once the last commit is recovered.
    """

    def __init__(
        self, store: Store, reload: Callable[[], object], republish: Callable[[], None], clean_up: Callable[[], None]
    ) -> None:
        self._store = store
        self._reload = reload
        self._republish = republish
        self._clean_up = clean_up
        self.phase = EpochPhase.SETTLED
        self._thread = 0
        self.unpublished = False
        """True if waiting for an epoch to become durable was interrupted, so that subscribers were not notified."""

    @property
    def settled(self) -> bool:
        """True if nothing must be done before the warehouse is accessed."""
        return self.phase is EpochPhase.SETTLED and not self.unpublished

    @property
    def elsewhere(self) -> bool:
        """True if another thread has begun an epoch and may still end it."""
        return self.phase is EpochPhase.UNDER_WAY and self._thread != get_ident()

    @property
    def abandoned(self) -> bool:
        """True if this thread has begun an epoch and not ended it; for callers outside of an epoch."""
        return self.phase is EpochPhase.UNDER_WAY and self._thread == get_ident()

    def begin(self) -> None:
        """Enter the phase in which the in-memory state may be ahead of the store."""
        self._thread = get_ident()
        self.phase = EpochPhase.UNDER_WAY

    def undone(self, before: EpochPhase) -> None:
        """Return to the phase ``before``, after the runtimes have rolled back."""
        self.phase = before

    def gather(self) -> None:
        """Enter the phase between two events of an open epoch."""
        self.phase = EpochPhase.GATHERING

    def end(self) -> None:
        """Enter the phase in which the in-memory state equals the store."""
        self.phase = EpochPhase.SETTLED

    def recover(self) -> None:
        """Go back to the last commit, if an exception has left an epoch unfinished; the caller holds the lock.

        The store goes first: it determines if the epoch was committed, and makes it durable if so.
        """
        if self.phase is EpochPhase.UNDER_WAY:
            self._store.recover()
            self._reload()
            self._publish()
            self.phase = EpochPhase.SETTLED
            self._clean_up()
        elif self.unpublished:
            self._store.recover()
            self._publish()

    def _publish(self) -> None:
        """Make subscribers read from the store: they may have missed the last epochs, or half of one."""
        self._republish()
        self.unpublished = False
