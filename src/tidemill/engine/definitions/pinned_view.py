"""A view that is computed as of a pinned epoch while others write, and then follows what they have written.

Nothing here holds the lock of the warehouse or changes it: rows are read from a snapshot of the store, by DuckDB or by
a runtime of its own, and the maps stay outside the store until an epoch takes them in. Where the store is a folder they
are written to files beforehand, so that this epoch only has to name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from math import prod

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.choose import filling_work
from tidemill.engine.catalog.view import View
from tidemill.engine.epochs.pipeline import Pipeline
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.epochs.weights import require_weights
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map, map_fields
from tidemill.program.reads import compared_relations, reads_state
from tidemill.program.stages import Stage
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.runtimes.runtime import FilledStage, Runtime
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.prepared_run import PreparedRun
from tidemill.storage.segments import TableSegment, stored_schema, with_epoch
from tidemill.storage.snapshot import StoreSnapshot
from tidemill.storage.store import ColumnValues, Store

__all__ = ["PinnedView"]

FILE_ROWS = 10_000
"""Rows of a map from which it is written to a file before the epoch that takes it in."""

FEW_ROWS = 2_000
"""Changed rows that are left for the epoch that swaps the view in, for which writers wait."""

ROUNDS = 20
"""Rounds in which a view tries to reach the present while others write."""

_numbers = count(1)


@dataclass(frozen=True)
class _Contents:
    """What a view reads as of an epoch: its inputs in the store, and its own maps, which are not there."""

    snapshot: StoreSnapshot
    store: Store
    maps: Mapping[str, Sequence[TableSegment]]

    @property
    def epoch(self) -> int:
        """The epoch."""
        return self.snapshot.epoch

    def read(
        self,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None = None,
        since: int | None = None,
        where: ColumnValues | None = None,
    ) -> pa.Table:
        """Rows of a relation or of a map, with their weights and epochs."""
        if name not in self.maps:
            return self.snapshot.read(name, fields, until=until, since=since, where=where)
        schema = stored_schema(fields)
        return pa.concat_tables([schema.empty_table(), *(part.load(schema, where) for part in self.maps[name])])

    def rows(self, name: str) -> int:
        """The number of rows of a map; of a relation, the number now."""
        parts = self.maps.get(name)
        return self.store.rows(name) if parts is None else sum(part.table.num_rows for part in parts)


class PinnedView:
    """The rows and maps of a view that is not in the catalog yet, or has another query there.

    They are those of the epoch ``shown``: first of the present one, and later of that to which ``follow`` has gone.
    """

    def __init__(self, view: View, state: EngineState) -> None:
        self.view = view
        self._state = state
        self._program = view.full_program
        self._fields = {name: state.catalog.entry(name).fields for name in view.inputs}
        self._fields |= {stage.name: stage.output for stage in self._program.stages}
        kept = {view.name, *reads_state(self._program)}
        rows = [Map(stage.name, stage.output) for stage in self._program.stages if stage.name in kept]
        self.maps = {map_.name: map_ for map_ in chain(rows, *(stage.maps for stage in self._program.stages))}
        self._parts: dict[str, list[TableSegment]] = {name: [] for name in self.maps}
        self._files: dict[str, list[PreparedRun]] = {}
        self._snapshot = state.store.pin()
        self._first = self.shown

    def close(self) -> None:
        """Release the snapshot and the files that were written: what an epoch has taken in is the store's."""
        self._snapshot.close()
        for run in chain.from_iterable(self._files.values()):
            with suppress(OSError):  # it goes with the folder
                run.file.unlink(missing_ok=True)

    @property
    def shown(self) -> int:
        """The epoch whose inputs it shows."""
        return self._snapshot.epoch

    def snapshot_of(self, relation: str, fields: Sequence[Field]) -> pa.Table:
        """The rows of a relation as of the epoch that is shown."""
        return self._snapshot.read(relation, fields)

    def rows(self) -> ChangeSet:
        """All rows of the view."""
        return ChangeSet.of_arrow(self._whole(self.view.name), self.view.fields)

    def later_rows(self) -> pa.Table:
        """The change of the rows of the view since the first epoch that it has shown."""
        return self._whole(self.view.name, later=True)

    # -- the first rows -----------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Compute all maps from the inputs as of the pinned epoch."""
        runtime, loaded, maps = self._runtime(), dict[str, ChangeSet](), dict[str, ChangeSet]()
        with garbage_collection_paused():
            runtime.begin(self.shown)
            for stage in self._program.stages:
                runtime.install(stage)
                filled = self._in_columns(stage, loaded)
                if filled is None:
                    loaded[stage.name] = runtime.load(stage)
                else:
                    loaded[stage.name], maps = filled.rows, {**maps, **filled.maps}
                runtime.absorb(stage.name, loaded[stage.name])
            maps = {**runtime.commit(), **maps, **loaded}
        runtime.free()
        for name, change in maps.items():
            self._add(name, change)

    def _in_columns(self, stage: Stage, loaded: Mapping[str, ChangeSet]) -> FilledStage | None:
        """The contents of a stage by DuckDB, as far as it knows the stage and the work is worth it."""

        def read(name: str, fields: Sequence[Field]) -> pa.Table:
            return loaded[name].arrow() if name in loaded else self._snapshot.read(name, fields)

        def size(name: str) -> int:
            return loaded[name].rows if name in loaded else self._state.store.rows(name)

        pairs = max((prod(map(size, names)) for names in compared_relations(stage) if len(names) > 1), default=0)
        work = sum(map(self._state.store.rows, self.view.inputs))
        return self._state.placement.compute_in_columns(stage, filling_work(work, pairs), read)

    def _add(self, name: str, change: ChangeSet) -> None:
        if name in self.maps and change.rows:
            rows = with_epoch(change.arrow(), self.shown)
            part = TableSegment(rows.combine_chunks(), self.shown, self.shown)
            part.indexes.at_once = rows.num_rows >= FILE_ROWS
            self._parts[name].append(part)

    def write(self, names: Iterable[str]) -> None:
        """Write large maps to files, which an epoch can take in as they are."""
        if isinstance(self._state.store, MemoryStore):
            return
        for name in names:
            if sum(part.table.num_rows for part in self._parts[name]) >= FILE_ROWS:
                self._write(name, self._parts[name])

    def _write(self, name: str, parts: Iterable[TableSegment]) -> None:
        file = self._state.store.temporary_folder() / f"replaced-{next(_numbers)}.parquet"
        rows = with_epoch(pa.concat_tables([part.table.drop_columns([EPOCH]) for part in parts]), self.shown)
        self._files.setdefault(name, []).append(PreparedRun.write(rows, file))

    # -- what comes later ---------------------------------------------------------------------------------------

    def approach(self) -> None:
        """Follow what others write until little is missing."""
        for number in range(ROUNDS):
            missing = sum(change.rows for change in self._pending(self._state.store.epoch).values())
            if not missing or (number and missing <= FEW_ROWS):
                return
            self.follow()

    def follow(self) -> None:
        """Take in what the inputs have become up to the present epoch of the store."""
        snapshot = self._state.store.pin()
        try:
            pending = self._pending(snapshot.epoch)
            stored = self._fire(pending) if pending else {}
        except BaseException:
            snapshot.close()
            raise
        before, self._snapshot = self._snapshot, snapshot
        before.close()
        for name, change in stored.items():
            self._add(name, change)

    def _fire(self, pending: Mapping[str, ChangeSet]) -> Mapping[str, ChangeSet]:
        """The changes of the maps that follow from those of the inputs."""
        runtime, pipeline = self._runtime(), Pipeline()
        with garbage_collection_paused():
            pipeline.place(self._program, runtime, deferred=False)
            runtime.begin(self.shown)
            walk = pipeline.walk(self._state.catalog.in_order(pending), [runtime])
            stored = {**walk.stored, **runtime.commit()}
            require_weights(stored, [runtime])
        runtime.free()
        return stored

    def _pending(self, until: int) -> dict[str, ChangeSet]:
        """The changes of the inputs since the epoch that is shown, summed."""
        found = {}
        for name in self.view.inputs:
            fields = self._fields[name]
            rows = self._state.store.read(name, fields, since=self.shown, until=until)
            if rows.num_rows:
                net = difference(rows.slice(0, 0), rows, Map(name, fields))
                found[name] = ChangeSet.of_arrow(net.select([*(f.name for f in fields), WEIGHT]), fields)
        return {name: change for name, change in found.items() if change.rows}

    # -- for the epoch that takes it in -------------------------------------------------------------------------

    def changes(self, names: Iterable[str]) -> dict[str, ChangeSet]:
        """The contents of maps: files where they were written, with one more for what came later."""
        found = {}
        for name in names:
            fields = map_fields(self.maps[name])
            if name not in self._files:
                found[name] = ChangeSet.of_arrow(self._whole(name), fields)
                continue
            if later := [part for part in self._parts[name] if part.first > self._first]:
                self._write(name, later)
            rows = sum(part.table.num_rows for part in self._parts[name])
            found[name] = ChangeSet.of_files(self._files[name], fields, rows)
        return found

    def _whole(self, name: str, *, later: bool = False) -> pa.Table:
        """All rows of a map, or those ``later`` than the first epoch."""
        empty = arrow_schema(map_fields(self.maps[name])).empty_table()
        parts = [part.table for part in self._parts[name] if not later or part.first > self._first]
        return pa.concat_tables([empty, *(part.drop_columns([EPOCH]).cast(empty.schema) for part in parts)])

    def _runtime(self) -> Runtime:
        """A runtime over the pinned epoch and the maps that there are."""
        parts = {name: tuple(parts) for name, parts in self._parts.items()}
        contents = _Contents(self._snapshot, self._state.store, parts)
        return self._state.placement.runtime_over(contents, self._fields_of)

    def _fields_of(self, name: str) -> tuple[Field, ...]:
        return self._fields[name]
