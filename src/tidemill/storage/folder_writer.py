"""The writer of a folder: appends epochs to the log, and writes runs and manifests.

A small epoch goes to the log, made durable by one sync. Any other is written as runs and committed by a manifest, which
includes all epochs of the log, so the log stays short. A manifest that only replaces runs by merged ones leaves the log
as it is: otherwise every merge would create new small runs, to be merged in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2s
from itertools import count
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.model.errors import LockHeld, StorageError
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.storage.change_counts import NO_CHANGES, ChangeCounts, condensed
from tidemill.storage.commits.commit_mark import CommitMark, CommitMarkFile, boot_id
from tidemill.storage.commits.layout import CommittedState, Layout, recover
from tidemill.storage.commits.log import Log, LogEnd, log_file, replay
from tidemill.storage.commits.manifest import FULL_EVERY, Manifest, WarehouseState, manifest_file, write_manifest
from tidemill.storage.commits.position_history import with_history
from tidemill.storage.filesystem.durable_files import damaged, fault
from tidemill.storage.filesystem.file_system import FilePath, WriterToken, system_of
from tidemill.storage.filesystem.writer_lock import taken_over
from tidemill.storage.prepared_run import PreparedRun
from tidemill.storage.runs import RunEntry, adopt_run, write_run
from tidemill.storage.segments import with_epoch
from tidemill.storage.shared_staging import StagedFile
from tidemill.storage.store import StoreTraffic

LOG_ROWS = 200_000
"""Row count above which an epoch is written as runs at once, to avoid writing it twice. Smaller epochs go to the log:
one sync is cheaper than one for each map's run and the manifest (a quarter of the time for 10,000 rows)."""

CHECKPOINT_EPOCHS = 4096
CHECKPOINT_BYTES = 32 << 20
"""Epochs and bytes in the log at which a checkpoint is due; opening a warehouse replays less than that."""

SMALL_ROWS = 10_000
"""Most rows of a change that becomes one run with those of the log, and is then read with them."""

FEW_FILES, WRITING_THREADS = 4, 8
"""Files of a commit from which they are written and synced at the same time, and by how many threads."""

DURABILITIES = ("epoch", "checkpoint")
"""When a commit is durable: before it returns, or at the next checkpoint. It survives a killed process either way."""

K = TypeVar("K")
T = TypeVar("T")

RunsByMap = Mapping[str, tuple[RunEntry, ...]]

CountsByMap = Mapping[str, ChangeCounts]


class FolderWriter:
    """Turns the committed state into that after the next commit, durably. The caller admits one thread at a time.

    After an error in any step the state has to be read from the folder again, by ``recover``.
    """

    def __init__(self, layout: Layout, lock: WriterToken, now: CommittedState, *, synced: bool) -> None:
        self._layout = layout
        # The existing mark covers the epochs in the log until a manifest includes them.
        self._mark = CommitMarkFile(layout.root, _mark_of(now.state))
        self._state = now.state
        self._acknowledged = LogEnd()
        self._lock = lock
        self._synced = synced
        self._marks_log = system_of(layout.root).IN_PLACE
        self._log: Log | None = None
        self._numbers = count(1)
        self._written: list[str] = []
        self._merged: list[str] = []
        self._threads: ThreadPoolExecutor | None = None
        self.joint = False
        """True while manifests are not written: the runs of several commits become those of one."""
        self.traffic = StoreTraffic()

    def require_own(self) -> None:
        """Refuse to write in a process that was forked."""
        self._lock.require_own()

    @property
    def token(self) -> int:
        """The token in the names of its runs."""
        return self._lock.token

    @property
    def logs(self) -> bool:
        """True if there are epochs in a log of this writer's own."""
        return self._log is not None

    @property
    def forked(self) -> bool:
        """True if this process was forked from the one that writes."""
        return self._lock.forked

    def append(self, now: CommittedState, epoch: Epoch) -> tuple[CommittedState, Callable[[], None]]:
        """Append a small epoch to the log; returns the state after it, and a function that waits until it is durable.

        The epoch is committed by the last byte of its record. Of epochs that share a sync the first checks the lock.
        """
        if not (self._synced and self._log is not None and self._log.awaits_sync):
            self._lock.check()
        if self._log is None:
            begin, seal = now.state.log_start
            self._log = Log(log_file(self._layout.log, begin, self._lock.log_token), seal, self._acknowledge)
        before = self._log.end.length
        log, end = self._log, self._log.append(epoch)
        self.traffic.written += end.length - before
        for name, change in epoch.changes.items():
            if change.rows:
                now.tail.add(epoch.number, name, change)
        now.tail.epochs += 1
        if epoch.positions and (lasting := with_history(epoch.positions)):
            now.tail.reached.append((epoch.number, lasting))
        positions = {**now.positions, **epoch.positions} if epoch.positions else now.positions
        return CommittedState(now.state, now.tail, epoch.number, positions), partial(self._wait, log, end)

    def _wait(self, log: Log, end: LogEnd) -> None:
        if self._synced:
            log.sync(end.length)
        elif log is self._log:
            log.acknowledge(end)
        fault("after-log")

    def _acknowledge(self, end: LogEnd) -> None:
        """Advance the mark to the end of the log: synced, or held by the operating system until it is restarted.

        Where the mark is not overwritten in place it would cost as much as the commit, and names manifests only.
        """
        self._acknowledged, state = end, self._state
        if not self._marks_log:
            return
        boot = "" if self._synced else boot_id()
        self._mark.move(CommitMark(state.sequence, state.seal, self._lock.token, end.epoch, end.length, end.crc, boot))

    def recover(self, before: CommittedState) -> CommittedState:
        """The state in the folder after an error on the way from ``before``: it includes the commit entirely or not at
        all.

        Unreferenced runs are deleted, a torn record is cut off, and what was committed is made durable.
        """
        self.joint = False
        if not manifest_file(self._layout.manifests, before.state.sequence + 1).exists():
            self._discard(self._written)
        now = recover(self._layout)
        if now.state.token > self._lock.token:
            raise self._taken_over(manifest_file(self._layout.manifests, now.state.sequence))
        self._discard(self._written, now.state.files())
        self._written = []
        if now.state.sequence != before.state.sequence:
            manifests = self._layout.manifests
            system_of(manifests).sync_folder(manifests)  # before the log that it includes is deleted
        self._state = now.state
        self._resume_log(now)
        return now

    def _resume_log(self, now: CommittedState) -> None:
        """Continue after the last whole record of this writer's log, if there is one."""
        begin, seal = now.state.log_start
        file = log_file(self._layout.log, begin, self._lock.log_token)
        if self._log is not None and self._log.file != file:
            self._log.retire()
            self._log = None
        if not file.exists():
            return
        whole = replay(file, seal or None).end or LogEnd(crc=seal)
        if self._log is None:
            self._log = Log(file, seal, self._acknowledge, resumed=whole)
        elif whole.length < self._log.end.length:
            had = f"It had {self._log.end.length} bytes of whole records, and now has {whole.length}."
            raise damaged(file, had)
        self._log.cut(whole)
        self._wait(self._log, whole)

    def discard_merged(self, now: CommittedState) -> None:
        """Delete runs that were merged for a manifest that was not committed."""
        merged, self._merged = self._merged, []
        self._discard(merged, now.state.files())

    def _discard(self, files: Iterable[str], named: Collection[str] = ()) -> None:
        for file in files:
            if file not in named:
                with suppress(OSError):  # a vacuum deletes it
                    (self._layout.maps / file).unlink(missing_ok=True)

    def full(self, now: CommittedState) -> bool:
        """True if the log is large enough for a checkpoint."""
        size = self._log.size if self._log else 0
        return now.tail.epochs >= CHECKPOINT_EPOCHS or size >= CHECKPOINT_BYTES

    def commit(self, now: CommittedState, epoch: Epoch) -> CommittedState:
        """Write an epoch as runs and commit it by a manifest of its own."""
        fault("before-data")
        now, epoch = _small_changes_in_tail(now, epoch)
        added, counts = self._write_changes(now, epoch)
        commit = replace(
            self.next(now),
            epoch=epoch.number,
            positions=epoch.positions,
            catalog=epoch.catalog,
            dropped=tuple(epoch.dropped),
            replaced=tuple(epoch.replaced),
            altered=epoch.altered,
            renamed=epoch.renamed,
            added=added,
            counts=counts,
        )
        return self.publish(now, commit)

    def next(self, now: CommittedState) -> Manifest:
        """The next manifest, without changes."""
        return Manifest(
            sequence=now.state.sequence + 1,
            parent=now.state.sequence,
            full=False,
            token=self._lock.token,
            epoch=now.epoch,
            oldest=now.state.oldest,
            previous=now.state.seal,
            written=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )

    def substitution(self, now: CommittedState, removed: Sequence[RunEntry], added: RunsByMap) -> Manifest:
        """A manifest that replaces runs by others and leaves the log as it is."""
        gone = tuple(run.file for run in removed)
        return replace(self.next(now), epoch=now.state.epoch, log=now.state.log_start, removed=gone, added=added)

    def publish(self, now: CommittedState, manifest: Manifest, *, whole: bool = False) -> CommittedState:
        """Commit a manifest, with all epochs of the log unless the manifest says that the log continues.

        It is committed as soon as its file has its name. Within a joint commit it only leads to the next state.
        """
        if manifest.log is None:
            manifest = self._with_tail(now, manifest)
        added = [run for runs in manifest.added.values() for run in runs]
        folders = {folder.name: folder for folder in ((self._layout.maps / run.file).parent for run in added)}
        self._together(lambda folder: system_of(folder).sync_folder(folder), list(folders.values()))
        self.traffic.written += sum(run.bytes for run in added)
        after = manifest.apply(now.state)
        if self.joint:
            return CommittedState.of(replace(after, sequence=now.state.sequence, seal=now.state.seal, log=None))
        if whole or manifest.sequence % FULL_EVERY == 1:
            manifest = manifest.whole(after)
        return self._commit_manifest(now, manifest, after)

    def publish_joint(self, now: CommittedState, after: CommittedState) -> CommittedState:
        """Commit what several commits after ``now`` have led to, by one manifest that names all."""
        self.joint = False
        manifest = replace(self.next(now), epoch=after.epoch, oldest=after.state.oldest).whole(after.state)
        return self._commit_manifest(now, manifest, manifest.apply(now.state))

    def _commit_manifest(self, now: CommittedState, manifest: Manifest, after: WarehouseState) -> CommittedState:
        """Write a manifest, whose runs are durable, and which leads to the state ``after``."""
        self._lock.check()
        fault("before-manifest")
        try:
            after = replace(after, seal=write_manifest(self._layout.manifests, manifest))
        except FileExistsError:
            raise self._taken_over(manifest_file(self._layout.manifests, manifest.sequence)) from None
        fault("after-manifest")
        self._lock.confirm()
        self._written = []
        self._state = after
        if manifest.log is not None:
            if self._acknowledged.length:
                self._acknowledge(self._acknowledged)
            return replace(now, state=after)
        log, self._log = self._log, None
        if log is not None:
            log.retire()
        self.acknowledge(after)
        return CommittedState.of(after)

    def _taken_over(self, manifest: FilePath) -> LockHeld:
        """The error for a manifest that another writer has committed first."""
        owner = self._lock.successor()
        return taken_over(str(manifest), f"It has committed this manifest{f', and is {owner}' if owner else ''}.")

    def log_taken_over(self, number: int) -> LockHeld:
        """The error for an epoch that was appended to a log that another writer has ended."""
        owner = self._lock.successor()
        where = str(self._layout.log if self._log is None else self._log.file)
        return taken_over(where, f"It has ended this log before epoch {number}{f', and is {owner}' if owner else ''}.")

    def acknowledge(self, state: WarehouseState) -> None:
        """Advance the mark to the newest manifest."""
        self._acknowledged = LogEnd()
        self._mark.move(_mark_of(state))

    def _with_tail(self, now: CommittedState, manifest: Manifest) -> Manifest:
        """The manifest with one additional run for each map that has changes in the log.

        Those of maps that it drops are not needed, and those of maps that it replaces end with it.
        """
        added, counts = dict(manifest.added), dict(manifest.counts)
        names = [name for name in now.tail.names() if name not in manifest.dropped]
        parts = {name: part for name in names if (part := now.tail.part(name)) is not None}
        for name, (run, marks) in self._write_all(parts, lambda name: parts[name].table, now.state).items():
            if name in manifest.replaced:
                added[name] = (*added.get(name, ()), replace(run, ended=manifest.epoch))
                continue
            added[name] = (*added.get(name, ()), run)
            counts[name] = ChangeCounts.of_tables(marks) + counts.get(name, NO_CHANGES)
        reached = {**now.positions, **manifest.positions}
        moved = {source: at for source, at in reached.items() if now.state.positions.get(source) != at}
        known = now.state.ids.keys() - set(manifest.dropped)
        ids = {name: map_id(name, now.state.ids) for name in added.keys() - known}
        epochs = manifest.reached or tuple(now.tail.reached)
        return replace(manifest, positions=moved, reached=epochs, ids=ids, added=added, counts=counts)

    def _write_changes(self, now: CommittedState, epoch: Epoch) -> tuple[RunsByMap, CountsByMap]:
        """The runs and counts of the changes of an epoch. Files outside the staging folder are copied: linking them is
        not safe."""
        changes = {name: change for name, change in epoch.changes.items() if len(change)}
        copied = {name: change for name, change in changes.items() if not self._are_staged(change)}
        new = self._write_all(copied, lambda name: with_epoch(copied[name].arrow(), epoch.number), now.state)
        written = {name: [run] for name, run in new.items()}
        for name, change in changes.items():
            if name not in copied:
                written[name] = list(self._adopt(now.state, name, change, epoch.number))
        added = {name: tuple(run for run, _ in written[name]) for name in changes if written[name]}
        for name in added.keys() & set(epoch.replaced):  # files may have been written before, at an earlier epoch
            added[name] = tuple(replace(run, first=epoch.number, last=epoch.number) for run in added[name])
        return added, {name: ChangeCounts.of_tables(*(marks for _, marks in written[name])) for name in added}

    def _are_staged(self, change: ChangeSet) -> bool:
        """True if the rows of a change are in files that can become runs as they are."""
        staged = change.files or ()
        in_place = [isinstance(file, StagedFile) and file.run is not None for file in staged]
        return bool(staged) and (
            all(in_place) or all(Path(file).resolve().is_relative_to(self._layout.staging) for file in staged)
        )

    def _adopt(
        self, state: WarehouseState, name: str, change: ChangeSet, number: int
    ) -> Iterator[tuple[RunEntry, pa.Table]]:
        """One run for each staged file; tasks on other machines have put theirs in its place."""
        for file in change.files or ():
            if isinstance(file, StagedFile) and file.run is not None:
                yield _stamped(file.run.entry, state, name), condensed(file.run.marks)
                continue
            place = self._new_file(state, name, self._written)
            if isinstance(file, PreparedRun):
                adopted = file.adopt(self._layout.maps, place)
            else:
                found = adopt_run(Path(file), number, self._layout.maps, place)
                if found is None:
                    continue
                adopted = found
            yield _stamped(adopted[0], state, name), condensed(adopted[1])

    def write(self, table: pa.Table, now: CommittedState, name: str, altered: int | None = None) -> RunEntry:
        """Store rows of a map, each with its epoch, as a run for the next manifest.

        They have its present columns, or those after so many alterations.
        """
        run = self._write(table, now.state, name, self._merged)
        return run if altered is None else replace(run, altered=altered)

    def _write_all(
        self, names: Iterable[str], table_of: Callable[[str], pa.Table], state: WarehouseState
    ) -> dict[str, tuple[RunEntry, pa.Table]]:
        """Store rows of several maps as a run each, at the same time: small ones take no longer than their syncs.

        Returns the runs, and weights and epochs that count as those of their rows do."""
        files = {name: self._new_file(state, name, self._written) for name in names}

        def write(name: str) -> tuple[RunEntry, pa.Table]:
            table = table_of(name)
            run = _stamped(write_run(table, self._layout.maps, files[name]), state, name)
            return run, condensed(table.select([WEIGHT, EPOCH]))

        return dict(zip(files, self._together(write, list(files)), strict=True))

    def _together(self, work: Callable[[K], T], items: Sequence[K]) -> Sequence[T]:
        """Results of ``work`` for each item; for several, at the same time, since it waits for the disk."""
        if len(items) < FEW_FILES:
            return [work(item) for item in items]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(WRITING_THREADS, thread_name_prefix="tidemill-runs")
        running = [self._threads.submit(work, item) for item in items]
        try:
            return [one.result() for one in running]
        finally:
            wait(running)  # before recovery deletes what was written

    def _write(self, table: pa.Table, state: WarehouseState, name: str, written: list[str]) -> RunEntry:
        return _stamped(write_run(table, self._layout.maps, self._new_file(state, name, written)), state, name)

    def _new_file(self, state: WarehouseState, name: str, written: list[str]) -> str:
        """A file name that no run ever had, by this writer's token. It is recorded before the file is created."""
        if written:
            fault("between-files")
        file = f"{map_id(name, state.ids)}/{self._lock.token:08}-{next(self._numbers):08}.parquet"
        written.append(file)
        return file

    def close(self) -> None:
        """Release the lock."""
        if self._threads is not None and not self.forked:
            self._threads.shutdown()
        if self._log is not None:
            self._log.close()
        self._mark.close()
        self._lock.release()


def _small_changes_in_tail(now: CommittedState, epoch: Epoch) -> tuple[CommittedState, Epoch]:
    """The state with the small changes of an epoch to maps that have others in the log: these become one run."""
    ended = {*epoch.dropped, *epoch.replaced, *epoch.altered, *epoch.renamed}
    small = {
        name: change
        for name, change in epoch.changes.items()
        if name not in ended and change.files is None and 0 < change.rows <= SMALL_ROWS and now.tail.count(name)
    }
    tail = now.tail.copy() if small else now.tail
    for name, change in small.items():
        tail.add(epoch.number, name, change)
    rest = {name: change for name, change in epoch.changes.items() if name not in small}
    return replace(now, tail=tail), replace(epoch, changes=rest)


def _stamped(run: RunEntry, state: WarehouseState, name: str) -> RunEntry:
    """A new run, which has the present columns of its map."""
    return replace(run, altered=len(state.alterations.get(name, ())))


def _mark_of(state: WarehouseState) -> CommitMark:
    return CommitMark(state.sequence, state.seal, state.token, state.epoch)


def map_id(name: str, ids: Mapping[str, str]) -> str:
    """The folder name of a map: a hash of its name, which may hold any character; numbered if two hashes collide.

    >>> map_id("../my view", {}) == map_id("../my view", {}) != map_id("../My view", {})
    True
    """
    if name in ids:
        return ids[name]
    hashed = blake2s(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    taken = set(ids.values())
    return next(id_ for n in count() if (id_ := f"{hashed}-{n}" if n else hashed) not in taken)


def require_durability(durability: str, root: FilePath) -> None:
    """Refuse a durability that there is not, or not on the file system of a warehouse."""
    if durability not in DURABILITIES:
        raise StorageError(f'durability "{durability}" is unknown', hint=f"Use one of {', '.join(DURABILITIES)}.")
    if durability == "checkpoint" and not system_of(root).IN_PLACE:
        raise StorageError(
            'durability "checkpoint" needs a disk of this machine',
            where=str(root),
            detail="There a killed process leaves its last epochs to the system. In an object store they are lost.",
            hint='Leave durability as it is ("epoch").',
        )


def goes_to_log(epoch: Epoch, last: int) -> bool:
    """True if an epoch can go to the log: it is small, in memory rather than in files, and changes only data."""
    if epoch.number <= last or epoch.catalog is not None or epoch.dropped or epoch.replaced:
        return False
    rows = 0
    for change in epoch.changes.values():
        rows += change.rows if change.files is None else LOG_ROWS + 1
    return rows <= LOG_ROWS
