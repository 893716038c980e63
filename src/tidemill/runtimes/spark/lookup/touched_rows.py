"""Touched rows: what a bulk change touches in relations much larger than itself, read once for all views.

Every view that joins a change with a large table would scan the table for itself. Instead the keys that all triggers
will look up are recorded when they fire, and the rows under them are selected in one scan, before the first query runs,
and cached by Spark until the epoch ends. Joins then read only these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.model.schema import WEIGHT
from tidemill.program.statements import ArrayLoop, Query, RelationLoop, Step, Version
from tidemill.runtimes.spark.execution.job_settings import is_small
from tidemill.runtimes.spark.execution.temporary_views import VIEW_PREFIX, TemporaryViews
from tidemill.runtimes.spark.lowering.queries import BindSource, fields_read, lower_sources
from tidemill.runtimes.spark.lowering.sql_text import aliased, comma_list, expression_sql, join_hint, quote

MIN_ROWS_PER_CHANGE = 4
"""Ratio of a stored relation's rows to those of the epoch's changes above which rows are selected from it."""

_TOUCHED = f"{VIEW_PREFIX}touched "


@dataclass
class RowSelection:
    """The rows of one stored relation under some keys: the columns that loops read, and the queries for the keys."""

    relation: str
    by: tuple[str, ...]
    name: str
    columns: set[str] = field(default_factory=set)
    keys: dict[str, None] = field(default_factory=dict)

    def include(self, source: RelationLoop, keys: str) -> None:
        """Select also the rows that ``source`` reads, with what it reads of them."""
        self.columns |= {*self.by, *(f.name for f in fields_read(source))}
        self.keys[keys] = None


class TouchedRows:
    """The row selections of an epoch. Those requested before ``settle`` are computed by it, and do not change after."""

    def __init__(self, frames: TemporaryViews, rows: Callable[[str], int]) -> None:
        self._frames = frames
        self._rows = rows
        self._work = 0
        self._open: dict[tuple[str, tuple[str, ...]], RowSelection] = {}
        self._made: list[tuple[str, DataFrame]] = []

    def expect(self, work: int) -> None:
        """Note the number of rows in the changes of the epoch."""
        self._work = work

    def pick(self, query: Query, source: RelationLoop, bind: BindSource) -> str | None:
        """The view with the stored rows that ``query`` looks up in ``source``; None if a selection does not pay."""
        looked_up = source.version is Version.STATE and source.lookup
        if not looked_up or not 0 < MIN_ROWS_PER_CHANGE * self._work < self._rows(source.relation):
            return None
        by, keys = tuple(name for name, _ in source.lookup), _keys(query, source, bind)
        # Keys from rows that this epoch has put in a map would make selections depend on each other; a column that must
        # equal two keys at once would be in the list of keys twice.
        if _TOUCHED in keys or len(set(by)) < len(by):
            return None
        name = f"{_TOUCHED}{len(self._made) + len(self._open)}"
        pick = self._open.setdefault((source.relation, by), RowSelection(source.relation, by, name))
        pick.include(source, keys)
        return quote(pick.name)

    def settle(self) -> None:
        """Compute the requested selections."""
        for pick in self._open.values():
            self._hold(pick.name, self._rows_of(pick))
        self._open.clear()

    def hold(self, sql: str) -> tuple[str, int]:
        """Compute the rows of a query and cache them until the epoch ends: a view of them, and their number."""
        name = f"{_TOUCHED}{len(self._made) + len(self._open)}"
        return quote(name), self._hold(name, sql).count()

    def _hold(self, name: str, sql: str) -> DataFrame:
        frame = self._frames.spark.sql(sql).persist(StorageLevel.MEMORY_AND_DISK)
        frame.createOrReplaceTempView(quote(name))
        self._made.append((name, frame))
        return frame

    def _rows_of(self, pick: RowSelection) -> str:
        match = " AND ".join(f"r.{quote(name)} = k.{quote(name)}" for name in pick.by)
        keys = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(pick.keys)})"
        columns = comma_list(f"r.{quote(name)}" for name in (*sorted(pick.columns), WEIGHT))
        near = f"{self._frames.log(pick.relation)} AS r LEFT SEMI JOIN ({keys}) AS k ON {match}"
        hint = join_hint("k", single_task=is_small(self._work + self._rows(pick.relation)))
        return f"SELECT {hint} {columns} FROM {near}"

    def forget(self) -> None:
        """Release all selections."""
        for name, frame in self._made:
            self._frames.spark.catalog.dropTempView(name)
            frame.unpersist()
        self._made.clear()
        self._open.clear()
        self._work = 0


def _keys(query: Query, source: RelationLoop, bind: BindSource) -> str:
    """The keys by which a query looks up ``source``.

    If they are plain columns, also those of rows that filters reject: so the keys of many views are the same.
    """
    before = query.sources[: query.sources.index(source)]
    if all(isinstance(scalar, Column) for step in (*before, source) for scalar in _computed(step)):
        before = tuple(replace(one, filters=()) for one in before)
    columns = comma_list(aliased(expression_sql(scalar), name) for name, scalar in source.lookup)
    return f"SELECT {columns} {lower_sources(Query(before, ()), bind, lambda one: 0)}"


def _computed(step: Step) -> list[Scalar]:
    """The scalars computed before a step: only columns are certain to have a value in every row."""
    return [step.array] if isinstance(step, ArrayLoop) else [scalar for _, scalar in step.lookup]
