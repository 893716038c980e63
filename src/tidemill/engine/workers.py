"""Background workers: one thread for each view over sources, each feed and the scheduler, with retries.

Nothing is lost when a thread fails or is stopped midway: a view continues from the positions of its last epoch. So all
failures are treated alike: recorded, for SHOW SOURCES, and retried with backoff.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from logging import WARNING

from tidemill.engine.telemetry.events import WAREHOUSE, tell
from tidemill.model.errors import SetupError

FIRST_PAUSE = 0.5
"""Seconds before the first retry; they double with each further failure."""

LONGEST_PAUSE = 30.0
"""Longest time between two tries, in seconds."""

YIELD_SECONDS = 0.001
"""Shortest pause between two turns of a thread, in seconds, in which other threads can lock the view."""


@dataclass(frozen=True)
class Trouble:
    """A failure of a view or feed in the background: the error, the number of tries, and the time of the next."""

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
    """The trouble of a worker that was not started because the warehouse was opened without ``follow``."""
    what = "it does not go on by itself: the warehouse was opened without follow=True"
    return Trouble(SetupError(what, hint="Call wh.follow(), or wh.sync() now and then."), 0, math.inf)


def backoff_seconds(tries: int) -> float:
    """The seconds to wait after a number of consecutive failures.

    >>> backoff_seconds(1), backoff_seconds(3), backoff_seconds(100)
    (0.5, 2.0, 30.0)
    """
    return float(min(FIRST_PAUSE * 2 ** min(tries - 1, 30), LONGEST_PAUSE))


class Worker:
    """A thread that calls ``turn`` periodically until ended; its exception is ``trouble`` until a turn succeeds."""

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
                what = f"{self._thread.name}: {type(error).__name__}, attempt {tries}"
                tell(WAREHOUSE, WARNING, what, phase="worker", worker=self._thread.name, tries=tries)

    def end(self) -> None:
        """Begin no further turn."""
        self._ended.set()

    def join(self, timeout: float) -> bool:
        """Wait for the last turn; true if it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()


CLOSE_SECONDS = 10.0
"""Seconds that ``WorkerGroup.close`` waits for turns that have begun."""


class WorkerGroup:
    """Workers by name: one for each feed, lake table or published view that goes on by itself."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._workers: dict[str, Worker] = {}

    def start_worker(self, name: str, turn: Callable[[], object], interval: float, least: float) -> None:
        """Start a worker, unless there is one or the interval is infinite; ``least`` is the shortest interval."""
        if name not in self._workers and not math.isinf(interval):
            self._workers[name] = Worker(f"{self._kind} {name}", turn, max(interval, least))

    def worker_troubles(self, wanted: Iterable[tuple[str, float]]) -> dict[str, Trouble]:
        """The failures of workers, and those of the ``wanted``, with their intervals, that are not started."""
        found = {name: worker.trouble for name, worker in self._workers.items() if worker.trouble is not None}
        idle = (name for name, interval in wanted if name not in self._workers and not math.isinf(interval))
        return found | {name: not_started() for name in idle}

    def drop(self, name: str) -> None:
        """End a worker; it begins no further turn."""
        if name in self._workers:
            self._workers.pop(name).end()

    def keep(self, names: Collection[str]) -> None:
        """End all workers but these."""
        for name in self._workers.keys() - set(names):
            self.drop(name)

    def close(self) -> None:
        """End all workers; turns that have begun are finished."""
        for worker in self._workers.values():
            worker.end()
        for worker in self._workers.values():
            worker.join(CLOSE_SECONDS)
        self._workers.clear()
