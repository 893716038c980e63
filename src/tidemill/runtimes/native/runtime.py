"""The native runtime: stages as generated Python over dictionaries in this process."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from weakref import WeakKeyDictionary

from tidemill.algebra.decimals import EXACT
from tidemill.changes.batch import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.statements import Program, Stage, Version
from tidemill.runtimes.checks import RowsWith, WeightOf, check_change
from tidemill.runtimes.native import state
from tidemill.runtimes.native.faults import located
from tidemill.runtimes.native.layered import Layered, bare
from tidemill.runtimes.native.loops import Access
from tidemill.runtimes.native.maps import BULK, Contents, RingMap
from tidemill.runtimes.native.python import CompiledStage, Probe, Routine, Step, compile_probes, compile_stage
from tidemill.runtimes.native.state import BaseOf, Maps, State, columns_of
from tidemill.storage.store import Store

FieldsOf = Callable[[str], tuple[Field, ...]]


class NativeRuntime:
    """Runs stages in this process. Everything costs O(|change|) once the state that it needs is in memory.

    ``fields_of`` gives the columns of tables, streams, views and stages by name, ``base_of`` the stored rows of those
    with more than ``resident`` rows. After ``commit`` an epoch can still be rolled back until the next ``begin``.
    """

    name = "native"

    def __init__(
        self, store: Store, fields_of: FieldsOf, base_of: BaseOf | None = None, resident: int | None = None
    ) -> None:
        if resident is None:
            resident = state.RESIDENT_ROWS
        self._state = State(store, fields_of, base_of or columns_of(store), resident)
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
        self._state.forget(stage.name)

    def forget(self, relation: str) -> None:
        """Forget the contents of a relation that is dropped or was changed behind this runtime's back."""
        self._state.forget(relation)

    def source(self, stage: Stage) -> str:
        """The generated Python of an installed stage."""
        return self._compiled[stage.name].text

    def begin(self, epoch: int) -> None:
        """Start an epoch."""
        self._clear()
        self._state.begin()

    def check(self, table: Table, change: ChangeSet) -> ChangeSet:
        """Refuse a row that leaves and is not there, and a second row with one primary key; sum the change by row."""
        net = _summed(change.pairs())
        if table.primary_key or min(net.values(), default=0) < 0:
            contents = self._state.relation(table.name)
            if not _adds_new_keys(table, net, contents):
                check_change(table, net, *_held(table, contents, net))
        checked = ChangeSet.of(net.items(), change.fields)
        self._checked[table.name] = checked, net
        return checked

    def fire(self, stage: Stage, relation: str, change: ChangeSet) -> None:
        """Run the trigger of ``stage`` for ``relation``. A ``Replace`` waits for ``emit``, when all inputs are new."""
        compiled = self._compiled[stage.name]
        maps = self._state.maps(compiled)
        self._ran[stage.name] = stage
        sums: dict[str, dict[Row, Any]] = {}
        with _computing(compiled):
            for step in compiled.triggers.get(relation, ()):
                if step.replaces:
                    self._replaces.setdefault(stage.name, {})[step.target] = step
                else:
                    self._sum(step, stage, Inputs(maps, {}, change), sums.setdefault(step.target, {}))
            # Only the sum of all terms of a change is a state that can be: between two of them a weight may be zero
            # by chance, and the map would let go of an entry that is not empty.
            for target, added in sums.items():
                self._add(stage, maps, target, added)

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
        maps = self._state.maps(compiled)
        with _computing(compiled):
            for step in self._replaces.pop(stage.name, {}).values():
                self._replace(step, stage, maps)
            net = self._outputs.pop(stage.name, {})
            if stage.finish is not None and compiled.finish is not None:
                net = _changed_rows(compiled.finish, maps[stage.finish.source].touched())
        return ChangeSet.of([(row, weight) for row, weight in net.items() if weight], stage.output)

    def load(self, stage: Stage) -> ChangeSet:
        """Fill ``stage`` from the whole contents of its inputs."""
        compiled = self._compiled[stage.name]
        self._ran[stage.name] = stage
        rows = self._fill(compiled, self._state.fresh_maps(compiled), {})
        return ChangeSet.of(rows.items(), stage.output)

    def commit(self) -> Mapping[str, ChangeSet]:
        """End the epoch; returns the change of every map that it touched."""
        changes = {name: change for stage in self._ran.values() for name, change in self._state.changes(stage)}
        self._state.settle()
        return changes

    def rollback(self) -> None:
        """Undo the epoch."""
        self._clear()
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

    def _add(self, stage: Stage, maps: Maps, target: str, sums: dict[Row, Any]) -> None:
        """Add what a trigger has summed to a map, or to the change of the stage's own rows."""
        if target in maps:
            maps[target].add(sums)
            return
        output = self._outputs.setdefault(stage.name, sums)
        if output is not sums:
            for row, weight in sums.items():
                output[row] = output.get(row, 0) + weight

    def _replace(self, step: Step, stage: Stage, maps: Maps) -> None:
        """Run a statement that computes its target anew; what changed is the difference."""
        sums = self._sums(step, stage, maps, {})
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
            for step in compiled.load:
                sums = self._sums(step, stage, maps, beside)
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

    def _sums(self, step: Step, stage: Stage, maps: Maps, beside: Mapping[str, Contents]) -> dict[Row, Any]:
        """What the queries of a statement that reads state alone add up to."""
        sums: dict[Row, Any] = {}
        self._sum(step, stage, Inputs(maps, beside), sums)
        return sums

    def _sum(self, step: Step, stage: Stage, inputs: Inputs, sums: dict[Row, Any]) -> None:
        """Add up the queries of a statement into ``sums``."""
        for routine in step.routines:
            given = {access: self._rows(access, inputs) for access in routine.accesses}
            if any(isinstance(rows, Layered) for rows in given.values()):
                self._look_up(routine, stage, given)
            routine.run(sums, *given.values())

    def _look_up(self, routine: Routine, stage: Stage, given: dict[Access, Any]) -> None:
        """Put in the place of large relations the rows that ``routine`` will ask for, source after source."""
        large = {access: rows for access, rows in given.items() if isinstance(rows, Layered)}
        # A remote base is asked for the keys of all rows, also of those that filters leave out: so the lookups of
        # many views are the same, and all but the first are answered from what it has fetched.
        filtered = not any(rows.remote for rows in large.values())
        if routine.run not in self._probes:
            self._probes[routine.run] = compile_probes(stage, routine.query, self._fields_of, filtered)
        given |= {access: {} for access in large}
        for probe in self._probes[routine.run]:
            if probe.access in large:
                keys: dict[Row, int] = {}
                probe.keys.run(keys, *(given[access] for access in probe.keys.accesses))
                used = self._state.used(probe.access.relation)
                given[probe.access] |= large[probe.access].lookup(probe.access.positions, keys, used)

    def _rows(self, access: Access, inputs: Inputs) -> Any:
        """The dictionary, or the weighted rows, that a routine asks for; a large relation as it is."""
        if access.version is Version.CHANGE:
            assert inputs.change is not None
            pairs = inputs.change.pairs()
            return _grouped(pairs, access.positions) if access.positions else pairs
        own = inputs.held(access.relation)
        if not access.positions:
            return own.entries.items() if own is not None else self._state.scan(access.relation)
        held = own if own is not None else self._state.relation(access.relation)
        assert not isinstance(held, RingMap)
        return held if isinstance(held, Layered) else held.index(access.positions)


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


def _held(table: Table, contents: Contents | Layered, change: ZSet) -> tuple[WeightOf, RowsWith]:
    """How often the table holds a row, and what it holds under a primary key, for the rows of ``change``."""
    positions = table.key_positions()
    if isinstance(contents, Layered):
        if not positions:
            return contents.weights(change).weight, lambda key: ()
        under = contents.lookup(positions, {tuple([row[i] for i in positions]) for row in change})
        held = ZSet.summed(pair for pairs in under.values() for pair in pairs)
        return held.weight, lambda key: ZSet.summed(under.get(bare(key), ())).items()
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
