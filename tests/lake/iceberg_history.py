"""Random histories of Iceberg tables, written by pyiceberg, which reads position deletes and does not write them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual

from tests.lake.delta_history import some_rows
from tidemill.sources.lake.publication.iceberg_snapshot import FileChange, IcebergFiles, commit_snapshot


def rows_of(table: Any) -> Counter[tuple[Any, ...]]:
    """The rows of an Iceberg table, as its own package reads them."""
    return Counter(tuple(row.values()) for row in table.refresh().scan().to_arrow().to_pylist())


def step(table: Any, rng: random.Random) -> None:
    """Change a table at random."""
    table.refresh()
    match rng.choice(("append", "append", "delete", "overwrite", "replace", "rewrite")):
        case "append":
            table.append(some_rows(rng, rng.randrange(1, 8)))
        case "delete":
            table.delete(EqualTo("id", rng.randrange(40)))
        case "overwrite":
            table.overwrite(some_rows(rng, 6), overwrite_filter=GreaterThanOrEqual("id", 20))
        case "replace":
            table.overwrite(some_rows(rng, 20))
        case "rewrite":
            rows = table.scan().to_arrow()
            table.overwrite(rows.slice(rows.num_rows // 3))


def mark_at_random(table: Any, rng: random.Random) -> None:
    """Mark rows as deleted, some twice, take marks back, or write delete files as one."""
    files = IcebergFiles(table.refresh())
    deletes = rng.sample(list(files.deletes), min(len(files.deletes), 2))
    match rng.choice(("mark", "mark", "mark", "unmark", "compact", "rollback")):
        case "unmark":
            commit_snapshot(table, files, FileChange((), [files.deletes[path] for path in deletes]), {})
        case "compact":
            joined = files.write_deletes(files.marked(deletes))
            commit_snapshot(table, files, FileChange(joined, [files.deletes[path] for path in deletes]), {})
        case "rollback" if table.history():
            line = [one.snapshot_id for one in table.history()]
            table.manage_snapshots().set_current_snapshot(rng.choice(line)).commit()
        case _:
            counts = {path: entry.data_file.record_count for path, entry in files.data.items()}
            some = {path: rng.sample(range(n), min(rng.randrange(1, 101), n)) for path, n in counts.items()}
            mark_rows(table, some)


def mark_rows(table: Any, positions: Mapping[str, Sequence[int]]) -> None:
    """Mark rows of data files as deleted, in a file of position deletes."""
    files = IcebergFiles(table.refresh())
    paths = [path for path, places in positions.items() for _ in places]
    places = [place for places in positions.values() for place in places]
    marks = pa.table({"file_path": pa.array(paths, pa.string()), "pos": pa.array(places, pa.int64())})
    commit_snapshot(table, files, FileChange(files.write_deletes(marks)), {})
