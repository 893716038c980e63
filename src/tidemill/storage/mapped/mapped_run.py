"""Rows of a run by key, found in its mapped columns by a mapped index: the cost is that of what is found.

A column is an Arrow file of its own, so only columns that lookups read are copied; one whose values are all equal, as
weights and epochs often are, is stored as one value. An index is an array of hashes (``changes/sorted_hashes.py``).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import integer_array
from tidemill.changes.hashing import Hashes
from tidemill.changes.sorted_hashes import Positions, find_positions, index_elements, index_rows
from tidemill.storage.mapped.derived_files import has_room, map_derived, write_derived

VALUE_BYTES = 8
"""Estimated bytes of a value in a mapped file; those of an entry of an index."""

ReadColumn = Callable[[pa.Field], pa.ChunkedArray]
"""Reads a column of the run itself, as the type of the field."""


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """The columns of an index; with ``elements`` one array column, whose rows are found by their elements."""

    schema: pa.Schema
    elements: bool = False

    def index(self, columns: Sequence[pa.ChunkedArray]) -> Hashes:
        """The index of rows that have these columns."""
        return index_elements(columns[0]) if self.elements else index_rows(columns)


@dataclass(frozen=True, slots=True)
class MappedRun:
    """A run of so many rows. The names of its derived files begin with ``prefix``, which has the run's checksum.

    If they are ``kept`` they stay mapped between lookups.
    """

    rows: int
    prefix: Path
    kept: bool = True

    def find(self, by: IndexedColumns, sought: Hashes, wanted: pa.Schema) -> pa.Table | None:
        """The ``wanted`` columns of the rows with one of the ``sought_hashes`` of keys, and rarely of others; None if a
        file is absent.

        Keys are the values of the columns of ``by``, or elements. NULL finds NULLs, but for arrays that are NULL.
        """
        found = self.positions(by, sought)
        columns = [self._column(field) for field in wanted] if found is not None else []
        if found is None or any(column is None for column in columns):
            return None
        at = integer_array(found)
        taken = [_take(column, at, f) for column, f in zip(columns, wanted, strict=True) if column is not None]
        return pa.Table.from_arrays(taken, schema=wanted)

    def positions(self, by: IndexedColumns, sought: Hashes) -> Positions | None:
        """The positions of the same rows, in order; None if the index is absent."""
        entries = self._index(by)
        return None if entries is None else find_positions(entries, self.rows, sought)

    def absent(self, by: IndexedColumns, wanted: pa.Schema) -> tuple[int, int]:
        """The number of columns, and of indexes, that must be made before this can be found."""
        return sum(self._column(field) is None for field in wanted), int(self._index(by) is None)

    def make(self, by: IndexedColumns, wanted: pa.Schema, read: ReadColumn) -> bool:
        """Make what is absent, a file at a time; False if the disk has no room, or the system refuses.

        Each process has an order of its own: those that need the same files at the same time make different ones."""
        if not has_room(self.prefix.parent, VALUE_BYTES * self.rows * sum(self.absent(by, wanted))):
            return False
        making = [partial(self._make_column, field, read) for field in wanted]
        making.append(partial(self._make_index, by, read))
        random.Random(os.getpid()).shuffle(making)
        return all(make() for make in making)

    def _make_column(self, field: pa.Field, read: ReadColumn) -> bool:
        return self._column(field) is not None or self._write_column(field, read(field).combine_chunks())

    def _make_index(self, by: IndexedColumns, read: ReadColumn) -> bool:
        if self._index(by) is not None:
            return True
        entries = by.index([read(field) for field in by.schema])
        return write_derived(*self._index_file(by), lambda out: out.write(entries.data))

    def _write_column(self, field: pa.Field, column: pa.Array | pa.ChunkedArray) -> bool:
        if pa.types.is_string(field.type):
            column = column.cast(pa.large_string())  # 32 bits would number 2 GiB of text
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        stored = column[:1] if _is_constant(column) else column
        return write_derived(*self._column_file(field), partial(_write_arrow, stored))

    def _column(self, field: pa.Field) -> pa.Array | None:
        return map_derived(*self._column_file(field), _read_arrow, keep=self.kept)

    def _index(self, by: IndexedColumns) -> Hashes | None:
        return map_derived(*self._index_file(by), _read_hashes, keep=self.kept)

    def _column_file(self, field: pa.Field) -> tuple[Path, bytes]:
        return self._file("column", [(field.name, str(field.type))])

    def _index_file(self, by: IndexedColumns) -> tuple[Path, bytes]:
        kind = "elements" if by.elements else "index"
        return self._file(kind, [(field.name, str(field.type)) for field in by.schema])

    def _file(self, kind: str, columns: list[tuple[str, str]]) -> tuple[Path, bytes]:
        """The derived file of some columns, and its description."""
        about = json.dumps({"run": self.prefix.name, "rows": self.rows, kind: columns}).encode()
        digest = blake2b(about, digest_size=8).hexdigest()
        return self.prefix.with_name(f"{self.prefix.name}.{digest}.{kind}"), about


def _take(column: pa.Array, at: pa.Array, field: pa.Field) -> pa.Array:
    taken = pa.repeat(column[0], len(at)) if len(column) == 1 else column.take(at)
    return taken if taken.type == field.type else taken.cast(field.type)


def _is_constant(column: pa.Array) -> bool:
    """True if all values of a column of whole numbers are equal."""
    if not pa.types.is_integer(column.type) or column.null_count or not len(column):
        return False
    bounds = pc.min_max(column)
    return bool(bounds["min"] == bounds["max"])


def _write_arrow(column: pa.Array, out: BinaryIO) -> None:
    batch = pa.record_batch([column], names=["column"])
    with pa.ipc.new_file(out, batch.schema) as writer:
        writer.write_batch(batch)


def _read_hashes(content: pa.Buffer) -> Hashes:
    return np.frombuffer(content, dtype=np.uint64)


def _read_arrow(content: pa.Buffer) -> pa.Array:
    return pa.ipc.open_file(content).get_batch(0).column(0)
