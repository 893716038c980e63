"""A process that changes a table and publishes views of it, for crash tests to cut short.

Run as ``python -m tests.lake.publishing FOLDER FORMAT``: goes on until all changes are made and published.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

import tidemill
from tidemill.sources.lake.publication import key_index

EPOCHS = 5
MODES = ("merge", "snapshot", "changes")
FORMATS = ("delta", "iceberg")
COLUMNS = ("g", "total", "c")

Rows = Counter[tuple[Any, ...]]


def options(folder: Path, format: str, name: str, **more: object) -> str:
    """The options of a view that is published as a table of a folder or its catalog."""
    given = {"publish": format, "location": f"sales.{name}" if format == "iceberg" else folder / name}
    given |= {"catalog": folder / "catalog.db"} if format == "iceberg" else {}
    return ", ".join(f"{option} = '{value}'" for option, value in (given | more).items())


def table_of(folder: Path, format: str, name: str, version: int | None = None) -> pa.Table | None:
    """The rows of a published table, now or at a version; None if there is none."""
    if format == "delta":
        where = str(folder / name)
        return pa.table(DeltaTable(where, version=version).scan()) if DeltaTable.is_deltatable(where) else None
    try:
        return catalog_of(folder).load_table(f"sales.{name}").scan(snapshot_id=version).to_arrow()
    except NoSuchTableError:
        return None


def catalog_of(folder: Path) -> SqlCatalog:
    """The catalog of a folder."""
    return SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def rows_of(found: pa.Table) -> Rows:
    """The rows of a table, counted; of changes the sum of their weights."""
    rows: Rows = Counter()
    weights = found.column("_weight").to_pylist() if "_weight" in found.column_names else [1] * found.num_rows
    kept = found.select([name for name in found.column_names if name not in ("_weight", "_epoch")])
    for row, weight in zip(kept.to_pylist(), weights, strict=True):
        rows[tuple(map(plain, row.values()))] += weight
    return Counter({row: n for row, n in rows.items() if n})


def plain(value: Any) -> Any:
    """A value that can be counted."""
    return tuple(map(plain, value.values() if isinstance(value, dict) else value)) if _nested(value) else value


def _nested(value: Any) -> bool:
    return isinstance(value, list | dict)


def change(number: int) -> list[tuple[int, tuple[Any, ...]]]:
    """The change of an epoch: two groups grow, and one of before is gone."""
    rows: list[tuple[int, tuple[Any, ...]]] = [
        (1, (10 * number, None, number)),
        (1, (10 * number + 1, f"g{number}", 1)),
    ]
    return rows + ([(-1, (10 * (number - 1) + 1, f"g{number - 1}", 1))] if number > 1 else [])


def shown_at(epoch: int) -> Rows:
    """What all views show after an epoch."""
    shown: Rows = Counter({(None, sum(range(1, epoch + 1)), epoch): 1, (f"g{epoch}", 1, 1): 1})
    return shown if epoch else Counter()


def live(folder: Path, format: str) -> None:
    """Make all changes, and publish after each."""
    key_index.INDEXED_ROWS = 2  # so that files of a few rows have an index
    with tidemill.open(folder / "w", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, g STRING, n INT)")
        for mode in MODES:
            given = options(folder, format, mode, mode=mode, compact_files=2)
            query = "SELECT g, SUM(n) AS total, COUNT(*) AS c FROM t GROUP BY g"
            wh.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {mode} WITH ({given}) AS {query}")
        for number in range(wh.epoch + 1, EPOCHS + 1):
            wh.apply({"t": change(number)})
            wh.publish()
        wh.publish()


def require_some_epoch(folder: Path, format: str) -> dict[str, int]:
    """Check that each table that is there shows what the views showed at some epoch; returns these epochs."""
    known = {frozenset(shown_at(epoch).items()): epoch for epoch in range(EPOCHS + 1)}
    found = {mode: table_of(folder, format, mode) for mode in MODES}
    shown = {mode: frozenset(rows_of(rows).items()) for mode, rows in found.items() if rows is not None}
    assert shown.keys() == {mode for mode, rows in shown.items() if rows in known}, shown
    return {mode: known[rows] for mode, rows in shown.items()}


def recorded_epochs(folder: Path, format: str) -> dict[str, int]:
    """The last epoch of each table that the table of epochs has."""
    recorded = table_of(folder, format, "_tidemill_epochs")
    rows = [] if recorded is None else sorted(recorded.to_pylist(), key=lambda row: row["epoch"])
    return {row["view"]: row["epoch"] for row in rows}


def require_recorded(folder: Path, format: str) -> None:
    """Check that each row of the table of epochs is true, and that none is there twice."""
    recorded = table_of(folder, format, "_tidemill_epochs")
    rows = [] if recorded is None else recorded.to_pylist()
    assert len({(row["view"], row["epoch"]) for row in rows}) == len(rows), rows
    for row in rows:
        at = table_of(folder, format, row["view"], row["version"])
        assert at is not None and rows_of(at) == shown_at(row["epoch"]), row


if __name__ == "__main__":
    live(Path(sys.argv[1]), sys.argv[2])
