"""The state machine of an epoch: one point of no return, and one way back from an exception at any moment.

What is in memory (the state of runtimes, the catalog, the pipeline, what listeners are told) is a copy of what the
store has. An epoch first changes the copy and then commits it to the store, by one step there: until that step it is
as if nothing had happened, and after it the epoch is made. In between the copy cannot be trusted.

::

    SETTLED ──begin──► UNDER WAY ──the store commits, the copy follows──► SETTLED
       │                  │  └─ a change is refused (REFUSALS): runtimes undo it ──► SETTLED
       │                  └─ any other exception, Ctrl-C included ─┐
       └──an event is fed──► GATHERING ──flush──► UNDER WAY        │
                                                                   ▼
           whoever comes next reads the copy anew from the store (``recover``)

So no handler has to run for the warehouse to be right: an exception just leaves it UNDER WAY, even one that comes
while another is handled. Where the store cannot tell what it has (``CommitUnknown``, after a sync that failed), it
stays so, and every use says that it must be opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from threading import get_ident

from tidemill.model.errors import DataError, SetupError, SourceError, SqlError
from tidemill.storage.store import Store

__all__ = ["REVERTIBLE_ERRORS", "EpochPhase", "EpochTransaction"]

REVERTIBLE_ERRORS = (DataError, SqlError, SourceError, SetupError)
"""Errors that are raised where runtimes and catalog can go back by themselves; all others may come at any moment."""


class EpochPhase(Enum):
    """How what is in memory stands to what the store has."""

    SETTLED = "the same"
    GATHERING = "ahead, by whole events of an epoch that is not closed yet"
    UNDER_WAY = "anything between two epochs"


class EpochTransaction:
    """The phase of a warehouse. Who changes it has the lock of its state; anybody may look.

    ``reload`` reads what is in memory again from the store, ``republish`` lets listeners look in the store, and
    ``clean_up`` does what an exception has kept from being done, once the warehouse is back at the last commit.
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
        """Whether somebody was interrupted while waiting until an epoch is durable, and so listeners were not told."""

    @property
    def settled(self) -> bool:
        """Whether there is nothing to do before the warehouse is looked at."""
        return self.phase is EpochPhase.SETTLED and not self.unpublished

    @property
    def elsewhere(self) -> bool:
        """Whether another thread has begun an epoch, and may be about to end it."""
        return self.phase is EpochPhase.UNDER_WAY and self._thread != get_ident()

    @property
    def abandoned(self) -> bool:
        """Whether this thread has begun an epoch that it did not end; for those who are not within one."""
        return self.phase is EpochPhase.UNDER_WAY and self._thread == get_ident()

    def begin(self) -> None:
        """From here on, what is in memory may be ahead of the store."""
        self._thread = get_ident()
        self.phase = EpochPhase.UNDER_WAY

    def undone(self, before: EpochPhase) -> None:
        """The runtimes have undone what was refused: the phase is that from which it was begun."""
        self.phase = before

    def gather(self) -> None:
        """Runtimes have taken in whole events, and the next may come."""
        self.phase = EpochPhase.GATHERING

    def end(self) -> None:
        """What is in memory is what the store has."""
        self.phase = EpochPhase.SETTLED

    def recover(self) -> None:
        """Go back to the last commit, if an exception has left an epoch under way; the caller has the lock.

        The store goes first: it finds out whether the epoch was committed, and makes it durable if it was.
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
        """Let listeners look in the store: they may not have been told of the last epochs, or of half of one."""
        self._republish()
        self.unpublished = False
