"""What goes on by itself, views over sources, feeds and the scheduler: a thread each, patient with what is gone.

Nothing is lost when a thread fails, or is stopped in the middle: a view goes on from the positions of its last epoch.
So trouble of any kind is treated alike. It is remembered, for SHOW SOURCES, and tried again after a while.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tidemill.model.errors import SetupError

FIRST_PAUSE = 0.5
"""Seconds after a first failure; they double with each further one."""

LONGEST_PAUSE = 30.0
"""Seconds between two tries, at most."""

YIELD_SECONDS = 0.001
"""Seconds between two turns of a thread, in which others may have the view."""


@dataclass(frozen=True)
class Trouble:
    """Why a view does not follow its sources at present, how often that was tried, and when it is tried again."""

    error: Exception
    tries: int
    again: float

    def __str__(self) -> str:
        wait = max(0.0, self.again - time.monotonic())
        text = str(self.error).partition("\n")[0]
        if not self.tries:
            return text
        return f"{text} (tried {self.tries} times, again in {wait:.0f} s)"


def not_started() -> Trouble:
    """Why something that goes on by itself does not: the warehouse was opened, and that alone starts nothing."""
    what = "it does not go on by itself: the warehouse was opened without follow=True"
    return Trouble(SetupError(what, hint="Call wh.follow(), or wh.sync() now and then."), 0, math.inf)


def backoff_seconds(tries: int) -> float:
    """The seconds to wait after so many failures, one after the other.

    >>> backoff_seconds(1), backoff_seconds(3), backoff_seconds(100)
    (0.5, 2.0, 30.0)
    """
    return float(min(FIRST_PAUSE * 2 ** min(tries - 1, 30), LONGEST_PAUSE))


class Worker:
    """Calls ``turn`` every so often until it is ended; an exception of it is ``trouble`` until a turn goes well."""

    def __init__(self, name: str, turn: Callable[[], object], interval: float) -> None:
        self.trouble: Trouble | None = None
        self._turn = turn
        self._pause = max(interval, YIELD_SECONDS)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tidemill {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            try:
                self._turn()
                self.trouble, pause = None, self._pause
            except Exception as error:
                tries = self.trouble.tries + 1 if self.trouble else 1
                pause = backoff_seconds(tries)
                self.trouble = Trouble(error, tries, time.monotonic() + pause)

    def end(self) -> None:
        """No further turn is begun."""
        self._ended.set()

    def join(self, timeout: float) -> bool:
        """Wait for the last turn; tells whether it is over."""
        self._thread.join(timeout)
        return not self._thread.is_alive()
