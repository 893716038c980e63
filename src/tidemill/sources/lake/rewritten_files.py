"""Files that a version removed and those that it added, as the rows that only one of them has.

A file that was rewritten for a few rows brings all others twice, mostly in the same order. Both sides are read side by
side, a part of each at a time, and rows that are equal are taken out at once: what is held is what has not met its
partner. Only rows that are left are converted and checked; an equal row was when it came.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.changes.arrow import arrow_schema
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import STRING
from tidemill.sources.ingest.frames import changes_of
from tidemill.sources.lake.columns import without_views
from tidemill.sources.lake.spilled_rows import SpilledRows
from tidemill.storage.compaction.cancelling import HashedRows, cancel, decoded, pairing_columns

__all__ = ["Extent", "extent_of", "net_rows", "repeated_texts", "side_by_side"]

One = TypeVar("One")

HELD_BYTES = max(256 << 20, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 12)
"""Bytes of rows without a partner that are held in memory, a twelfth of the machine's; more go to files.

A writer that interleaves the files that it reads leaves a third of a table waiting for its partners: files would cost
as much again as all else.
"""

REPEATED_BYTES = 2
"""Bytes for each row below which a column of texts is one of a dictionary."""

PARTS_AHEAD = 4
"""Parts of each side that are read ahead."""


@dataclass(frozen=True)
class Extent:
    """Size of a file, and the smallest and largest value of its columns that are numbers or times.

    ``repeated`` are its columns of texts that a dictionary stores in a byte or two for each row.
    """

    rows: int
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    repeated: frozenset[str] = frozenset()


def extent_of(file: pq.ParquetFile) -> Extent:
    """The extent of a Parquet file, by its footer."""
    bounds: dict[str, tuple[float, float]] = {}
    described, repeated = file.metadata, set[str]()
    for column in range(described.num_columns):
        chunks = [described.row_group(group).column(column) for group in range(described.num_row_groups)]
        path = described.schema.column(column).path
        if (
            path.islower()
            and sum(chunk.total_uncompressed_size for chunk in chunks) < REPEATED_BYTES * described.num_rows
        ):
            repeated.add(path)
        if chunks and all(chunk.statistics is not None and chunk.statistics.has_min_max for chunk in chunks):
            found = [_number(value) for chunk in chunks for value in (chunk.statistics.min, chunk.statistics.max)]
            numbers = [value for value in found if value is not None]
            if len(numbers) == len(found):
                bounds[chunks[0].path_in_schema.lower()] = (min(numbers), max(numbers))
    return Extent(described.num_rows, bounds, frozenset(repeated))


def repeated_texts(sides: Iterable[Sequence[tuple[One, Extent]]], table: Table) -> frozenset[str]:
    """The columns of texts that are read as numbers of a dictionary, since every file stores them so."""
    texts = frozenset(f.name for f in table.fields if f.type == STRING)
    return texts.intersection(*(extent.repeated for side in sides for _, extent in side))


def _number(value: Any) -> float | None:
    """A bound as a number; None if it is none."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, date):
        return float(value.toordinal())
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else None


def side_by_side(
    removed: Sequence[tuple[One, Extent]], added: Sequence[tuple[One, Extent]]
) -> tuple[list[One], list[One]]:
    """Both lists of files in an order in which those with the same rows come at about the same time.

    That is the order of the column whose ranges overlap least; files are taken as they come if there is no such column.

    >>> old = [("b", Extent(1, {"id": (5, 9), "day": (1, 9)})), ("a", Extent(1, {"id": (0, 4), "day": (1, 8)}))]
    >>> side_by_side(old, [("c", Extent(1, {"id": (0, 9), "day": (1, 9)}))])
    (['a', 'b'], ['c'])
    """
    every = [extent.bounds for _, extent in (*removed, *added)]
    shared = [name for name in every[0] if all(name in bounds for bounds in every)]
    if not shared:
        return [one for one, _ in removed], [one for one, _ in added]
    best = min(shared, key=lambda name: _overlap([bounds[name] for bounds in every]))
    first, second = (sorted(side, key=lambda file: sum(file[1].bounds[best])) for side in (removed, added))
    return [one for one, _ in first], [one for one, _ in second]


def _overlap(ranges: Sequence[tuple[float, float]]) -> float:
    """The average share of all values that a range covers."""
    width = max(high for _, high in ranges) - min(low for low, _ in ranges)
    return sum(high - low for low, high in ranges) / width if width else len(ranges)


def net_rows(
    removed: tuple[Iterable[pa.Table], int],
    added: tuple[Iterable[pa.Table], int],
    table: Table,
    repeated: Collection[str] = (),
) -> Iterator[pa.Table]:
    """The weighted rows that are left of removed and added ones, each in parts and with their number in all.

    The ``repeated`` columns come as numbers of dictionaries. Equal rows of opposite sign may be among them still.
    """
    schema = _schema(table, repeated)
    parts = (_in_order(part, table, schema) for part in removed[0])
    first = next(parts, schema.empty_table())
    columns = pairing_columns(first, table.primary_key)
    new_parts = (_in_order(part, table, schema) for part in added[0])
    empty = HashedRows.of(schema.empty_table(), columns)
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as other, SpilledRows() as spilled:
        old = _Side(chain([first], parts), removed[1], empty, columns, reader)
        new = _Side(new_parts, added[1], empty, columns, other)
        _cancel_side_by_side(old, new, spilled)
        for minus, plus in chain([(old.rows, new.rows)], spilled.partitions()):
            yield from (_converted(side.rows, table, weight) for side, weight in ((minus, -1), (plus, 1)) if len(side))


def _cancel_side_by_side(old: _Side, new: _Side, spilled: SpilledRows) -> None:
    """Read both sides to their ends, and take out equal rows as they come."""
    settled = 0
    while not (old.ended and new.ended):
        behind = new if old.ended or (new.progress < old.progress and not new.ended) else old
        behind.take()
        both = (old.fresh or old.ended) and (new.fresh or new.ended)
        # Rows without a partner are compared again when as many have come, so each is a few times at most.
        if both and (old.fresh + new.fresh >= settled or (old.ended and new.ended)):
            left = cancel(old.rows, new.rows)
            settled = sum(map(len, left))
            if sum(side.rows.nbytes for side in left) > HELD_BYTES:
                spilled.add(*left)
                left, settled = (old.empty, new.empty), 0
            old.keep(left[0])
            new.keep(left[1])


class _Side:
    """The rows of one side that have come and not met an equal one; a thread reads the next parts meanwhile."""

    def __init__(
        self,
        parts: Iterator[pa.Table],
        total: int,
        empty: HashedRows,
        columns: Sequence[str],
        reader: ThreadPoolExecutor,
    ) -> None:
        self._parts, self._columns, self._reader = parts, columns, reader
        self._came, self._total = 0, max(total, 1)
        self.rows = self.empty = empty
        self.fresh = 0
        """Rows that have come since rows were compared."""
        self.ended = False
        self._next = deque(reader.submit(self._read) for _ in range(PARTS_AHEAD))

    def _read(self) -> HashedRows | None:
        part = next(self._parts, None)
        return None if part is None else HashedRows.of(part, self._columns)

    @property
    def progress(self) -> float:
        """The share of the rows that have come."""
        return self._came / self._total

    def take(self) -> None:
        """Add the next part to the rows, and have the one after it read."""
        part = self._next.popleft().result()
        if part is None:
            self.ended = True
            return
        self._next.append(self._reader.submit(self._read))
        self.rows = self.rows + part
        self.fresh += len(part)
        self._came += len(part)

    def keep(self, left: HashedRows) -> None:
        """Hold the rows that are left of a comparison."""
        self.rows, self.fresh = left, 0


def _schema(table: Table, repeated: Collection[str]) -> pa.Schema:
    """The columns of rows that are compared."""
    numbered = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([f.with_type(numbered) if f.name in repeated else f for f in arrow_schema(table.fields)][:-1])


def _in_order(part: pa.Table, table: Table, schema: pa.Schema) -> pa.Table:
    """The columns of ``schema`` in its order and types. Values of these types are left as they are, unchecked."""
    part, columns = without_views(part), []
    places = {name.lower(): place for place, name in enumerate(part.column_names)}
    for wanted in schema:
        if wanted.name not in places:
            columns.append(pa.nulls(part.num_rows, wanted.type))
            continue
        column = part.column(places[wanted.name])
        if column.type != wanted.type:
            return _converted(part, table, 1).drop_columns([WEIGHT]).cast(schema)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _converted(rows: pa.Table, table: Table, weight: int) -> pa.Table:
    """Rows with a weight as ``table`` has them, checked."""
    names = [name for name in rows.column_names if name.lower() in {f.name for f in table.fields}]
    rows = pa.table({name: decoded(rows.column(name)) for name in names})
    weights = pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows)
    return changes_of(rows.append_column(WEIGHT, weights), table).arrow()
