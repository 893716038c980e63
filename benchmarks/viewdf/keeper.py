"""A warehouse in a process of its own, which is killed now and then and followed by another one.

Whoever asks for something gets its answer: where the process dies on the way, the next one opens what is committed and
is asked again. So what is asked must be such that asking twice is asking once, as it is for the files of a feed.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, NamedTuple, Self

import tidemill
from tidemill.engine.warehouse import Warehouse
from tidemill.storage.filesystem.durable_files import arm

HASTE = 1 / 4
"""The share of those who follow a dead one that are killed while they open the warehouse."""

FIRST = 0.05
"""Seconds that something takes of which nothing is known yet."""

# A process that has imported everything and does nothing waits to be copied: a new keeper begins within milliseconds.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])

Deed = Callable[Concatenate[Warehouse, ...], Any]
"""What a keeper is asked to do: a function of a module, so that another process finds it."""


class Answer(NamedTuple):
    """What came of it, and the epoch by then."""

    value: Any
    epoch: int


class Keeper:
    """Keeps the warehouse in ``folder``; ``draw`` says when those die that are doomed.

    ``deaths`` counts how they did. ``epoch`` is the last one that is known.
    """

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.deaths: Counter[str] = Counter()
        self.epoch = 0
        self._folder = folder
        self._draw = draw
        self._usual: dict[Deed, float] = {}
        self._opening = FIRST
        self._doomed = False
        self._point = ""
        self._open()

    def ask(self, deed: Deed, *given: object) -> Answer:
        """What comes of it in the end, however many die of it."""
        while True:
            try:
                return self._asked(deed, given)
            except (EOFError, OSError):
                self._follow(deed.__name__)

    def doom(self, point: str = "") -> None:
        """Let the keeper die at the next passing of that point, or at a random moment of what it is asked next."""
        if point:
            self.ask(_arm, point)
            self._point = point
        else:
            self._doomed = True

    def restart(self) -> None:
        """Close the warehouse, and let another process open it."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close the warehouse, whoever dies of it."""
        while not self._closed():
            self._follow(Keeper.close.__name__)

    def _closed(self) -> bool:
        try:
            self._line.send(None)
        except OSError:
            return False
        self._process.join()
        return self._process.exitcode == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.join()

    def _asked(self, deed: Deed, given: tuple[object, ...]) -> Answer:
        begun = time.perf_counter()
        self._line.send((deed, given))
        if self._doomed:
            time.sleep(self._draw.uniform(0, 1.2 * self._usual.get(deed, FIRST)))
            self._process.kill()
        answer: Answer = self._line.recv()
        self._usual[deed] = time.perf_counter() - begun
        self.epoch = answer.epoch
        if self._doomed:
            self._follow(deed.__name__)
        return answer

    def _follow(self, deed: str) -> None:
        """Bury a keeper, begin another one, and note how far the last one came."""
        self._bury()
        how, known = f"in {deed}" if self._doomed else f"at {self._point}", self.epoch
        self._doomed, self._point = False, ""
        while self._draw.random() < HASTE:
            self._begin()
            time.sleep(self._draw.uniform(0, self._opening))
            self._process.kill()
            self._bury()
            self.deaths["in opening"] += 1
        self._open()
        self.deaths[f"{how}, committed" if self.epoch > known else how] += 1

    def _open(self) -> None:
        begun = time.perf_counter()
        self._begin()
        self.epoch = self._line.recv()
        self._opening = time.perf_counter() - begun

    def _begin(self) -> None:
        self._line, there = PROCESSES.Pipe()
        self._process: BaseProcess = PROCESSES.Process(target=_keep, args=(self._folder, there), daemon=True)
        self._process.start()
        # The other end must be open in one process alone: else nobody hears of its death.
        there.close()

    def _bury(self) -> None:
        self._process.join()
        self._line.close()
        if self._process.exitcode != -signal.SIGKILL:
            raise RuntimeError(f"nobody killed the warehouse, but its process ended with {self._process.exitcode}")


def _keep(folder: Path, line: Connection) -> None:
    """Open the warehouse and do what is asked, up to the end or to death."""
    with line, tidemill.open(folder, runtime="native") as warehouse:
        line.send(warehouse.epoch)
        while (asked := line.recv()) is not None:
            deed, given = asked
            line.send(Answer(deed(warehouse, *given), warehouse.epoch))


def _arm(warehouse: Warehouse, point: str) -> None:
    arm(point)
