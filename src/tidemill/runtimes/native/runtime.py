"""The native runtime: stages as generated Python over dictionaries in this process."""

from __future__ import annotations

import decimal
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tidemill.algebra.decimals import EXACT
from tidemill.algebra.scalars import Column
from tidemill.changes.batch import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.statements import Program, Stage, Version
from tidemill.runtimes.checks import RowsWith, WeightOf, check_change
from tidemill.runtimes.native import backends, state
from tidemill.runtimes.native.access import Access, Form
from tidemill.runtimes.native.backends import Backends, StoredState
from tidemill.runtimes.native.base import Places
from tidemill.runtimes.native.faults import located
from tidemill.runtimes.native.layered import Layered, bare
from tidemill.runtimes.native.maps import BULK, Contents, RingMap
from tidemill.runtimes.native.python import (
    CompiledStage,
    CompiledTrigger,
    Probe,
    Routine,
    Step,
    compile_probes,
    compile_stage,
)
from tidemill.runtimes.native.state import BaseOf, Maps, State, columns_of
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from tidemill.runtimes.native.llvm.stage import LlvmStage

FieldsOf = Callable[[str], tuple[Field, ...]]

NO_TRIGGER = CompiledTrigger((), each=False)


class NativeRuntime:
    """Runs stages in this process. Everything costs O(|change|) once the state that it needs is in memory.

    ``fields_of`` gives the columns of tables, streams, views and stages by name, ``base_of`` the stored rows of those
    with more than ``resident`` rows. ``backend`` says whether stages are generated Python or compiled code (see
    ``backends``). After ``commit`` an epoch can still be rolled back until the next ``begin``.
    """

    name = "native"

    def __init__(
        self,
        store: Store,
        fields_of: FieldsOf,
        base_of: BaseOf | None = None,
        resident: int | None = None,
        backend: str | None = None,
    ) -> None:
        if resident is None:
            resident = state.RESIDENT_ROWS
        self._state = State(store, fields_of, base_of or columns_of(store), resident)
        # Compiled code holds all that it reads in this process: not what a base leaves elsewhere.
        wanted = "python" if base_of is not None else backend or backends.BACKEND
        self._backends = Backends(wanted, StoredState(store, self._state.whole), fields_of)
        self._fields_of = fields_of
        self._compiled: dict[str, CompiledStage] = {}
        self._outputs: dict[str, dict[Row, int]] = {}
        self._replaces: dict[str, dict[str, Step]] = {}
        self._ran: dict[str, Stage] = {}
        self._checked: dict[str, tuple[ChangeSet, ZSet]] = {}
        # Weak, because a query's routines end with its answer; the routines of stages live in ``_compiled``.
        self._probes: WeakKeyDictionary[Callable[..., None], tuple[Probe, ...]] = WeakKeyDictionary()

    def install(self, stage: Stage) -> None:
        """Compile ``stage``. Its state is read when a change first needs it."""
        self._compiled[stage.name] = compile_stage(stage, self._fields_of)
        self._state.use(stage)

    def remove(self, stage: Stage) -> None:
        """Forget ``stage`` and its state."""
        self._compiled.pop(stage.name, None)
        self._backends.remove(stage.name)
        self._state.forget(stage.name)

    def forget(self, relation: str) -> None:
        """Forget the contents of a relation that is dropped or was changed behind this runtime's back."""
        self._state.forget(relation)
        self._backends.forget(relation)

    def source(self, stage: Stage) -> str:
        """The generated Python of an installed stage."""
        return self._compiled[stage.name].text

    def backend(self, stage: Stage) -> str:
        """How an installed stage runs, and why."""
        return self._backends.explain(stage)

    def sizes(self, stage: Stage) -> dict[str, tuple[int, int | None]]:
        """The entries of each map of ``stage`` and the bytes that they take; dictionaries do not say how many."""
        runner = self._backends.runner(stage.name)
        if runner is not None:
            runner.prepare()
            return dict(runner.sizes())
        maps = self._state.maps(self._compiled[stage.name])
        return {name: (len(held.entries), None) for name, held in maps.items()}

    def begin(self, epoch: int) -> None:
        """Start an epoch."""
        self._clear()
        self._state.begin()
        self._backends.begin()

    def expect(self, changes: Mapping[str, ChangeSet], checked: Mapping[str, Table], stages: Sequence[Stage]) -> None:
        """Nothing is gained by looking ahead: a lookup in this process costs the same at any time."""

    def check(self, table: Table, change: ChangeSet) -> ChangeSet:
        """Refuse a row that leaves and is not there, and a second row with one primary key; sum the change by row."""
        net = _summed(change.pairs())
        if table.primary_key or min(net.values(), default=0) < 0:
            contents = self._state.relation(table.name)
            if not _adds_new_keys(table, net, contents):
                check_change(table, net, *_held(table, contents, net, self._near(table)))
        checked = ChangeSet.of(net.items(), change.fields)
        self._checked[table.name] = checked, net
        return checked

    def fire(self, stage: Stage, relation: str, change: ChangeSet) -> None:
        """Run the trigger of ``stage`` for ``relation``. A ``Replace`` waits for ``emit``, when all inputs are new."""
        compiled = self._compiled[stage.name]
        runner = self._runner(compiled, len(change))
        self._ran[stage.name] = stage
        if runner is not None:
            runner.fire(relation, change)
            return
        with _computing(compiled):
            self._fire(compiled, relation, Inputs(self._state.maps(compiled), {}, change))

    def _runner(self, compiled: CompiledStage, rows: int) -> LlvmStage | None:
        """The compiled form of a stage that is to take in so many rows; one that has begun an epoch stays as it is."""
        stage = compiled.stage
        if stage.name in self._ran or self._backends.runner(stage.name) is not None:
            return self._backends.runner(stage.name)
        runner = self._backends.consider(compiled, rows)
        if runner is not None:
            self._state.release(stage)
        return runner

    def compiled(self, stage: Stage) -> LlvmStage | None:
        """``stage`` as machine code, for events that go there directly; None where it has no such form.

        Between two epochs only. Whoever hands it events must say so with ``fed`` before the epoch ends.
        """
        runner = self._backends.consider(self._compiled[stage.name], backends.WORTH_ROWS)
        if runner is not None:
            self._state.release(stage)
        return runner

    def fed(self, stage: Stage) -> None:
        """Events have gone directly to the machine code of ``stage`` in this epoch."""
        self._ran[stage.name] = stage

    def freshen(self, stage: Stage) -> None:
        """Compute now what would be computed anew when ``stage`` emits."""
        runner = self._backends.runner(stage.name)
        if runner is not None:
            runner.freshen()
            return
        compiled = self._compiled[stage.name]
        with _computing(compiled):
            for step in self._replaces.pop(stage.name, {}).values():
                self._replace(step, stage, self._state.maps(compiled))

    def _fire(self, compiled: CompiledStage, relation: str, inputs: Inputs) -> None:
        trigger = compiled.triggers.get(relation, NO_TRIGGER)
        stage = compiled.stage
        for step in trigger.steps:
            if step.replaces:
                self._replaces.setdefault(stage.name, {})[step.target] = step
        adds = [step for step in trigger.steps if not step.replaces]
        if trigger.each:
            self._add_each(adds, stage, inputs)
            return
        sums: dict[str, dict[Row, Any]] = {}
        for step in adds:
            self._sum(step.routines, stage, inputs, sums.setdefault(step.target, {}))
        self._add_all(stage, inputs.maps, sums)

    def _add_each(self, steps: list[Step], stage: Stage, inputs: Inputs) -> None:
        """Run the statements of a trigger for one row of the change after the other, on maps that move meanwhile."""
        assert inputs.change is not None
        # Maps and their indexes move in place, so they are found once, for all rows.
        routines = [
            (step.target, routine.run, [(a, None if a.changes else self._rows(a, inputs)) for a in routine.accesses])
            for step in steps
            for routine in step.routines
        ]
        for pair in inputs.change.pairs():
            sums: dict[str, dict[Row, Any]] = {}
            for target, run, given in routines:
                found = [_changed((pair,), access) if rows is None else rows for access, rows in given]
                run(sums.setdefault(target, {}), *found)
            self._add_all(stage, inputs.maps, sums)

    def contents(self, relation: str) -> ChangeSet:
        """The rows of a relation as they are now; equal rows may come in several parts."""
        return ChangeSet.of(self._state.scan(relation), self._fields_of(relation))

    def absorb(self, relation: str, change: ChangeSet) -> None:
        """Add the change to the contents of ``relation``."""
        checked, net = self._checked.get(relation, (None, None))
        self._state.absorb(relation, change, net if change is checked else None)

    def emit(self, stage: Stage) -> ChangeSet:
        """The net change of the stage's rows."""
        compiled = self._compiled[stage.name]
        runner = self._backends.runner(stage.name)
        with _computing(compiled):
            if runner is not None:
                return runner.emit()
            self.freshen(stage)
            maps = self._state.maps(compiled)
            net = self._outputs.pop(stage.name, {})
            if stage.finish is not None and compiled.finish is not None:
                net = _changed_rows(compiled.finish, maps[stage.finish.source].touched())
        return ChangeSet.of([(row, weight) for row, weight in net.items() if weight], stage.output)

    def load(self, stage: Stage) -> ChangeSet:
        """Fill ``stage`` from the whole contents of its inputs: by its load, or where it goes row by row, by firing."""
        compiled = self._compiled[stage.name]
        runner = self._backends.consider(compiled, sum(map(self._state.size, stage.inputs)))
        self._ran[stage.name] = stage
        maps = self._state.fresh_maps(compiled)
        if runner is not None and runner.loads:
            self._state.release(stage)
            with _computing(compiled):
                return runner.load()
        self._backends.remove(stage.name)
        rows = self._fill(compiled, maps, {})
        return ChangeSet.of(rows.items(), stage.output)

    def commit(self) -> Mapping[str, ChangeSet]:
        """End the epoch; returns the change of every map that it touched."""
        with decimal.localcontext(EXACT):
            changes = {name: change for stage in self._ran.values() for name, change in self._changes(stage)}
        self._state.settle()
        return changes

    def _changes(self, stage: Stage) -> Iterator[tuple[str, ChangeSet]]:
        runner = self._backends.runner(stage.name)
        return self._state.changes(stage) if runner is None else runner.changes()

    def rollback(self) -> None:
        """Undo the epoch."""
        self._clear()
        self._backends.rollback()
        with decimal.localcontext(EXACT):
            self._state.rollback()

    def answer(self, program: Program) -> ChangeSet:
        """The rows of a query over the current contents."""
        rows: dict[str, Contents] = {}
        fields = {stage.name: stage.output for stage in program.stages}
        for stage in program.stages:
            compiled = compile_stage(stage, lambda name: fields[name] if name in fields else self._fields_of(name))
            rows[stage.name] = Contents()
            rows[stage.name].restore(self._fill(compiled, compiled.empty_maps(), rows).items())
        return ChangeSet.of(rows[program.view].entries.items(), fields[program.view])

    def _clear(self) -> None:
        self._outputs.clear()
        self._replaces.clear()
        self._ran.clear()
        self._checked.clear()

    def _add_all(self, stage: Stage, maps: Maps, sums: Mapping[str, dict[Row, Any]]) -> None:
        """Add what a trigger has summed, by target, to maps and to the change of the stage's own rows.

        Only the sum of all terms of a change is a state that can be: between two of them a weight may be zero by
        chance, and the map would let go of an entry that is not empty.
        """
        for target, added in sums.items():
            if target in maps:
                maps[target].add(added)
                continue
            output = self._outputs.setdefault(stage.name, added)
            if output is not added:
                for row, weight in added.items():
                    output[row] = output.get(row, 0) + weight

    def _replace(self, step: Step, stage: Stage, maps: Maps) -> None:
        """Run a statement that computes its target anew; what changed is the difference."""
        negative = any(maps[name].negatives(number) for name, number in step.guards)
        sums: dict[Row, Any] = {}
        self._sum(step.otherwise if negative else step.routines, stage, Inputs(maps, {}), sums)
        if step.target in maps:
            maps[step.target].replace(sums)
            return
        for row, weight in self._state.scan(stage.name):
            sums[row] = sums.get(row, 0) - weight
        self._outputs[stage.name] = sums

    def _fill(self, compiled: CompiledStage, maps: Maps, beside: Mapping[str, Contents]) -> ZSet:
        """Load empty maps from whole inputs (``beside`` has those that are only of this query); returns the rows."""
        rows = ZSet()
        stage = compiled.stage
        with _computing(compiled):
            if any(trigger.each for trigger in stage.triggers):
                rows = self._fire_whole(compiled, maps, beside)
            for step in compiled.load:
                sums: dict[Row, Any] = {}
                self._sum(step.routines, stage, Inputs(maps, beside), sums)
                if step.target in maps:
                    maps[step.target].add(sums)
                else:
                    rows.update_by(ZSet(sums))
            if stage.finish is not None and compiled.finish is not None:
                entries: Iterable[tuple[Row, Any]] = maps[stage.finish.source].entries.items()
                if stage.finish.always and not entries:
                    entries = [((), None)]
                found = (compiled.finish(key, entry) for key, entry in entries)
                rows = ZSet.of(row for row in found if row is not None)
        return rows

    def _fire_whole(self, compiled: CompiledStage, maps: Maps, beside: Mapping[str, Contents]) -> ZSet:
        """Fire the triggers of a stage with the contents of one input after the other."""
        stage = compiled.stage
        for relation in stage.inputs:
            # A row that has come and gone must not be met on its way: no sum is ever below what it can be.
            whole = ZSet.summed(self._rows(Access(relation, Version.STATE), Inputs(maps, beside)))
            self._fire(compiled, relation, Inputs(maps, beside, ChangeSet.of(whole.items(), ())))
        for step in self._replaces.pop(stage.name, {}).values():
            self._replace(step, stage, maps)
        return ZSet.summed(self._outputs.pop(stage.name, {}).items())

    def _sum(self, routines: Iterable[Routine], stage: Stage, inputs: Inputs, sums: dict[Row, Any]) -> None:
        """Add up the queries of a statement into ``sums``."""
        for routine in routines:
            given = {access: self._rows(access, inputs) for access in routine.accesses}
            if any(isinstance(rows, Layered) for rows in given.values()):
                deque(self._look_up(routine, stage, given), maxlen=0)
            routine.run(sums, *given.values())

    def upcoming(self, stage: Stage, relation: str, change: ChangeSet) -> Iterator[Iterator[Lookup]]:
        """For each routine that ``change`` will run, the lookups in large relations that it will make."""
        compiled = self._compiled[stage.name]
        trigger = compiled.triggers.get(relation, NO_TRIGGER)
        inputs = Inputs(self._state.maps(compiled), {}, change)
        adds = [step for step in trigger.steps if not step.replaces and not trigger.each]
        for routine in (routine for step in adds for routine in step.routines):
            # Where a loop goes through all rows of a relation there is nothing to look up by.
            if all(access.positions or access.version is Version.CHANGE for access in routine.accesses):
                yield self._look_up(routine, stage, {access: self._rows(access, inputs) for access in routine.accesses})

    def _near(self, table: Table) -> Places:
        """The columns by which the check of a table finds its rows: the primary key, or a part of it."""
        return table.key_positions()

    def _look_up(self, routine: Routine, stage: Stage, given: dict[Access, Any]) -> Iterator[Lookup]:
        """Put in the place of large relations the rows that ``routine`` will ask for, source after source.

        Each lookup is shown before it is made, so that somebody who follows many routines can make theirs together.
        """
        large = {access: rows for access, rows in given.items() if isinstance(rows, Layered)}
        # A remote base is asked for the keys of all rows, also of those that filters leave out: so the lookups of
        # many views are the same, and all but the first are answered from what it has fetched. Only columns are sure
        # to have a value in such rows: a filter may be there to keep an expression from failing.
        plain = all(isinstance(key, Column) for source in routine.query.sources for _, key in source.lookup)
        filtered = not plain or not any(rows.remote for rows in large.values())
        if routine.run not in self._probes:
            self._probes[routine.run] = compile_probes(stage, routine.query, self._fields_of, filtered)
        given |= {access: {} for access in large}
        for probe in self._probes[routine.run]:
            if probe.access in large:
                keys: dict[Row, int] = {}
                probe.keys.run(keys, *(given[access] for access in probe.keys.accesses))
                used = self._state.used(probe.access.relation)
                lookup = Lookup(large[probe.access], probe.access.positions, keys, used)
                yield lookup
                given[probe.access] |= lookup.rows()

    def _rows(self, access: Access, inputs: Inputs) -> Any:
        """What a routine asks for, in the form that it wants; of a large relation the whole."""
        if access.version is Version.CHANGE:
            assert inputs.change is not None
            return _changed(inputs.change.pairs(), access)
        own = inputs.held(access.relation)
        if own is not None:
            return _in_form(own, access)
        if access.form is Form.ROWS:
            return self._state.scan(access.relation)
        held = self._state.relation(access.relation)
        return held if isinstance(held, Layered) else held.index(access.positions)


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a routine is about to ask a large relation for: the rows under ``keys``, of which it reads ``columns``."""

    relation: Layered
    positions: Places
    keys: Collection[Row]
    columns: Places | None = None

    def rows(self) -> dict[Any, list[tuple[Row, int]]]:
        """The rows by key, fetched where they have not been."""
        return self.relation.lookup(self.positions, self.keys, self.columns)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a statement reads beside the stored relations: maps of its stage, rows of this query only, the change."""

    maps: Maps
    beside: Mapping[str, Contents]
    change: ChangeSet | None = None

    def held(self, name: str) -> Contents | RingMap | None:
        """The map or the rows called ``name``, where they are among these."""
        found = self.maps.get(name)
        return found if found is not None else self.beside.get(name)


def _in_form(held: Contents | RingMap, access: Access) -> Any:
    """A map as a routine wants it. All forms follow the map when it changes."""
    match access.form:
        case Form.ROWS:
            return held.entries.items()
        case Form.INDEX:
            return held.index(access.positions)
        case Form.ENTRIES:
            return held.entries
        case Form.ORDER:
            return held.order(access.positions, access.column, access.floats)


def _changed(pairs: Sequence[tuple[Row, int]], access: Access) -> Any:
    """The rows of a change, all of them or by some of their columns."""
    return _grouped(pairs, access.positions) if access.form is Form.INDEX else pairs


@contextmanager
def _computing(compiled: CompiledStage) -> Iterator[None]:
    """Decimals are exact within, and a fault names the view and the row."""
    try:
        with decimal.localcontext(EXACT):
            yield
    except (ArithmeticFault, ArithmeticError) as fault:
        raise located(fault, compiled) from fault


def _changed_rows(finish: Callable[[Row, Any], Row | None], touched: Iterable[tuple[Row, Any, Any]]) -> dict[Row, int]:
    """Old rows out, new rows in, for keys whose row is no longer the same."""
    net: dict[Row, int] = {}
    for key, before, after in touched:
        old, new = finish(key, before), finish(key, after)
        if old == new:
            continue
        if old is not None:
            net[old] = net.get(old, 0) - 1
        if new is not None:
            net[new] = net.get(new, 0) + 1
    return net


def _summed(pairs: list[tuple[Row, int]]) -> ZSet:
    """The sum of weighted rows; where they are all different, as most often, there is nothing to add up."""
    net = ZSet(pairs)
    if len(net) < len(pairs) or 0 in net.values():
        return ZSet.summed(pairs)
    return net


def _adds_new_keys(table: Table, change: ZSet, contents: Contents | Layered) -> bool:
    """Whether all that ``change`` does is to add one row for each of some new primary keys. Quick where it is so."""
    if not table.primary_key or len(change) < BULK or set(change.values()) != {1} or isinstance(contents, Layered):
        return False
    keys = set(map(itemgetter(*table.key_positions()), change))
    return len(keys) == len(change) and contents.index(table.key_positions()).keys().isdisjoint(keys)


def _held(table: Table, contents: Contents | Layered, change: ZSet, near: Places) -> tuple[WeightOf, RowsWith]:
    """How often the table holds a row, and what it holds under a primary key, for the rows of ``change``.

    A large table is looked up by the columns ``near``, the key or a part of it.
    """
    positions = table.key_positions()
    if isinstance(contents, Layered):
        if not positions:
            return contents.weights(change).weight, lambda key: ()
        found = contents.lookup(near, {tuple([row[i] for i in near]) for row in change})
        held = ZSet.summed(pair for pairs in found.values() for pair in pairs)
        under = _grouped(held.items(), positions)
        return held.weight, lambda key: under.get(bare(key), ())
    index = contents.index(positions) if positions else {}
    return lambda row: contents.entries.get(row, 0), lambda key: index.get(bare(key), ())


def _grouped(pairs: Iterable[tuple[Row, int]], positions: tuple[int, ...]) -> dict[Any, list[tuple[Row, int]]]:
    """Weighted rows of a change by some of their columns; NULL equals nothing."""
    groups: dict[Any, list[tuple[Row, int]]] = {}
    for pair in pairs:
        key = tuple(pair[0][position] for position in positions)
        if None not in key:
            groups.setdefault(key if len(key) > 1 else key[0], []).append(pair)
    return groups
