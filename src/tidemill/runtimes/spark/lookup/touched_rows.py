"""What a bulk change touches of relations much larger than itself, read once for all views.

Every view that joins a change with a large table would scan the table for itself. Instead the keys that all triggers
will look up are noted when they fire, and the rows under them are picked in one scan, before the first query runs, and
held by Spark until the epoch ends. Joins then meet these rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.model.schema import WEIGHT
from tidemill.program.statements import ArrayLoop, Query, RelationLoop, Step, Version
from tidemill.runtimes.spark.execution.temporary_views import VIEW_PREFIX, TemporaryViews
from tidemill.runtimes.spark.lowering.queries import BindSource, lower_sources
from tidemill.runtimes.spark.lowering.sql_text import aliased, comma_list, expression_sql, quote

MIN_ROWS_PER_CHANGE = 4
"""A stored relation is picked from where it has more than this many rows for each row of the epoch's changes."""

_TOUCHED = f"{VIEW_PREFIX}touched "


@dataclass
class RowSelection:
    """The rows of one stored relation under some keys: the columns that loops read, and where the keys come from."""

    relation: str
    by: tuple[str, ...]
    name: str
    columns: set[str] = field(default_factory=set)
    keys: dict[str, None] = field(default_factory=dict)


class TouchedRows:
    """The picks of an epoch. Those that were asked for before ``settle`` are made by it, and stay as they are."""

    def __init__(self, frames: TemporaryViews, rows: Callable[[str], int]) -> None:
        self._frames = frames
        self._rows = rows
        self._work = 0
        self._open: dict[tuple[str, tuple[str, ...]], RowSelection] = {}
        self._made: list[tuple[str, DataFrame]] = []

    def expect(self, work: int) -> None:
        """Know how many rows the changes of the epoch have."""
        self._work = work

    def pick(self, query: Query, source: RelationLoop, bind: BindSource) -> str | None:
        """The view that will have the stored rows that ``query`` looks up in ``source``; None where all are as good."""
        looked_up = source.version is Version.STATE and source.lookup
        if not looked_up or not 0 < MIN_ROWS_PER_CHANGE * self._work < self._rows(source.relation):
            return None
        by, keys = tuple(name for name, _ in source.lookup), _keys(query, source, bind)
        # Keys from rows that this epoch has put in a map would let picks wait for each other; a column that must equal
        # two keys at once would stand in the list of keys twice.
        if _TOUCHED in keys or len(set(by)) < len(by):
            return None
        name = f"{_TOUCHED}{len(self._made) + len(self._open)}"
        pick = self._open.setdefault((source.relation, by), RowSelection(source.relation, by, name))
        pick.columns |= {*by, *(f.name for f in source.columns)}
        pick.keys[keys] = None
        return quote(pick.name)

    def settle(self) -> None:
        """Make the picks that were asked for."""
        for pick in self._open.values():
            self._hold(pick.name, self._rows_of(pick))
        self._open.clear()

    def hold(self, sql: str) -> tuple[str, int]:
        """The rows of a query, computed now and held until the epoch ends: a view of them, and how many there are."""
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
        return f"SELECT /*+ BROADCAST(k) */ {columns} FROM {near}"

    def forget(self) -> None:
        """Let go of all picks."""
        for name, frame in self._made:
            self._frames.spark.catalog.dropTempView(name)
            frame.unpersist()
        self._made.clear()
        self._open.clear()
        self._work = 0


def _keys(query: Query, source: RelationLoop, bind: BindSource) -> str:
    """The keys by which a query looks up ``source``.

    Where they are plain columns, those of rows that filters leave out as well: so the keys of many views are the same.
    """
    before = query.sources[: query.sources.index(source)]
    if all(isinstance(scalar, Column) for step in (*before, source) for scalar in _computed(step)):
        before = tuple(replace(one, filters=()) for one in before)
    columns = comma_list(aliased(expression_sql(scalar), name) for name, scalar in source.lookup)
    return f"SELECT {columns} {lower_sources(Query(before, ()), bind, lambda one: 0)}"


def _computed(step: Step) -> list[Scalar]:
    """What is computed before a step: only of columns is it sure that they have a value in every row."""
    return [step.array] if isinstance(step, ArrayLoop) else [scalar for _, scalar in step.lookup]
