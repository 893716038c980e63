"""Execution of generated Python: the functions of a stage, run over dictionaries and over fetched rows."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.split import SplitColumns, SplitRows, splitter
from tidemill.changes.zset import Row, WeightedRow, ZSet
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Field
from tidemill.program import statements
from tidemill.program.reads import read_maps
from tidemill.program.stages import IterationEmission, Program, SessionEmission, Stage, TimePartitionEmission
from tidemill.program.statements import ArrayLoop, ChangeSubset, Version
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.runtimes.native.batched_calls import row_calls_made, run_with_calls
from tidemill.runtimes.native.fault_location import exact_evaluation, locate_fault
from tidemill.runtimes.native.operators import groups as finishing
from tidemill.runtimes.native.operators.iteration import iterate
from tidemill.runtimes.native.operators.rolling_window import ApplyToQuery, GroupRows
from tidemill.runtimes.native.operators.sessions import settle_sessions
from tidemill.runtimes.native.operators.time_partitions import make
from tidemill.runtimes.native.planned_lookups import PlannedLookup, PlannedSum, SnapshotBacked
from tidemill.runtimes.native.prepare_trigger import in_form, prepare_trigger
from tidemill.runtimes.native.python.access import Access, AccessForm
from tidemill.runtimes.native.python.compile import (
    CompiledQuery,
    CompiledStage,
    CompiledStatement,
    CompiledTrigger,
    KeyProbe,
    compile_probes,
)
from tidemill.runtimes.native.row_by_row import RowQuery, TouchedPart, changed_rows, recomputes, take_rows
from tidemill.runtimes.native.runtime_state import NO_MAPS, RuntimeState
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.ring_map import RingMap
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.native.state.stage_maps import StageMaps
from tidemill.runtimes.native.state.table_lookup import CountedIndex

NO_TRIGGER = CompiledTrigger((), each=False)

_SNAPSHOT_BACKED = {OverlaidRelation, RowMap, RingMap}


class PythonExecutor:
    """Runs the stages that are generated Python, on the state of a runtime."""

    def __init__(self, state: RuntimeState, fields_of: Callable[[str], tuple[Field, ...]]) -> None:
        self._state = state
        self._fields_of = fields_of
        self._outputs: dict[str, dict[Row, int]] = {}
        self._replaces: dict[str, dict[str, CompiledStatement]] = {}
        self.base_reads: defaultdict[str, Counter[str]] = defaultdict(Counter)
        # Weak, because a query's routines are released with its answer; the routines of stages live with the runtime.
        self._probes: WeakKeyDictionary[Callable[..., None], tuple[KeyProbe, ...]] = WeakKeyDictionary()

    def clear(self) -> None:
        """Drop what belongs to the epoch."""
        self._outputs, self._replaces = {}, {}

    def fire(self, compiled: CompiledStage, relation: str, change: ChangeSet) -> None:
        """Run the trigger for ``relation``. A ``Replace`` is deferred to ``recompute_pending``, when all inputs are
        new."""
        if compiled.exact:  # so is what is read of the store for its maps
            with exact_evaluation(compiled):
                self._fire(compiled, relation, StatementInputs(self._state.maps(compiled), {}, change))
            return
        try:
            maps = self._state.maps(compiled)
            if relation not in maps.prepared:
                self._prepare(compiled, relation, maps)
            prepared = maps.prepared[relation]
            if prepared is None:
                self._fire(compiled, relation, StatementInputs(maps, {}, change))
                return
            sums = prepared.sums_of(change.pairs(), maps)
            for target in sums:
                if target in maps:
                    maps[target].add(sums[target])
                else:
                    self._add_output(compiled.stage.name, sums[target])
        except (ArithmeticFault, ArithmeticError) as fault:
            raise locate_fault(fault, compiled) from fault

    def _prepare(self, compiled: CompiledStage, relation: str, maps: StageMaps) -> None:
        """Prepare a trigger for maps, if that can be done."""
        trigger = compiled.triggers.get(relation, NO_TRIGGER)
        best = compiled.finish is not None and compiled.finish.keeps_best
        maps.prepared[relation] = None if best else prepare_trigger(trigger, maps, partial(self._run, compiled))

    def _run(
        self, compiled: CompiledStage, routine: CompiledQuery, sums: dict[Row, Any], pairs: Collection[WeightedRow]
    ) -> None:
        """Run a query for the rows of a change, or of the part of it that the query reads."""
        inputs = StatementInputs(self._state.maps(compiled), {}, ChangeSet((), pairs=list(pairs)))
        inputs.read_as(routine.accesses[0], pairs)
        self._sum((routine,), compiled.stage, inputs, sums)

    def trigger_sums(self, compiled: CompiledStage, relation: str, change: ChangeSet) -> dict[str, dict[Row, Any]]:
        """The sums of the trigger for ``relation``, by target; nothing is added yet.

        For a stage that is sharded (``program.sharding``).
        """
        with exact_evaluation(compiled):
            trigger = compiled.triggers.get(relation, NO_TRIGGER)
            return self._sums_of(trigger, compiled.stage, StatementInputs(self._read_maps(compiled), {}, change))

    def _read_maps(self, compiled: CompiledStage) -> StageMaps:
        """The maps of a stage, if its triggers read any of them: others need not be looked at."""
        return self._state.maps(compiled) if read_maps(compiled.stage) else NO_MAPS

    def add_to_read_maps(self, compiled: CompiledStage, relation: str, change: ChangeSet) -> None:
        """Add to the maps that triggers of a sharded stage read what they add for a change."""
        with exact_evaluation(compiled):
            maps = self._state.maps(compiled)
            for step in compiled.triggers.get(relation, NO_TRIGGER).adds:
                if step.target in read_maps(compiled.stage):
                    sums: dict[Row, Any] = {}
                    self._sum(step.routines, compiled.stage, StatementInputs(maps, {}, change), sums)
                    maps[step.target].add(sums)

    def planned_sums(
        self, compiled: CompiledStage, relation: str, change: ChangeSet, targets: Collection[str]
    ) -> Iterator[PlannedSum]:
        """The sums of ``trigger_sums`` for some targets, routine by routine, for a caller that makes lookups of many
        together."""
        inputs = StatementInputs(self._read_maps(compiled), {}, change)
        for step in compiled.triggers.get(relation, NO_TRIGGER).adds:
            for routine in step.routines if step.target in targets else ():
                given = {access: self._rows(access, inputs) for access in routine.accesses}
                yield PlannedSum(compiled, step.target, routine, given, self._look_up(routine, compiled.stage, given))

    def add_sums(self, compiled: CompiledStage, sums: dict[str, dict[Row, Any]]) -> None:
        """Add the sums of all parts of a change to the maps of a stage, and to the change of its rows."""
        with exact_evaluation(compiled):
            self._take_sums(compiled, self._state.maps(compiled), sums)

    def recompute_pending(self, compiled: CompiledStage) -> None:
        """Recompute what needs all inputs, and run the iterations and time partitions that follow."""
        with exact_evaluation(compiled):
            self._recompute_pending(compiled, self._state.maps(compiled))

    def _recompute_pending(self, compiled: CompiledStage, maps: StageMaps) -> None:
        stage, finish = compiled.stage, compiled.stage.finish
        recomputed = self._replaces.pop(stage.name) if stage.name in self._replaces else {}
        for step in recomputed.values():
            self._replace(step, stage, maps)
        match finish:
            case SessionEmission():
                _settle_sessions(compiled, finish, maps)
            case IterationEmission():
                self._settle(compiled, finish, StatementInputs(maps, {}), recomputed=bool(recomputed))
            case TimePartitionEmission():
                self._make(compiled, finish, maps)

    def emit(self, compiled: CompiledStage) -> ChangeSet:
        """The net change of the stage's rows."""
        stage, finish = compiled.stage, compiled.finish
        if self._replaces or compiled.settles or (compiled.exact and finish is not None):
            with exact_evaluation(compiled):
                maps = self._state.maps(compiled)
                self._recompute_pending(compiled, maps)
                return self._emitted(compiled, maps)
        if finish is None:
            net = self._outputs.pop(stage.name, {})
        else:
            try:
                net = finish.changed(self._state.maps(compiled))
            except (ArithmeticFault, ArithmeticError) as fault:
                raise locate_fault(fault, compiled) from fault
        return ChangeSet(stage.output, pairs=[pair for pair in net.items() if pair[1]])

    def _emitted(self, compiled: CompiledStage, maps: StageMaps) -> ChangeSet:
        stage = compiled.stage
        net = self._outputs.pop(stage.name) if stage.name in self._outputs else {}
        if compiled.finish is not None:
            net = compiled.finish.changed(maps)
        return ChangeSet(stage.output, pairs=[(row, weight) for row, weight in net.items() if weight])

    def fill(self, compiled: CompiledStage, maps: StageMaps, beside: Mapping[str, RowMap]) -> ZSet:
        """Load empty maps from whole inputs (``beside`` has rows given with the query); returns the rows."""
        rows = ZSet()
        stage = compiled.stage
        with garbage_collection_paused(), exact_evaluation(compiled):
            if any(trigger.each for trigger in stage.triggers):
                rows = self._fire_whole(compiled, maps, beside)
            for target, steps in groupby(compiled.load, attrgetter("target")):
                sums: dict[Row, Any] = {}
                for step in steps:
                    self._sum(step.routines, stage, StatementInputs(maps, beside), sums)
                if target in maps:
                    maps[target].add(sums)
                else:
                    rows.update_by(ZSet(sums))
            if isinstance(stage.finish, SessionEmission):
                _settle_sessions(compiled, stage.finish, maps)
            if isinstance(stage.finish, IterationEmission):
                self._settle(compiled, stage.finish, StatementInputs(maps, beside))
            if isinstance(stage.finish, TimePartitionEmission):
                self._make(compiled, stage.finish, maps)
            if compiled.finish is not None:
                rows = compiled.finish.whole(maps)
        return rows

    def answer(self, query: Sequence[CompiledStage], beside: Mapping[str, RowMap]) -> ZSet:
        """The rows of a query, by its stages; ``beside`` has rows given with the query."""
        rows = dict(beside)
        *before, last = query
        for compiled in before:
            contents = rows[compiled.stage.name] = RowMap()
            contents.restore(self.fill(compiled, compiled.empty_maps(), rows).items())
        return self.fill(last, last.empty_maps(), rows)

    def follow(
        self, query: Sequence[CompiledStage], maps: Sequence[StageMaps], relation: str, rows: Iterable[WeightedRow]
    ) -> GroupRows:
        """Apply a change of ``relation`` to a query that reads only changes and keeps its ``maps``.

        Returns the touched keys of its last stage, and the row of each.
        """
        changes = {relation: ChangeSet.of(rows, ())}
        groups: GroupRows = []
        for compiled, own in zip(query, maps, strict=True):
            with exact_evaluation(compiled):
                for name in compiled.triggers.keys() & changes.keys():
                    self._fire(compiled, name, StatementInputs(own, {}, changes[name]))
                if compiled is query[-1]:
                    assert isinstance(compiled.finish, finishing.GroupOutput), "a window groups rows"
                    groups = list(compiled.finish.now(own))
                else:
                    changes[compiled.stage.name] = self._emitted(compiled, own)
            for map_ in own.values():
                map_.settle()
        return groups

    def planned_lookups(
        self, compiled: CompiledStage, relation: str, change: ChangeSet
    ) -> Iterator[Iterator[PlannedLookup]]:
        """For each routine that ``change`` will run, the lookups in large relations and maps that it will make."""
        stage = compiled.stage
        trigger = compiled.triggers.get(relation, NO_TRIGGER)
        inputs = StatementInputs(self._state.maps(compiled), {}, change)
        each = trigger.each and not self._state.left(stage)
        adds = () if each else trigger.adds
        yield from (self._entries_to_change(step, stage, inputs) for step in adds)
        for routine in (routine for step in adds for routine in step.routines):
            # A loop over all rows of a relation has no key to look up by.
            looks_up = all(
                access.positions or access.changes or access.form is AccessForm.ENTRIES for access in routine.accesses
            )
            if looks_up and not self._change_is_empty(routine, inputs):
                yield self._look_up(routine, stage, {access: self._rows(access, inputs) for access in routine.accesses})

    def _entries_to_change(
        self, step: CompiledStatement, stage: Stage, inputs: StatementInputs
    ) -> Iterator[PlannedLookup]:
        """The entries that a change itself will modify, of a map that is left in the store."""
        held = inputs.maps.get(step.target)
        alone = [routine for routine in step.routines if all(access.changes for access in routine.accesses)]
        if held is not None and held.is_partial and self._state.left(stage):
            sums: dict[Row, Any] = {}
            self._sum(alone, stage, inputs, sums)
            yield PlannedLookup(held, held.first, sums)

    def _fire(self, compiled: CompiledStage, relation: str, inputs: StatementInputs, *, filling: bool = False) -> None:
        trigger = compiled.triggers.get(relation, NO_TRIGGER)
        stage = compiled.stage
        # Entries left in the store are looked up for the whole change, including those that statements add to.
        each = trigger.each and not self._state.left(stage)
        parts: list[CompiledStatement] = []
        for step in trigger.replaces:
            if step.touched is not None and each and not filling and _takes_rows(step.touched, inputs):
                parts.append(step.touched)
            else:
                self._replaces.setdefault(stage.name, {})[step.target] = step
        if each:
            if trigger.batched and inputs.change is not None:
                with row_calls_made(trigger.batched, inputs.change):
                    self._add_each(trigger, parts, stage, inputs)
            else:
                self._add_each(trigger, parts, stage, inputs)
            return
        self._take_sums(compiled, inputs.maps, self._sums_of(trigger, stage, inputs))

    def _sums_of(self, trigger: CompiledTrigger, stage: Stage, inputs: StatementInputs) -> dict[str, dict[Row, Any]]:
        """The sums of a trigger for all of a change, by target."""
        sums: dict[str, dict[Row, Any]] = {}
        for step in trigger.adds:
            self._sum(step.routines, stage, inputs, sums.setdefault(step.target, {}))
        return sums

    def _take_sums(self, compiled: CompiledStage, maps: StageMaps, sums: dict[str, dict[Row, Any]]) -> None:
        if compiled.finish is not None and compiled.finish.keeps_best:
            compiled.finish.leave_out_beaten(sums, maps)
        self._add_all(compiled.stage, maps, sums)

    def _add_each(
        self, trigger: CompiledTrigger, touched: Sequence[CompiledStatement], stage: Stage, inputs: StatementInputs
    ) -> None:
        """Run the statements of a trigger row by row, on maps that are updated in between."""
        assert inputs.change is not None
        queries = [(step.target, query) for step in trigger.adds for query in self._row_queries(step.routines, inputs)]
        parts = [self._touched_part(step, inputs) for step in touched]
        take_rows(inputs.change.pairs(), queries, parts, partial(self._add_all, stage, inputs.maps))

    def _row_queries(self, routines: Iterable[CompiledQuery], inputs: StatementInputs) -> list[RowQuery]:
        """Routines with what they read. Maps and their indexes are updated in place: it is the same for all rows."""
        return [
            RowQuery(routine.run, [(a, None if a.changes else self._rows(a, inputs)) for a in routine.accesses])
            for routine in routines
        ]

    def _touched_part(self, step: CompiledStatement, inputs: StatementInputs) -> TouchedPart:
        usual, otherwise = (self._row_queries(queries, inputs) for queries in (step.routines, step.otherwise))
        return TouchedPart(step.target, usual, otherwise, partial(step.is_broken, inputs.maps))

    def _add_all(self, stage: Stage, maps: StageMaps, sums: Mapping[str, dict[Row, Any]]) -> None:
        """Add the sums of a trigger, by target, to maps and to the change of the stage's own rows.

        Only the sum of all terms of a change is a consistent state: between two terms a weight may be zero by chance,
        and the map would remove an entry that is not empty.
        """
        for target, added in sums.items():
            if target in maps:
                maps[target].add(added)
                continue
            self._add_output(stage.name, added)

    def _add_output(self, stage: str, added: dict[Row, int]) -> None:
        """Add to the change of a stage's own rows."""
        output = self._outputs.setdefault(stage, added)
        if output is not added:
            for row, weight in added.items():
                output[row] = output.get(row, 0) + weight

    def _replace(self, step: CompiledStatement, stage: Stage, maps: StageMaps) -> None:
        """Run a statement that recomputes its target; the change is the difference."""
        sums: dict[Row, Any] = {}
        self._sum(step.otherwise if step.is_broken(maps) else step.routines, stage, StatementInputs(maps, {}), sums)
        if step.target in maps:
            maps[step.target].replace(sums)
            return
        for row, weight in self._state.scan(stage.name):
            sums[row] = sums.get(row, 0) - weight
        self._outputs[stage.name] = sums

    def _settle(
        self, compiled: CompiledStage, emission: IterationEmission, inputs: StatementInputs, *, recomputed: bool = False
    ) -> None:
        """Update the iterations of a recursion for the rows found in them."""
        steps = compiled.triggers[emission.kept].steps

        def go_on(change: dict[Row, int]) -> dict[Row, int]:
            found: dict[Row, int] = {}
            changed = replace(inputs, change=ChangeSet.of(change.items(), ()))
            for step in steps:
                self._sum(step.routines, compiled.stage, changed, found)
            return found

        iterate(emission, inputs.maps, go_on, recomputed=recomputed)

    def _make(self, compiled: CompiledStage, emission: TimePartitionEmission, maps: StageMaps) -> None:
        """Recompute the touched time partitions of a stage."""
        columns = {map_.name: map_.keys for map_ in compiled.stage.maps}
        rows = {name: map_ for name, map_ in maps.items() if isinstance(map_, RowMap)}
        make(emission, rows, columns, CompiledPartitionQueries(self, compiled.bodies))

    def _fire_whole(self, compiled: CompiledStage, maps: StageMaps, beside: Mapping[str, RowMap]) -> ZSet:
        """Fire the triggers of a stage with the contents of one input after the other."""
        stage = compiled.stage
        for relation in stage.inputs:
            # Summed first: a row that was inserted and deleted again must not make a sum pass through an invalid value.
            whole = ZSet.summed(self._rows(Access(relation, Version.STATE), StatementInputs(maps, beside)))
            self._fire(compiled, relation, StatementInputs(maps, beside, ChangeSet.of(whole.items(), ())), filling=True)
        for step in self._replaces.pop(stage.name, {}).values():
            self._replace(step, stage, maps)
        return ZSet.summed(self._outputs.pop(stage.name, {}).items())

    def _sum(
        self, routines: Iterable[CompiledQuery], stage: Stage, inputs: StatementInputs, sums: dict[Row, Any]
    ) -> None:
        """Add the results of a statement's queries to ``sums``."""
        for routine in routines:
            if routine.parted and self._change_is_empty(routine, inputs):
                continue
            accesses = routine.accesses
            # Lists, because they are built for each routine in each epoch, and accesses are slow to hash.
            given = [self._rows(access, inputs) for access in accesses]
            if not _SNAPSHOT_BACKED.isdisjoint(map(type, given)):
                known = dict(zip(accesses, given, strict=True))
                deque(self._look_up(routine, stage, known), maxlen=0)
                given = list(known.values())
            if inputs.change is not None and routine.parted:
                # Rows joined with a subset of the change are counted: a stage with lineage promises to read few base
                # rows.
                given = [
                    self._counted(access, rows, stage, inputs) for access, rows in zip(accesses, given, strict=True)
                ]
            run = partial(run_with_calls, routine) if routine.batched else routine.run
            run(sums, *given)

    def _change_is_empty(self, routine: CompiledQuery, inputs: StatementInputs) -> bool:
        """True if the part of the change that a routine reads has no rows: then nothing is read for it."""
        return any(a.part is not None and not inputs.changed(a) for a in routine.accesses)

    def _counted(self, access: Access, rows: Any, stage: Stage, inputs: StatementInputs) -> Any:
        """The same rows; rows read from relations, as opposed to maps of the stage, are counted."""
        if access.changes or inputs.held(access.relation) is not None:
            return rows
        reads = self.base_reads[stage.name]
        if access.form is AccessForm.INDEX:
            return CountedIndex(rows, access.relation, reads)
        reads[access.relation] += len(rows)
        return rows

    def _look_up(self, routine: CompiledQuery, stage: Stage, given: dict[Access, Any]) -> Iterator[PlannedLookup]:
        """Replace large relations by the rows that ``routine`` will look up, source after source.

        Each lookup is yielded before it is made, so that a caller that runs many queries can batch their lookups.
        """
        large = {access: rows for access, rows in given.items() if isinstance(rows, SnapshotBacked)}
        # A remote relation is asked for the keys of all rows, including those that filters reject: so the lookups of
        # many views are equal, and all but the first are served from the cache. That is limited to keys that are plain
        # columns, since a filter may guard an expression against failing. Maps belong to one view.
        plain = all(isinstance(scalar, Column) for step in routine.query.sources for scalar in _computed(step))
        filtered = not plain or not any(isinstance(rows, OverlaidRelation) and rows.remote for rows in large.values())
        if routine.run not in self._probes:
            self._probes[routine.run] = compile_probes(stage, routine.query, self._fields_of, filtered)
        # A view of a map follows later additions to it; of a relation, only the fetched rows are given.
        given |= {a: {} if isinstance(rows, OverlaidRelation) else in_form(rows, a) for a, rows in large.items()}
        maps = {access.relation: rows for access, rows in large.items() if not isinstance(rows, OverlaidRelation)}
        for probe in self._probes[routine.run]:
            held = large.get(probe.access) or maps.get(probe.access.relation)
            if held is not None:
                keys: dict[Row, int] = {}
                probe.keys.run(keys, *(given[access] for access in probe.keys.accesses))
                sought = [key for key in keys if None not in key]
                if isinstance(held, OverlaidRelation):
                    lookup = PlannedLookup(
                        held, probe.access.positions, sought, self._state.used(probe.access.relation)
                    )
                    yield lookup
                    given[probe.access] |= lookup.rows()
                else:
                    yield PlannedLookup(held, probe.access.positions, sought)
                    held.bring(probe.access.positions, sought)

    def _rows(self, access: Access, inputs: StatementInputs) -> Any:
        """The argument that a query reads, in the form that it needs; for a large relation the relation itself."""
        if access.version is Version.CHANGE:
            return inputs.changed(access)
        name = access.relation
        if name in inputs.maps or name in inputs.beside:
            own = inputs.maps[name] if name in inputs.maps else inputs.beside[name]
            return own if own.is_partial else in_form(own, access)
        if access.form is AccessForm.ROWS:
            return self._state.scan(name)
        held = self._state.relation(name, whole=inputs.change is None)
        return held.index(access.positions) if type(held) is RowMap else held


@dataclass(frozen=True, slots=True)
class CompiledPartitionQueries:
    """The queries that compute the time partitions of a stage, by name."""

    running: PythonExecutor
    compiled: Mapping[str, Sequence[CompiledStage]]

    def answer(self, body: Program, rows: Mapping[str, RowMap]) -> ZSet:
        """The rows of a query, given those of the inputs that it reads."""
        return self.running.answer(self.compiled[body.view], rows)

    def following(self, body: Program, slice_: str) -> ApplyToQuery:
        """A query over a slice that has no rows yet, with maps of its own."""
        query = self.compiled[body.view]
        maps = [compiled.empty_maps() for compiled in query]
        return lambda rows: self.running.follow(query, maps, slice_, rows)


@dataclass(slots=True)
class StatementInputs:
    """The inputs of a statement besides stored relations: maps of its stage, rows given with the query, the change."""

    maps: StageMaps
    beside: Mapping[str, RowMap]
    change: ChangeSet | None = None
    parted: dict[SplitColumns, SplitRows] = field(default_factory=dict, init=False)

    def held(self, name: str) -> RowMap | RingMap | None:
        """The map or the given rows called ``name``, if any."""
        return self.maps[name] if name in self.maps else self.beside.get(name)

    def changed(self, access: Access) -> Any:
        """The rows of the change, or the requested part of them."""
        assert self.change is not None
        if access.part is None:
            pairs = self.change.pairs()
            return pairs if access.form is AccessForm.ROWS else changed_rows(pairs, access)
        parts = self.parted.get(access.places)
        if parts is None:
            parts = self.parted[access.places] = splitter(access.places).split(self.change.pairs())
        staying, arriving = parts
        return staying if access.part is ChangeSubset.STAYING else arriving

    def read_as(self, access: Access, rows: Collection[WeightedRow]) -> None:
        """Give these rows as the part of the change that ``access`` reads."""
        if access.part is not None:
            self.parted[access.places] = (rows, ()) if access.part is ChangeSubset.STAYING else ((), rows)


def _settle_sessions(compiled: CompiledStage, emission: SessionEmission, maps: StageMaps) -> None:
    """Update the sessions of a stage for the instants that have changed."""
    source = next(map_ for map_ in compiled.stage.maps if map_.name == emission.source)
    settle_sessions(emission, maps, source)


def _takes_rows(part: CompiledStatement, inputs: StatementInputs) -> bool:
    """True if a change has so few rows that the part which each of them touches is taken."""
    assert inputs.change is not None
    return not recomputes(len(inputs.change), part.loops, part.is_broken(inputs.maps))


def _computed(step: statements.Step) -> list[Scalar]:
    """The scalars that are computed to find the rows of a step, before its filters."""
    return [step.array] if isinstance(step, ArrayLoop) else [key for _, key in step.lookup]
