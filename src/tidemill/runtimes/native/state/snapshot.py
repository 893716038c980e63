"""Large stored maps in memory as Arrow columns, with sorted hashes to find rows by.

A dictionary of Python rows takes ten times the space of the columns and minutes to fill. Here the columns stay as
they were read, and only rows that a change asks for become tuples: O(log n) a key, after one sort for each set of
key columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_schema, from_arrow, to_arrow
from tidemill.changes.hashing import Hashes, hash_columns
from tidemill.changes.zset import Row
from tidemill.model.types import Array, Field

ColumnPositions = tuple[int, ...]
"""Column positions in a row."""


class RelationSnapshot(Protocol):
    """Immutable weighted rows: the contents of the store when they were first read.

    ``remote`` snapshots answer each fetch by a job that scans all rows: fetch seldom, and many keys at once.
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
        # The low bits of an index entry are the number of a row, the others those of its hash.
        self._row_bits = np.uint64((1 << max(self._table.num_rows - 1, 0).bit_length()) - 1)
        self._sorted: dict[ColumnPositions, Hashes] = {}
        self._elements: dict[int, tuple[Hashes, npt.NDArray[np.intp]]] = {}

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
        entries = self._index(positions)
        wanted = np.unique(self._hashes_of(positions, keys) & ~self._row_bits)
        first = np.searchsorted(entries, wanted, side="left")
        last = np.searchsorted(entries, wanted | self._row_bits, side="right")
        found = entries[_ranges(first, last)] & self._row_bits
        return whole.take(pa.array(np.sort(found)))

    def holders(self, position: int, elements: Collection[Any]) -> list[tuple[Row, int]]:
        """The rows whose array at ``position`` has one of ``elements``, each once."""
        kind = self._fields[position].type
        assert isinstance(kind, Array)
        hashes, rows = self._elements_of(position)
        sought = to_arrow((((element,), 1) for element in elements), [Field("element", kind.element)])
        wanted = np.unique(hash_columns([sought.column(0)]))
        first = np.searchsorted(hashes, wanted, side="left")
        found = np.unique(rows[_ranges(first, np.searchsorted(hashes, wanted, side="right"))])
        pairs = from_arrow(self._table.take(pa.array(found)), self._fields)
        asked = set(elements)
        return [pair for pair in pairs if not asked.isdisjoint(pair[0][position])]

    def _elements_of(self, position: int) -> tuple[Hashes, npt.NDArray[np.intp]]:
        """The hashes of all elements of an array column in ascending order, and the row of each."""
        if position not in self._elements:
            column = self._table.column(position).combine_chunks()
            hashes = hash_columns([pa.chunked_array([pc.list_flatten(column)])])
            rows = pc.list_parent_indices(column).to_numpy()
            order = np.argsort(hashes, kind="stable")
            self._elements[position] = hashes[order], rows[order]
        return self._elements[position]

    def _index(self, positions: ColumnPositions) -> Hashes:
        """The hashes of all keys in ascending order, each with the number of its row in place of the low bits.

        To sort such numbers takes half the time of finding the order of the hashes, and half the memory.
        """
        if positions not in self._sorted:
            entries = hash_columns([self._table.column(i) for i in positions])
            entries = (entries & ~self._row_bits) | np.arange(len(entries), dtype=np.uint64)
            entries.sort()
            self._sorted[positions] = entries
        return self._sorted[positions]

    def _hashes_of(self, positions: ColumnPositions, keys: Collection[Row]) -> Hashes:
        fields = [self._fields[i] for i in positions]
        table = to_arrow(((key, 1) for key in keys), fields)
        return hash_columns([table.column(i) for i in range(len(fields))])


def _ranges(first: npt.NDArray[np.intp], last: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """All integers of the ranges ``first[i]`` to ``last[i]``, end to end.

    >>> _ranges(np.array([2, 5]), np.array([4, 6])).tolist()
    [2, 3, 5]
    """
    lengths = last - first
    ends = np.cumsum(lengths)
    offsets = np.arange(ends[-1] if len(ends) else 0)
    places: npt.NDArray[np.intp] = offsets + np.repeat(first - (ends - lengths), lengths)
    return places
