"""Small epochs on Spark: Spark finds the stored rows that a change touches, and the driver does the rest.

A DataFrame step costs a tenth of a second whatever it does, and the joins of a view are several of them. But a small
change needs few stored rows. Each lookup of the program, for all views together, is therefore one job that fetches the
rows of these keys, and the program itself runs here, as in the native runtime.
"""

from __future__ import annotations

import decimal
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, expr

from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import arrow_schema, to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.schema import EPOCH, WEIGHT, Table
from tidemill.model.types import BIGINT, Array, BigInt, Date, Field, Int, String, Timestamp
from tidemill.program.constraints import Constraints
from tidemill.program.sharding import why_not_sharded
from tidemill.program.stages import Stage
from tidemill.program.state_expiry import ExpiredEntries
from tidemill.runtimes.native.planned_lookups import PlannedLookup
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.snapshot import ColumnPositions, RelationSnapshot, widen_rows
from tidemill.runtimes.runtime import FieldsOf
from tidemill.runtimes.spark.execution.arrow_frames import frame_of_arrow, rows_as_arrow
from tidemill.runtimes.spark.execution.errors import translate_errors
from tidemill.runtimes.spark.execution.job_counters import Counters, Meter
from tidemill.runtimes.spark.execution.parquet_files import read_files
from tidemill.runtimes.spark.execution.session import MAX_LISTED_KEYS, is_remote
from tidemill.runtimes.spark.lookup import prefetch
from tidemill.runtimes.spark.lowering.sql_text import comma_list, literal_sql, quote, schema_sql
from tidemill.storage.store import Store

RESIDENT_ROWS = 50_000
"""Stored rows up to which a relation is read by the driver, as Spark itself broadcasts small tables."""


TYPES_WITH_STATISTICS = (Int, BigInt, String, Date, Timestamp)
"""Types of columns for which files have minimum and maximum."""


class DriverRuntime(NativeRuntime):
    """The native runtime over state that Spark looks up."""

    name = "spark driver"
    loads_to_store = True
    batches_lookups = True

    def __init__(
        self, store: Store, fields_of: FieldsOf, session: Callable[[], SparkSession], resident: int = RESIDENT_ROWS
    ) -> None:
        self._store = store
        self._session = session
        self._meter: Meter | None = None
        self._found_by: dict[str, ColumnPositions] = {}
        super().__init__(store, fields_of, self._snapshot_of, resident)

    def forget_entries(self, stage: Stage, forgotten: Sequence[ExpiredEntries]) -> None:
        """Release the state of ``stage``, to be read again from the files that exist when it is next needed."""
        self.forget(stage.name)

    def forget_rows(self, forgotten: ExpiredEntries) -> None:
        """Release a relation, to be read again from the files that exist when it is next needed."""
        self.forget(forgotten.map)

    def forget_files(self, relation: str) -> None:
        """Release the file list of a relation, to be read again when it is next needed."""
        self.forget(relation)

    def miss_epoch(self) -> None:
        """Keep the state of relations while it misses epochs; the last epoch has cost nothing here."""
        super().miss_epoch()
        self._meter = None

    def explain(self, stage: Stage) -> str:
        """The form of every stage here, and why bulk changes of it do not run in tasks if they cannot.

        Machine code would need all of its state in this process."""
        reason = why_not_sharded(stage)
        form = "generated Python, over rows that Spark looks up"
        return f"{form}; not in tasks, since {reason}" if reason else form

    def begin(self, epoch: int) -> None:
        """Start an epoch."""
        self._meter = None
        self._found_by.clear()
        super().begin(epoch)

    def expect(
        self,
        changes: Mapping[str, ChangeSet],
        checked: Mapping[str, Table],
        constraints: Constraints,
        stages: Sequence[Stage],
    ) -> None:
        """Fetch the rows that the checks and triggers of an epoch will look up, with as few jobs as possible, in
        parallel."""
        with decimal.localcontext(EXACT):
            pairs = [(stage, relation) for stage in stages for relation in stage.inputs if relation in changes]
            steps = prefetch.lookup_rounds(
                lookups
                for stage, relation in pairs
                for lookups in self.planned_lookups(stage, relation, changes[relation])
            )
            first = next(steps, [])
            prefetch.prefetch([*first, *self._checks(changes, checked, first), *self._references(changes, constraints)])
            for lookups in steps:
                prefetch.prefetch(lookups)

    def _checks(
        self, changes: Mapping[str, ChangeSet], checked: Mapping[str, Table], lookups: Sequence[PlannedLookup]
    ) -> Iterator[PlannedLookup]:
        """The lookups of the checks of tables with a primary key."""
        for name, table in checked.items():
            held = self._state.relation(name) if table.primary_key and len(changes[name]) else None
            if isinstance(held, OverlaidRelation):
                lookup = prefetch.key_check_lookup(table, changes[name], held, lookups)
                self._found_by[name] = lookup.positions
                yield lookup

    def _references(self, changes: Mapping[str, ChangeSet], constraints: Constraints) -> Iterator[PlannedLookup]:
        """The lookups of foreign keys: parents of inserted rows, and children of deleted parents."""
        for key in constraints.keys_of(changes):
            for mine, places, other, sought, sign in (
                (key.child, key.child_places, key.parent, key.parent_places, 1),
                (key.parent, key.parent_places, key.child, key.child_places, -1),
            ):
                pairs = changes[mine.name].pairs() if mine.name in changes and not key.absent else ()
                keys = {tuple([row[i] for i in places]) for row, weight in pairs if weight * sign > 0}
                held = self._state.relation(other.name) if keys else None
                if isinstance(held, OverlaidRelation):
                    yield PlannedLookup(held, sought, {one for one in keys if None not in one}, sought)

    def _near(self, table: Table) -> ColumnPositions:
        return self._found_by.get(table.name, table.key_positions)

    @property
    def counters(self) -> Counters:
        """The cost of the last epoch on Spark; zero if it ran no job."""
        return self._meter.read() if self._meter is not None else Counters()

    def _snapshot_of(self, name: str, fields: tuple[Field, ...], in_order: bool) -> RelationSnapshot:
        files = [run.file for run in self._store.runs(name)]
        return StoredSnapshot(name, files, fields, in_order, self._counted)

    @contextmanager
    def _counted(self) -> Iterator[SparkSession]:
        """The session, with the jobs of the block counted as the epoch's."""
        session = self._session()
        if self._meter is None:
            self._meter = Meter(session)
        with self._meter.counting():
            yield session


class StoredSnapshot:
    """The rows of some files of the store. Each fetch is one query: by a list of few keys, or a semi join with many.

    The files do not change, so the columns that loops read are cached by Spark (in memory, or on disk if that is full)
    until the snapshot is released. Whole rows, which the check of a table needs, are not cached.
    """

    remote = True

    def __init__(
        self,
        name: str,
        files: Sequence[Path],
        fields: Sequence[Field],
        in_order: bool,
        session: Callable[[], AbstractContextManager[SparkSession]],
    ) -> None:
        self._name = name
        self._files = list(files)
        self._fields = tuple(fields)
        self._in_order = in_order
        self._session = session
        self._cached: dict[ColumnPositions, DataFrame] = {}
        self._lock = Lock()
        weakref.finalize(self, _release, self._cached)

    def fetch(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions
    ) -> list[tuple[Row, int]]:
        """The rows whose columns at ``positions`` are one of ``keys``; other columns than ``columns`` read None."""
        if not keys or not self._files:
            return []
        bounds = list(self._bounds(positions, keys))
        with self._session() as spark, translate_errors(self._name):
            near = self._frame(spark, columns).where(" AND ".join(bounds) or "true")
            # For one column the list is exact, and saves the job that would broadcast the keys.
            found = near if len(bounds) == len(positions) == 1 else self._matched(spark, near, positions, keys)
            return self._collected(found, columns)

    def table(self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions) -> pa.Table:
        """The same rows as columns."""
        whole = to_arrow(self.fetch(positions, keys, columns), self._fields)
        return whole.select([*columns, len(self._fields)])

    def _matched(
        self, spark: SparkSession, rows: DataFrame, positions: ColumnPositions, keys: Collection[Row]
    ) -> DataFrame:
        """The rows that have one of ``keys``, by a semi join."""
        sought = tuple(Field(f"key {i}", self._fields[position].type) for i, position in enumerate(positions))
        table = to_arrow(((key, 1) for key in keys), sought).drop_columns([WEIGHT])
        match = " AND ".join(
            f"r.{quote(self._fields[position].name)} <=> k.{quote(key.name)}"
            for position, key in zip(positions, sought, strict=True)
        )
        return rows.alias("r").join(broadcast(frame_of_arrow(spark, table).alias("k")), expr(match), "left_semi")

    def _bounds(self, positions: ColumnPositions, keys: Collection[Row]) -> Iterator[str]:
        """Conditions by which the files' statistics can skip rows for few keys.

        A semi join reads every row. A list of values is compared with the bounds of row groups and pages, which skips
        most of a run that is sorted by the column.
        """
        for place, position in enumerate(positions):
            field, values = self._fields[position], {key[place] for key in keys}
            if isinstance(field.type, TYPES_WITH_STATISTICS) and None not in values and len(values) <= MAX_LISTED_KEYS:
                listed = comma_list(literal_sql(value, field.type) for value in sorted(values))
                yield f"{quote(field.name)} IN ({listed})"

    def holders(self, position: int, elements: Collection[Any]) -> list[tuple[Row, int]]:
        """The rows whose array at ``position`` has one of ``elements``."""
        kind = self._fields[position].type
        if not elements or not self._files or not isinstance(kind, Array):
            return []
        everything = tuple(range(len(self._fields)))
        sought = to_arrow([((tuple(elements),), 1)], (Field("sought", kind),)).drop_columns([WEIGHT])
        with self._session() as spark, translate_errors(self._name):
            rows, asked = self._frame(spark, everything).alias("r"), frame_of_arrow(spark, sought).alias("k")
            match = expr(f"arrays_overlap(r.{quote(self._fields[position].name)}, k.sought)")
            return self._collected(rows.join(broadcast(asked), match, "left_semi"), everything)

    def pairs(self) -> list[tuple[Row, int]]:
        """All rows, with their weights."""
        if not self._files:
            return []
        everything = tuple(range(len(self._fields)))
        with self._session() as spark, translate_errors(self._name):
            return self._collected(self._frame(spark, everything), everything)

    def _frame(self, spark: SparkSession, columns: ColumnPositions) -> DataFrame:
        """Some columns of the rows, the weight, and the epoch if rows are wanted in order."""
        with self._lock:
            if columns not in self._cached:
                frame = self._read(spark, columns)
                if len(columns) == len(self._fields):
                    return frame
                self._cached[columns] = frame.persist(StorageLevel.MEMORY_AND_DISK)
            return self._cached[columns]

    def _read(self, spark: SparkSession, columns: ColumnPositions) -> DataFrame:
        schema = schema_sql((*self._fields, Field(WEIGHT, BIGINT), Field(EPOCH, BIGINT)))
        names = [*(self._fields[i].name for i in columns), WEIGHT, *((EPOCH,) if self._in_order else ())]
        return read_files(spark, self._files, schema).selectExpr(*map(quote, names))

    def _collected(self, frame: DataFrame, columns: ColumnPositions) -> list[tuple[Row, int]]:
        table = rows_as_arrow(frame)
        if self._in_order:
            table = table.sort_by(EPOCH)
        wanted = arrow_schema([self._fields[i] for i in columns])
        return widen_rows(table.select(wanted.names).cast(wanted), self._fields, columns)


def _release(frames: dict[ColumnPositions, DataFrame]) -> None:
    """Release the memory of a snapshot that is no longer used; Spark itself may have ended before."""
    for frame in frames.values():
        session = frame.sparkSession
        if is_remote(session) or session.sparkContext._jsc is not None:
            frame.unpersist()
