"""One sync for all threads that wait for theirs."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

PATIENCE_SECONDS = 0.1
"""Seconds after which a thread that was not woken looks for itself: whoever should have woken it was interrupted."""


class GroupSync:
    """Threads that wait until a file is durable up to the end of what each has written.

    One thread calls ``sync``, which returns how far the file is durable, for all that have written by then. Those that
    come meanwhile sleep. After the sync each is woken whose bytes are durable, and one other, which syncs for all that
    are left. So a thread is woken once, and never waits for the sync of later bytes.

    After a sync that failed none succeeds: the system may have dropped pages that it could not write, and would report
    the next sync as a success.
    """

    def __init__(self, sync: Callable[[], int]) -> None:
        self.durable = 0
        """The number of bytes that are durable."""
        self._sync = sync
        self._turn = Lock()
        self._guard = Lock()
        self._sleeping: list[tuple[int, Lock]] = []
        self._failed: OSError | None = None

    def wait(self, end: int) -> None:
        """Wait until everything before ``end`` is durable."""
        while self.durable < end:
            if not (self._turn.locked() and self._sleep(end)):
                self._lead(end)

    def finish(self, durable: int) -> None:
        """Release all that wait for bytes up to ``durable``, which are durable elsewhere."""
        with self._turn:
            self.durable = durable
        self._wake()

    def _sleep(self, end: int) -> bool:
        """Sleep until woken, if another thread still syncs; False if none does."""
        woken = Lock()
        woken.acquire()
        with self._guard:
            if not self._turn.locked():
                return False
            # Whoever has the turn gives it back first, and then wakes those who are here.
            self._sleeping.append((end, woken))
        woken.acquire(timeout=PATIENCE_SECONDS)
        return True

    def _lead(self, end: int) -> None:
        """Sync, unless another thread has done so meanwhile."""
        try:
            with self._turn:
                if self.durable >= end:
                    return
                if self._failed is not None:
                    raise self._failed
                try:
                    self.durable = max(self.durable, self._sync())
                except OSError as refused:
                    self._failed = refused
                    raise
        finally:
            if self._sleeping:  # whoever came while this thread had the turn
                self._wake()

    def _wake(self) -> None:
        with self._guard:
            over, reached = self._failed is not None, self.durable
            done = [woken for end, woken in self._sleeping if over or end <= reached]
            left = [entry for entry in self._sleeping if not over and entry[0] > reached]
            self._sleeping = left[1:]
        for woken in (*done, *(woken for _, woken in left[:1])):
            woken.release()
