"""The network losses of section 5.1 of the thesis: minutes of measurements between hosts, the same each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

_STREAM, _PARTITIONS = (
    "CREATE STREAM s (ts TIMESTAMP, src STRING, dest STRING, loss INT)",
    "PARTITION BY ts EVERY 1 MINUTE",
)
SCHEMA = f"{_STREAM} {_PARTITIONS}"
GROWING_SCHEMA = f"{_STREAM} APPEND ONLY {_PARTITIONS}"

MINUTE = 60_000_000
FIRST = 1_704_067_200_000_000
"""2024-01-01 00:00 in microseconds: when the first partition begins."""

HIGH = 10
"""A loss above this is what the thesis calls red."""

LARGEST = 100
DESTINATIONS = 100
"""To so many hosts each host sends."""


@dataclass(frozen=True)
class Losses:
    """Partitions of ``rows`` measurements, ``each`` of them for one pair; of all, the share ``selectivity`` is high."""

    rows: int
    each: int
    selectivity: float

    def partition(self, number: int) -> pa.Table:
        """The measurements of minute ``number``."""
        random = np.random.default_rng((number, self.rows))
        instants = FIRST + number * MINUTE + random.integers(0, MINUTE, self.rows)
        src, dest = self._pairs
        return pa.table(
            {"ts": pa.array(instants, pa.timestamp("us")), "src": src, "dest": dest, "loss": self._losses(random)}
        )

    def partitions(self, numbers: Sequence[int]) -> list[pa.Table]:
        """Those of several minutes."""
        return [self.partition(number) for number in numbers]

    def _losses(self, random: np.random.Generator) -> pa.Array:
        high = random.random(self.rows) < self.selectivity
        above, below = random.integers(HIGH + 1, LARGEST + 1, self.rows), random.integers(0, HIGH + 1, self.rows)
        return pa.array(np.where(high, above, below), pa.int32())

    @cached_property
    def _pairs(self) -> tuple[pa.Array, pa.Array]:
        count = max(self.rows // self.each, 1)
        places = pa.array(np.arange(self.rows) % count)
        names = [divmod(pair, DESTINATIONS) for pair in range(count)]
        src, dest = pa.array([f"s{s}" for s, _ in names]), pa.array([f"d{d}" for _, d in names])
        return src.take(places), dest.take(places)
