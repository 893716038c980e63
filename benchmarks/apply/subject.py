"""Those who are measured: each takes a change, and shows the rows of the view when it is asked.

What a caller would have at hand anyway, pairs, Arrow tables, files or parameters of statements, is made by ``prepare``
and not timed. ``apply`` is one epoch: when it returns the view is fresh, and on disk where there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidemill
from benchmarks.apply.history import Change, Epoch, Row
from benchmarks.apply.workloads import Workload

STORES = ("memory", "disk")
FORMS = ("pairs", "arrow", "parquet")


class Subject(Protocol):
    """A system with the tables and the view of a workload."""

    def fill(self, tables: dict[str, pa.Table]) -> None:
        """Load the first rows."""
        ...

    def prepare(self, epoch: Epoch) -> Any:
        """An epoch as a caller has it."""
        ...

    def apply(self, prepared: Any) -> None:
        """Commit it; the view is fresh after it."""
        ...

    def rows(self) -> Counter[Row]:
        """The rows of the view."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class Tidemill:
    """A warehouse, native, with all else as it is by default; ``form`` is how changes come."""

    def __init__(self, workload: Workload, store: str, folder: Path) -> None:
        self.form = "pairs"
        self._workload = workload
        self._folder = folder
        self._files = 0
        path = ":memory:" if store == "memory" else folder / "warehouse"
        self.warehouse = tidemill.open(path, runtime="native")
        self.warehouse.sql(workload.declarations())

    def fill(self, tables: dict[str, pa.Table]) -> None:
        """All rows as one epoch."""
        self.warehouse.apply(tables)

    def prepare(self, epoch: Epoch) -> Any:
        """Pairs, Arrow tables, Parquet files, or Arrow tables and the order of their events."""
        if self._workload.window:
            # The stream forgets by itself.
            epoch = {name: Change(change.gone.slice(0, 0), change.come, change.rows) for name, change in epoch.items()}
        if self.form == "pairs":
            return {name: change.pairs() for name, change in epoch.items()}
        tables = {name: change.weighted() for name, change in epoch.items()}
        match self.form:
            case "parquet":
                return [(name, self._written(table)) for name, table in tables.items()]
            case "replay":
                turns = [np.full(table.num_rows, place) for place, table in enumerate(tables.values())]
                return tables, np.concatenate(turns)
        return tables

    def _written(self, table: pa.Table) -> Path:
        self._files += 1
        path = self._folder / f"{self._files}.parquet"
        pq.write_table(table, path)
        return path

    def apply(self, prepared: Any) -> None:
        """One epoch; of Parquet files one for each table, since a file is of one table."""
        match self.form:
            case "parquet":
                for name, path in prepared:
                    self.warehouse.load(name, path)
            case "replay":
                self.warehouse.replay(*prepared)
                self.warehouse.flush()
            case _:
                self.warehouse.apply(prepared)

    def rows(self) -> Counter[Row]:
        """Of a window, the rows of the last minute."""
        rows = self.warehouse.view("answer").rows()
        if not self._workload.window:
            return plain(rows)
        last = max((row[0] for row in rows), default=None)
        return plain(row[1:] for row in rows if row[0] == last)

    def close(self) -> None:
        """Close the warehouse."""
        self.warehouse.close()


def recomputed(workload: Workload, tables: dict[str, pa.Table]) -> Counter[Row]:
    """What the view must show: the query over the tables as they are now, by DuckDB."""
    with closing(duckdb.connect()) as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return plain(connection.execute(workload.query).fetchall())


def plain(rows: Iterable[Sequence[Any]]) -> Counter[Row]:
    """Rows as a multiset that does not tell who gave them: whole numbers, and dates as texts."""
    return Counter(tuple(map(_plain, row)) for row in rows)


def _plain(value: Any) -> int | str:
    return int(value) if isinstance(value, int | Decimal) else str(value)
