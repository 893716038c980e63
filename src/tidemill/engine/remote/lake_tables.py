"""Lake tables: the changes from the version that was taken last to the newest one are one epoch, taken exactly once.

The version is the position of the table. It is committed with the rows, so after a crash either both are there or
neither. A table is compared as a whole with its newest version only if its history is gone, or its columns are others,
and that was asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.altered.columns import with_fields
from tidemill.engine.catalog.altered.table import AlteredTable
from tidemill.engine.catalog.entries.lake_entry import ADD, REBUILD, REFUSE, LakeEntry
from tidemill.engine.catalog.refresh_mode import sync_interval
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.intake_counts import IntakeCounts, IntakeTotals
from tidemill.engine.remote.lake_versions import epoch_of_versions
from tidemill.engine.remote.source_maintainer import ApplyChanges
from tidemill.engine.remote.staged_rows import staged, staged_sum
from tidemill.engine.workers import Trouble, WorkerGroup
from tidemill.model.errors import EpochGone, HistoryGone, UnknownName, Unsupported
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field, Type
from tidemill.program.maps import Map
from tidemill.sources.lake.columns import fields_of_schema
from tidemill.sources.lake.lake_table import LakeChange, LakeTable, together
from tidemill.sources.lake.registry import open_lake_table
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["LakeTables", "lake_rows"]

POLL_SECONDS = 1.0
"""Seconds between two looks at the versions of a continuous lake table."""

ReadColumns = Callable[[str, Sequence[Field]], pa.Table]
"""Reads the rows of a table that are kept, with their weights."""

AlterTable = Callable[[AlteredTable, Mapping[str, str]], None]
"""Gives a table other columns, and commits positions with them."""


@dataclass(frozen=True)
class _Taken:
    """A change of a lake table as it was read, and the sum of its rows."""

    change: LakeChange
    net: ChangeSet


class LakeTables(WorkerGroup):
    """Takes the changes of lake tables. One thread at a time does."""

    def __init__(self, state: EngineState, apply: ApplyChanges, kept: ReadColumns, alter: AlterTable) -> None:
        super().__init__("lake table")
        self._alter = alter
        self._state = state
        self._apply = apply
        self._kept = kept
        self._lock = threading.RLock()
        self._all = False
        self.tally = IntakeTotals()
        """Counts of everything taken since the warehouse was opened."""

    def follow(self, lake: LakeEntry) -> None:
        """Start a worker for a lake table, if it is not manual or all are followed."""
        interval = 0.0 if self._all else sync_interval(lake.options)
        self.start_worker(lake.name, partial(self.sync, lake.name), interval, POLL_SECONDS)

    def follow_all(self) -> None:
        """Start workers for all lake tables, including those created later."""
        self._state.require_writable()
        self._all = True
        for lake in self._state.catalog.lakes.values():
            self.follow(lake)

    def find(self, name: str) -> LakeEntry:
        """The lake table of that name."""
        table = self._state.catalog.table(name)
        if table.name not in self._state.catalog.lakes:
            raise UnknownName(
                f'"{table.name}" is no lake table',
                detail="It has its own rows, which are always those of the last epoch.",
                hint="A lake table is made by CREATE TABLE ... USING delta LOCATION '...'.",
            )
        return self._state.catalog.lakes[table.name]

    def sync(self, name: str | None = None, *, rebuild: bool = False) -> IntakeCounts:
        """Take the newest version of one lake table, or of all in one epoch; returns the counts.

        With ``rebuild`` the rows that are kept are compared with all of the newest version.
        """
        with self._lock:
            self._state.require_writable()
            lakes = self._state.catalog.lakes
            wanted = list(lakes.values()) if name is None else [self.find(name)]
            with ExitStack() as stack:
                found = {lake.position: self._read(lake, rebuild, stack) for lake in wanted}
                newer = {position: taken for position, taken in found.items() if taken is not None}
                return self._commit(newer) if newer else IntakeCounts()

    def epoch_showing(self, versions: Mapping[str, int | str]) -> int:
        """The first epoch that shows these versions of lake tables, by their names."""
        wanted = [(self.find(name), str(version)) for name, version in versions.items()]
        return epoch_of_versions(self._state.store, wanted)

    def alone(self) -> AbstractContextManager[bool]:
        """Context in which no lake table is taken: for dropping one, or creating another of its name."""
        return self._lock

    def _commit(self, found: Mapping[str, _Taken]) -> IntakeCounts:
        changed = {taken.change.table.name: taken.net for taken in found.values() if taken.net.rows}
        came = IntakeCounts(sum(map(_size, changed.values())), sum(taken.change.files for taken in found.values()))
        fault("lake-read")
        with self.tally.counting(came):
            self._apply(changed, {name: taken.change.position for name, taken in found.items()})
        fault("lake-taken")
        return came

    def _read(self, lake: LakeEntry, rebuild: bool, stack: ExitStack) -> _Taken | None:
        """The change since the version that was taken last; None if there is no newer one.

        Files of its rows are deleted when ``stack`` is closed.
        """
        source = open_lake_table(lake.format, lake.location, lake.options)
        since = self._state.store.positions.get(lake.position, "")
        if since and not rebuild and not source.is_newer(since):
            return None
        if source.HAS_SCHEMA:
            self._follow_columns(lake, source)
        since, table = self._state.store.positions.get(lake.position, ""), self._state.catalog.table(lake.name)
        if not since and not lake.keeps_rows:
            return self._taken(LakeChange(table, (), source.position, "no rows"), stack)
        if not since or rebuild:
            _require_kept(lake)
            return self._taken(source.contents(table), stack)
        try:
            return self._taken(source.change(table, since), stack)
        except HistoryGone as error:
            if lake.rebuilds:
                return self._taken(source.contents(table), stack)
            error.hint = f"REFRESH TABLE {lake.name} REBUILD compares its rows with all of the newest version."
            if not lake.keeps_rows:
                error.hint = "Its rows are not kept: DROP it with the views that read it, and CREATE all of them again."
            raise

    def _follow_columns(self, lake: LakeEntry, source: LakeTable) -> None:
        """Give the table the columns that the lake table has now, or refuse.

        New columns are NULL in the rows that are kept, as they are in the lake table. After any other change all rows
        are compared: the position is gone with the old columns, so that a crash before that leaves it to be done.
        """
        table = self._state.catalog.table(lake.name)
        wanted = {f.name for f in table.fields}
        found = fields_of_schema(source.schema(), lake.location, wanted if lake.declared else None)
        types, taken = {f.name: f.type for f in found}, {f.name: f.type for f in table.fields}
        if types == taken:
            return
        only_new = {name: types.get(name) for name in taken} == taken
        if lake.on_schema_change == REFUSE or (lake.on_schema_change == ADD and not only_new):
            raise _other_columns(lake, taken, types)
        self._alter(with_fields(table, found), {} if only_new else {lake.position: ""})
        fault("lake-altered")

    def _taken(self, change: LakeChange, stack: ExitStack) -> _Taken:
        """A change with its sum. Many rows go through files: those of a first version, or of a large change."""
        name, fields, state = change.table.name, change.table.fields, self._state
        is_first = change.whole and not state.store.rows(name)
        if state.placement.in_memory or (change.whole and not is_first):
            before = self._kept(name, fields) if change.whole else change.rows.slice(0, 0)
            summed = difference(before, change.rows, Map(name, fields))
            return _Taken(change, ChangeSet.of_arrow(summed, fields))
        folder = Path(stack.enter_context(TemporaryDirectory(dir=state.store.temporary_folder())))
        return _Taken(change, (staged if is_first else staged_sum)(change.parts, fields, folder))

    def troubles(self) -> dict[str, Trouble]:
        """The lake tables that should be followed but cannot at present, with the reason."""
        wanted = () if self._state.read_only else self._state.catalog.lakes.values()
        return self.worker_troubles((lake.name, sync_interval(lake.options)) for lake in wanted)


def _size(change: ChangeSet) -> int:
    """The number of rows that come and go."""
    if change.files is None:
        return _weight_of(change.arrow())
    return sum(_weight_of(pq.read_table(file, columns=[WEIGHT])) for file in change.files)


def _weight_of(rows: pa.Table) -> int:
    return int(pc.sum(pc.abs(rows.column(WEIGHT))).as_py() or 0)


def lake_rows(state: EngineState, name: str, until: int | None = None) -> pa.Table:
    """The rows of a lake table that are not kept, weighted, read from the lake as of the version of an epoch."""
    lake, table, positions = state.catalog.lakes[name], state.catalog.table(name), state.store.positions
    if until is not None:
        reached = [at for epoch, at in state.store.history().items() if epoch <= until]
        if not reached:
            raise EpochGone(f'which version of lake table "{name}" epoch {until} shows is no longer known')
        positions = reached[-1]
    position = positions.get(lake.position, "")
    if not position:
        return together([], table)
    try:
        return open_lake_table(lake.format, lake.location, lake.options).contents_at(table, position)
    except HistoryGone as error:
        if until is None:
            error.hint = f"REFRESH TABLE {name} takes the newest version, and views go on from there."
        raise


def _require_kept(lake: LakeEntry) -> None:
    if not lake.keeps_rows:
        raise Unsupported(
            f'lake table "{lake.name}" cannot be rebuilt',
            detail="Its rows are not kept, so there is nothing to compare its newest version with.",
            hint="DROP it with the views that read it, and CREATE all of them again.",
        )


def _other_columns(lake: LakeEntry, taken: Mapping[str, Type], found: Mapping[str, Type]) -> Unsupported:
    """The error for a lake table whose columns are no longer those of the table."""
    changed = [name for name in {**found, **taken} if found.get(name) != taken.get(name)]
    was, now = ", ".join(_said(taken, name) for name in changed), ", ".join(_said(found, name) for name in changed)
    return Unsupported(
        f'the columns of lake table "{lake.name}" have changed',
        where=lake.location,
        detail=f"It was created with {was}, and has {now} now.",
        hint=f"DROP it and CREATE it again, with on_schema_change = '{ADD}' or '{REBUILD}' for the next time; with "
        "named columns, those that are added later are left out.",
    )


def _said(types: Mapping[str, Type], name: str) -> str:
    return f"{name} {types[name]}" if name in types else f"no {name}"
