"""One call of a session that runs, which other threads may end until it commits.

A call can be interrupted between ``allow`` and ``forbid``, and within that until its statement commits: what is
committed is committed, and its call returns as if nobody had cancelled it. So a call that was cancelled has changed
nothing, apart from the statements before it in the same text.
"""

from __future__ import annotations

import threading
import time
from threading import get_ident

from tidemill.engine.calls.interrupt import Interrupt, checkpoint, interrupt_thread
from tidemill.engine.calls.session_state import SessionState
from tidemill.model.errors import Cancelled

__all__ = ["RunningCall"]

LOCK_SECONDS = 0.05
"""Seconds between two looks whether a call was cancelled that waits for others."""

RESEND_SECONDS = 1.0
"""Seconds after which an interrupt is sent again: Python drops one that comes while an object is freed."""


class RunningCall:
    """A call of a session, in the thread that makes it."""

    def __init__(self, session: SessionState) -> None:
        self.session = session
        self.thread = get_ident()
        self.reason: str | None = None
        """Why it was cancelled; None if it was not."""
        self.epoch: int | None = None
        """The last epoch that it has committed."""
        self._guard = threading.Lock()
        self._interruptible = False
        self._waits = False
        self._sent = 0.0
        self._deadline: float | None = None

    # -- in the thread that makes it --

    def allow(self) -> None:
        """Begin a statement, which may be interrupted and has the time of the session; the call may be cancelled."""
        timeout = self.session.timeout
        with self._guard:
            if self.reason is not None:
                raise Interrupt
            self._deadline = None if timeout is None else time.monotonic() + timeout
            self._interruptible = True

    def commit_point(self) -> None:
        """From here on what the statement does is committed, and it is not interrupted any more."""
        with self._guard:
            self._interruptible = self._waits = False
            self._deadline = None
        checkpoint()

    def wait_for(self, lock: threading.RLock) -> None:
        """Wait until a lock is free, or the call is cancelled.

        Nothing is raised between the moment at which this thread gets the lock and that at which it lets go of it.
        """
        free = not self._interruptible
        while not free:
            self._set_waiting(True)
            free = lock.acquire(timeout=LOCK_SECONDS)
            if free:
                lock.release()
            self._set_waiting(False)

    def _set_waiting(self, waits: bool) -> None:
        with self._guard:
            if not waits and self.reason is not None:
                raise Interrupt
            self._waits, self._interruptible = waits, not waits
        checkpoint()

    def forbid(self) -> None:
        """End what may be interrupted; an interrupt that comes just now has come too late."""
        while True:
            try:
                self.commit_point()
                return
            except Interrupt:
                continue

    def cancelled(self) -> Cancelled:
        """The error of a call that was cancelled."""
        before = "Nothing was changed."
        if self.epoch is not None:
            before = f"Statements before it stay executed, up to epoch {self.epoch}; it has changed nothing itself."
        return Cancelled(self.reason or "the statement was cancelled", detail=before)

    # -- in other threads --

    def cancel(self, reason: str) -> bool:
        """End it, for a ``reason``; false if it has committed and is about to end, or is between two statements."""
        with self._guard:
            self.reason = self.reason or reason
            return self._send()

    def tend(self, now: float) -> bool:
        """Cancel it if its time is over, and interrupt it again if that was lost; true if it is to be interrupted."""
        with self._guard:
            if self._deadline is not None and now > self._deadline:
                self._deadline = None
                self.reason = self.reason or f"the statement took longer than {self.session.timeout:g} seconds"
            if self.reason is None or not self._interruptible:
                return False
            if now - self._sent > RESEND_SECONDS:
                self._send()
            return True

    @property
    def is_timed(self) -> bool:
        """True if somebody has to look after it: it was cancelled, or has a deadline."""
        return self.reason is not None or self._deadline is not None

    def _send(self) -> bool:
        if self._interruptible:
            self._sent = time.monotonic()
            interrupt_thread(self.thread)
        return self._interruptible or self._waits
