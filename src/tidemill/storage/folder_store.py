"""A store in a folder: epochs on disk, one atomic commit for all maps. ``commits/layout.py`` draws it."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from threading import RLock
from types import TracebackType
from typing import Self

import pyarrow as pa

from tidemill.changes.changeset import Epoch
from tidemill.model.errors import StorageError
from tidemill.model.types import Field
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.maps import Map
from tidemill.storage.change_counts import ChangeCounts
from tidemill.storage.commits.format import migrate, read_format, require_current, require_warehouse
from tidemill.storage.commits.layout import CommittedState, Layout, last_token, log_is_ended, recover, recover_to_write
from tidemill.storage.commits.position_history import positions_by_epoch, positions_since
from tidemill.storage.compaction.consolidate import choose_runs
from tidemill.storage.compaction.expired_rows import expire_map_rows
from tidemill.storage.compaction.run_merge import RunMerge, merge_map, rewrite_altered, trim_runs
from tidemill.storage.compaction.vacuum import (
    Inspection,
    absorbed_logs,
    delete_unnamed_runs,
    inspect_files,
    vacuum_files,
)
from tidemill.storage.filesystem.checksums import UNREAD_HINT
from tidemill.storage.filesystem.durable_files import TemporaryFolder, fault, is_disk_full, translate_os_errors
from tidemill.storage.filesystem.file_system import Access, FilePath, system_of
from tidemill.storage.folder_commits import FolderCommits, durable_already
from tidemill.storage.folder_writer import FolderWriter, goes_to_log, map_id, require_durability
from tidemill.storage.mapped.run_lookups import RunLookups, delete_unnamed
from tidemill.storage.row_group_cache import RowGroupCache
from tidemill.storage.scans.temporary_runs import TemporaryRuns
from tidemill.storage.segments import check_epoch_number, check_readable, is_visible_at
from tidemill.storage.shared_staging import SharedStaging
from tidemill.storage.snapshot import StoreSnapshot, require_not_lost
from tidemill.storage.store import ColumnValues, RunFile, StoreTraffic

VACUUM_HINT = "Fix the folder's rights and vacuum again."


class FolderStore:
    """Named maps of weighted rows in a folder, with an epoch each; created by ``FolderStore.open``.

    Readers in this process are isolated by ``pin``, which keeps the files of their epoch. A reader in another process
    sees the epoch it opened until a ``vacuum`` deletes its files (``vacuumed_files.py``); then it may ``refresh``.
    """

    def __init__(
        self, layout: Layout, now: CommittedState, writer: FolderWriter | None, cache: RowGroupCache | None = None
    ) -> None:
        self._layout = layout
        self._commits = FolderCommits(layout, now, writer)
        self._lock = self._commits.lock
        self._merging = RLock()
        self._staged: list[Path] = []
        self._spent: list[Path] = []
        self._temporary_runs = TemporaryRuns()
        self._temporary: TemporaryFolder | None = None
        self._lookups = RunLookups(layout.root, cache)
        self._forgotten: dict[str, ExpiredEntries] = {}
        self.traffic = self._lookups.traffic = StoreTraffic() if writer is None else writer.traffic

    @classmethod
    def open(
        cls,
        path: str | FilePath,
        *,
        create: bool = True,
        read_only: bool = False,
        durability: str = "epoch",
        cached_bytes: int = 0,
    ) -> FolderStore:
        """Open the warehouse in a folder, or create one; ``LockHeld`` if another process writes to it.

        Reading needs no lock. Opening for writing checkpoints the log and deletes what a crash left behind. Of what
        lookups read, up to ``cached_bytes`` are kept for later ones.
        """
        layout = Layout(Path(path).resolve() if isinstance(path, str | Path) else path)
        require_durability(durability, layout.root)
        with translate_os_errors("open the warehouse", layout.root, "Look at the folder and its rights."):
            layout.refuse_links()
            require_warehouse(layout.root, create=create and not read_only)
            cache = RowGroupCache(cached_bytes) if cached_bytes else None
            if not read_only:
                return cls._open_to_write(layout, cache, synced=durability == "epoch")
            require_current(layout.root)
            return cls(layout, recover(layout), None, cache)

    @classmethod
    def _open_to_write(cls, layout: Layout, cache: RowGroupCache | None, *, synced: bool) -> FolderStore:
        read_format(layout.root)
        lock = system_of(layout.root).lock(layout.root, partial(last_token, layout))
        try:
            migrate(layout.root)
            layout.create()
            now = recover_to_write(layout)
            writer = FolderWriter(layout, lock, now, synced=synced)
            store = cls(layout, now, writer, cache)
            store._spent = list(layout.staging.iterdir())
            store._take_over(writer)
            return store
        except BaseException:
            lock.release()
            raise

    def _take_over(self, writer: FolderWriter) -> None:
        """Checkpoint the log, and delete what a crash left behind.

        On a full disk both are deferred: the warehouse can be read and vacuumed, but commits nothing until then.
        """
        try:
            self._make_durable()
            self.checkpoint()
        except StorageError as refused:
            if not is_disk_full(refused):
                raise
            kept = f"the change log of {self._layout.root} waits for room on the disk: vacuum, or delete something"
            warnings.warn(kept, RuntimeWarning, stacklevel=5)
        else:
            writer.acknowledge(self._now.state)
            self._clear()

    def _make_durable(self) -> None:
        """Write the newest manifest again if the log before it still exists: its sync may have failed, and that log
        must not be deleted before the manifest is durable. Also if its log was ended, so that a new one begins."""
        writer, state = self._commits.require_writer(), self._now.state
        if absorbed_logs(self._layout, state) or log_is_ended(self._layout, state):
            self._commits.publish(writer.next(self._now), whole=True)

    @property
    def _now(self) -> CommittedState:
        return self._commits.now

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 before the first."""
        return self._commits.now.epoch

    @property
    def oldest(self) -> int:
        """The oldest epoch that time travel still reaches."""
        return self._now.state.oldest

    @property
    def catalog(self) -> Mapping[str, object]:
        """The committed catalog; empty in a new warehouse."""
        return self._now.state.catalog

    @property
    def positions(self) -> Mapping[str, str]:
        """The position of each source at the last epoch."""
        return self._commits.now.positions

    def pin(self) -> StoreSnapshot:
        """A snapshot of the current epoch. Until it is closed, no file referenced meanwhile is deleted."""
        with self._lock:
            self._commits.require_sound()
            parts = partial(self._now.parts, self._layout.maps, lookups=self._lookups)
            return self._commits.snapshot(parts, self._unpin)

    def _unpin(self, snapshot: StoreSnapshot) -> None:
        with self._lock:
            self._commits.snapshots.discard(snapshot)

    def read(
        self,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None = None,
        since: int | None = None,
        where: ColumnValues | None = None,
    ) -> pa.Table:
        """Rows of map ``name`` of epochs in ``(since, until]``: ``fields``, ``_weight``, ``_epoch``; not summed."""
        with self.pin() as snapshot:
            return snapshot.read(name, fields, until=until, since=since, where=where)

    def runs(self, name: str, *, until: int | None = None) -> tuple[RunFile, ...]:
        """The run files of the map. Epochs in the log are written to files first.

        A run may also have rows of epochs after ``until``: compare its ``last_epoch``, and filter by ``_epoch``.
        """
        with self._merging if self._now.state.alterations.get(name) else nullcontext(), self._lock:
            self._commits.require_sound()
            bound = check_readable(self.oldest, self.epoch, None, until)
            require_not_lost(self._now.state.losses, name, None, bound)
            spilled = self._spilled(name, bound) if self._now.tail.count(name) else []
            if self._now.state.alterations.get(name):
                self._rewrite_altered(name, bound)
            parts = self._now.parts(self._layout.maps, name, self._lookups)
            with self._commits.reading(self._now):
                return (*(self._temporary_runs.present(part) for part in parts if is_visible_at(part, bound)), *spilled)

    def _rewrite_altered(self, name: str, until: int) -> None:
        """Rewrite the runs of a map that lack its present columns, for runtimes that read files themselves."""
        writer = self._commits.writer
        if writer is not None and not writer.forked:
            with self._merged(), translate_os_errors("rewrite runs", self._layout.maps):
                rewritten = rewrite_altered(self._layout.maps, writer, self._now, name, until)
                self._install(writer, [rewritten] if rewritten.before else [])

    def _spilled(self, name: str, until: int) -> list[RunFile]:
        """Temporary file with the map's rows from the log, since a reader may not checkpoint; a writer does, and needs
        none."""
        writer = self._commits.writer
        if writer is not None and not writer.forked:
            self.checkpoint()
            return []
        part = self._now.tail.part(name, until=until)
        return [] if part is None else [self._temporary_runs.write(part.table, part.first, part.last)]

    def rows(self, name: str) -> int:
        """Number of stored rows of the map before summing: an upper bound of its size."""
        now = self._now
        return sum(run.rows for run in now.state.runs.get(name, ()) if run.ended is None) + now.tail.rows(name)

    def counts(self, name: str) -> ChangeCounts:
        """The rows that epochs have inserted, updated and deleted in the map, those of the log included."""
        now = self._now
        return now.state.counts_of(name) + now.tail.counts(name)

    def bytes(self, name: str) -> int:
        """Bytes of the map's files, with what lookups have derived from them, and of its changes in the log."""
        now = self._now
        waiting = now.tail.part(name)
        runs = [run for run in now.state.runs.get(name, ()) if run.ended is None]
        files = sum(run.bytes + self._lookups.bytes(run.file, run.checksum) for run in runs)
        return files + (0 if waiting is None else waiting.table.nbytes)

    def refresh(self) -> bool:
        """Advance a read-only store to the last commit; True if there was a new one. Lists two folders."""
        with self._lock, translate_os_errors("read the warehouse", self._layout.root, UNREAD_HINT):
            return self._commits.refresh()

    # -- writing ------------------------------------------------------------------------------------------------

    def staging(self, name: str) -> Path:
        """A new empty folder for Parquet files that become part of map ``name`` when an epoch commits them.

        Each file has the map's fields and ``_weight``, and may have ``_epoch``, the number of the next epoch; without
        it the commit rewrites the file. The files stay until the next ``compact`` or ``vacuum``, so the change can
        still be read after its commit.
        """
        with self._lock:
            self._commits.require_writer()
            folder = Path(mkdtemp(prefix=f"{map_id(name, self._now.state.ids)}-", dir=self._layout.staging))
            self._staged.append(folder)
            return folder

    def shared_staging(self, name: str) -> SharedStaging | None:
        """The place where tasks on other machines put files for map ``name``; None if they need the same disk."""
        with self._lock:
            writer = self._commits.require_writer()
            if self.access() is None:
                return None
            return SharedStaging(self._layout.maps, map_id(name, self._now.state.ids), writer.token)

    def access(self) -> Access | None:
        """Access for tasks on other machines, to read and write files; None if they need the same disk."""
        return system_of(self._layout.root).access()

    def temporary_folder(self) -> Path:
        """A folder for temporary files of queries, in the warehouse if this process may write there."""
        with self._lock:
            if self._temporary is None:
                writer = self._commits.writer
                writes = writer is not None and not writer.forked
                self._temporary = TemporaryFolder(self._layout.staging if writes else None)
            return self._temporary.path

    def published_folder(self) -> Path:
        """A folder for what is derived from published tables."""
        return self._layout.published

    def commit(self, epoch: Epoch) -> None:
        """Make the epoch durable and visible, or leave everything as it was."""
        self.append(epoch)()

    def append(self, epoch: Epoch) -> Callable[[], None]:
        """Make the epoch visible in this process; the returned function waits until it is durable.

        Callers that append one after the other and then wait together share one fsync.
        """
        with self._lock:
            writer, now = self._commits.require_writer(), self._commits.now
            check_epoch_number(epoch.number, now.epoch)
            if now.tail.epochs and not writer.logs:
                self.checkpoint()  # the previous writer's log must be in a manifest before a new log is started
                now = self._commits.now
            if goes_to_log(epoch, now.epoch):
                durable = self._commits.advance(f"commit epoch {epoch.number}", partial(writer.append, now, epoch))
                if writer.full(self._commits.now):
                    self._tidy(self.checkpoint)
                return partial(self._commits.wait, epoch.number, durable)
            if epoch.renamed or epoch.altered.keys() & epoch.changes.keys():
                # Epochs in the log belong to the maps as they were before: they must be in runs first.
                self.checkpoint()
            self._commits.advance(f"commit epoch {epoch.number}", lambda: (writer.commit(self._now, epoch), None))
            self._spent, self._staged = [*self._spent, *self._staged], []
            for name in (*epoch.dropped, *epoch.replaced):
                self._forgotten.pop(name, None)  # the name now denotes a different map
            self._tidy(self._forget)
            return durable_already

    def undisturbed(self) -> AbstractContextManager[object] | None:
        """Context in which no other thread holds the lock that reading takes; None in object storage."""
        return self._lock if isinstance(self._layout.root, Path) else None

    @contextmanager
    def joint(self) -> Iterator[None]:
        """Context in which the commits of this thread are seen by it alone, and become one at its end."""
        with self._merging:  # runs that are merged meanwhile would be those of two states
            self.checkpoint()
            with self._commits.joint():
                yield
        self._tidy(self._forget)

    def _tidy(self, work: Callable[[], None]) -> None:
        """Do maintenance after a commit. The commit is durable already, so an error is only a warning; it is
        retried."""
        try:
            work()
        except StorageError as trouble:
            warnings.warn(f"the change log could not be taken into files: {trouble}", RuntimeWarning, stacklevel=4)

    def recover(self) -> None:
        """Return to the state in the folder after an exception has interrupted a commit."""
        self._commits.recover()

    def checkpoint(self) -> None:
        """Write the epochs in the log as runs, one for each map, and commit them by one manifest."""
        with self._lock:
            writer = self._commits.require_writer()
            if self._now.tail.epochs:
                self._commits.publish(writer.next(self._now))
            self._forget()

    def compaction_due(self, name: str, most: int | None = None) -> bool:
        """True if merging runs of the map, of up to ``most`` rows together, would pay."""
        return bool(choose_runs(self._now.state.runs.get(name, ()), self.oldest, most))

    def compact(self, maps: Mapping[str, Map], most: int | None = None) -> int:
        """Merge runs where it pays; returns the bytes by which the maps become smaller. Old files stay until
        ``vacuum``.

        Runs are immutable, so epochs can be committed while they are merged; only the last step excludes them.
        """
        with self._merging, self._merged() as writer:
            with self.pin(), translate_os_errors("compact", self._layout.maps):
                folder, now = self._layout.maps, self._now
                merges = [merge_map(folder, writer, now, map_, name, most) for name, map_ in maps.items()]
            fault("during-compaction")
            with self._lock:
                return self._install(writer, [m for m in merges if m is not None and m.holds(self._now.state)])

    @contextmanager
    def _merged(self) -> Iterator[FolderWriter]:
        """The writer, for runs that replace others; those that no manifest references in the end are deleted."""
        writer = self._commits.require_writer()
        try:
            yield writer
        finally:
            with self._lock:
                if self._commits.is_sure:
                    writer.discard_merged(self._now)

    def _install(self, writer: FolderWriter, merges: Sequence[RunMerge]) -> int:
        if not merges:
            return 0
        removed = [run for merge in merges for run in merge.before]
        self._commits.publish(writer.substitution(self._now, removed, {merge.name: merge.after for merge in merges}))
        self._clear()
        delete_unnamed(self._layout.mapped, self._now.state.files() | self._commits.snapshots.files())
        return sum(merge.freed for merge in merges)

    def trim(self, name: str, until: int, most: int | None = None) -> int:
        """Drop the runs of a change log that end by epoch ``until``; a run that is more than half expired is rewritten.

        Files stay until ``vacuum``. Runs are not held in memory, so ``most`` has no effect here.
        """
        with self._merging, self._lock:
            runs = [run for run in self._now.state.runs.get(name, ()) if run.first + run.last <= 2 * until]
            if runs:
                with self._merged() as writer:
                    with translate_os_errors("shorten a log", self._layout.maps):
                        kept = trim_runs(self._layout.maps, writer, self._now, name, runs, until)
                    self._commits.publish(writer.substitution(self._now, runs, {name: kept} if kept else {}))
        return until

    def forget(self, forgotten: Sequence[ExpiredEntries], *, now: bool = False) -> None:
        """Delete expired rows, which no change can reach: runs that hold some are rewritten, and swapped in by one
        manifest.

        This is deferred to the next checkpoint, which puts the epochs of the log into runs, unless ``now`` is set.
        """
        with self._merging, self._lock:
            self._commits.require_writer()
            self._forgotten |= {one.map: one for one in forgotten}
            if now:
                self.checkpoint()

    def _forget(self) -> None:
        """Delete the expired rows after a checkpoint; deferred if runs are being merged."""
        if not self._forgotten or self._commits.is_joint or not self._merging.acquire(blocking=False):
            return
        try:
            with self._merged() as writer:
                with translate_os_errors("forget rows", self._layout.maps):
                    found = [
                        expire_map_rows(self._layout.maps, writer, self._now, one) for one in self._forgotten.values()
                    ]
                self._install(writer, [merge for merge in found if merge.before])
            self._forgotten.clear()
        finally:
            self._merging.release()

    def vacuum(self, keep: int) -> int:
        """Drop all but the last ``keep`` epochs and delete unreferenced files; returns the bytes freed."""
        with self._merging, self._lock:
            writer, named = self._commits.require_writer(), self._now.state.files() | self._commits.snapshots.files()
            with translate_os_errors("delete old files", self._layout.root, VACUUM_HINT):
                freed = delete_unnamed_runs(self._layout, named, writer.token)  # first, for the manifest needs room
            oldest = max(self.oldest, self.epoch - max(keep, 1) + 1)
            ended = self._now.state.ended(oldest)
            # The manifests that say which positions the epochs that are kept have reached are deleted.
            reached = tuple(positions_since(self.history(), oldest).items())
            removed = tuple(run.file for run in ended)
            manifest = replace(writer.next(self._now), oldest=oldest, removed=removed, reached=reached)
            self._commits.publish(manifest, whole=True)
            self._clear()
            state = self._now.state
            with translate_os_errors("delete old files", self._layout.root, VACUUM_HINT):
                kept = state.files() | self._commits.snapshots.files()
                return freed + vacuum_files(self._layout, kept, state, writer.token)

    def check(self) -> Inspection:
        """Read every file and compare it with its checksum; ``Corrupt`` lists all that differ."""
        with self.pin() as snapshot, snapshot.reading():
            return inspect_files(self._layout, self._now.state)

    def history(self) -> dict[int, Mapping[str, str]]:
        """The source positions of each remembered epoch, oldest first."""
        with self._lock, translate_os_errors("read the warehouse", self._layout.root, UNREAD_HINT):
            return positions_by_epoch(self._layout)

    def close(self, *, keep: bool = True) -> None:
        """Checkpoint the log and release the lock.

        There is no checkpoint if the log may have been lost, which is settled when it is read again, in a forked
        process, or if the folder is to be deleted (not ``keep``).
        """
        with self._merging, self._lock:
            writer, temporary = self._commits.writer, self._temporary
            try:
                if keep and writer is not None and not self._commits.is_broken and not writer.forked:
                    self.checkpoint()
                    self._spent += self._staged
                    self._clear()
            except StorageError as refused:
                if not is_disk_full(refused):
                    raise  # else the log is kept, and checkpointed once there is space
            finally:
                self._commits.writer, self._temporary = None, None
                if writer is not None:
                    writer.close()
                for folder in (self._temporary_runs, temporary, self._lookups):
                    if folder is not None:
                        folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _clear(self) -> None:
        """Delete staging folders of committed epochs, and logs that a crash left behind their manifest."""
        for folder in self._spent:
            shutil.rmtree(folder, ignore_errors=True)
        self._spent = []
        with translate_os_errors("delete old files", self._layout.log, VACUUM_HINT):
            for file in absorbed_logs(self._layout, self._now.state):
                file.unlink(missing_ok=True)

    def require_writable(self) -> None:
        """Refuse if nothing can be committed: by a reader, in a forked process, or after a failed sync."""
        with self._lock:
            self._commits.require_writer()
