"""All builds of a warehouse: a thread that drives them slice by slice, in turn, and what users tell it.

A build goes on whenever its warehouse is open for writing. Slices are applied without the lock of the warehouse, which
is only taken for the short commits at the end; between two slices the thread rests, so that others can run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from tidemill.engine.builds.build import Progress, ViewBuild
from tidemill.engine.builds.handover import Handover
from tidemill.engine.builds.place import BuildPlaces
from tidemill.engine.builds.sliceable import require_sliceable
from tidemill.engine.catalog.views.build_entry import BuildEntry
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.workers import CLOSE_SECONDS, Trouble, Worker
from tidemill.model.errors import DataError, EpochGone, SqlError, TidemillError, UnknownName

__all__ = ["BuildStatus", "Builds"]

REST_SECONDS = 0.01
"""Seconds between two slices, in which other threads run."""

POLL_SECONDS = 0.02
"""Seconds between two looks at a build that is waited for."""


@dataclass(frozen=True)
class BuildStatus:
    """Progress of the build of a view.

    ``state`` is filling, catching up, handing over, paused, failed or waiting (for a process that has the warehouse
    open for writing). ``rows`` of ``total`` input rows are taken in, ``rate`` of them in a second; it is ``behind`` by
    so many epochs. ``reason`` is why it has failed, or what it tries again.
    """

    view: str
    state: str
    rows: int = 0
    total: int = 0
    rate: float | None = None
    seconds_left: float | None = None
    behind: int = 0
    reason: str = ""

    @property
    def share(self) -> float:
        """The share of the input rows that are taken in, from 0 to 1."""
        return min(self.rows / self.total, 1.0) if self.total else 0.0

    def __str__(self) -> str:
        """The status in one line.

        >>> str(BuildStatus("v", "filling", 500_000, 2_000_000, 250_000.0, 6.0))
        'v: filling, 500,000 of 2,000,000 rows (25%), 250,000 rows/s, 6 s left'
        """
        told = f"{self.view}: {self.state}"
        if self.total:
            told += f", {self.rows:,} of {self.total:,} rows ({self.share:.0%})"
        if self.rate is not None:
            told += f", {self.rate:,.0f} rows/s"
        if self.state == "filling" and self.seconds_left is not None:
            told += f", {self.seconds_left:.0f} s left"
        if self.behind:
            told += f", {self.behind:,} epochs behind"
        return f"{told}: {self.reason}" if self.reason else told


class RunningBuild:
    """A build with the steps that are left of it."""

    def __init__(self, build: ViewBuild, hand_over: Callable[[ViewBuild], Handover]) -> None:
        self.build = build
        self._hand_over = hand_over
        self._steps = self._all_steps()

    def step(self) -> bool:
        """Do a little; True once the view is in the warehouse."""
        return next(self._steps, None) is None

    def _all_steps(self) -> Iterator[bool]:
        while True:
            for _ in self.build.steps():
                yield True
            with suppress(EpochGone):  # vacuumed meanwhile: the build takes in the difference
                for _ in self._hand_over(self.build).steps():
                    yield True
                return


class Builds:
    """The builds of a warehouse, each with a warehouse of its own in one of the ``places``."""

    def __init__(self, state: EngineState, epochs: EpochCommitter, settled: Settled, places: BuildPlaces) -> None:
        self._state = state
        self._epochs = epochs
        self._settled = settled
        self._places = places
        self._lock = threading.RLock()
        self._running: dict[str, RunningBuild] = {}
        self._worker: Worker | None = None
        self._closed = False

    # -- what users ask for -------------------------------------------------------------------------------------

    def start(self, view: View) -> None:
        """Begin to build a view."""
        require_sliceable(self._state.catalog, view)
        with self._lock, self._settled():
            self._state.require_writable()
            self._places.of(view.name).remove()  # of an earlier build whose process ended when it was cancelled
            with self._epochs.changing_catalog() as catalog:
                catalog.add_build(BuildEntry(view))
                self._epochs.commit_catalog()
        self.wake()

    def pause(self, name: str) -> None:
        """Pause a build until it is resumed, also if the warehouse is opened again."""
        self._update(name, lambda entry: replace(entry, paused=True))

    def resume(self, name: str) -> None:
        """Resume a build that was paused or has failed."""
        self._update(name, lambda entry: replace(entry, paused=False, failure=""))
        self.wake()

    def cancel(self, name: str) -> None:
        """Give up a build: nothing of the view is left."""
        self._update(name, lambda entry: None)
        with self._lock:
            self._places.of(name.lower()).remove()

    def statuses(self) -> list[BuildStatus]:
        """Progress of all builds, in the order in which they were begun."""
        trouble = None if self._worker is None else self._worker.trouble
        return [self._status(entry, trouble) for entry in self._state.catalog.builds.values()]

    def wait(
        self, name: str, timeout: float | None = None, tell: Callable[[BuildStatus], object] | None = None
    ) -> bool:
        """Wait until a view is built, or its build is paused or fails; True if it is built.

        ``tell`` is called with the status now and then.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (entry := self._state.catalog.builds.get(name)) is not None and entry.goes_on:
            if not self._state.read_only:
                self.wake()
            if tell is not None:
                tell(self._status(entry, None))
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(POLL_SECONDS)
        if entry is not None and entry.failure:
            raise entry.not_readable()
        with self._lock:  # the thread that has built it also commits it and tidies up
            return name not in self._state.catalog.builds

    def go_on(self) -> None:
        """Go on with the builds of a warehouse that was just opened for writing."""
        self._places.keep(self._state.catalog.builds)
        self.wake()

    def wake(self) -> None:
        """Drive the builds that are to go on, if this process may write."""
        with self._lock:
            due = any(entry.goes_on for entry in self._state.catalog.builds.values())
            if due and self._worker is None and not (self._closed or self._state.read_only):
                self._worker = Worker("builds", self._turn, REST_SECONDS)

    def close(self) -> None:
        """Stop between two slices; builds go on when the warehouse is next opened."""
        self._closed = True
        worker = self._worker
        if worker is not None:
            worker.end()
            worker.join(CLOSE_SECONDS)
        with self._lock:
            for name in list(self._running):
                self._stop(name)

    # -- the thread ---------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """One step of every build that goes on; the thread ends when there is none."""
        for name, entry in list(self._state.catalog.builds.items()):
            if entry.goes_on and not self._closed:
                self._step(name)
        with self._lock:
            if not any(entry.goes_on for entry in self._state.catalog.builds.values()) and self._worker is not None:
                self._worker.end()
                self._worker = None

    def _step(self, name: str) -> None:
        """One step of a build. What is wrong with its rows stops it; all else is tried again from its last slice."""
        with self._lock:
            entry = self._state.catalog.builds.get(name)
            if entry is None or not entry.goes_on or self._closed:
                return
            try:
                if self._begun(entry).step():
                    self._stop(name, keep=False)
                    self._places.of(name).remove()
            except (DataError, SqlError) as error:
                self._fail(name, error)
            except BaseException:
                self._stop(name)
                raise

    def _begun(self, entry: BuildEntry) -> RunningBuild:
        name = entry.view.name
        if name not in self._running:
            build = ViewBuild(entry.view, self._state, self._places.of(name))
            self._running[name] = RunningBuild(build, self._hand_over)
        return self._running[name]

    def _hand_over(self, build: ViewBuild) -> Handover:
        return Handover(build, self._state, self._epochs, self._settled)

    def _fail(self, name: str, error: TidemillError) -> None:
        self._update(name, lambda entry: replace(entry, failure=error.render().removeprefix("error: ")))

    def _stop(self, name: str, *, keep: bool = True) -> None:
        """Close the warehouse of a build, which stays as it is, or is to be deleted if nothing is to be kept."""
        running = self._running.pop(name, None)
        if running is not None:
            running.build.close(keep=keep)

    def _update(self, name: str, change: Callable[[BuildEntry], BuildEntry | None]) -> None:
        """Commit what has become of a build; one that begins again starts from its last slice.

        What it has taken in is written to files before writers wait for the commit.
        """
        with self._lock:
            self._state.require_writable()
            entry = self._entry(name)
            rows, total = self._taken(entry)
            self._stop(entry.view.name, keep=change(entry) is not None)
            self._change_entry(name, lambda entry: change(replace(entry, rows=rows, total=total)))

    def _change_entry(self, name: str, change: Callable[[BuildEntry], BuildEntry | None]) -> None:
        with self._settled():
            self._state.require_writable()
            entry = self._entry(name)
            with self._epochs.changing_catalog() as catalog:
                catalog.builds.pop(entry.view.name)
                changed = change(entry)
                if changed is not None:
                    catalog.builds[entry.view.name] = changed
                begun = tuple(filter(self._state.store.rows, entry.view.map_names)) if changed is None else ()
                self._epochs.commit_catalog(dropped=begun)

    def _entry(self, name: str) -> BuildEntry:
        builds = self._state.catalog.builds
        if name.lower() not in builds:
            known = ", ".join(builds) or "none"
            raise UnknownName(f'there is no build of a view "{name}"', hint=f"Builds: {known}.")
        return builds[name.lower()]

    def _taken(self, entry: BuildEntry) -> tuple[int, int]:
        """The rows that a build has taken in, as far as this process or the catalog knows, and of how many."""
        running = self._running.get(entry.view.name)
        if running is not None and running.build.progress.total:
            return running.build.progress.rows, running.build.progress.total
        return entry.rows, entry.total or sum(map(self._state.store.rows, entry.view.inputs))

    def _status(self, entry: BuildEntry, trouble: Trouble | None) -> BuildStatus:
        name = entry.view.name
        running = self._running.get(name)
        progress = Progress() if running is None else running.build.progress
        if entry.failure or entry.paused:
            state = "failed" if entry.failure else "paused"
            return BuildStatus(name, state, entry.rows, entry.total, reason=entry.failure)
        if running is None:
            return BuildStatus(name, "waiting", reason="" if trouble is None else str(trouble))
        return BuildStatus(
            name,
            progress.phase,
            progress.rows,
            progress.total,
            progress.rate,
            progress.seconds_left,
            progress.behind,
        )
