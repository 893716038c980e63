"""Following a writer: a reader of another process that moves to new epochs as they are committed.

A writer notifies nobody, so a reader looks for new commits. It moves between two reads and never during one: the lock
of the warehouse is held for both, so a query sees one epoch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from tidemill.engine.workers import Trouble, WorkerGroup
from tidemill.model.errors import EpochGone

__all__ = ["POLL_SECONDS", "WriterFollower"]

POLL_SECONDS = 0.2
"""Seconds between two checks of a reader for commits of another process."""

RETRY_SECONDS = 10.0
"""Seconds during which a read begins again at the newest epoch, each time that its files were vacuumed meanwhile."""

P = ParamSpec("P")
T = TypeVar("T")


class WriterFollower:
    """Moves a read-only warehouse to the newest epoch, now and then or in the background.

    ``advance`` does it and returns True if there was a new commit; it takes ``lock``. ``catalog`` gives the stored
    definitions.
    """

    def __init__(
        self,
        lock: AbstractContextManager[Any],
        advance: Callable[[], bool],
        catalog: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._lock = lock
        self._advance = advance
        self._catalog = catalog
        self._workers = WorkerGroup("reader")
        self.following = False
        """True if the warehouse moves by itself."""

    def start(self) -> None:
        """Follow in the background, until closed."""
        self.following = True
        self._workers.start_worker("writer", self._advance, POLL_SECONDS, POLL_SECONDS)

    def troubles(self) -> dict[str, Trouble]:
        """The failure to read the newest commit, if there is one, under the name ``writer``."""
        return self._workers.worker_troubles(())

    def standing(self) -> AbstractContextManager[Any]:
        """Context in which the warehouse stays at its epoch: a statement is translated and answered by the same one."""
        return self._lock if self.following else nullcontext()

    def retrying(self, read: Callable[P, T]) -> Callable[P, T]:
        """``read``, begun again at the newest epoch where files were vacuumed meanwhile, if the warehouse follows.

        Not if definitions have changed as well: what is read may have other columns by then.
        """

        @functools.wraps(read)
        def retried(*given: P.args, **named: P.kwargs) -> T:
            with self.standing():
                end = monotonic() + RETRY_SECONDS
                while True:
                    before = self._catalog()
                    try:
                        return read(*given, **named)
                    except EpochGone:
                        moved = self.following and self._advance() and self._catalog() == before
                        if not moved or monotonic() > end:
                            raise

        return retried

    def close(self) -> None:
        """End the background thread."""
        self._workers.close()
