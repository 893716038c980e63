"""The way of an epoch: every changed relation once, in topological order, through the stages that read it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.constraints import Constraints
from tidemill.program.reads import reads_state
from tidemill.program.stages import Program, Stage
from tidemill.runtimes.runtime import Runtime


@dataclass
class RefreshCosts:
    """What keeping one view fresh has cost so far."""

    epochs: int = 0
    seconds: float = 0.0
    last_seconds: float = 0.0
    last_rows: int = 0
    last_work: int = 0

    def note(self, seconds: float, rows: int, work: int) -> None:
        """Count one epoch that touched the view: ``rows`` of it changed, ``work`` rows had come in."""
        self.last_work = work
        self.epochs += 1
        self.seconds += seconds
        self.last_seconds = seconds
        self.last_rows = rows

    def summary(self) -> str:
        """The figures as EXPLAIN shows them."""
        if not self.epochs:
            return "not refreshed yet since the warehouse was opened"
        mean, last = (1e3 * seconds for seconds in (self.seconds / self.epochs, self.last_seconds))
        return f"{self.epochs} refreshes, {mean:.2f} ms each; the last {last:.2f} ms for {self.last_rows} rows"


@dataclass
class PlacedProgram:
    """A program and the runtime that runs it. A deferred one is run only when it is asked for by name."""

    program: Program
    runtime: Runtime
    deferred: bool = False
    measured: RefreshCosts = field(default_factory=RefreshCosts)


class Pipeline:
    """The programs of all views, in the order of their making: a view comes after everything that it reads."""

    def __init__(self) -> None:
        self._placed: dict[str, PlacedProgram] = {}

    def place(self, program: Program, runtime: Runtime, *, deferred: bool) -> None:
        """Let ``runtime`` run ``program`` from now on; where another one did, the figures stay."""
        before = self._placed.get(program.view)
        if before is not None and before.program is program and before.runtime is runtime:
            return
        if before is not None:
            for stage in before.program.stages:
                before.runtime.remove(stage)
        measured = before.measured if before is not None else RefreshCosts()
        # Placed first: a stage that is installed asks for the fields of the stages before it.
        self._placed[program.view] = PlacedProgram(program, runtime, deferred, measured)
        for stage in program.stages:
            runtime.install(stage)

    def readers(self, relation: str) -> list[tuple[PlacedProgram, Stage]]:
        """Every stage that reads ``relation``, of deferred views too."""
        return list(reading_stages(self._placed.values(), relation))

    def remove(self, view: str) -> None:
        """Forget a view, if it was placed."""
        placed = self._placed.pop(view, None)
        if placed is not None:
            for stage in placed.program.stages:
                placed.runtime.remove(stage)

    def keep(self, views: Collection[str]) -> None:
        """Forget all views but these."""
        for name in self._placed.keys() - set(views):
            self.remove(name)

    def __getitem__(self, view: str) -> PlacedProgram:
        return self._placed[view]

    def fields_of(self, relation: str) -> tuple[Field, ...]:
        """The columns of a stage."""
        for placed in self._placed.values():
            for stage in placed.program.stages:
                if stage.name == relation:
                    return stage.output
        raise KeyError(relation)

    def stored(self, relation: str) -> bool:
        """Whether the rows of a stage must be kept: those of views always, others where a trigger looks them up."""
        return relation in self._placed or relation in self._looked_up()

    def _looked_up(self) -> set[str]:
        return {relation for placed in self._placed.values() for relation in reads_state(placed.program)}

    def runtimes(self, always: Iterable[Runtime]) -> list[Runtime]:
        """Every runtime that takes part in an epoch, once."""
        return list({id(r): r for r in (*always, *(p.runtime for p in self._placed.values()))}.values())

    def announce(
        self,
        changes: Mapping[str, ChangeSet],
        tables: Mapping[str, Table],
        constraints: Constraints,
        runtimes: list[Runtime],
    ) -> None:
        """Tell every runtime what is to come; the first of ``runtimes`` will check tables and enforce constraints."""
        live = [placed for placed in self._placed.values() if not placed.deferred]
        checked = {name: tables[name] for name in changes if tables[name].kept}
        for number, runtime in enumerate(runtimes):
            stages = [stage for placed in live if placed.runtime is runtime for stage in placed.program.stages]
            judged = (checked, constraints) if number == 0 else ({}, Constraints())
            runtime.expect(changes, *judged, stages)

    def walk(
        self,
        changes: Mapping[str, ChangeSet],
        runtimes: list[Runtime],
        *,
        only: frozenset[str] | None = None,
        in_turn: bool = False,
    ) -> Propagation:
        """Carry changes of tables (or, to catch up the views ``only``, of their inputs) to all views that follow them.

        With ``in_turn`` all rows that leave are handled before all that come, table after table. The sum is the same,
        but then no row is ever joined with one that it never stood beside.
        """
        walk = self.start(runtimes, only)
        for relation, change in _deletes_before_inserts(changes) if in_turn else changes.items():
            walk.take(relation, change)
        if only is None:
            walk.stored.update((relation, change) for relation, change in changes.items() if len(change))
        walk.finish()
        return walk

    def start(self, runtimes: list[Runtime], only: frozenset[str] | None = None) -> Propagation:
        """An epoch that changes can be handed to one after the other, until it is finished."""
        late = only or frozenset()
        order = [p for p in self._placed.values() if not p.deferred or p.program.view in late]
        return Propagation(
            self, runtimes, order, order if only is None else [p for p in order if p.program.view in late]
        )


class Propagation:
    """One epoch under way: which changes have come out so far, and which stages have been fired."""

    def __init__(
        self, pipeline: Pipeline, runtimes: list[Runtime], order: list[PlacedProgram], readers: list[PlacedProgram]
    ) -> None:
        self._pipeline = pipeline
        self._runtimes = runtimes
        self._order = order
        self._readers = readers
        self._work = 0
        self._fired: set[str] = set()
        self._seconds: dict[str, float] = defaultdict(float)
        self.stored: dict[str, ChangeSet] = {}

    def take(self, relation: str, change: ChangeSet) -> None:
        """Hand in a change of a table, or of an input of the view that is caught up; what is stored is not noted."""
        self._work += len(change)
        self._handle(relation, change, self._readers)

    def recompute_pending(self, relation: str) -> None:
        """Let every stage that reads ``relation`` be as fresh as if the epoch ended here."""
        for placed, stage in self._reading(relation):
            placed.runtime.recompute_pending(stage)

    def fed(self, relation: str) -> None:
        """Rows of ``relation`` have gone to the stages that read it by a way of their own."""
        for _, stage in self._reading(relation):
            self._fired.add(stage.name)

    def _reading(self, relation: str) -> Iterator[tuple[PlacedProgram, Stage]]:
        return reading_stages(self._readers, relation)

    def finish(self) -> None:
        """Let the changes go through all views, in their order."""
        for placed in self._order:
            self._run(placed)

    def _handle(self, relation: str, change: ChangeSet, readers: Iterable[PlacedProgram]) -> None:
        """Fire every stage that reads ``relation``, then let its contents absorb the change."""
        if not len(change):
            return
        for placed, stage in reading_stages(readers, relation):
            with self._timed(placed):
                placed.runtime.fire(stage, relation, change)
            self._fired.add(stage.name)
        for runtime in self._runtimes:
            runtime.absorb(relation, change)

    def _run(self, placed: PlacedProgram) -> None:
        """Let each fired stage of a view emit, and hand its change on."""
        rows = 0
        touched = False
        for stage in placed.program.stages:
            if stage.name not in self._fired:
                continue
            touched = True
            with self._timed(placed):
                change = placed.runtime.emit(stage)
            rows = len(change)
            self._handle(stage.name, change, self._order)
            if rows and self._pipeline.stored(stage.name):
                self.stored[stage.name] = change
        if touched:
            placed.measured.note(self._seconds[placed.program.view], rows, self._work)

    def _timed(self, placed: PlacedProgram) -> _Timer:
        return _Timer(self._seconds, placed.program.view)


def reading_stages(placed: Iterable[PlacedProgram], relation: str) -> Iterator[tuple[PlacedProgram, Stage]]:
    """The stages that read ``relation``, each with the program that it belongs to."""
    return ((one, stage) for one in placed for stage in one.program.stages if relation in stage.inputs)


def _deletes_before_inserts(changes: Mapping[str, ChangeSet]) -> list[tuple[str, ChangeSet]]:
    """The rows that leave each relation, then the rows that come to each."""
    signed = {relation: change.signed() for relation, change in changes.items()}
    return [(relation, parts[turn]) for turn in (0, 1) for relation, parts in signed.items()]


class _Timer:
    def __init__(self, totals: dict[str, float], view: str) -> None:
        self._totals = totals
        self._view = view

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._totals[self._view] += time.perf_counter() - self._start


def check_tables(
    changes: Mapping[str, ChangeSet], tables: Mapping[str, Table], constraints: Constraints, runtime: Runtime
) -> dict[str, ChangeSet]:
    """Each change summed and found possible, and all of them together found to violate no constraint.

    Streams keep no rows, so there is nothing to check them against but the conditions of their rows.
    """
    possible = {
        name: runtime.check(tables[name], change) if tables[name].kept else change for name, change in changes.items()
    }
    if constraints.touch(possible):
        runtime.check_constraints(possible, constraints)
    return possible
