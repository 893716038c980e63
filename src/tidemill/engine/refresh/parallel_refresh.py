"""Independent late views refreshed at the same time, each in a process of its own, and committed as one epoch.

Views are independent if no change of one reaches what a change of another one reaches: neither reads the other, they
share no stage, and no view that follows every epoch reads both. A forked process has the state of its views and
computes their changes; this process commits the changes of all, as if another runtime had computed the epoch. What it
holds of these views itself catches up from the store before they are refreshed again. That is work which is not shared
out, a microsecond or two for each changed entry, and a process takes some hundredths of a second to fork. So it is done
for views that run as generated Python, if at least two of them are known to take longer than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.pipeline import PlacedProgram
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.refresh.forked_jobs import most_processes, results_of
from tidemill.engine.telemetry.epoch_work import EpochWork, ViewWork
from tidemill.model.types import Field
from tidemill.runtimes.garbage_collection import garbage_collection_paused

__all__ = ["ParallelRefresh", "RefreshJob", "is_worth_a_process"]

LEAST_SECONDS = 0.2
"""Predicted seconds of a refresh from which a view is worth a process of its own."""

COUNTED = ("rows_in", "rows_out", "lookups", "triggers", "output")
"""Names of the measures of the work for a view."""

StoredChanges = list[tuple[str, tuple[Field, ...], pa.Table]]
Measured = Mapping[str, float]

Run = Callable[[int, Mapping[str, ChangeSet], frozenset[str]], dict[str, ChangeSet]]
"""Propagates changes of inputs to late views, as the epoch of a number; returns what the epoch stores."""

Idle = Callable[[frozenset[str], Mapping[str, ChangeSet]], Iterable[View]]
"""Gives the other late views that are up to date after a refresh of some, which stores changes."""


@dataclass(frozen=True)
class RefreshJob:
    """Late views that are refreshed together, what is reached by their changes, and the changes of their inputs."""

    views: tuple[View, ...]
    programs: tuple[PlacedProgram, ...]
    pending: Mapping[str, ChangeSet]

    @property
    def names(self) -> frozenset[str]:
        """The names of the views."""
        return frozenset(view.name for view in self.views)

    @property
    def rows(self) -> int:
        """The number of changed rows of the inputs."""
        return sum(change.rows for change in self.pending.values())

    @property
    def seconds(self) -> float:
        """The time that it takes by what earlier refreshes took."""
        return 1e-6 * self.rows * sum(placed.measured.microseconds_per_row or 0.0 for placed in self.programs)


def is_worth_a_process(placed: PlacedProgram | None) -> bool:
    """True if the last refresh of a view took long, and a forked process can do the next one."""
    if placed is None or not _takes_long(placed):
        return False
    return all(placed.runtime.prepare(stage, 0) for stage in placed.program.stages)


def _takes_long(placed: PlacedProgram) -> bool:
    return placed.measured.last_seconds >= LEAST_SECONDS


def _is_traced(programs: Sequence[PlacedProgram]) -> bool:
    """True if a view has lineage: the base rows that it reads are counted in this process."""
    return any(stage.strategy == "lineage" for placed in programs for stage in placed.program.stages)


class ParallelRefresh:
    """Refreshes independent late views in processes; the caller holds the lock of the warehouse."""

    def __init__(self, state: EngineState, epochs: EpochCommitter, run: Run) -> None:
        self._state = state
        self._epochs = epochs
        self._run = run

    @property
    def is_possible(self) -> bool:
        """True if processes can be forked, and nothing is set that one of them would not know of the others."""
        state = self._state
        return (
            not self._epochs.is_joint
            and not state.catalog.guarded
            and state.budget.limit is None
            and state.store.undisturbed() is not None
            and most_processes() > 1
        )

    def jobs(self, groups: Sequence[Sequence[View]], since: Callable[[str, int], ChangeSet]) -> list[RefreshJob]:
        """The jobs of independent views into which groups of views in step fall; none if they are not worth it.

        ``since`` gives the changes of a relation after an epoch.
        """
        late = {view.name for group in groups for view in group}
        parts = [part for group in groups for part in self._independent(group, late)]
        reached = [placed.program.view for _, programs in parts for placed in programs]
        if len(reached) > len(set(reached)):  # by views that have seen different epochs
            return []
        parts = [part for part in parts if any(map(_takes_long, part[1])) and not _is_traced(part[1])]
        if len(parts) < 2:
            return []
        read = dict[tuple[str, int], ChangeSet]()
        jobs = []
        for views, programs in parts:
            pending = {}
            for name in dict.fromkeys(name for view in views for name in view.inputs):
                place = name, views[0].fresh
                if place not in read:
                    read[place] = since(*place)
                pending[name] = read[place]
            jobs.append(RefreshJob(tuple(views), tuple(programs), pending))
        jobs = [job for job in jobs if job.seconds >= LEAST_SECONDS]
        if len({self._state.placement.work_class(job.rows) for job in jobs}) != 1:
            return []
        self._state.take_part(jobs[0].rows)
        jobs = [job for job in jobs if all(self._prepare(job, placed) for placed in job.programs)]
        return jobs if len(jobs) > 1 else []

    def _prepare(self, job: RefreshJob, placed: PlacedProgram) -> bool:
        """Bring the state of a view up to date in this process, so that a forked one has it; false if none can."""
        stages, rows = placed.program.stages, {name: change.rows for name, change in job.pending.items()}
        return all(placed.runtime.prepare(stage, sum(rows.get(name, 0) for name in stage.inputs)) for stage in stages)

    def _independent(self, group: Sequence[View], late: set[str]) -> list[tuple[list[View], list[PlacedProgram]]]:
        """A group of views in step as independent parts, each with the programs that its changes reach, in order."""
        parts: list[tuple[list[View], dict[str, PlacedProgram]]] = []
        for view in group:
            views, programs = [view], self._reached(view, late)
            for part in [part for part in parts if not part[1].keys().isdisjoint(programs)]:
                parts.remove(part)
                views, programs = [*part[0], *views], part[1] | programs
            parts.append((views, programs))
        order = {placed.program.view: place for place, placed in enumerate(self._state.pipeline.index.order)}
        return [
            (views, [programs[name] for name in sorted(programs, key=order.__getitem__)]) for views, programs in parts
        ]

    def _reached(self, view: View, late: set[str]) -> dict[str, PlacedProgram]:
        """The program of a view, and those that its changes reach in the same epoch."""
        pipeline = self._state.pipeline
        found = {view.name: pipeline[view.name]}
        waiting = list(found.values())
        while waiting:
            for stage in waiting.pop().program.stages:
                for _, placed, _ in pipeline.readers(stage.name):
                    name = placed.program.view
                    if name not in found and (not placed.deferred or name in late):
                        found[name] = placed
                        waiting.append(placed)
        return found

    def refresh(self, jobs: Sequence[RefreshJob], idle: Idle) -> frozenset[str]:
        """Refresh the views of jobs as one epoch; returns their names, none if a process failed and nothing changed."""
        state, started = self._state, time.perf_counter()
        number = self._epochs.next_number
        with garbage_collection_paused():
            work = [partial(self._compute, number, job) for job in jobs]
            found = results_of(work, max(2, most_processes()), state.store.undisturbed())
        if found is None:
            return frozenset()
        stored = {name: ChangeSet.of_arrow(table, fields) for changes, _ in found for name, fields, table in changes}
        names = frozenset[str]().union(*(job.names for job in jobs))
        with self._epochs.changing_catalog():
            state.miss_epoch(placed for job in jobs for placed in job.programs)
            for view in (*(view for job in jobs for view in job.views), *idle(names, stored)):
                state.catalog.update_view(replace(view, fresh=number))
            self._epochs.computed(self._work(jobs, [measured for _, measured in found], started))
            epoch = Epoch(number, stored, catalog=catalog_to_json(state.catalog))
            durable = self._epochs.commit(epoch, refreshed=names)
        durable()
        return names

    def _compute(self, number: int, job: RefreshJob) -> tuple[StoredChanges, Mapping[str, Measured]]:
        """The changes that the epoch stores of a job, and the measures of its views; in a process of its own."""
        changes = self._run(number, job.pending, job.names)
        views = self._epochs.work.views
        measured = {view: {name: getattr(work, name) for name in COUNTED} for view, work in views.items()}
        return [(name, change.fields, change.arrow()) for name, change in changes.items()], measured

    def _work(
        self, jobs: Sequence[RefreshJob], measured: Sequence[Mapping[str, Measured]], started: float
    ) -> EpochWork:
        """The work of the epoch, as the processes have measured it."""
        done, pipeline = EpochWork(), self._state.pipeline
        done.views, done.owners, done.started, done.checked = {}, pipeline.index.owners, started, started
        done.rows = sum(job.rows for job in jobs)
        way = f"in a process of its own, beside {len(jobs) - 1} more"
        for job, views in zip(jobs, measured, strict=True):
            for name, counts in views.items():
                work = done.views[name] = ViewWork()
                vars(work).update(counts)
                work.placed = placed = pipeline[name]
                placed.measured.note(work.triggers + work.output, work.rows_out, job.rows)
        done.ways = dict.fromkeys(done.views, way)
        done.propagated = time.perf_counter()
        return done
