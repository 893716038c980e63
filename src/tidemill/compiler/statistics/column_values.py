"""Statistics of the values of one column: distinct values, NULLs, bounds, and the most frequent values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["NO_SHARES", "ColumnStatistics", "ValueShares"]


HEAVY = 2.0
"""Factor over the mean frequency from which a value is a heavy hitter; others are taken as even."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The values of a column among ``rows`` rows, ``nulls`` of which have none. Values are given as text.

    ``matches`` is the number of rows that have the value of a row, in the mean over the rows: where a few values are
    frequent, it is greater than the rows divided by the values. ``frequent`` are the most frequent values with their
    rows, in descending order.
    """

    rows: int
    distinct: int
    nulls: int = 0
    matches: float = 1.0
    least: str | None = None
    greatest: str | None = None
    frequent: tuple[tuple[str, int], ...] = ()

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> ColumnStatistics:
        """The statistics as the catalog has them."""
        return cls(**{**said, "frequent": tuple((str(value), int(rows)) for value, rows in said["frequent"])})

    @property
    def shares(self) -> ValueShares:
        """The parts of the rows that have NULL, or a value that is ``HEAVY`` times as frequent as the mean."""
        rows = max(self.rows, 1)
        heavy = HEAVY * (self.rows - self.nulls) / max(self.distinct, 1)
        return ValueShares({value: count / rows for value, count in self.frequent if count > heavy}, self.nulls / rows)


@dataclass(frozen=True, slots=True)
class ValueShares:
    """The parts of the rows of a relation that have each of the ``frequent`` values of a column, or NULL."""

    frequent: Mapping[str, float] = field(default_factory=dict)
    nulls: float = 0.0

    def matching(self, keys: ValueShares, values: float) -> float:
        """The part of the rows that a lookup finds, in the mean over keys that are spread like ``keys``.

        ``values`` is the number of values that there are in all; those that are not frequent are taken as even.

        >>> even, skewed = ValueShares(), ValueShares({"ann": 0.5})
        >>> even.matching(even, 100), skewed.matching(skewed, 101), even.matching(skewed, 100)
        (0.01, 0.2525, 0.01)
        """
        common = self.frequent.keys() & keys.frequent.keys()
        both = sum(self.frequent[value] * keys.frequent[value] for value in common)
        left, sought = (1.0 - one.nulls - sum(one.frequent[v] for v in common) for one in (self, keys))
        return both + max(left, 0.0) * max(sought, 0.0) / max(values - len(common), 1.0)


NO_SHARES = ValueShares()
"""The shares of a column of which nothing is known: all values are equally frequent, and none is NULL."""
