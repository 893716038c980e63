"""One case: a query at a depth on a back end, in a warehouse of its own, and what was measured of it."""

from __future__ import annotations

from dataclasses import dataclass

DEPTHS = ("0", "1", "naive", "full")
BACKENDS = ("python", "llvm")

SCALE = 0.1
"""The paper's scale of TPC-H. The order book has all its events then, and so many more or less at another."""


@dataclass(frozen=True)
class Case:
    """A query, how deep its program is compiled, and what runs it.

    Its events come in batches, or where ``single`` one call for each from Python.

    >>> Case("q3", "full", "llvm").name, Case("q3", "full", "llvm", scale=0.5, single=True).name
    ('q3/full/llvm', 'q3/full/llvm/scale0.5/single')
    """

    query: str
    depth: str
    backend: str
    scale: float = SCALE
    single: bool = False

    @property
    def name(self) -> str:
        """As figures call it."""
        words = [self.query, self.depth, self.backend]
        if self.scale != SCALE:
            words.append(f"scale{self.scale:g}")
        if self.single:
            words.append("single")
        return "/".join(words)


@dataclass(frozen=True)
class Sample:
    """How far a run had come: events done, seconds spent on them, and bytes held by the maps."""

    events: int
    seconds: float
    bytes: int


@dataclass(frozen=True)
class Outcome:
    """What a case has shown. The first sample is where timing began; ``stream`` is how many events there were.

    >>> samples = (Sample(1, 0.0, 0), Sample(11, 1.0, 80), Sample(41, 2.0, 160))
    >>> outcome = Outcome(Case("q3", "full", "llvm"), 41, 0.1, samples, entries=2)
    >>> outcome.rate, outcome.complete, outcome.bytes_per_entry
    (20.0, True, 80.0)
    """

    case: Case
    stream: int
    compile_s: float
    samples: tuple[Sample, ...]
    entries: int

    @property
    def events(self) -> int:
        """How many events were done."""
        return self.samples[-1].events

    @property
    def seconds(self) -> float:
        """How long they took."""
        return self.samples[-1].seconds

    @property
    def rate(self) -> float:
        """Refreshes a second over all that was timed."""
        return (self.events - self.samples[0].events) / self.seconds

    @property
    def complete(self) -> bool:
        """Whether the stream came to its end before the time limit."""
        return self.events == self.stream

    @property
    def bytes_per_entry(self) -> float | None:
        """What an entry of the maps costs at the end; None where there is none."""
        return self.samples[-1].bytes / self.entries if self.entries else None
