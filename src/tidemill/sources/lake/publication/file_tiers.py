"""Choice of data files of a published table to compact: tiers of similar size, as in a log-structured merge tree.

A row is written again once for each tier that it passes, so the bytes that compaction writes are a small multiple of
those of the changes. A table of one large file and many small ones is not written whole to get rid of the small ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

__all__ = ["WORN_SHARE", "crowded_tier"]

TIER_BITS = 4
"""Files of one tier differ in size by less than a factor of two to the power of this."""

LARGE_FILE = 64 << 20
"""Size in bytes from which on a file is not compacted."""

WORN_SHARE = 0.5
"""Share of rows that are marked as deleted above which all rows are written."""


def crowded_tier(sizes: Mapping[str, int], files: int) -> list[str]:
    """The smallest files, up to the largest of the first tier that has at least so many; none if no tier has.

    >>> crowded_tier({"a": 900, "b": 1000, "c": 1_000_000, "d": 950}, 3)
    ['a', 'd', 'b']
    >>> crowded_tier({"a": 900, "b": 1000, "c": 1_000_000}, 3)
    []
    """
    tiers: dict[int, int] = defaultdict(int)
    for size in sizes.values():
        if size < LARGE_FILE:
            tiers[_tier(size)] += 1
    crowded = [tier for tier, count in tiers.items() if count >= files]
    if not crowded:
        return []
    chosen = [path for path, size in sizes.items() if size < LARGE_FILE and _tier(size) <= min(crowded)]
    return sorted(chosen, key=sizes.__getitem__)


def _tier(size: int) -> int:
    return (size.bit_length() - 1) // TIER_BITS
