"""Files of a version of a Delta table, as the package ``deltalake`` tells them: with their deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.errors import SourceLost
from tidemill.sources.lake.data_files import DataFile, FileSet
from tidemill.sources.lake.delta_package import DeltaTable

__all__ = ["counted_rows", "file_set", "selections"]


def file_set(table: DeltaTable, names: Mapping[str, str]) -> FileSet:
    """The files of a version by their paths in the log; ``names`` are those of columns in them."""
    actions = pa.table(table.get_add_actions())
    kept = selections(table)
    partitions = actions.column("partition").combine_chunks() if "partition" in actions.column_names else None
    found: dict[str, DataFile] = {}
    for row, path in enumerate(actions.column("path").to_pylist()):
        values = {} if partitions is None else dict(partitions[row].items())
        found[path] = DataFile(unquote(path), values, kept.pop(path, None), names)
    if kept:
        raise SourceLost("a deletion vector belongs to no file of its version", where=next(iter(kept)))
    return found


def selections(table: DeltaTable) -> dict[str, pa.BooleanArray]:
    """For each file with a deletion vector, by its path in the log, which of its rows are left."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    found = pa.table(table.deletion_vectors())
    root = table.table_uri.rstrip("/") + "/"
    paths = [path.removeprefix(root) for path in found.column("filepath").to_pylist()]
    lists = found.column("selection_vector").combine_chunks()
    return {path: lists[row].values for row, path in enumerate(paths)}


def counted_rows(table: DeltaTable) -> int | None:
    """The number of rows that the log has, without those that are marked as deleted; None if it has not counted all."""
    counts = pa.table(table.get_add_actions()).column("num_records")
    if counts.null_count:
        return None
    marked: int = sum(len(kept) - kept.true_count for kept in selections(table).values())
    rows: int = pc.sum(counts).as_py() or 0
    return rows - marked
