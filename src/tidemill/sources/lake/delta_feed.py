"""The change data feed of a Delta table, which is believed only where it is known to be right.

It must know no other kinds of changes than inserts, deletes and the two images of updates, and add up to the difference
of the numbers of rows that the log has. It is not asked over a commit that marks rows by deletion vectors and has no
change data of its own: the package then derives changes from files, gives the rows that a vector marks for those that a
file had, and ends the process where such a file has several row groups.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs

from tidemill.sources.lake.delta_files import counted_rows
from tidemill.sources.lake.delta_package import DeltaError, DeltaTable

__all__ = ["COLUMN_MAPPING", "read_feed"]

CHANGE_FEED = "delta.enableChangeDataFeed"
COLUMN_MAPPING = "delta.columnMapping.mode"

FEED_ROWS = 1 << 22
"""Rows of the change feed that are held in memory; a larger change is read from files, a part at a time."""

_WEIGHTS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


def read_feed(old: DeltaTable, new: DeltaTable, files: pa_fs.FileSystem) -> tuple[pa.Table, pa.ChunkedArray] | None:
    """The rows that changed from one version to another, and their weights.

    None if the feed is off, cannot be read, or does not add up. Nor is it read over a change of columns: it may leave
    columns out that came on the way.
    """
    if not (_is_on(old) and _is_on(new)) or old.version() == new.version():
        return None
    if old.schema().to_json() != new.schema().to_json():
        return None
    try:
        if not all(_tells(files, version) for version in range(old.version() + 1, new.version() + 1)):
            return None
        rows = _rows(pa.RecordBatchReader.from_stream(new.load_cdf(old.version() + 1, new.version())))
        before, after = counted_rows(old), counted_rows(new)
    except (DeltaError, OSError, pa.ArrowException):
        return None
    weights = None if rows is None else _weights(rows.column("_change_type"))
    if rows is None or weights is None or before is None or after is None:
        return None
    return (rows, weights) if (pc.sum(weights).as_py() or 0) == after - before else None


def _is_on(table: DeltaTable) -> bool:
    """True if the feed is on, and columns have their names in files."""
    settings = table.metadata().configuration
    return bool(settings.get(CHANGE_FEED, "").lower() == "true" and settings.get(COLUMN_MAPPING, "none") == "none")


def _tells(files: pa_fs.FileSystem, version: int) -> bool:
    """True if a commit has its change data, or marks no rows by deletion vectors."""
    with files.open_input_file(f"_delta_log/{version:020}.json") as entry:
        content = entry.read()
    if b"deletionVector" not in content:
        return True
    actions = [json.loads(line) for line in content.splitlines() if line]
    changes = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
    marks = any(one.get("deletionVector") and one.get("dataChange", True) for one in changes)
    return not marks or any("cdc" in action for action in actions)


def _rows(feed: pa.RecordBatchReader) -> pa.Table | None:
    """All rows of a feed; None if they are too many to be held."""
    batches, rows = [], 0
    for batch in feed:
        batches.append(batch)
        rows += batch.num_rows
        if rows > FEED_ROWS:
            return None
    return pa.Table.from_batches(batches, feed.schema)


def _weights(kinds: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The weight of each row of the feed; None if there is a kind of change that we do not know."""
    names = pa.array(_WEIGHTS, pa.string())
    places = pc.index_in(kinds.cast(pa.string()), names)
    if places.null_count:
        return None
    return pc.take(pa.array(_WEIGHTS.values(), pa.int64()), places)
