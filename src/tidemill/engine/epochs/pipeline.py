"""Propagation of an epoch: each changed relation goes once, in topological order, through the stages that read it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from tidemill.changes.changeset import ChangeSet, deletes_before_inserts
from tidemill.compiler.choose_recomputation import is_window
from tidemill.compiler.statistics.epoch_costs import EpochModel
from tidemill.engine.quarantine.holding import Holding
from tidemill.engine.telemetry.epoch_work import EpochWork, PendingRefresh, ViewWork
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.constraints import Constraints
from tidemill.program.reads import is_copy, reads_state
from tidemill.program.stages import Program, Stage
from tidemill.runtimes.runtime import FilledStage, Runtime
from tidemill.storage.store import StoreTraffic


@dataclass
class RefreshCosts:
    """Measured costs of maintaining one view."""

    epochs: int = 0
    seconds: float = 0.0
    work: int = 0
    last_seconds: float = 0.0
    last_rows: int = 0
    last_work: int = 0
    last_recomputed: bool = False
    recomputed: str = ""
    way: str = ""

    def note(self, seconds: float, rows: int, work: int, *, recomputed: bool = False) -> None:
        """Count one epoch that changed ``rows`` rows of the view, for ``work`` input rows."""
        self.last_work = work
        self.last_recomputed = recomputed
        self.work += work
        self.epochs += 1
        self.seconds += seconds
        self.last_seconds = seconds
        self.last_rows = rows

    @property
    def microseconds_per_row(self) -> float | None:
        """The mean time for an input row; None before the first change."""
        return 1e6 * self.seconds / self.work if self.work else None

    def summary(self) -> str:
        """The costs as text for EXPLAIN."""
        if not self.epochs:
            return "not refreshed yet since the warehouse was opened"
        mean, last = (1e3 * seconds for seconds in (self.seconds / self.epochs, self.last_seconds))
        return f"{self.epochs} refreshes, {mean:.2f} ms each; the last {last:.2f} ms for {self.last_rows} rows"

    def note_way(self, number: int, way: str) -> None:
        """Note the last epoch for which a runtime was chosen, and which and why."""
        self.way = f"in epoch {number}: {way}"

    def note_recomputed(self, number: int, reason: str) -> None:
        """Note the last epoch that computed the view again, and why."""
        self.recomputed = f"in epoch {number}: {reason}"


@dataclass
class PlacedProgram:
    """A program and the runtime that runs it. A deferred one runs only when it is named.

    ``paused`` are runtimes that have run it before and still hold its state. ``model`` predicts what its epochs take,
    once that was asked for; ``in_python`` are its stages without machine code, if DuckDB could compute it again.
    """

    program: Program
    runtime: Runtime
    deferred: bool = False
    measured: RefreshCosts = field(default_factory=RefreshCosts)
    paused: list[Runtime] = field(default_factory=list)
    model: EpochModel | None = None
    in_python: Set[str] | None = None
    unlogged: PendingRefresh = field(default_factory=PendingRefresh)

    @cached_property
    def strategies(self) -> str:
        """The strategies of its stages."""
        return ", ".join(dict.fromkeys(stage.strategy for stage in self.program.stages))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The relations that it reads, each once: tables, views, and stages that it shares with other views."""
        own = {stage.name for stage in self.program.stages}
        read = (name for stage in self.program.stages for name in stage.inputs)
        return tuple(dict.fromkeys(name for name in read if name not in own))

    @cached_property
    def looked_up(self) -> set[str]:
        """The relations that its triggers look up."""
        return reads_state(self.program)


class Recomputing(Protocol):
    """The views that an epoch computes again, and why."""

    reasons: Mapping[str, str]

    def compute(self, placed: PlacedProgram, stage: Stage, changed: Mapping[str, Sequence[ChangeSet]]) -> FilledStage:
        """The change of the rows of a stage, and its new maps, after the changes of other relations in this epoch.

        A runtime that keeps the new maps until the epoch ends has them then."""


class StageReader(NamedTuple):
    """A stage that reads some relation, with its program and the index of that among all programs."""

    place: int
    placed: PlacedProgram
    stage: Stage


@dataclass(frozen=True)
class PipelineIndex:
    """Index over all programs for epochs. It depends only on their placement, so epochs share it."""

    order: tuple[PlacedProgram, ...]
    readers: Mapping[str, Sequence[StageReader]]
    immediate: Mapping[str, Sequence[StageReader]]
    """Those of ``readers`` that read every epoch."""
    stored: Set[str]
    """The relations whose rows must be stored: views always, others if a trigger looks them up."""
    copies: Set[str]
    """The stages whose change is that of another stage, as it emits it."""
    runtimes: tuple[Runtime, ...]
    have_windows: bool
    """True if some view has window functions, for which one row can cost a partition."""
    owners: Mapping[str, str]
    """The view of each stage and map that is stored."""

    @classmethod
    def of(cls, order: Iterable[PlacedProgram]) -> PipelineIndex:
        """The index of programs in topological order."""
        order = tuple(order)
        readers: dict[str, list[StageReader]] = defaultdict(list)
        for place, placed in enumerate(order):
            for stage in placed.program.stages:
                for relation in dict.fromkeys(stage.inputs):
                    readers[relation].append(StageReader(place, placed, stage))
        runtimes = {id(placed.runtime): placed.runtime for placed in order}
        immediate = {name: [r for r in some if not r.placed.deferred] for name, some in readers.items()}
        stored = {placed.program.view for placed in order}.union(*(placed.looked_up for placed in order))
        emitted = [stage for placed in order if not placed.deferred for stage in placed.program.stages]
        copies = {
            r.stage.name for source in emitted for r in immediate.get(source.name, ()) if is_copy(r.stage, source)
        }
        have_windows = any(map(is_window, (stage for placed in order for stage in placed.program.stages)))
        owners = {
            name: placed.program.view
            for placed in order
            for stage in placed.program.stages
            for name in (stage.name, *(map_.name for map_ in stage.maps))
        }
        return cls(order, dict(readers), immediate, stored, copies, tuple(runtimes.values()), have_windows, owners)


class Pipeline:
    """The programs of all views, in the order of their creation: a view comes after everything that it reads.

    An epoch costs only the views that its changes reach, however many there are: facts about all views are in an index,
    which is rebuilt only after a view was placed elsewhere or removed.
    """

    def __init__(self, traffic: StoreTraffic | None = None) -> None:
        self.hold: Callable[[Mapping[str, ChangeSet]], Holding | None] | None = None
        """Gives what an epoch with these changes shows to views, if some view may not see all of them."""
        self._placed: dict[str, PlacedProgram] = {}
        self._fields: dict[str, tuple[Field, ...]] = {}
        self._traffic = traffic or StoreTraffic()

    @cached_property
    def index(self) -> PipelineIndex:
        """The index of all programs in their present placement."""
        return PipelineIndex.of(self._placed.values())

    def _outdate_index(self) -> None:
        """Make the index again when it is next needed."""
        self.__dict__.pop("index", None)

    def place(self, program: Program, runtime: Runtime, *, deferred: bool) -> None:
        """Place ``program`` on ``runtime``; the costs measured on another runtime are kept."""
        before = self._placed.get(program.view)
        if before is not None and before.program is program and before.deferred == deferred:
            if before.runtime is not runtime:
                self._move(before, runtime)
            return
        if before is not None:
            self._uninstall(before)
        measured = before.measured if before is not None else RefreshCosts()
        # Placed first, since installing a stage needs the fields of earlier stages.
        self._outdate_index()
        self._placed[program.view] = PlacedProgram(program, runtime, deferred, measured)
        self._fields |= {stage.name: stage.output for stage in program.stages}
        for stage in program.stages:
            runtime.install(stage)

    def _move(self, placed: PlacedProgram, runtime: Runtime) -> None:
        """Move a program to another runtime; the former one keeps its state for later."""
        self._outdate_index()
        if not placed.deferred:
            placed.paused.append(placed.runtime)
        for stage in placed.program.stages:
            if placed.deferred:  # its state is of an earlier epoch
                placed.runtime.remove(stage)
            else:
                placed.runtime.pause(stage)
        if runtime in placed.paused:
            placed.paused.remove(runtime)
        else:
            for stage in placed.program.stages:
                runtime.install(stage)
        placed.runtime = runtime

    def readers(self, relation: str) -> Sequence[StageReader]:
        """Every stage that reads ``relation``, including those of deferred views."""
        return self.index.readers.get(relation, ())

    def reached_by(self, relations: Iterable[str]) -> list[PlacedProgram]:
        """The programs that changes of ``relations`` reach in the same epoch, in topological order."""
        found: dict[int, PlacedProgram] = {}
        waiting = list(relations)
        while waiting:
            for reader in self.index.immediate.get(waiting.pop(), ()):
                if reader.place not in found:
                    found[reader.place] = reader.placed
                    waiting.extend(stage.name for stage in reader.placed.program.stages)
        return [found[place] for place in sorted(found)]

    def remove(self, view: str) -> None:
        """Remove a view, if it was placed."""
        placed = self._placed.pop(view, None)
        if placed is not None:
            self._outdate_index()
            self._uninstall(placed)

    def _uninstall(self, placed: PlacedProgram) -> None:
        for stage in placed.program.stages:
            self._fields.pop(stage.name, None)
            for runtime in (placed.runtime, *placed.paused):
                runtime.remove(stage)

    def arrange(self, views: Iterable[str]) -> None:
        """Put the placed programs into the order of ``views``: each comes after everything that it reads."""
        self._placed = {name: self._placed[name] for name in views if name in self._placed}
        self._outdate_index()

    def keep(self, views: Collection[str]) -> None:
        """Remove all views but these."""
        for name in self._placed.keys() - set(views):
            self.remove(name)

    def __getitem__(self, view: str) -> PlacedProgram:
        return self._placed[view]

    def find(self, view: str) -> PlacedProgram | None:
        """A view as it is placed; None while it is being replaced."""
        return self._placed.get(view)

    def fields_of(self, relation: str) -> tuple[Field, ...]:
        """The columns of a stage."""
        return self._fields[relation]

    def stored(self, relation: str) -> bool:
        """True if the rows of a stage must be stored."""
        return relation in self.index.stored

    def runtimes(self, always: Runtime) -> list[Runtime]:
        """Every runtime that takes part in an epoch, once; ``always`` is the first."""
        return [always, *(runtime for runtime in self.index.runtimes if runtime is not always)]

    def announce(
        self,
        changes: Mapping[str, ChangeSet],
        tables: Mapping[str, Table],
        constraints: Constraints,
        runtimes: Sequence[Runtime],
    ) -> None:
        """Announce an epoch to the runtimes that batch lookups; the first checks tables and enforces constraints."""
        for runtime in runtimes:
            if runtime.batches_lookups:
                break
        else:
            return
        reading = {id(r.stage): r for name in changes for r in self.readers(name) if not r.placed.deferred}
        ordered = sorted(reading.values(), key=lambda reader: reader.place)
        checked = {name: tables[name] for name in changes if tables[name].kept}
        for number, runtime in enumerate(runtimes):
            judged = (checked, constraints) if number == 0 else ({}, Constraints())
            runtime.expect(changes, *judged, [r.stage for r in ordered if r.placed.runtime is runtime])

    def walk(
        self,
        changes: Mapping[str, ChangeSet],
        runtimes: Sequence[Runtime],
        *,
        only: frozenset[str] | None = None,
        in_turn: bool = False,
        recomputing: Recomputing | None = None,
    ) -> Propagation:
        """Propagate changes of tables to all views (or, to refresh the views ``only``, changes of their inputs).

        With ``in_turn`` all deletes are handled before all inserts, table after table. The sum is the same, but no row
        is joined with one that it never coexisted with.
        """
        holding = self.hold and self.hold(changes)
        walk = Propagation(self.index, runtimes, only, self._traffic, recomputing, holding)
        for relation, change in deletes_before_inserts(changes) if in_turn else changes.items():
            walk.take(relation, change)
        if only is None:
            for relation in changes:
                if changes[relation].rows:
                    walk.stored[relation] = changes[relation]
        walk.finish()
        return walk

    def start(self, runtimes: Sequence[Runtime], only: frozenset[str] | None = None) -> Propagation:
        """A propagation that takes changes one after the other, until it is finished."""
        return Propagation(self.index, runtimes, only, self._traffic, holding=self.hold and self.hold({}))


class Propagation:
    """One running epoch: the changes emitted so far, and the stages that have been fired.

    Input changes go to all immediate views, or to the views ``only``. Changes of views go to both.
    """

    def __init__(
        self,
        index: PipelineIndex,
        runtimes: Sequence[Runtime],
        only: frozenset[str] | None,
        traffic: StoreTraffic,
        recomputing: Recomputing | None = None,
        holding: Holding | None = None,
    ) -> None:
        self.holding = holding
        self.done = EpochWork()
        self.done.views = {}
        self.done.owners = index.owners
        self._traffic = traffic
        self._index = index
        self._runtimes = runtimes
        self._only = only
        self._late = only or frozenset()
        self._fired: set[str] = set()
        self._copied: dict[str, ChangeSet] = {}
        self._waiting: list[int] = []
        self._reached: set[int] = set()
        self._recomputing = recomputing
        self._again: Set[str] = set() if recomputing is None else recomputing.reasons.keys()
        self._changed: dict[str, list[ChangeSet]] = {}
        self.stored: dict[str, ChangeSet] = {}
        self.replaced: list[str] = []

    def take(self, relation: str, change: ChangeSet) -> None:
        """Take a change of a table, or of an input of a view that is refreshed; ``stored`` does not include it."""
        self.done.rows += change.rows
        if change.rows:
            self._handle(relation, change, self._handed_to(relation))

    def recompute_pending(self, relation: str) -> None:
        """Bring every stage that reads ``relation`` to the state it would have if the epoch ended here."""
        for reader in self._handed_to(relation):
            reader.placed.runtime.recompute_pending(reader.stage)

    def fed(self, relation: str) -> None:
        """Record that rows of ``relation`` went to the stages that read it directly, as machine code does."""
        for place, _, stage in self._handed_to(relation):
            self._note_fired(place, stage.name)

    def finish(self) -> None:
        """Propagate the changes through all views that they reach, in topological order."""
        while self._waiting:
            self._run(self._index.order[heappop(self._waiting)])

    def _handed_to(self, relation: str) -> Sequence[StageReader]:
        """The stages that read input changes of ``relation``."""
        if self._only is None:
            return self._index.immediate.get(relation, ())
        return [r for r in self._index.readers.get(relation, ()) if r.placed.program.view in self._late]

    def _following(self, relation: str) -> Sequence[StageReader]:
        """The stages that read changes of ``relation`` emitted by other stages."""
        if not self._late:
            return self._index.immediate.get(relation, ())
        return [
            reader
            for reader in self._index.readers.get(relation, ())
            if not reader.placed.deferred or reader.placed.program.view in self._late
        ]

    def _handle(
        self, relation: str, change: ChangeSet, readers: Iterable[StageReader], source: PlacedProgram | None = None
    ) -> None:
        """Fire every stage that reads ``relation``, then apply the change, which has rows, to its contents.

        ``source`` is the program that it is a stage of."""
        if self._again:
            self._changed.setdefault(relation, []).append(change)
        done, holding, whole = self.done, self.holding, change
        copies, traffic, views, clock = self._index.copies, self._traffic, done.views, time.perf_counter
        for place, placed, stage in readers:
            started, looked_up = clock(), traffic.lookups
            view, name = placed.program.view, stage.name
            if holding is not None:
                shown = holding.shown(view, name, relation, whole)
                if shown is None:
                    continue
                change = shown
            if not done.checked:
                done.checked = started
            if view not in views:
                views[view] = ViewWork()
            work = views[view]
            if placed is not source:  # its stages come one after the other, and read the change together
                work.rows_in += change.rows
                source = placed
            if view not in self._again:
                if name in copies and change.files is None:  # a file becomes part of one map
                    self._copied[name] = change
                else:
                    placed.runtime.fire(stage, relation, change)
                work.triggers += clock() - started
                work.lookups += traffic.lookups - looked_up
            self._note_fired(place, name)
        for runtime in self._runtimes:
            runtime.absorb(relation, whole)

    def _note_fired(self, place: int, stage: str) -> None:
        self._fired.add(stage)
        if place not in self._reached:
            self._reached.add(place)
            heappush(self._waiting, place)

    def _run(self, placed: PlacedProgram) -> None:
        """Emit the change of each fired stage of a view, and propagate it."""
        view, rows = placed.program.view, 0
        if view in self._again:
            self._recompute(placed)
            return
        if view not in self.done.views:  # its events went to machine code
            self.done.views[view] = ViewWork()
        work, fired, copied, traffic = self.done.views[view], self._fired, self._copied, self._traffic
        for stage in placed.program.stages:
            name = stage.name
            if name not in fired:
                continue
            if self.holding is not None:
                self.holding.working = view
            looked_up, started = traffic.lookups, time.perf_counter()
            change = copied[name] if name in copied else placed.runtime.emit(stage)
            work.output += time.perf_counter() - started
            work.lookups += traffic.lookups - looked_up
            rows = change.rows
            if rows:
                self._handle(name, change, self._following(name), placed)
                if name in self._index.stored:
                    self.stored[name] = change
        work.placed, work.rows_out = placed, rows
        placed.measured.note(work.triggers + work.output, rows, self.done.rows)

    def _recompute(self, placed: PlacedProgram) -> None:
        """Compute all stages of a view again, in order, and propagate the change of each to other views."""
        assert self._recomputing is not None
        seconds, rows = 0.0, 0
        work = self.done.views[placed.program.view]
        for stage in placed.program.stages:
            started = time.perf_counter()
            change, maps = self._recomputing.compute(placed, stage, self._changed)
            seconds += time.perf_counter() - started
            rows = change.rows
            if rows:
                self._handle(stage.name, change, [r for r in self._following(stage.name) if r.placed is not placed])
                if stage.name in self._index.stored:
                    self.stored[stage.name] = change
            self.stored.update(maps)
            self.replaced.extend(map_.name for map_ in stage.maps)
        work.placed, work.rows_out, work.output = placed, rows, seconds
        work.recomputed = self._recomputing.reasons[placed.program.view]
        placed.measured.note(seconds, rows, self.done.rows, recomputed=True)
