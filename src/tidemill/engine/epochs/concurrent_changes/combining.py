"""Epochs of threads that commit at the same time, run one after the other by one of them: flat combining.

A thread that finds another one running an epoch leaves its own with that thread, the *leader*, and sleeps. The leader
runs the epochs that wait after its own, syncs once for all, and wakes their threads. So an epoch costs one switch
between threads, and finds what it needs in the caches of one core.

Each epoch stays the business of its own thread: an error is raised there, and it is that thread that looks if the epoch
is durable before it returns. To be woken only saves time. A thread that nobody wakes, because the leader was
interrupted, looks for itself; an epoch that nobody has begun it then runs itself.

Python interrupts its main thread only, so that thread never runs the epochs of others: Ctrl-C ends only the epoch of
the thread that it reaches.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from threading import get_ident

from tidemill.engine.epochs.commit import WaitUntilDurable
from tidemill.model.errors import StorageError
from tidemill.runtimes.garbage_collection import garbage_collection_paused

__all__ = ["CommittedEpoch", "EpochCombiner"]

PATIENCE_SECONDS = 0.1
"""Seconds after which a thread that was not woken looks for itself."""

CommittedEpoch = tuple[int, WaitUntilDurable]
"""The number of an epoch, and the function that waits until it is durable."""


class _WaitingEpoch:
    """An epoch that was left to another thread: ``begun`` before it runs, ``committed`` or ``refused`` after that."""

    def __init__(self, run: Callable[[], CommittedEpoch]) -> None:
        self._run = run
        self.begun = False
        self.committed: CommittedEpoch | None = None
        self.refused: Exception | None = None
        self.woken = threading.Lock()
        self.woken.acquire()

    @property
    def ended(self) -> bool:
        """True if the epoch was committed or refused."""
        return self.committed is not None or self.refused is not None

    def run(self) -> None:
        """Run the epoch for the thread that it belongs to."""
        self.begun = True
        try:
            self.committed = self._run()
        except Exception as refused:
            self.refused = refused

    def wake(self) -> None:
        """Wake the thread that the epoch belongs to."""
        with suppress(RuntimeError):  # it was woken already
            self.woken.release()

    def result(self) -> CommittedEpoch:
        """The epoch, once it was begun; an error is raised, in the thread that the epoch belongs to."""
        if self.committed is not None:
            return self.committed
        refused, self.refused = self.refused, None  # so that the error and its frames do not hold each other
        raise refused or _interrupted()


class EpochCombiner:
    """Runs epochs under the lock of a warehouse, those of other threads that wait included."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self.leader = 0
        """The thread that runs epochs or syncs them; 0 if there is none."""
        self._waiting: deque[_WaitingEpoch] = deque()

    def lead(self, run: Callable[[], CommittedEpoch]) -> int:
        """Run an epoch, and then those of others that wait; returns its number once it is durable."""
        served: list[_WaitingEpoch] = []
        thread = get_ident()
        try:
            with garbage_collection_paused(), self._lock:
                self.leader = thread
                number, durable = run()
                if self._waiting and thread != threading.main_thread().ident:
                    self._run_waiting(served)
            # Outside the lock, which readers want.
            durable()
            if served:
                _publish(served)
            return number
        finally:
            if self.leader == thread:  # and no other thread has begun to lead during the sync
                self.leader = 0
            if served or self._waiting:
                self._leave(served)

    def join(self, run: Callable[[], CommittedEpoch]) -> int:
        """Leave an epoch to the thread that leads; returns its number once it is durable."""
        mine = _WaitingEpoch(run)
        try:
            self._waiting.append(mine)
            # A leader first says that it leaves, and then looks who waits.
            while self.leader and not mine.woken.acquire(timeout=PATIENCE_SECONDS):
                if mine.ended or self._is_free():
                    break
            if not mine.ended:
                return self.lead(partial(self._take_back, mine))
            number, durable = mine.result()
            durable()
            return number
        except BaseException:
            self._withdraw(mine)
            raise

    def _take_back(self, mine: _WaitingEpoch) -> CommittedEpoch:
        """Run an epoch that was left to others, unless one of them has begun it; the caller has the lock."""
        self._withdraw(mine)
        if not mine.begun:
            mine.run()
        return mine.result()

    def _run_waiting(self, served: list[_WaitingEpoch]) -> None:
        """Run the epochs that wait now; those that come meanwhile are left to the next leader."""
        for _ in range(len(self._waiting)):
            try:
                one = self._waiting.popleft()
            except IndexError:  # withdrawn meanwhile
                return
            served.append(one)
            one.run()

    def _leave(self, served: Iterable[_WaitingEpoch]) -> None:
        """Wake the threads whose epochs were run, and the first that waits, to be the next leader."""
        for one in served:
            one.wake()
        with suppress(IndexError):
            self._waiting[0].wake()

    def _withdraw(self, mine: _WaitingEpoch) -> None:
        with suppress(ValueError):  # it was taken already
            self._waiting.remove(mine)

    def _is_free(self) -> bool:
        """True if no other thread has the lock."""
        free = self._lock.acquire(blocking=False)
        if free:
            self._lock.release()
        return free


def _publish(served: Sequence[_WaitingEpoch]) -> None:
    """Notify subscribers of epochs that were run for others: a thread that was interrupted meanwhile will not do it."""
    for one in reversed(served):
        if one.committed is not None:
            with suppress(Exception):  # which its own thread meets, too
                one.committed[1]()
            return


def _interrupted() -> StorageError:
    return StorageError(
        "the epoch was interrupted",
        detail="Another thread was running it with its own, and an exception has ended that thread's work. "
        "The epoch is committed as a whole, or nothing of it.",
        hint="Look at the table, and apply the changes again if it does not have them.",
    )
