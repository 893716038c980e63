"""Random histories of Delta tables, written by deltalake: appends, updates, merges, overwrites, compactions.

Rows are also marked as deleted by deletion vectors, which deltalake reads and does not write.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, WriterProperties, write_deltalake

from tidemill.sources.lake.columns import without_views
from tidemill.sources.lake.delta_files import selections
from tidemill.sources.lake.marked_rows import Positions, positions_of
from tidemill.sources.lake.publication.deletion_vectors import vector_file
from tidemill.sources.lake.publication.delta_log import DeltaLog, removal

SCHEMA = pa.schema(
    [("id", pa.int64()), ("region", pa.string()), ("amount", pa.decimal128(12, 2)), ("score", pa.float64())]
)
REGIONS = ("north", "söuth & west", "a/b=c", None)
FEED = "delta.enableChangeDataFeed"
VECTORS = "delta.enableDeletionVectors"
SMALL_GROUPS = WriterProperties(max_row_group_size=16)


def some_rows(rng: random.Random, count: int, ids: range = range(40)) -> pa.Table:
    """Rows of which some are equal."""
    rows = [
        {
            "id": rng.choice(ids),
            "region": rng.choice(REGIONS),
            "amount": rng.choice((None, Decimal(rng.randrange(500)) / 4)),
            "score": rng.choice((None, 0.0, 0.5, float(rng.randrange(5)))),
        }
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


class DeltaHistory:
    """A Delta table that changes at random. ``feed`` is on, off, or switched from time to time.

    With ``vectors`` rows are marked as deleted, in files of several row groups.
    """

    def __init__(
        self, path: Path, rng: random.Random, feed: str, partitions: list[str], *, vectors: bool = False
    ) -> None:
        self.path, self._rng, self._feed, self._vectors = str(path), rng, feed, vectors
        first = {FEED: "false" if feed == "off" else "true", VECTORS: str(vectors).lower()}
        rows = some_rows(rng, 250 if vectors else 30)
        write_deltalake(self.path, rows, partition_by=partitions, configuration=first, writer_properties=SMALL_GROUPS)

    @property
    def table(self) -> DeltaTable:
        """The newest version."""
        return DeltaTable(self.path)

    def step(self) -> None:
        """One random change."""
        steps = [self.append, self.update, self.delete, self.merge, self.merge, self.compact, self.overwrite]
        steps += [self.restore] + ([self.switch] if self._feed == "switched" else [])
        steps += [self.mark] * 7 if self._vectors else []
        self._rng.choice(steps)()

    def append(self) -> None:
        """Add rows."""
        write_deltalake(self.path, some_rows(self._rng, self._rng.randrange(1, 8)), mode="append")

    def update(self) -> None:
        """Update some rows."""
        where = f"id % {self._rng.randrange(2, 6)} = 0"
        self.table.update(updates={"score": "score + 1", "region": "'north'"}, predicate=where)

    def delete(self) -> None:
        """Delete some rows."""
        self.table.delete(f"id % {self._rng.randrange(3, 7)} = 1")

    def merge(self) -> None:
        """Update, delete and insert by key."""
        source = some_rows(self._rng, 12)
        names = source.column_names
        source = source.group_by("id").aggregate([(name, "min") for name in names[1:]]).rename_columns(names)
        merger = self.table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        merger = merger.when_matched_delete("s.score = 2").when_matched_update_all().when_not_matched_insert_all()
        merger.execute()

    def compact(self) -> None:
        """Rewrite small files, which changes no row."""
        self.table.optimize.compact()

    def overwrite(self) -> None:
        """Replace all rows."""
        write_deltalake(self.path, some_rows(self._rng, 20), mode="overwrite")

    def restore(self) -> None:
        """Go back to an earlier version."""
        if self.table.version():
            self.table.restore(self._rng.randrange(self.table.version()))

    def switch(self) -> None:
        """Switch the change feed on or off."""
        on = self.table.metadata().configuration.get(FEED) == "true"
        self.table.alter.set_table_properties({FEED: "false" if on else "true"})

    def mark(self) -> None:
        """Mark 1 to 100 rows of some files, in vectors that grow, with change data or without."""
        marked = {path: positions_of(kept) for path, kept in selections(self.table).items()}
        new: dict[str, Positions] = {}
        for path, add in (DeltaLog(self.path, self.table.version()).files() or {}).items():
            left = np.setdiff1d(np.arange(json.loads(add["stats"])["numRecords"]), marked.get(path, []))
            if len(left) and self._rng.random() < 0.7:
                new[path] = np.sort(self._rng.sample(left.tolist(), min(self._rng.randrange(1, 101), len(left))))
        if new:
            mark_rows(self.path, new, told=self._feed == "on" and self._rng.random() < 0.5)

    def rows(self) -> Counter[tuple[Any, ...]]:
        """The rows as deltalake reads them."""
        return rows_of(self.path)


def rows_of(path: str) -> Counter[tuple[Any, ...]]:
    """The rows of a Delta table, as its own package reads them."""
    table = DeltaTable(path)
    names = [field.name for field in table.schema().fields]
    return Counter(tuple(row.values()) for row in pa.table(table.scan()).select(names).to_pylist())


def commit(path: str | Path, version: int, *actions: dict[str, Any]) -> None:
    """Write an entry of the log of a Delta table by hand."""
    entry = Path(path) / "_delta_log" / f"{version:020}.json"
    entry.write_text("\n".join(json.dumps(action) for action in actions))


def mark_rows(path: str, positions: Mapping[str, Positions], *, told: bool = False) -> None:
    """Mark rows of files as deleted, beside those that are; ``told`` writes them as change data too."""
    table = DeltaTable(path)
    log, marked = DeltaLog(path, table.version()), {one: positions_of(kept) for one, kept in selections(table).items()}
    files = log.files() or {}
    name, content, vectors = vector_file({one: np.union1d(p, marked.get(one, p)) for one, p in positions.items()})
    log.write_bytes(name, content)
    actions = [removal(files[one], changes=True) for one in positions]
    actions += [{"add": files[one] | {"deletionVector": vector}} for one, vector in vectors.items()]
    log.commit("DELETE", actions + [_change_data(path, files[one], p) for one, p in positions.items() if told])


def _change_data(path: str, add: Mapping[str, Any], positions: Positions) -> dict[str, Any]:
    rows = without_views(pq.read_table(Path(path, unquote(add["path"])), partitioning=None)).take(pa.array(positions))
    name = f"_change_data/cdc-{random.randrange(1 << 60)}.parquet"
    (Path(path) / "_change_data").mkdir(exist_ok=True)
    pq.write_table(rows.append_column("_change_type", pa.array(["delete"] * rows.num_rows)), Path(path, name))
    size = Path(path, name).stat().st_size
    return {"cdc": {"path": name, "partitionValues": add["partitionValues"], "size": size, "dataChange": False}}
