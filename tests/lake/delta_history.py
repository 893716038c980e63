"""Random histories of Delta tables, written by deltalake: appends, updates, merges, overwrites, compactions."""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

SCHEMA = pa.schema(
    [("id", pa.int64()), ("region", pa.string()), ("amount", pa.decimal128(12, 2)), ("score", pa.float64())]
)
REGIONS = ("north", "söuth & west", "a/b=c", None)
FEED = "delta.enableChangeDataFeed"


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
    """A Delta table that changes at random. ``feed`` is on, off, or switched from time to time."""

    def __init__(self, path: Path, rng: random.Random, feed: str, partitions: list[str]) -> None:
        self.path, self._rng, self._feed = str(path), rng, feed
        first = {FEED: "false" if feed == "off" else "true"}
        write_deltalake(self.path, some_rows(rng, 30), partition_by=partitions, configuration=first)

    @property
    def table(self) -> DeltaTable:
        """The newest version."""
        return DeltaTable(self.path)

    def step(self) -> None:
        """One random change."""
        steps = [self.append, self.update, self.delete, self.merge, self.merge, self.compact, self.overwrite]
        steps += [self.restore] + ([self.switch] if self._feed == "switched" else [])
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
