"""Row counts, distinct counts and rates of relations, and the estimates that stand in for unknown ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import NamedTuple

from tidemill.compiler.statistics.column_values import NO_SHARES, ValueShares
from tidemill.model.schema import Table

FANOUT = 4.0
"""Assumed number of rows that refer to one row."""

MATCHES = 10.0
"""Assumed number of rows that a lookup by non-key columns finds."""

MANY = 1e6
"""Assumed number of rows of the largest relation."""

TOGETHER = ", "
"""Separator of the names of columns that are counted together, in the order of their names."""

DistinctCounts = Callable[[str, str], int | None]
"""Number of distinct values of a column of a relation, or of several together; None where it is unknown."""


class WindowSizes(NamedTuple):
    """Sizes of a sliding window: the rows of a slide, its groups, and the groups of all slides."""

    rows: float
    groups: float
    all_groups: float


def nothing_counted(relation: str, column: str) -> int | None:
    """Distinct count of a column if none is known."""
    return None


def nothing_spanned(relation: str, column: str) -> float | None:
    """Span of a column of times if it is unknown."""
    return None


def nothing_shared(*column: str) -> ValueShares:
    """Shares of the values of a column if none are known."""
    return NO_SHARES


@dataclass(frozen=True, slots=True)
class RelationSize:
    """Row count of a relation or map, and distinct counts and shares of the values of its columns.

    ``changes`` is how often its rows have changed lately, in relation to others; None where that is unknown.
    ``grouped`` is the number of rows that one of its rows stands for, in the mean.
    """

    rows: float
    values: Mapping[str, float] = field(default_factory=dict)
    shares: Callable[[str], ValueShares] = nothing_shared
    changes: float | None = None
    grouped: float = 1.0

    def distinct(self, name: str) -> float:
        """The values of a column; where nothing is known, a value is shared by ``MATCHES`` rows."""
        return max(1.0, self.values.get(name, self.rows / MATCHES))

    def combined(self, names: Iterable[str]) -> float:
        """The combinations of values of several columns; infinitely many where nothing is known."""
        return max(1.0, self.values.get(TOGETHER.join(sorted(names)), inf))


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of base relations: the rows of those that have some, and functions that count values and their shares.

    ``changes`` are the rows of each that have changed lately, late ones counting more; empty if that is unknown.
    ``span`` gives the microseconds from the least to the greatest value of a column of times, None if it is unknown.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    distinct: DistinctCounts = nothing_counted
    shares: Callable[[str, str], ValueShares] = nothing_shared
    changes: Mapping[str, float] = field(default_factory=dict)
    span: Callable[[str, str], float | None] = nothing_spanned

    def sizes(self, relations: Iterable[str], tables: Mapping[str, Table]) -> dict[str, RelationSize]:
        """The sizes of relations. One without rows is assumed to become large; values are counted when asked for."""
        found = {}
        for name in relations:
            rows = float(self.rows.get(name, 0) or MANY)
            key = tables[name].primary_key if name in tables else ()
            single = {TOGETHER.join(sorted(key)): rows} if key else {}
            counted = self.distinct if self.rows.get(name) else nothing_counted
            shares = partial(self._shares_of, name, single) if self.rows.get(name) else nothing_shared
            changes = self.changes.get(name) if self.rows.get(name) else None
            found[name] = RelationSize(rows, _CountedValues(name, counted, single), shares, changes)
        return found

    def _shares_of(self, relation: str, keys: Collection[str], column: str) -> ValueShares:
        """The shares of a column; a key has each value once, and is not counted."""
        return NO_SHARES if column in keys else self.shares(relation, column)


class _CountedValues(Mapping[str, float]):
    """Distinct counts of the columns of one relation, each counted when it is first asked for."""

    def __init__(self, relation: str, distinct: DistinctCounts, found: dict[str, float]) -> None:
        self._relation, self._distinct = relation, distinct
        self._found: dict[str, float | None] = dict(found)

    def __getitem__(self, column: str) -> float:
        if column not in self._found:
            self._found[column] = self._distinct(self._relation, column)
        found = self._found[column]
        if found is None:
            raise KeyError(column)
        return found

    def __iter__(self) -> Iterator[str]:
        return (column for column, found in self._found.items() if found is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
