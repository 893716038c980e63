"""The native runtime: stages in this process, as generated Python over dictionaries or as machine code."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, WeightedRow, ZSet
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.program.constraints import Constraints
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.maps import map_fields
from tidemill.program.reads import sources_of
from tidemill.program.stages import Program, Stage, TimePartitionEmission
from tidemill.program.statements import Version
from tidemill.runtimes.integrity import SAFE_WEIGHT, check_change, check_foreign_key, check_unique
from tidemill.runtimes.native import backends, runtime_state
from tidemill.runtimes.native.backends import Backends, StoredState, TableOf
from tidemill.runtimes.native.executor import PythonExecutor
from tidemill.runtimes.native.fault_location import exact_evaluation
from tidemill.runtimes.native.planned_lookups import PlannedLookup
from tidemill.runtimes.native.python.check_conditions import check_rows
from tidemill.runtimes.native.python.compile import CompiledStage, compile_query, compile_stage
from tidemill.runtimes.native.runtime_state import RuntimeState
from tidemill.runtimes.native.state.overlay import OverlaidRelation, index_key
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.native.state.snapshot import ColumnPositions
from tidemill.runtimes.native.state.state_reader import SnapshotOf, column_snapshots
from tidemill.runtimes.native.state.table_lookup import adds_new_keys, net_rows, rows_held
from tidemill.runtimes.native.state_room import (
    LEAST_RELEASED,
    UNLIMITED_BYTES,
    StateRoom,
    dictionary_bytes,
    release_least_recently_used,
)
from tidemill.runtimes.runtime import FieldsOf
from tidemill.storage.store import ReadableStore

if TYPE_CHECKING:
    from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage


class NativeRuntime:
    """Runs stages in this process. Everything costs O(|change|) once the state that it needs is in memory.

    ``fields_of`` gives the columns of tables, streams, views and stages by name, ``table_of`` the tables by name,
    ``snapshot_of`` the stored rows of those with more than ``resident`` rows. ``backend`` selects generated Python or
    compiled code for stages (see ``backends``), ``room`` gives the bytes that state may still take; what does not fit
    is looked up in the store, if that is ``in_files``. Stages that the runtime ``like`` runs need not be written again.
    After ``commit`` an epoch can still be rolled back until the next ``begin``.
    """

    name = "native"
    loads_to_store = False
    refills = False
    batches_lookups = False

    def __init__(
        self,
        store: ReadableStore,
        fields_of: FieldsOf,
        snapshot_of: SnapshotOf | None = None,
        resident: int | None = None,
        backend: str | None = None,
        room: Callable[[], int | None] = lambda: None,
        table_of: TableOf = lambda name: None,
        in_files: bool = True,
        like: NativeRuntime | None = None,
    ) -> None:
        if resident is None:
            resident = runtime_state.RESIDENT_ROWS
        elsewhere = snapshot_of is not None
        self._room = StateRoom(room) if in_files else StateRoom()
        self._state = RuntimeState(
            store, fields_of, snapshot_of or column_snapshots(store), resident, self._room, elsewhere=elsewhere
        )
        # Compiled code holds all that it reads in this process, so it cannot run on snapshots held elsewhere.
        wanted = "python" if elsewhere else backend or backends.BACKEND
        stored = StoredState(store, self._state.whole, self._state.absorbs)
        self._backends = Backends(wanted, stored, fields_of, room, table_of, self._room.fits)
        self._fields_of = fields_of
        self._like = like
        self._compiled: dict[str, CompiledStage] = {}
        self._running = PythonExecutor(self._state, fields_of)
        self._ran: dict[str, Stage] = {}
        self._checked: dict[str, tuple[ChangeSet, ZSet]] = {}

    def install(self, stage: Stage) -> None:
        """Compile ``stage``. Its state is read when a change first needs it."""
        self._compiled[stage.name] = self._known(stage) or compile_stage(stage, self._fields_of)
        self._state.use(stage)

    def _known(self, stage: Stage) -> CompiledStage | None:
        """A stage that another runtime has compiled over the same columns."""
        known = None if self._like is None else self._like._compiled.get(stage.name)
        if known is None or self._like is None or known.stage is not stage:
            return None
        same = all(self._fields_of(name) == self._like._fields_of(name) for name in stage.inputs)
        return known.again() if same else None

    def remove(self, stage: Stage) -> None:
        """Release ``stage`` and its state."""
        self._compiled.pop(stage.name, None)
        self._backends.remove(stage.name)
        self._state.forget(stage.name)

    def pause(self, stage: Stage) -> None:
        """Keep the state of ``stage`` while it misses epochs: it catches up from the store when it is next used."""
        self._state.pause(stage)
        self._backends.pause(stage.name)

    def prepare(self, stage: Stage, rows: int) -> bool:
        """Read the state that the triggers of a stage look up; false if it is machine code.

        That takes rows in about as fast as the changes of its maps, which another process would hand over."""
        compiled = self._compiled[stage.name]
        if self._runner(compiled, rows) is not None:
            return False
        own = self._state.maps(compiled).keys()
        for source in sources_of(stage):
            if source.version is Version.STATE and source.relation not in own:
                self._state.relation(source.relation)
        return True

    def miss_epoch(self) -> None:
        """Keep the state of relations while it misses epochs: it catches up from the store when it is next used."""
        self._state.miss_epoch()
        self._backends.miss_epoch()

    def release_paused(self) -> None:
        """Release the memory of all state that has missed epochs."""
        self._state.release_paused()
        self._backends.release_paused()

    def release_state(self, wanted: int) -> int:
        """Release the state that was least recently used, until about ``wanted`` bytes are given back.

        At the beginning of an epoch. What is released is looked up in the store until there is room for it again.
        """
        released = self._release_least_recently_used(wanted)
        if released < wanted:  # tables can go now that the stages which read them have gone
            released += self._release_least_recently_used(wanted - released)
        self._backends.allow_room()
        return released

    def _release_least_recently_used(self, wanted: int) -> int:
        held = [*self._state.releasable(), *self._backends.releasable(self._return_to_python)]
        return release_least_recently_used([state for state in held if state.bytes >= LEAST_RELEASED], wanted)

    def _return_to_python(self, stage: Stage) -> None:
        """Release the compiled form of a stage; its state is looked up in the store until it is compiled again."""
        self._backends.remove(stage.name)
        self._state.use(stage)

    @contextmanager
    def sparing_memory(self) -> Iterator[None]:
        """Between epochs: release all state that can be released, and look everything up in the store within."""
        self._clear()
        self._state.free()
        for _ in range(2):
            release_least_recently_used(self._backends.releasable(self._return_to_python), UNLIMITED_BYTES)
        with self._room.sparing():
            yield

    def left_in_store(self, stage: Stage) -> Sequence[str]:
        """The maps of an installed stage, and the relations that it looks up, that are not in memory."""
        runner = self._backends.runner(stage.name)
        return () if runner is not None and runner.ready else self._state.left_in_store(stage)

    def forget(self, relation: str) -> None:
        """Release the contents of a relation that was dropped or changed by others."""
        self._state.forget(relation)
        self._backends.forget(relation)

    def forget_entries(self, stage: Stage, forgotten: Sequence[ExpiredEntries]) -> None:
        """Release the state of ``stage`` that the store has removed; between epochs."""
        runner = self._backends.runner(stage.name)
        if runner is not None:
            runner.free()
        for one in forgotten:
            self._state.forget_entries(stage, one)

    def forget_rows(self, forgotten: ExpiredEntries) -> None:
        """Release the rows of a relation that the store has removed; between epochs."""
        self._state.forget_rows(forgotten)
        self._backends.forget(forgotten.map)

    def forget_files(self, relation: str) -> None:
        """Release a relation whose rows are looked up in the store as of an epoch that may be gone."""
        self._state.forget_files(relation)

    def free(self) -> None:
        """Release the memory of all state, between epochs; it is read from the store again when needed."""
        self._clear()
        self._state.free()
        self._backends.free()

    def source(self, stage: Stage) -> str:
        """The generated Python of an installed stage."""
        return self._compiled[stage.name].text

    def explain(self, stage: Stage) -> str:
        """The back end of an installed stage, and why."""
        return self._backends.explain(stage)

    def sizes(self, stage: Stage) -> dict[str, tuple[int, int | None]]:
        """The number of entries of each map of ``stage`` and their bytes; None for dictionaries.

        Of a map that is left in the store, this is the number of stored changes.
        """
        runner = self._backends.runner(stage.name)
        if runner is not None:
            runner.prepare()
            return dict(runner.sizes())
        maps = self._state.maps(self._compiled[stage.name])
        return {
            name: (self._state.size(name) if held.is_partial else len(held.entries), None)
            for name, held in maps.items()
        }

    def held_sizes(self, stage: Stage) -> dict[str, tuple[int, int]]:
        """The entries and bytes of the maps of ``stage`` in memory; those of dictionaries are estimated."""
        runner = self._backends.runner(stage.name)
        if runner is not None:
            return dict(runner.sizes()) if runner.ready else {}
        widths = {map_.name: len(map_fields(map_)) for map_ in stage.maps}
        held = {name: len(map_.entries) for name, map_ in self._state.held_maps.get(stage.name, {}).items()}
        return {name: (rows, dictionary_bytes(rows, widths.get(name, 1))) for name, rows in held.items()}

    def begin(self, epoch: int) -> None:
        """Start an epoch."""
        self._clear()
        self._state.begin()
        self._backends.begin()

    def expect(
        self,
        changes: Mapping[str, ChangeSet],
        checked: Mapping[str, Table],
        constraints: Constraints,
        stages: Sequence[Stage],
    ) -> None:
        """Do nothing: a lookup in this process costs the same at any time."""

    def check(self, table: Table, change: ChangeSet) -> ChangeSet:
        """Refuse to delete a row that does not exist or to insert a duplicate primary key; sum the change by row."""
        self._backends.epoch_rows += change.rows
        plain = self._checked_quickly(table, change)
        if plain is not None:
            return plain
        net = net_rows(change.pairs())
        if table.primary_key or min(net.values(), default=0) < 0 or max(net.values(), default=0) > SAFE_WEIGHT:
            self._check_net(table, net)
        # Nothing was summed where the numbers of rows are equal: what came as columns goes on as columns.
        checked = change if len(net) == len(change) else ChangeSet.of(net.items(), change.fields)
        if table.primary_key:
            self._backends.follow_table(table.name, checked)
        elif table.name in self._backends.counted:
            self._backends.pause_counts(table.name)
        self._checked[table.name] = checked, net
        return checked

    def _check_net(self, table: Table, net: ZSet) -> None:
        """Check a summed change against the rows under its keys, or against all rows of a table without a key."""
        contents = self._state.relation(table.name)
        if not adds_new_keys(table, net, contents):
            check_change(table, net, *rows_held(table, contents, net, self._near(table)))

    def _checked_quickly(self, table: Table, change: ChangeSet) -> ChangeSet | None:
        """A change that a quick test shows to be valid, without rows that it leaves as they were; None for others."""
        if not table.primary_key:
            if not change.only_comes(SAFE_WEIGHT):
                return self._checked_by_counts(table, change)
            if table.name in self._backends.counted:
                self._backends.pause_counts(table.name)
            return change
        compiled = self._backends.table(table, change.rows)
        if compiled is None:
            return None
        if not compiled.ready:
            self._state.release_rows(table.name)
        return compiled.take(change)

    def _checked_by_counts(self, table: Table, change: ChangeSet) -> ChangeSet | None:
        """A change that the counted rows of a table without a primary key show to be valid, summed; None for
        others."""
        if change.rows <= backends.FEW_ROWS and self._state.has_rows(table.name):
            return None
        counted = self._backends.counted_rows(table, change.rows)
        if counted is None:
            return None
        if not counted.ready:
            self._state.release_rows(table.name)
        return counted.take(change)

    def check_constraints(self, changes: Mapping[str, ChangeSet], constraints: Constraints) -> None:
        """Refuse an epoch that would violate a constraint: by the inserted rows, and by indexes of keys."""
        for name in changes:
            if conditions := constraints.conditions_of(name):
                check_rows(conditions, [row for row, weight in self._net(name, changes[name]).items() if weight > 0])
        for unique in constraints.uniques_of(changes):
            check_unique(unique, self._net(unique.table.name, changes[unique.table.name]), self._held_under)
        keys = constraints.keys_of(changes)
        if keys:
            net = {name: self._net(name, change) for name, change in changes.items()}
            for key in keys:
                check_foreign_key(key, net, self._held_under)

    def _net(self, name: str, change: ChangeSet) -> ZSet:
        """A change summed by row."""
        checked, net = self._checked.get(name, (None, None))
        return net if net is not None and change is checked else net_rows(change.pairs())

    def _held_under(self, relation: str, places: ColumnPositions, keys: Collection[Row]) -> dict[Row, int]:
        """The number of rows that a relation holds under each of ``keys``."""
        held = self._state.relation(relation)
        # Only the key columns are needed, so nothing else is fetched.
        index = held.lookup(places, keys, places) if isinstance(held, OverlaidRelation) else held.index(places)
        return {key: sum([weight for _, weight in index.get(index_key(key), ())]) for key in keys}

    def fire(self, stage: Stage, relation: str, change: ChangeSet) -> None:
        """Run the trigger of ``stage`` for ``relation``. A ``Replace`` is deferred to ``emit``, when all inputs are
        new."""
        name = stage.name
        compiled = self._compiled[name]
        runner = self._runner(compiled, change.rows)
        self._ran[name] = stage
        if runner is not None:
            runner.fire(relation, change)
        else:
            self._running.fire(compiled, relation, change)

    def _runner(self, compiled: CompiledStage, rows: int) -> LlvmStage | None:
        """The compiled form of a stage that is about to process so many rows; it never changes within an epoch."""
        stage = compiled.stage
        runner = self._backends.runner(stage.name)
        if runner is not None and stage.name not in self._ran and not self._backends.has_room_for(stage):
            self._return_to_python(stage)
            return None
        if runner is not None or stage.name in self._ran:
            self._backends.note_work(stage.name, rows)
            return runner
        runner = self._backends.compile_if_worthwhile(compiled, rows)
        if runner is not None:
            self._state.hand_over(stage)
        return runner

    def machine_code(self, stage: Stage) -> LlvmStage | None:
        """``stage`` as machine code, for events that are passed to it directly; None if it has no such form."""
        if isinstance(stage.finish, TimePartitionEmission):
            return None  # its rows follow from all events of an epoch together
        compiled = self._compiled[stage.name]
        runner = self._backends.compile_if_worthwhile(compiled, backends.COMPILE_AFTER_ROWS, reads_state=False)
        if runner is not None:
            self._backends.keep_for_events(stage.name)
            self._state.hand_over(stage)
        return runner

    def recompute_pending(self, stage: Stage) -> None:
        """Compute now what would be recomputed when ``stage`` emits."""
        runner = self._backends.runner(stage.name)
        if runner is not None:
            runner.recompute_pending()
        else:
            self._running.recompute_pending(self._compiled[stage.name])

    def contents(self, relation: str) -> ChangeSet:
        """The current rows of a relation; equal rows may come several times."""
        return self._state.whole(relation)

    def find(self, relation: str, positions: ColumnPositions, keys: Collection[Row]) -> dict[Row, list[Row]]:
        """The rows of a relation that have one of ``keys`` at ``positions``, by that key; between epochs."""
        compiled = self._backends.ready_table(relation)
        if compiled is not None and positions == compiled.table.key_positions:
            return {key: [row] for key, row in compiled.find(keys).items()}
        found: dict[Row, list[Row]] = {}
        for row, weight in ZSet.summed(self._pairs_under(relation, positions, keys)).items():
            if weight > 0:
                found.setdefault(tuple([row[i] for i in positions]), []).append(row)
        return found

    def find_in_memory(self, relation: str, positions: ColumnPositions, key: Row) -> list[Row] | None:
        """The rows under one key, if they and their index are in memory as they are now; else None, at once."""
        compiled = self._backends.ready_table(relation)
        if compiled is not None and positions == compiled.table.key_positions:
            return list(compiled.find([key]).values())
        held = self._state.ready_relation(relation)
        if held is None or not held.has_index(positions):
            return None
        return [row for row, weight in held.index(positions).get(index_key(key), ()) if weight > 0]

    def hold(self, relation: str, positions: ColumnPositions) -> None:
        """Have a relation in memory for reads by these columns, where there is room for it; between epochs."""
        self._state.hold(relation, positions)

    def _pairs_under(self, relation: str, positions: ColumnPositions, keys: Collection[Row]) -> list[WeightedRow]:
        """The weighted rows of a relation in memory that have one of ``keys``."""
        held = self._state.relation(relation)
        if isinstance(held, OverlaidRelation):
            return [pair for found in held.lookup(positions, keys).values() for pair in found]
        index = held.index(positions)
        return [pair for key in keys for pair in index.get(index_key(key), ())]

    def holders(self, relation: str, position: int, elements: Collection[Any]) -> list[Row]:
        """The rows of a relation whose array at ``position`` has one of ``elements``; between epochs."""
        held = self._state.relation(relation)
        if isinstance(held, OverlaidRelation):
            return [row for row, weight in ZSet.summed(held.holders(position, elements)).items() if weight > 0]
        index = held.elements(position)
        return list(dict.fromkeys(row for element in elements for row in index.holding(element)))

    def absorb(self, relation: str, change: ChangeSet) -> None:
        """Add the change to the contents of ``relation``."""
        net = None
        if relation in self._checked:
            checked, summed = self._checked[relation]
            net = summed if change is checked else None
        self._backends.show(relation, change)
        self._state.absorb(relation, change, net)

    def emit(self, stage: Stage) -> ChangeSet:
        """The net change of the stage's rows."""
        compiled = self._compiled[stage.name]
        runner = self._backends.runner(stage.name)
        if runner is None:
            return self._running.emit(compiled)
        if runner.is_untouched:
            return runner.nothing
        with exact_evaluation(compiled):
            return runner.emit()

    def load(self, stage: Stage) -> ChangeSet:
        """Fill ``stage`` from the whole contents of its inputs: by its load, or by firing if it works row by row."""
        compiled = self._compiled[stage.name]
        rows = sum(map(self._state.size, stage.inputs))
        runner = self._backends.compile_if_worthwhile(compiled, rows, reads_state=False)
        self._ran[stage.name] = stage
        maps = self._state.empty_stage_maps(compiled)
        if runner is not None and runner.loads:
            self._state.hand_over(stage)
            with suppress(ArithmeticFault), exact_evaluation(compiled):  # perhaps of a row that was deleted
                return runner.load()
            maps = self._state.empty_stage_maps(compiled)
        self._backends.remove(stage.name)
        loaded = self._running.fill(compiled, maps, {})
        return ChangeSet.of(loaded.items(), stage.output)

    def leave_in_store(self, stage: Stage) -> None:
        """Hold nothing of a stage that was filled elsewhere in this epoch: the store will have its state.

        The stage has taken in no rows, so it is not compiled for them.
        """
        self._state.empty_stage_maps(self._compiled[stage.name])
        self.leave_maps_in_store(stage)

    def leave_maps_in_store(self, stage: Stage) -> None:
        """Release the maps of a stage that are replaced in the store; its rows change like those of others."""
        self._backends.leave_in_store(stage.name)
        self._state.release(stage)

    def stays_in_python(self, stage: Stage) -> bool:
        """True if a stage is known to have no native form."""
        return self._backends.stays_in_python(stage)

    def produce(self, stage: Stage) -> ChangeSet:
        """The rows of a stage that does not store them, from the maps that it holds."""
        assert stage.reader is not None
        runner = self._backends.runner(stage.name)
        if runner is not None:
            return runner.produce()
        reader = compile_stage(stage.reader, self._fields_of)
        # The maps that a load fills start empty, even if this stage maintains a map of that name for its changes.
        filled = {add.target for add in stage.reader.load}
        held = self._state.complete_maps(self._compiled[stage.name])
        maps = reader.empty_maps()
        maps.update((name, map_) for name, map_ in held.items() if name not in filled)
        return ChangeSet.of(self._running.fill(reader, maps, {}).items(), stage.output)

    def commit(self) -> Mapping[str, ChangeSet]:
        """End the epoch; returns the change of every map that it touched."""
        changes: dict[str, ChangeSet] = {}
        for used in self._backends.used:
            self._ran[used.stage.name] = used.stage
        for name, stage in self._ran.items():
            runner = self._backends.runner(name)
            if runner is not None:
                changes.update(runner.changes())
                continue
            if self._compiled[name].exact:
                with decimal.localcontext(EXACT):
                    changes.update(self._state.changes(stage))
            else:
                changes.update(self._state.changes(stage))
        self._state.settle()
        return changes

    def change_between(
        self, stage: Stage, name: str, old: Sequence[WeightedRow], new: Sequence[WeightedRow]
    ) -> ChangeSet:
        """The change of a map of an installed stage from the sum of some stored changes to that of others."""
        before, after = (self._compiled[stage.name].empty_maps()[name] for _ in range(2))
        with decimal.localcontext(EXACT):
            before.restore(old)
            after.restore(new)
            for key in before.entries.keys() | after.entries.keys():
                before.set(key, after.entries.get(key))  # type: ignore[arg-type]
            return ChangeSet(next(map_fields(m) for m in stage.maps if m.name == name), pairs=before.changes())

    def check_weights(self) -> None:
        """Check the sums of all that the epoch has touched."""
        self._state.check_weights()

    def rollback(self) -> None:
        """Undo the epoch."""
        self._clear()
        self._backends.rollback()
        with decimal.localcontext(EXACT):
            self._state.rollback()

    def answer(self, program: Program, given: Mapping[str, ChangeSet] = MappingProxyType({})) -> ChangeSet:
        """The rows of a query over the current contents; ``given`` has those of relations that do not store theirs."""
        rows = {name: RowMap() for name in given}
        for name, change in given.items():
            rows[name].restore(change.pairs())
        found = self._running.answer(compile_query(program, self._fields_of), rows)
        return ChangeSet.of(found.items(), program.stages[-1].output)

    def base_reads(self, stage: str) -> Mapping[str, int]:
        """The number of rows of each relation that were read to maintain a stage with lineage."""
        return self._running.base_reads[stage]

    def planned_lookups(self, stage: Stage, relation: str, change: ChangeSet) -> Iterator[Iterator[PlannedLookup]]:
        """For each routine that ``change`` will run, the lookups in large relations that it will make."""
        return self._running.planned_lookups(self._compiled[stage.name], relation, change)

    def _clear(self) -> None:
        self._running.clear()
        self._ran, self._checked = {}, {}

    def _near(self, table: Table) -> ColumnPositions:
        """The columns by which the check of a table finds its rows: the primary key, or a part of it."""
        return table.key_positions
