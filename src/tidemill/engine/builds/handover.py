"""The state of a built view, taken over by the warehouse: its maps first, then the view itself in one short commit.

The maps of the build are written to files as of an epoch that it shows, and each file is committed by itself, under
names that nobody reads yet. Epochs that come meanwhile are taken in one by one, and their changes of the maps are kept
with their numbers. The last of them, and the catalog with the view, are one commit, for which writers wait. So the view
has exact contents as of every epoch from the first one on, and a process that ends before leaves a build.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.builds.build import NEAR, SLICE_SECONDS, ViewBuild
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import Unsupported
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.program.maps import Map, map_fields
from tidemill.storage.compaction.consolidate import consolidate
from tidemill.storage.filesystem.durable_files import fault
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.runs import write_table
from tidemill.storage.segments import with_epoch

__all__ = ["Handover"]

FILE_ROWS = 1 << 18
"""Most rows of a file: committing one takes a few hundredths of a second."""

PATIENT_ROUNDS = 100
"""Rounds in which a build tries to reach the present while others write; then writers wait now and then."""

HELD_SECONDS = 0.05
"""Longest time for which writers wait at once, so that a build can reach the present however fast they are."""

BREATH_SECONDS = 0.002
"""Seconds between two such times, in which those who wait go on."""

LAST_EPOCHS, LAST_ROWS = 6, 2_000
"""Most epochs, and rows of them, that the last commit takes in."""


@dataclass
class Handover:
    """A built view on its way into the warehouse."""

    build: ViewBuild
    main: EngineState
    epochs: EpochCommitter
    settled: Settled

    def __post_init__(self) -> None:
        self._base: dict[str, pa.Table] = {}
        self._tail: dict[str, list[pa.Table]] = {}

    def steps(self) -> Iterator[None]:
        """Store the maps, take in what comes meanwhile, and swap the view in."""
        build = self.build
        build.progress.phase = "handing over"
        first = build.shown
        assert first is not None
        self._first = first
        build.engine.state.may_recompute = False  # a map that is replaced has no change to keep
        yield from self._store_maps(first)
        while not self._finish():
            yield from self._approach()

    def _approach(self) -> Iterator[None]:
        """Take in epochs until few are left, at first while others write."""
        for number in count():
            self.build.progress.behind = self.main.store.epoch - self._shown
            if self.build.progress.behind <= NEAR:
                return
            if number < PATIENT_ROUNDS:
                self._take_in_some(SLICE_SECONDS)
            else:
                with self.settled():
                    self._take_in_some(HELD_SECONDS)
                time.sleep(BREATH_SECONDS)
            yield

    def _take_in_some(self, seconds: float) -> None:
        """Take in epochs for about so long, and one at least."""
        until = time.perf_counter() + seconds
        while self._shown < self.main.store.epoch:
            self._take_in_next()
            if time.perf_counter() > until:
                return

    def _finish(self) -> bool:
        """Swap the view in, with the last epochs, unless these are so many that writers would wait for long."""
        name = self.build.view.name
        with self.settled():
            self.main.require_writable()
            self._require_unchanged()
            self.build.require_same_views()
            last = self.main.store.epoch
            if last - self._shown > LAST_EPOCHS or self.build.rows_between(self._shown, last) > LAST_ROWS:
                return False
            while self._shown < self.main.store.epoch:
                self._take_in_next()
            fault("build-before-swap")
            with self.epochs.changing_catalog() as catalog:
                now = self.main.store.epoch
                del catalog.builds[name]
                view = replace(self.build.view, created=now if self._in_memory else self._first, fresh=now)
                catalog.add(view)
                self.main.place(view)
                epoch = Epoch(now, self._last_changes(), catalog=catalog_to_json(catalog))
                self.epochs.commit(epoch, refreshed=(name,))()
            fault("build-swapped")
        return True

    @property
    def _shown(self) -> int:
        shown = self.build.shown
        assert shown is not None
        return shown

    @property
    def _in_memory(self) -> bool:
        return isinstance(self.main.store, MemoryStore)

    def _require_unchanged(self) -> None:
        """Refuse a view that would be another one now."""
        if self.main.catalog.builds[self.build.view.name].view.relation != self.build.view.relation:
            raise Unsupported(f'view "{self.build.view.name}" was altered while it was built')

    # -- what is stored -----------------------------------------------------------------------------------------

    def _maps(self) -> dict[str, Map]:
        """The maps of the view in the build, by name."""
        maps = self.build.engine.catalog.maps()
        return {name: maps[name] for name in self.build.view.map_names}

    def _store_maps(self, epoch: int) -> Iterator[None]:
        """Commit the contents of the maps, file by file."""
        store = self.main.store
        with self.settled():
            begun = tuple(filter(store.rows, self.build.view.map_names))
            if begun:  # by a process that ended before the view was complete
                self.epochs.commit(Epoch(store.epoch, dropped=begun))()
        yield
        for name, map_ in self._maps().items():
            rows = self._summed(map_)
            yield
            if self._in_memory:
                self._base[name] = rows
                continue
            for start in range(0, rows.num_rows, FILE_ROWS):
                file = self._write(name, with_epoch(rows.slice(start, FILE_ROWS), epoch), f"{start}")
                yield
                with self.settled():
                    self.epochs.commit(Epoch(store.epoch, {name: file}))()
                fault("build-stored")
                yield

    def _summed(self, map_: Map) -> pa.Table:
        """The contents of a map in the build, with weights."""
        store, fields = self.build.engine.store, map_fields(map_)
        rows = store.read(map_.name, fields)
        names = [*(f.name for f in fields), WEIGHT]
        parts = consolidate(rows, map_, store.epoch, whole=True) if rows.num_rows else []
        return pa.concat_tables([rows.schema.empty_table(), *(part for part, *_ in parts)]).select(names)

    def _take_in_next(self) -> None:
        """Take in one epoch, and keep the changes of the maps with its number."""
        store, epoch = self.build.engine.store, self._shown + 1
        before = store.epoch
        self.build.take_in(epoch - 1, epoch)
        for name, map_ in self._maps().items():
            fields = map_fields(map_)
            rows = store.read(name, fields, since=before).select([*(f.name for f in fields), WEIGHT])
            if rows.num_rows:
                self._tail.setdefault(name, []).append(with_epoch(rows, epoch))

    def _last_changes(self) -> Mapping[str, ChangeSet]:
        """The changes of the maps that are not stored yet; in memory these are all of them."""
        found = {}
        for name, map_ in self._maps().items():
            parts = self._tail.get(name, [])
            if self._in_memory:
                rows = pa.concat_tables([self._base[name], *(part.drop_columns([EPOCH]) for part in parts)])
                found[name] = ChangeSet.of_arrow(rows, map_fields(map_))
            elif parts:
                found[name] = self._write(name, pa.concat_tables(parts), "tail")
        return found

    def _write(self, name: str, rows: pa.Table, part: str) -> ChangeSet:
        """Rows of a map, with their epochs, in a file that the store adopts."""
        folder: Path = self.main.store.temporary_folder() / f"build-{self.build.view.name}"
        folder.mkdir(exist_ok=True)
        file = folder / f"{self.build.view.map_names.index(name)}-{part}.parquet"
        write_table(rows, file)
        return ChangeSet.of_files([file], map_fields(self._maps()[name]), rows.num_rows)
