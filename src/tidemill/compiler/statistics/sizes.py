"""Row counts and distinct counts of relations, and the estimates that stand in for unknown ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from tidemill.model.schema import Table

UPDATE = 2.0
"""Cost of updating an entry, in visits."""

FANOUT = 4.0
"""Assumed number of rows that refer to one row."""

MATCHES = 10.0
"""Assumed number of rows that a lookup by non-key columns finds."""

MANY = 1e6
"""Assumed number of rows of the largest relation."""

DistinctCounts = Callable[[str, str], int | None]
"""Number of distinct values of a column of a relation; None where it is unknown."""


@dataclass(frozen=True, slots=True)
class RelationSize:
    """Row count of a relation or map, and distinct counts of its columns."""

    rows: float
    values: Mapping[str, float] = field(default_factory=dict)

    def distinct(self, name: str) -> float:
        """The values of a column; where nothing is known, a value is shared by ``MATCHES`` rows."""
        return max(1.0, self.values.get(name, self.rows / MATCHES))


def relation_sizes(
    columns: Mapping[str, Set[str]], tables: Mapping[str, Table], sizes: Mapping[str, int], distinct: DistinctCounts
) -> dict[str, RelationSize]:
    """Sizes of relations and of those of their columns that matter; a relation of unknown size is large."""
    found = {}
    for name, read in columns.items():
        rows = float(sizes.get(name, MANY))
        values = {column: float(n) for column in read if (n := distinct(name, column)) is not None}
        key = tables[name].primary_key if name in tables else ()
        found[name] = RelationSize(rows, values | (dict.fromkeys(key, rows) if len(key) == 1 else {}))
    return found
