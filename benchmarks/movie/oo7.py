"""An OO7 database in a warehouse, with DuckDB beside it as the second opinion."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Any, Self

import duckdb

import tidemill
from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.movie.data import ODL, database
from benchmarks.movie.views import View
from tidemill.engine.handles import ViewHandle

READ = ("compositeparts", "documents", "atomicparts", "baseassemblies")
"""The extents that views read, and of these the ones whose read columns updates change."""

CHANGED = READ[:2]

RECOMPUTED = "recompute"
"""The strategy of a view that is recomputed in each epoch."""


class OO7:
    """So many modules, in memory. Without ``connections``, which no view reads, it is there in a sixth of the time."""

    def __init__(self, modules: int, *, connections: bool = True) -> None:
        self.warehouse = tidemill.open(":memory:", runtime="native")
        self.db = tidemill.objects(self.warehouse, ODL)
        tables = database(modules)
        self.db.bulk({name: table for name, table in tables.items() if connections or name != "connections"})
        # As many threads as ours has: one.
        self._oracle = duckdb.connect(config={"threads": 1})
        self._copy(*READ)

    def define(self, view: View, strategy: str = "lineage") -> ViewHandle:
        """Materialize a view."""
        return self.db.define(f"define {view.name}() as {view.oql}", strategy=strategy)

    def drop(self, view: View) -> None:
        """Forget a view."""
        self.warehouse.sql(f"DROP VIEW {view.name}")

    def check(self, view: View, shown: list[Any]) -> None:
        """Compare rows with those that DuckDB finds in the extents as they are now, duplicates counted."""
        self._copy(*(name for name in CHANGED if name in view.sql))
        expected, actual = Counter(self._oracle.execute(view.sql).fetchall()), Counter(map(tuple, shown))
        if actual != expected:
            missing, extra = list(expected - actual)[:3], list(actual - expected)[:3]
            raise WrongAnswer(f"{view.name} is wrong: missing {missing}, too many {extra}")

    def in_duckdb(self, view: View) -> None:
        """Recompute the view by DuckDB, from tables of its own."""
        self._oracle.execute(f"CREATE OR REPLACE TABLE made AS SELECT * FROM ({view.sql})")

    def _copy(self, *extents: str) -> None:
        for name in extents:
            self._oracle.register("given", self.db.extent(name).arrow())
            self._oracle.execute(f"CREATE OR REPLACE TABLE {name} AS FROM given")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._oracle.close()
        self.warehouse.close()
