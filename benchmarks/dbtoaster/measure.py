"""Runs one case over its stream, in ten legs; after each the answer is compared with recomputation.

A leg ends after a tenth of the stream or a tenth of the time limit, whichever is first. So a case that is too slow for
the whole stream is measured, and compared at ten points all the same, on the first part of it.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.dbtoaster.case import Case, Outcome, Sample
from benchmarks.dbtoaster.oracle import Oracle
from benchmarks.dbtoaster.stream import Stream
from benchmarks.dbtoaster.subject import Subject

LEGS = 10
PIECES = 100
"""In about so many pieces a stream is taken in, or more where the time limit asks for it."""

SHORTEST = 0.01
"""Seconds that a piece should take at least, so that starting and timing it does not count."""

LARGEST = 200_000
"""No piece has more events: as Python values each takes a kilobyte."""


def measure(
    case: Case, stream: Stream, oracle: Oracle, limit: float, progress: Callable[[float], None] = lambda part: None
) -> Outcome:
    """Run ``case`` for at most about ``limit`` seconds; ``progress`` is told the share of the run that is done.

    A wrong answer ends everything with ``WrongAnswer``: there is no outcome of it.
    """
    with Subject(case, stream) as subject:
        run = _Run(subject, stream, limit)
        for leg in range(1, LEGS + 1):
            run.go(stop=max(len(stream) * leg // LEGS, 1), deadline=limit * leg / LEGS)
            oracle.check(case.query, run.events, subject.rows(), case.name)
            progress(max(run.events / len(stream), run.seconds / limit))
        return Outcome(case, len(stream), subject.compile_s, tuple(run.samples), subject.entries())


class _Run:
    """How far a subject has come, in samples, and how large the next piece of the stream may be."""

    def __init__(self, subject: Subject, stream: Stream, limit: float) -> None:
        self._subject = subject
        self._fair = max(len(stream) // PIECES, 1)
        self._longest = limit / PIECES
        self._piece = 1
        # The first event is in already: it waited for the compiler.
        self.events, self.seconds = 1, 0.0
        self.samples = [Sample(1, 0.0, subject.bytes())]

    def go(self, stop: int, deadline: float) -> None:
        """Take in events up to ``stop``, or until so many seconds have been spent on events in all."""
        while self.events < stop and self.seconds < deadline:
            size = min(self._piece, stop - self.events)
            seconds = self._subject.feed(self.events, self.events + size)
            self.events += size
            self.seconds += seconds
            self.samples.append(Sample(self.events, self.seconds, self._subject.bytes()))
            self._piece = self._next(size, seconds)

    def _next(self, size: int, seconds: float) -> int:
        """A larger piece, step by step: events may become slower as the maps grow."""
        rate = size / max(seconds, 1e-9)
        wanted = min(max(self._fair, rate * SHORTEST), rate * self._longest)
        return int(min(max(wanted, 1), 8 * size + 8, LARGEST))
