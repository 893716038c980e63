"""Many rows as files that the store adopts, so that they are never in memory together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.model.types import Field
from tidemill.storage.runs import write_tables

__all__ = ["staged"]

FILE_ROWS = 1 << 19
"""Rows after which a file ends: the store reads one at a time when it adopts them."""


def staged(parts: Iterable[pa.Table], fields: Sequence[Field], folder: Path) -> ChangeSet:
    """A change of weighted rows that come in parts, in files below ``folder``; one that fits one file is in memory."""
    schema = arrow_schema(tuple(fields))
    tables = _grouped(parts, schema)
    first = next(tables)
    if first.num_rows < FILE_ROWS:
        return ChangeSet.of_arrow(first, fields)
    files, rows = list[Path](), 0
    for number, table in enumerate(chain([first], tables)):
        rows += table.num_rows
        files.append(folder / f"{number:06}.parquet")
        write_tables([table], schema, files[-1])
    return ChangeSet.of_files(files, fields, rows)


def _grouped(parts: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Parts with about as many rows together as a file has; the last may have none."""
    group: list[pa.Table] = []
    for part in parts:
        group.append(part)
        if sum(one.num_rows for one in group) >= FILE_ROWS:
            yield pa.concat_tables(group)
            group = []
    yield pa.concat_tables([schema.empty_table(), *group])
