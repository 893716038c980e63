"""The thread that advances the wall clock of a warehouse."""

from __future__ import annotations

from tidemill.engine.clocks.clocks import Clocks
from tidemill.engine.workers import CLOSE_SECONDS, Trouble, Worker

__all__ = ["TICK_SECONDS", "Ticker"]

TICK_SECONDS = 1.0
"""Default for the seconds between two ticks: how long a row stays after its time, at the most."""


class Ticker:
    """Ticks the clocks of a warehouse, in a thread, until it is closed."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._worker: Worker | None = None

    def start(self, every: float = TICK_SECONDS) -> None:
        """Tick so often from now on."""
        self.close()
        self._worker = Worker("clock", self._clocks.tick, every)

    @property
    def trouble(self) -> Trouble | None:
        """Why the last tick failed."""
        return None if self._worker is None else self._worker.trouble

    def close(self) -> None:
        """Stop after the tick that has begun, if there is one."""
        if self._worker is not None:
            self._worker.end()
            self._worker.join(CLOSE_SECONDS)
            self._worker = None
