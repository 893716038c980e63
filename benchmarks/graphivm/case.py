"""One case: a query kept by a strategy for a purpose on a back end, and what was measured of it."""

from __future__ import annotations

from dataclasses import dataclass

STRATEGIES = ("joingraph", "delta", "viewlet", "outerjoin")
SERVES = ("subscribe", "read")
BACKENDS = ("llvm", "python")


@dataclass(frozen=True)
class Case:
    """What is kept, how, and what for. ``word`` says what the query's name leaves open, such as the look-ahead.

    >>> Case("fanout", "fanout100", "joingraph", "subscribe").name
    'fanout100/joingraph/subscribe'
    >>> Case("fanout", "fanout100", "joingraph", "read", backend="python", word="first").name
    'fanout100/joingraph/read/first/python'
    """

    experiment: str
    query: str
    strategy: str
    serve: str
    backend: str = "llvm"
    word: str = ""
    at: float = 0.0
    """Where the case stands on the axis of its plot."""

    @property
    def name(self) -> str:
        """As figures call it; compiled is what goes without saying."""
        words = (self.query, self.strategy, self.serve, self.word, self.backend if self.backend != "llvm" else "")
        return "/".join(word for word in words if word)

    @property
    def stores(self) -> bool:
        """Whether rows of the view are kept: only a join graph can do without."""
        return self.strategy != "joingraph"

    @property
    def slow(self) -> bool:
        """Whether it gets a tenth of the data and of the events, because each costs it a hundred times as much."""
        return self.backend == "python" or self.strategy == "outerjoin"

    @property
    def publishes(self) -> bool:
        """Whether the view's changes are told; a join graph that is only to be read makes none."""
        return self.serve != "read"

    @property
    def encodes(self) -> bool:
        """Whether published rows are run-end encoded, so that plain ones cost more."""
        return self.backend == "llvm" and self.strategy == "joingraph" and self.serve == "subscribe"


@dataclass(frozen=True)
class Outcome:
    """What a case has shown: events done of how many and their seconds; and at the end rows of the view, and memory.

    ``state`` are the bytes of the maps, where known; ``stored`` those of the view's rows where they are kept;
    ``read_s`` the seconds to read them all; ``plain_s`` those that it takes besides to write all published rows out in
    plain columns. Without events ``reason`` says why there is nothing to show.
    """

    case: Case
    stream: int = 0
    events: int = 0
    seconds: float = 0.0
    rows: int = 0
    state: int | None = None
    stored: int = 0
    read_s: float = 0.0
    reason: str = ""
    plain_s: float = 0.0

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds if self.seconds else 0.0

    @property
    def plain_rate(self) -> float:
        """Events a second for a subscriber that wants plain columns."""
        return self.events / (self.seconds + self.plain_s) if self.seconds else 0.0

    @property
    def complete(self) -> bool:
        """Whether all events were taken in before the time limit."""
        return self.events == self.stream
