"""Limits of the rate and size of requests of a user or an address."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from tidemill.model.errors import InvalidArgument

__all__ = ["RateLimit", "require_length"]

MOST_KEYS = 10_000


class RateLimit:
    """A bucket of ``burst`` requests for each user or address, which fills again by ``rate`` of them a second.

    >>> now = [0.0]
    >>> limit = RateLimit(rate=2, burst=2, clock=lambda: now[0])
    >>> limit.take("ann"), limit.take("ann"), limit.take("ann"), limit.take("bob")
    (0.0, 0.0, 0.5, 0.0)
    >>> now[0] = 0.5
    >>> limit.take("ann")
    0.0
    """

    def __init__(self, rate: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key: str, cost: float = 1.0) -> float:
        """The seconds after which a bucket has a request; 0 if it has one."""
        with self._lock:
            return max(0.0, (cost - self._left(key, self._clock())) / self._rate)

    def _left(self, key: str, now: float) -> float:
        left, at = self._buckets.get(key, (self._burst, now))
        return min(self._burst, left + (now - at) * self._rate)

    def take(self, key: str, cost: float = 1.0) -> float:
        """Take a request from a bucket; returns 0, or the seconds after which there is one."""
        with self._lock:
            now = self._clock()
            left = self._left(key, now)
            enough = left >= cost
            self._buckets.pop(key, None)
            self._buckets[key] = (left - cost if enough else left, now)
            if len(self._buckets) > MOST_KEYS:
                self._buckets.popitem(last=False)  # who has not asked for longest
            return 0.0 if enough else (cost - left) / self._rate


def require_length(text: str, most: int) -> None:
    """Refuse a statement that is too long to be read."""
    if len(text) > most:
        raise InvalidArgument(f"a statement has at most {most:,} bytes", detail=f"This one has {len(text):,}.")
