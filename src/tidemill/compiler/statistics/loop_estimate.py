"""Estimate of nested loops, as query planners make it: rows visited, rows found, and distinct values of their columns.

A lookup finds the rows of a relation divided by the values of the columns that it goes by. Where the most frequent
values of these columns are known, and those of the columns that its keys come from, it finds the mean over keys that
come as often as they occur: a lookup of a self-join finds more than the rows of a mean value. Conditions keep an
assumed part of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log, prod
from typing import assert_never

from tidemill.algebra.expressions.scalars import Call, Column, Literal, Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.statistics.column_values import NO_SHARES, ValueShares
from tidemill.compiler.statistics.sizes import MANY, RelationSize
from tidemill.program.statements import ArrayLoop, MapRead, MapSeek, Query, RelationLoop, Step, Version

PASSING = 1 / 3
"""Assumed selectivity of a condition."""

NODE = 16
"""Entries of a node in an ordered map."""


def estimate_loops(query: Query, known: Mapping[str, RelationSize]) -> LoopEstimate:
    """The estimate of a whole query over relations and maps of ``known`` sizes."""
    estimate = LoopEstimate(known)
    for step in query.sources:
        estimate.take(step)
    return estimate


class LoopEstimate:
    """Estimate of nested loops so far: rows found, rows visited, and distinct values of their columns."""

    def __init__(self, known: Mapping[str, RelationSize]) -> None:
        self._known = known
        self._owners: dict[str, tuple[RelationSize, str] | None] = {}
        self._spread: dict[str, tuple[RelationSize, str]] = {}
        self._changed = False
        self.rows = 1.0
        self.visits = 0.0

    def take(self, step: Step) -> None:
        """One more step."""
        match step:
            case RelationLoop():
                self._take_source(step)
            case MapRead() | MapSeek():
                is_plain = isinstance(step, MapRead) and step.range is None
                self.visits += self.rows * (1.0 if is_plain else self._descents(step))
                self.rows *= PASSING ** len(step.filters)
            case ArrayLoop():
                pass  # the length of an array is unknown: one element
            case _:
                assert_never(step)

    def _take_source(self, source: RelationLoop) -> None:
        contents = self._size(source.relation)
        if source.version is Version.CHANGE:
            self.visits += 1
            # One row seldom joins with itself: a second loop over the change finds nothing.
            self.rows *= 0.0 if self._changed else 1.0
            self._owners |= {f"{source.alias}.{f.name}": None for f in source.columns}
            self._changed = True
        else:
            found = contents.rows
            for name, key in source.lookup:
                values = max(contents.distinct(name), self.values(key))
                shares = contents.shares(name)
                found *= shares.matching(self.shares(key) if shares.frequent else NO_SHARES, values)
            if len(source.lookup) > 1:
                # Values of columns that go together are not as many as each could have with each.
                found = max(found, contents.rows / contents.combined(name for name, _ in source.lookup))
            self.rows *= found
            self.visits += self.rows
            self._owners |= {f"{source.alias}.{f.name}": (contents, f.name) for f in source.columns}
        self._spread |= {f"{source.alias}.{f.name}": (contents, f.name) for f in source.columns}
        self.rows *= prod(map(self._passing, source.filters))

    def _descents(self, step: MapRead | MapSeek) -> float:
        """Nodes of a tree that a sum over a range visits, which is the difference of two descents.

        A tree orders the entries that have the values which the map is looked up by.
        """
        size = self._size(step.map)
        trees = min(prod(size.distinct(name) for name, _ in step.lookup), size.rows)
        return max(1.0, 2 * log(size.rows / max(trees, 1.0) + 2, NODE))

    def _size(self, name: str) -> RelationSize:
        """The size of a relation or map; unknown ones are large."""
        return self._known.get(name, RelationSize(MANY))

    def _passing(self, condition: Scalar) -> float:
        match condition:
            case Call(function="eq", arguments=(Column() as one, Literal(value=value))):
                return self.shares(one).frequent.get(str(value), 1 / self.values(one))
            case Call(function="is_not_null"):
                return 1.0
        return PASSING

    def shares(self, scalar: Scalar) -> ValueShares:
        """Shares of the values of an expression among the rows that come; unknown unless it is a column."""
        owner = self._spread.get(scalar.name) if isinstance(scalar, Column) else None
        return NO_SHARES if owner is None else owner[0].shares(owner[1])

    def values(self, scalar: Scalar) -> float:
        """Number of distinct values of an expression, at most the number of rows."""
        owners = filter(None, map(self._owners.get, columns_in(scalar)))
        found = prod(contents.distinct(name) for contents, name in owners)
        return max(1.0, min(found, self.rows) if not self._changed else found)
