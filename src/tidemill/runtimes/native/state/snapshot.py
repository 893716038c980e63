"""Large stored maps in memory as Arrow columns, with sorted hashes to find rows by.

A dictionary of Python rows takes ten times the space of the columns and minutes to fill. Here the columns stay as
they were read, and only rows that a change asks for become tuples: O(log n) a key, after one sort for each set of
key columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema, from_arrow, integer_array, to_arrow
from tidemill.changes.hashing import Hashes
from tidemill.changes.sorted_hashes import find_positions, index_elements, index_rows, sought_hashes
from tidemill.changes.zset import Row
from tidemill.model.types import Array, Field

ColumnPositions = tuple[int, ...]
"""Column positions in a row."""


class RelationSnapshot(Protocol):
    """Immutable weighted rows: the contents of the store when they were first read.

    ``remote`` snapshots answer each fetch by a job: fetch seldom, and many keys at once.
    """

    remote: bool

    def fetch(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions
    ) -> list[tuple[Row, int]]:
        """The rows whose columns at ``positions`` are one of ``keys``; other columns than ``columns`` read None."""

    def holders(self, position: int, elements: Collection[Any]) -> list[tuple[Row, int]]:
        """The rows whose array at ``position`` has one of ``elements``."""

    def pairs(self) -> list[tuple[Row, int]]:
        """All rows, with their weights."""

    def table(self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions) -> pa.Table:
        """The rows of ``fetch`` as columns, perhaps with others; not of a remote snapshot."""


@dataclass(frozen=True, slots=True)
class SnapshotLookup:
    """The fetch of some rows of a snapshot, which may be made together with others."""

    snapshot: RelationSnapshot
    positions: ColumnPositions
    keys: Collection[Row]
    columns: ColumnPositions

    def rows(self) -> list[tuple[Row, int]]:
        """The rows, fetched by themselves."""
        return self.snapshot.fetch(self.positions, self.keys, self.columns)


class UnionSnapshot:
    """The sum of several snapshots: the first one, and later additions to the store."""

    remote = False

    def __init__(self, parts: Sequence[RelationSnapshot]) -> None:
        self.parts = tuple(parts)

    def table(self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions) -> pa.Table:
        """The rows of all parts under ``keys``, perhaps with others, as columns."""
        parts = [part.table(positions, keys, columns) for part in self.parts]
        return pa.concat_tables([part.select(parts[0].column_names) for part in parts])

    def fetch(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions
    ) -> list[tuple[Row, int]]:
        """The rows whose columns at ``positions`` are one of ``keys``, oldest parts first."""
        return [pair for part in self.parts for pair in part.fetch(positions, keys, columns)]

    def holders(self, position: int, elements: Collection[Any]) -> list[tuple[Row, int]]:
        """The rows whose array at ``position`` has one of ``elements``."""
        return [pair for part in self.parts for pair in part.holders(position, elements)]

    def pairs(self) -> list[tuple[Row, int]]:
        """All rows, with their weights."""
        return [pair for part in self.parts for pair in part.pairs()]


def extend_snapshot(snapshot: RelationSnapshot, part: RelationSnapshot) -> UnionSnapshot:
    """A snapshot with later additions."""
    return UnionSnapshot((*(snapshot.parts if isinstance(snapshot, UnionSnapshot) else (snapshot,)), part))


def part_count(snapshot: RelationSnapshot) -> int:
    """The number of parts that each fetch queries."""
    return len(snapshot.parts) if isinstance(snapshot, UnionSnapshot) else 1


def widen_rows(table: pa.Table, fields: Sequence[Field], columns: ColumnPositions) -> list[tuple[Row, int]]:
    """Weighted rows of some columns, each value at its position in a row of all ``fields``."""
    pairs = from_arrow(table, [fields[i] for i in columns])
    if len(columns) == len(fields):
        return pairs
    sources = [columns.index(i) if i in columns else None for i in range(len(fields))]
    return [(tuple([None if i is None else row[i] for i in sources]), weight) for row, weight in pairs]


def exact_rows(
    table: pa.Table,
    fields: Sequence[Field],
    positions: ColumnPositions,
    keys: Collection[Row],
    columns: ColumnPositions,
) -> list[tuple[Row, int]]:
    """The rows of ``table`` that have one of ``keys`` at ``positions``, as wide as all ``fields``."""
    asked = keys if isinstance(keys, (set, frozenset, dict)) else set(keys)
    rows = widen_rows(table, fields, columns)
    return [pair for pair in rows if tuple([pair[0][i] for i in positions]) in asked]


class ColumnSnapshot:
    """A snapshot whose columns are in this process.

    >>> from tidemill.model import types as t
    >>> fields = (Field("id", t.BIGINT), Field("name", t.STRING))
    >>> snapshot = ColumnSnapshot(to_arrow([((1, "ann"), 1), ((2, "bob"), 1), ((2, "eve"), 3)], fields), fields)
    >>> snapshot.fetch((0,), [(2,), (7,)], (0, 1))
    [((2, 'bob'), 1), ((2, 'eve'), 3)]
    """

    remote = False

    def __init__(self, table: pa.Table, fields: Sequence[Field]) -> None:
        self._table = table.select(arrow_schema(fields).names).combine_chunks()
        self._fields = tuple(fields)
        self._sorted: dict[ColumnPositions, Hashes] = {}
        self._elements: dict[int, Hashes] = {}

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def pairs(self) -> list[tuple[Row, int]]:
        """All rows, with their weights."""
        return from_arrow(self._table, self._fields)

    def fetch(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions
    ) -> list[tuple[Row, int]]:
        """The rows whose columns at ``positions`` are one of ``keys``. A NULL in a key finds the NULLs."""
        return exact_rows(self.table(positions, keys, columns), self._fields, positions, keys, columns) if keys else []

    def table(self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions) -> pa.Table:
        """The rows under ``keys``, and others with the same hash, as columns."""
        whole = self._table.select([*columns, len(self._fields)])
        if not positions:
            return whole
        found = find_positions(self._index(positions), len(self), self._hashes_of(positions, keys))
        return whole.take(integer_array(found))

    def holders(self, position: int, elements: Collection[Any]) -> list[tuple[Row, int]]:
        """The rows whose array at ``position`` has one of ``elements``, each once."""
        kind = self._fields[position].type
        assert isinstance(kind, Array)
        sought = to_arrow((((element,), 1) for element in elements), [Field("element", kind.element)])
        found = find_positions(self._elements_of(position), len(self), sought_hashes([sought.column(0)]))
        pairs = from_arrow(self._table.take(integer_array(found)), self._fields)
        asked = set(elements)
        return [pair for pair in pairs if not asked.isdisjoint(pair[0][position])]

    def _elements_of(self, position: int) -> Hashes:
        """The index by the elements of an array column."""
        if position not in self._elements:
            self._elements[position] = index_elements(self._table.column(position))
        return self._elements[position]

    def _index(self, positions: ColumnPositions) -> Hashes:
        """The index by the columns at ``positions``."""
        if positions not in self._sorted:
            self._sorted[positions] = index_rows([self._table.column(i) for i in positions])
        return self._sorted[positions]

    def _hashes_of(self, positions: ColumnPositions, keys: Collection[Row]) -> Hashes:
        fields = [self._fields[i] for i in positions]
        table = to_arrow(((key, 1) for key in keys), fields)
        return sought_hashes([table.column(i) for i in range(len(fields))])
