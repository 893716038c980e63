"""A view that is computed as of a pinned epoch while others write, and what follows from it for the views that read it.

Nothing here holds the lock of the warehouse or changes it: rows are read from a snapshot of the store, by DuckDB or by
a runtime of its own, and what comes of them stays outside the store until an epoch takes it in. Where the store is a
folder, large maps are written to files beforehand, so that this epoch only has to name them.

The view begins anew (``fill``), or as it is now with some rows of an input more or less (``step``). Its readers are
told (``tell``), and then all of them follow what others write (``follow``), by their own triggers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count
from math import prod

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import WeightedRow
from tidemill.compiler.choose import filling_work
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.replacing.pinned_contents import PinnedContents
from tidemill.engine.definitions.replacing.pinned_recomputation import PinnedRecomputation
from tidemill.engine.epochs.pipeline import Pipeline, PlacedProgram, Propagation
from tidemill.engine.epochs.recomputation import NotRecomputed
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.epochs.weights import require_weights
from tidemill.model.types import Field
from tidemill.program.maps import Map, map_fields
from tidemill.program.reads import compared_relations, reads_state
from tidemill.program.stages import Program, Stage
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.runtimes.runtime import FilledStage, TemporaryRuntime
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.prepared_run import PreparedRun
from tidemill.storage.segments import with_epoch
from tidemill.storage.snapshot import StoreSnapshot

__all__ = ["PinnedView"]

FILE_ROWS = 10_000
"""Rows of a map from which it is written to a file before the epoch that takes it in."""

FEW_ROWS = 200
"""Changed rows that are left for the epoch that swaps the view in, for which writers wait."""

ROUNDS = 20
"""Rounds in which a view tries to reach the present while others write."""

_numbers = count(1)


class PinnedView:
    """The rows and maps of a view with another query, and of its ``readers``, as nobody sees them yet.

    They are those of the epoch ``shown``: first of the present one, and later of that to which ``follow`` has gone. If
    rows of one ``relation`` come and go, only what is made of it changes; else the maps ``anew`` begin without what is
    stored under their names.
    """

    def __init__(
        self,
        view: View,
        state: EngineState,
        readers: Sequence[PlacedProgram] = (),
        *,
        relation: str | None = None,
        anew: Collection[str] = (),
    ) -> None:
        self.view = view
        self.readers = tuple(readers)
        self._state = state
        self._programs = (view.full_program, *(placed.program for placed in readers))
        stages = {stage.name: stage for program in self._programs for stage in program.stages}
        own = view.full_program.stages if relation is None else tuple(_made_of((view.full_program,), relation))
        kept = {view.name, *reads_state(view.full_program)}
        told = tuple(_made_of(self._programs[1:], view.name))
        self._stages = {map_.name: stage for stage in chain(own, told) for map_ in (_rows(stage), *stage.maps)}
        self.maps = {map_.name: map_ for stage in own for map_ in _stored(stage, stage.name in kept)}
        self.told = {map_.name: map_ for stage in told for map_ in _stored(stage, state.pipeline.stored(stage.name))}
        self._inputs = tuple(dict.fromkeys(name for s in stages.values() for name in s.inputs if name not in stages))
        self._fields: dict[str, tuple[Field, ...]] = {name: state.fields_of(name) for name in self._inputs}
        self._fields |= {stage.name: stage.output for stage in stages.values()}
        self.contents = PinnedContents(state.store, [*self.maps.values(), *self.told.values()], anew)
        self._files: dict[str, list[PreparedRun]] = {}
        self._written: dict[str, int] = {}
        self._pipeline = Pipeline()
        self._runner: TemporaryRuntime | None = None

    def close(self) -> None:
        """Release the snapshots and the files that were written: what an epoch has taken in is the store's."""
        self.contents.close()
        self._runner = None
        for run in chain.from_iterable(self._files.values()):
            with suppress(OSError):  # it goes with the folder
                run.file.unlink(missing_ok=True)

    @property
    def shown(self) -> int:
        """The epoch whose inputs it shows."""
        return self.contents.shown.epoch

    # -- the first rows -----------------------------------------------------------------------------------------

    def fill(self) -> ChangeSet:
        """Compute all maps from the inputs as of the first epoch; returns the rows of the view, which are not added."""
        runtime, loaded, maps = self._runtime(), dict[str, ChangeSet](), dict[str, ChangeSet]()
        with garbage_collection_paused():
            runtime.begin(self.shown)
            for stage in self.view.full_program.stages:
                runtime.install(stage)
                filled = self._in_columns(stage, loaded)
                if filled is None:
                    loaded[stage.name] = runtime.load(stage)
                else:
                    loaded[stage.name], maps = filled.rows, {**maps, **filled.maps}
                runtime.absorb(stage.name, loaded[stage.name])
            maps = {**runtime.commit(), **maps, **loaded}
        runtime.free()
        rows = maps.pop(self.view.name)
        for name in maps.keys() & self.contents.anew:
            self.contents.add(name, maps[name])
        return rows

    def _in_columns(self, stage: Stage, loaded: Mapping[str, ChangeSet]) -> FilledStage | None:
        """The contents of a stage by DuckDB, as far as it knows the stage and the work is worth it."""

        def read(name: str, fields: Sequence[Field]) -> pa.Table:
            return loaded[name].arrow() if name in loaded else self.contents.shown.read(name, fields)

        def size(name: str) -> int:
            return loaded[name].rows if name in loaded else self._state.store.rows(name)

        pairs = max((prod(map(size, names)) for names in compared_relations(stage) if len(names) > 1), default=0)
        work = sum(map(self._state.store.rows, self.view.inputs))
        return self._state.placement.compute_in_columns(stage, filling_work(work, pairs), read)

    def step(self, bridge: Program, relation: str, change: ChangeSet) -> ChangeSet:
        """Take in rows of a relation that has them already, by a program that differs from the view's own in that.

        Returns the change of the rows of the view, which is not added.
        """
        runtime, pipeline = self._runtime(), Pipeline()
        pipeline.place(bridge, runtime, deferred=False)
        done = self._run(runtime, pipeline, {relation: change}, before=change.negated())
        runtime.free()
        for name in done.stored.keys() & self.maps.keys() - {self.view.name}:
            self.contents.add(name, done.stored[name])
        return done.stored.get(self.view.name) or ChangeSet.of((), self.view.fields)

    def write(self, names: Iterable[str]) -> None:
        """Write large maps that begin anew to files, which an epoch can take in as they are."""
        if not isinstance(self._state.store, MemoryStore):
            for name in names:
                if name in self.contents.anew and self.contents.rows(name) >= FILE_ROWS:
                    self._write(name)

    def _write(self, name: str) -> None:
        """Write what was added to a map since it was last written."""
        rows = self.contents.added(name, self._written.get(name, 0))
        self._written[name] = self.contents.parts(name)
        if rows.num_rows:
            file = self._state.store.temporary_folder() / f"replaced-{next(_numbers)}.parquet"
            self._files.setdefault(name, []).append(PreparedRun.write(with_epoch(rows, self.shown), file))

    # -- its readers, and what comes later ----------------------------------------------------------------------

    def tell(self, change: ChangeSet, again: Mapping[str, str]) -> None:
        """Propagate a change of the rows of the view to its readers, before it is added.

        Views are computed ``again`` for the reasons given; their maps begin anew.
        """
        changes = {self.view.name: change}
        try:
            recomputing = PinnedRecomputation(self._state.placement, self.contents, again) if again else None
            done = self._run(self._started(), self._pipeline, changes, recomputing=recomputing)
        except NotRecomputed:
            self._runner = None
            done = self._run(self._started(), self._pipeline, changes)
        for name in done.replaced:
            self.contents.renew(name)
        for name in done.stored.keys() & self.told.keys():
            self.contents.add(name, done.stored[name])
        self.write(done.replaced)

    def begin_rows(self, rows: ChangeSet) -> None:
        """Begin the rows of the view anew."""
        self.contents.renew(self.view.name)
        self.contents.add(self.view.name, rows)
        if self._runner is not None:
            self._runner.forget(self.view.name)

    def approach(self) -> None:
        """Follow what others write until little is missing."""
        for number in range(ROUNDS):
            with self._state.store.pin() as snapshot:
                missing = sum(change.rows for change in self._pending(snapshot).values())
            if not missing or (number and missing <= FEW_ROWS):
                return
            self.follow()

    def follow(self) -> None:
        """Take in what the inputs have become up to the present epoch of the store."""
        snapshot = self._state.store.pin()
        try:
            pending = self._pending(snapshot)
            stored = self._run(self._started(), self._pipeline, pending).stored if pending else {}
        except BaseException:
            snapshot.close()
            raise
        self.contents.advance(snapshot)
        for name, change in stored.items():
            self.contents.add(name, change)

    def _pending(self, snapshot: StoreSnapshot) -> dict[str, ChangeSet]:
        """The changes of the inputs since the epoch that is shown, summed."""
        found = {}
        for name in self._inputs:
            fields = self._fields[name]
            rows = snapshot.read(name, fields, since=self.shown)
            if rows.num_rows:
                found[name] = ChangeSet.of_arrow(difference(rows.slice(0, 0), rows, Map(name, fields)), fields)
        return self._state.catalog.in_order({name: change for name, change in found.items() if change.rows})

    def _run(
        self,
        runtime: TemporaryRuntime,
        pipeline: Pipeline,
        changes: Mapping[str, ChangeSet],
        *,
        before: ChangeSet | None = None,
        recomputing: PinnedRecomputation | None = None,
    ) -> Propagation:
        """Propagate changes of relations; ``before`` leads from the rows that are here to those before the first."""
        with garbage_collection_paused():
            runtime.begin(self.shown)
            if before is not None:
                runtime.absorb(next(iter(changes)), before)
            walk = pipeline.walk(changes, [runtime], recomputing=recomputing)
            walk.stored.update(runtime.commit())
            require_weights(walk.stored, [runtime])
        return walk

    def _started(self) -> TemporaryRuntime:
        """The runtime that keeps what it has looked up from one round to the next."""
        if self._runner is None:
            self._runner, self._pipeline = self._runtime(), Pipeline()
            for program in self._programs:
                self._pipeline.place(program, self._runner, deferred=False)
        return self._runner

    def _runtime(self) -> TemporaryRuntime:
        return self._state.placement.runtime_over(self.contents, self._fields.__getitem__)

    # -- for the epoch that takes it in -------------------------------------------------------------------------

    def changes(self, names: Iterable[str]) -> dict[str, ChangeSet]:
        """Changes to add to maps: for new maps all that they have, as files where they were written."""
        return {name: self._change(name) for name in names}

    def _change(self, name: str) -> ChangeSet:
        map_ = self.maps.get(name) or self.told[name]
        if name in self._files:
            self._write(name)
            return ChangeSet.of_files(self._files[name], map_fields(map_), self.contents.rows(name))
        if name in self.contents.anew:
            return ChangeSet.of_arrow(self.contents.added(name), map_fields(map_))
        return self.contents.change(name, partial(self._change_between, name))

    def _change_between(self, name: str, old: Sequence[WeightedRow], new: Sequence[WeightedRow]) -> ChangeSet:
        return self._started().change_between(self._stages[name], name, old, new)


def _made_of(programs: Iterable[Program], relation: str) -> Iterator[Stage]:
    """The stages that read a relation, or others that do."""
    reached = {relation}
    for program in programs:
        for stage in program.stages:
            if not reached.isdisjoint(stage.inputs):
                reached.add(stage.name)
                yield stage


def _rows(stage: Stage) -> Map:
    return Map(stage.name, stage.output)


def _stored(stage: Stage, has_rows: bool) -> tuple[Map, ...]:
    """The maps of a stage that are stored."""
    return (_rows(stage), *stage.maps) if has_rows else stage.maps
