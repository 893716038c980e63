"""Ctrl-C: answered within a second wherever the process is, by one line and exit code 130, never by a traceback.

Python raises KeyboardInterrupt in the main thread once its present call into C returns; and whoever is interrupted may
close threads and Spark before it ends. So a second thread hears the signal, too. If the process is still there after
``PATIENCE``, that thread prints the line and ends it. Nothing is lost by that: an epoch is committed as a whole or not
at all, also if the process is killed.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["INTERRUPTED", "INTERRUPTS", "Answer", "Interrupts"]

INTERRUPTED = 130
"""Exit code of a command that was interrupted: 128 and the number of the signal, as shells have it."""

PATIENCE = 0.5
"""Seconds after which a process that was interrupted is ended, wherever it is."""


class Answer(Enum):
    """Answers to Ctrl-C."""

    END = "it ends the process"
    TWICE = "the main thread answers it; a second one ends the process"
    NONE = "the main thread answers it"


class Interrupts:
    """Listens for Ctrl-C. ``tell`` returns what was committed, in words; commands set it while they run."""

    def __init__(self) -> None:
        self.tell: Callable[[], str] = lambda: "nothing was changed"
        self.note = ""
        """The statement that a script was running, which stands before that."""
        self.line: str | None = None
        """The line that the main thread has made, while the warehouse was still open."""
        self._answers = Answer.END
        self._heard = self._signals = 0
        self._answered = threading.Event()
        self._printed = threading.Lock()
        self._pipe: socket.socket | None = None

    def listen(self) -> None:
        """Hear signals from now on; only the main thread can ask for it."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._interrupt)
        heard, self._pipe = socket.socketpair()
        self._pipe.setblocking(False)
        sys.unraisablehook = _without_interrupts(sys.unraisablehook)
        threading.Thread(target=self._hear, args=(heard,), name="interrupts", daemon=True).start()
        self.arm()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._heard = max(self._heard, 1)
        signal.default_int_handler(number, frame)

    def ended_by(self, error: BaseException) -> bool:
        """True if an error is Ctrl-C; libraries such as DuckDB make errors of their own of it."""
        return isinstance(error, KeyboardInterrupt) or self._heard > 0

    def arm(self) -> None:
        """Have signals written to our pipe again: whoever runs an event loop takes them away."""
        if self._pipe is not None and threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._pipe.fileno(), warn_on_full_buffer=False)

    @contextmanager
    def answered_here(self, how: Answer = Answer.TWICE) -> Iterator[None]:
        """While this lasts Ctrl-C does not end the process by itself."""
        before = self._answers
        self._answers, self._heard, self._signals = how, 0, 0
        self._answered.clear()
        self.arm()
        try:
            yield
        finally:
            self._answers = before
            self._answered.set()

    @contextmanager
    def telling_commits(self, warehouse: Warehouse, folder: str) -> Iterator[None]:
        """While this lasts the line tells which epochs a command has committed, and what it has created."""
        before, names, tell = warehouse.epoch, {*warehouse.tables(), *warehouse.views()}, self.tell
        self.tell = lambda: (
            f"{_committed(folder, before, warehouse.epoch)} (or one later, if that was just being committed)"
        )
        try:
            yield
        except BaseException as error:
            if not self.ended_by(error):
                raise
            made = sorted({*warehouse.tables(), *warehouse.views()} - names)
            created = f"created: {', '.join(made)}" if made else ""
            # This thread has left the epoch that it was in, so here it is known for certain.
            self.line = "; ".join(filter(None, (self.note, _committed(folder, before, warehouse.epoch), created)))
            raise
        finally:
            self.tell = tell

    def _told(self) -> str:
        return "; ".join(filter(None, (self.note, self.tell())))

    def report(self) -> None:
        """Print the line, once."""
        if self._printed.acquire(blocking=False):
            with suppress(OSError, ValueError):
                print(f"\ninterrupted: {self.line or self._told()}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Nothing is left to be told: from now on Ctrl-C ends the process as it ends any other."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def _hear(self, pipe: socket.socket) -> None:
        while numbers := pipe.recv(16):
            if signal.SIGINT in numbers:
                self._signals += 1
                self._heard = max(self._heard, self._signals)
                self._answer()

    def _answer(self) -> None:
        """End the process if it does not end by itself, or should not."""
        if self._answers is Answer.END:
            time.sleep(PATIENCE)
            self.end()
        elif self._answers is Answer.TWICE and self._heard > 1:
            self.end()
        elif self._answers is Answer.TWICE and not self._answered.wait(PATIENCE):
            print("\nending ... (Ctrl-C again ends the process)", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Print the line and end the process, whatever else it was about to do."""
        self.report()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(INTERRUPTED)


def _without_interrupts(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook for errors that nobody can catch, which leaves out interrupts: the listening thread answers these."""
    return lambda found: None if found.exc_type is KeyboardInterrupt else hook(found)


def _committed(folder: str, before: int, epoch: int) -> str:
    """The epochs that a command has committed, in words.

    >>> _committed("shop", 6, 6), _committed("shop", 6, 8)
    ('no epoch was committed: shop is at epoch 6', 'epochs 7 to 8 are committed in shop, and nothing after')
    """
    if epoch == before:
        return f"no epoch was committed: {folder} is at epoch {epoch}"
    done = f"epoch {epoch} is" if epoch == before + 1 else f"epochs {before + 1} to {epoch} are"
    return f"{done} committed in {folder}, and nothing after"


INTERRUPTS = Interrupts()
"""The one listener of this process: it has one Ctrl-C."""
