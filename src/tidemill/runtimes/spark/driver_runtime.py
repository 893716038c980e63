"""Small epochs on Spark: the driver does all of them, over the stored rows that a change touches.

A DataFrame step costs a tenth of a second whatever it does, and the joins of a view are several of them. But a small
change needs few stored rows, which are looked up in mapped files. All lookups that the program makes next, for all
views together, are one job as long as such files are yet to be made, and none after that. The program itself runs here,
as in the native runtime.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from pyspark.sql import SparkSession

from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.constraints import Constraints
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.sharding import why_not_sharded
from tidemill.program.stages import Stage
from tidemill.runtimes.native.planned_lookups import PlannedLookup
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.snapshot import ColumnPositions, RelationSnapshot
from tidemill.runtimes.runtime import FieldsOf
from tidemill.runtimes.spark.execution.remote_files import granted
from tidemill.runtimes.spark.lookup import prefetch
from tidemill.runtimes.spark.lookup.stored_snapshot import StoredSnapshot
from tidemill.runtimes.spark.sessions.job_counters import Counters, Meter, described
from tidemill.storage.store import Store

RESIDENT_ROWS = 50_000
"""Stored rows up to which a relation is read by the driver, as Spark itself broadcasts small tables."""


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
        self._epoch = 0
        self._found_by: dict[str, ColumnPositions] = {}
        super().__init__(store, fields_of, self._snapshot_of, resident)

    def prepare(self, stage: Stage, rows: int) -> bool:
        """Refuse: a forked process has no session of Spark."""
        return False

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
        form = "generated Python, over rows that are looked up in files"
        return f"{form}; not in tasks, since {reason}" if reason else form

    def begin(self, epoch: int) -> None:
        """Start an epoch."""
        self._meter, self._epoch = None, epoch
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
        """The lookups of foreign keys, parents of new rows and children of deleted parents, and of unique columns."""
        for unique in constraints.uniques_of(changes):
            keys = _coming_keys(changes[unique.table.name], unique.places, 1)
            held = self._state.relation(unique.table.name) if keys else None
            if isinstance(held, OverlaidRelation):
                yield PlannedLookup(held, unique.places, keys, unique.places)
        for key in constraints.keys_of(changes):
            for mine, places, other, sought, sign in (
                (key.child, key.child_places, key.parent, key.parent_places, 1),
                (key.parent, key.parent_places, key.child, key.child_places, -1),
            ):
                found = mine.name in changes and not key.absent
                keys = _coming_keys(changes[mine.name], places, sign) if found else set()
                held = self._state.relation(other.name) if keys else None
                if isinstance(held, OverlaidRelation):
                    yield PlannedLookup(held, sought, keys, sought)

    def _near(self, table: Table) -> ColumnPositions:
        return self._found_by.get(table.name, table.key_positions)

    @property
    def counters(self) -> Counters:
        """The cost of the last epoch on Spark; zero if it ran no job."""
        return self._meter.read() if self._meter is not None else Counters()

    def _snapshot_of(self, name: str, fields: tuple[Field, ...], in_order: bool) -> RelationSnapshot:
        runs, grant = self._store.runs(name), partial(granted, store=self._store)
        return StoredSnapshot(name, runs, fields, in_order, self._counted, grant)

    @contextmanager
    def _counted(self, purpose: str) -> Iterator[SparkSession]:
        """The session, with the jobs of the block described, and counted as the epoch's."""
        session = self._session()
        if self._meter is None:
            self._meter = Meter(session)
        with self._meter.counting(), described(session, f"tidemill epoch {self._epoch}: {purpose}"):
            yield session


def _coming_keys(change: ChangeSet, places: ColumnPositions, sign: int) -> set[Row]:
    """The values in some columns of the rows that come, or that leave, without NULLs."""
    keys = {tuple([row[place] for place in places]) for row, weight in change.pairs() if weight * sign > 0}
    return {key for key in keys if None not in key}
