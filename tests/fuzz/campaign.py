"""Campaigns: random calls until the time is up. Only errors of ours may come out, soon, and nothing else changes."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from tidemill.model.errors import InternalError, TidemillError

SLOW = 10.0
"""Seconds of computing time after which a call counts as one that hangs."""


class Hang(BaseException):
    """A call took too long."""


@contextmanager
def watched(seconds: float = SLOW) -> Iterator[None]:
    """Raise ``Hang`` in the block once it has computed for that long."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"{seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass
class Tally:
    """What a campaign did: calls by outcome, and the shortest call for each way to fail."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        calls = sum(self.outcomes.values())
        refused = ", ".join(f"{count:,} {kind}" for kind, count in self.outcomes.most_common() if kind != "accepted")
        return f"{self.name}: {calls:,} calls, {self.outcomes['accepted']:,} accepted, {refused or 'none refused'}"

    def call(self, what: str, function: Callable[[], object]) -> BaseException | None:
        """Call ``function``; the error with which it ended, ours or not."""
        try:
            with watched():
                function()
        except TidemillError as error:
            self.outcomes[type(error).__name__] += 1
            if isinstance(error, InternalError):
                self.failed(what, error.__cause__ or error)
            elif not error.what.strip() or "<Token" in str(error):
                self.failed(what, error)
            return error
        except (Exception, Hang) as error:
            self.outcomes[type(error).__name__] += 1
            self.failed(what, error)
            return error
        self.outcomes["accepted"] += 1
        return None

    def failed(self, what: str, error: BaseException) -> None:
        """Note a way to fail; of two calls that fail alike the shorter is kept."""
        kind = kind_of(error)
        if kind not in self.failures or len(what) < len(self.failures[kind]):
            self.failures[kind] = what


def kind_of(error: BaseException) -> str:
    """How a call failed: the error, and the line of ours that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/tidemill/" in frame.filename and "doors.py" not in frame.filename] or frames
    place = f"{ours[-1].filename.rpartition('/tidemill/')[2]}:{ours[-1].lineno}" if ours else "?"
    message = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__} at {place}: {message[:100]}"


def few(number: int) -> Iterator[random.Random]:
    """Dice for as many rounds, the same in every run."""
    return (random.Random(f"few/{place}") for place in range(number))


def many() -> Iterator[random.Random]:
    """Dice for one round after the other until the time of ``make fuzz`` is up, others in every run."""
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    while time.monotonic() < until:
        yield random.Random(random.SystemRandom().randrange(2**64))


def campaign(name: str, dice: Iterable[random.Random], play: Callable[[Tally, random.Random], None]) -> Tally:
    """Rounds of ``play``, with a word now and then about how much was tried."""
    tally, told = Tally(name), time.monotonic()
    for one in dice:
        play(tally, one)
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(tally, flush=True)
    print(tally, flush=True)
    return tally
