"""The calls of sessions that run in a warehouse, by thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import TypeVar

from tidemill.engine.calls.interrupt import is_interruption
from tidemill.engine.calls.running_call import RunningCall
from tidemill.engine.calls.session_state import SessionState
from tidemill.model.errors import InvalidArgument

__all__ = ["RunningCalls"]

T = TypeVar("T")

LOOK_SECONDS = 0.02
"""Seconds between two looks at calls that were cancelled, or have a deadline."""


class RunningCalls:
    """The call that each thread makes; a thread without one works for the ``default`` session.

    ``interrupt`` ends what a thread waits for outside of Python, and ``settle`` brings the warehouse back to its last
    commit after an exception.
    """

    def __init__(self, interrupt: Callable[[int], None], settle: Callable[[], None]) -> None:
        self.by_thread: dict[int, RunningCall] = {}
        """Empty where a warehouse is used without sessions, which is all that other work looks at."""
        self.default = SessionState()
        self._interrupt = interrupt
        self._settle = settle
        self._watched = threading.Event()
        self._watchdog: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = False

    @property
    def session(self) -> SessionState:
        """The session that this thread works for."""
        call = self.by_thread.get(get_ident())
        return self.default if call is None else call.session

    @property
    def owner(self) -> object:
        """Owner of a transaction of this thread: its session, or in the default session the thread itself."""
        call = self.by_thread.get(get_ident())
        return threading.current_thread() if call is None else call.session

    def run(self, session: SessionState | None, work: Callable[[], T]) -> T:
        """The result of ``work`` for a session, one call at a time; for None it is that of this thread."""
        if session is None:
            return work()
        with session.lock:
            if session.closed:
                raise InvalidArgument("the session is closed", hint="Open another one: wh.session().")
            thread = get_ident()
            before = self.by_thread.get(thread)
            if before is not None and before.session is session:
                return work()
            call = RunningCall(session)
            self.by_thread[thread] = call
            try:
                return self._run(call, work)
            finally:
                self._leave(thread, before)

    def _run(self, call: RunningCall, work: Callable[[], T]) -> T:
        try:
            try:
                self._allow(call)
                return work()
            finally:
                call.forbid()
        except BaseException as error:
            call.forbid()
            if call.reason is None or not is_interruption(error):
                raise
        # Whoever comes next finds the warehouse as it was.
        self._settle()
        raise call.cancelled()

    def outside(self, work: Callable[[], T]) -> T:
        """The result of ``work``, which is the caller's own: it is not interrupted, and may use the whole warehouse."""
        thread = get_ident()
        call = self.by_thread.pop(thread, None)
        if call is None:
            return work()
        call.commit_point()
        try:
            result = work()
        finally:
            self.by_thread[thread] = call
        self._allow(call)
        return result

    def next_statement(self) -> None:
        """Begin another statement of a text, unless it was cancelled meanwhile."""
        call = self.by_thread.get(get_ident())
        if call is not None:
            self._allow(call)

    def commit_point(self) -> None:
        """From here on this thread's statement is committed, and not interrupted any more."""
        call = self.by_thread.get(get_ident())
        if call is not None:
            call.commit_point()

    def wait_for(self, lock: threading.RLock) -> None:
        """Wait until a lock is free, or this thread's call is cancelled."""
        call = self.by_thread.get(get_ident())
        if call is not None:
            call.wait_for(lock)

    def note_epoch(self, number: int) -> None:
        """Note that this thread's call has committed an epoch."""
        call = self.by_thread.get(get_ident())
        if call is not None:
            call.epoch = number

    def cancel(self, session: SessionState, reason: str) -> bool:
        """End the statement that a session runs; false if it runs none, or one that has committed."""
        found = [call for call in list(self.by_thread.values()) if call.session is session and call.cancel(reason)]
        for call in found:
            self._interrupt(call.thread)
        if found:
            self._watch()
        return bool(found)

    def close(self) -> None:
        """Cancel all calls."""
        self._closed = True
        self._watched.set()
        for call in list(self.by_thread.values()):
            if call.thread != get_ident():
                self.cancel(call.session, "the warehouse was closed")

    def _leave(self, thread: int, before: RunningCall | None) -> None:
        if before is None:
            self.by_thread.pop(thread, None)
        else:
            self.by_thread[thread] = before

    def _allow(self, call: RunningCall) -> None:
        call.allow()
        if call.session.timeout is not None:
            self._watch()

    def _watch(self) -> None:
        """Have calls looked after that have a deadline, or were cancelled."""
        if self._watchdog is None:
            with self._starting:
                if self._watchdog is None:
                    self._watchdog = threading.Thread(target=self._look, name="tidemill-calls", daemon=True)
                    self._watchdog.start()
        self._watched.set()

    def _look(self) -> None:
        """Look after calls as long as there are any. What DuckDB has begun since an interrupt needs another one."""
        while not self._closed:
            self._watched.wait()
            time.sleep(LOOK_SECONDS)
            self._watched.clear()
            calls = list(self.by_thread.values())
            if any(call.is_timed for call in calls):
                self._watched.set()
            for call in calls:
                if call.tend(time.monotonic()):
                    self._interrupt(call.thread)
