"""The writer of a folder: puts epochs into the log, and runs and manifests beside it.

An epoch that is small waits in the log, made durable by one sync. Any other is written as runs and committed by a
manifest, which takes in all that waits, so the log is short. A manifest that only puts runs in the place of others
leaves the log as it is: were it to take the log in, merging runs would make new ones, to be merged in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2s
from itertools import count

import pyarrow as pa

from tidemill.changes.batch import ChangeSet, Epoch
from tidemill.model.errors import LockHeld
from tidemill.storage.files import explained, fault
from tidemill.storage.layout import Current, Layout
from tidemill.storage.lock import WriterLock
from tidemill.storage.log import End, Log, encode, log_file
from tidemill.storage.manifest import FULL_EVERY, Manifest, State, manifest_file, write_manifest
from tidemill.storage.mark import Mark, MarkFile, boot_id
from tidemill.storage.parts import with_epoch
from tidemill.storage.runs import StoredRun, adopt_run, sync_runs, write_run

LOG_ROWS = 10_000
"""An epoch with more rows than this becomes runs at once: writing it twice would cost more than its manifest."""

CHECKPOINT_EPOCHS = 4096
CHECKPOINT_BYTES = 32 << 20
"""The log is taken into a manifest when it holds so many epochs or bytes; opening replays less than that."""

Runs = Mapping[str, tuple[StoredRun, ...]]


class Writer:
    """Turns what is current into what is current after a commit, durably. Its caller lets in one thread at a time."""

    def __init__(self, layout: Layout, lock: WriterLock, now: Current, *, synced: bool) -> None:
        self._layout = layout
        # What waits in the log is vouched for by the mark that is there, until a manifest has it.
        self._mark = MarkFile(layout.root, _mark_of(now.state))
        self._state = now.state
        self._vouched = End()
        self._lock = lock
        self._synced = synced
        self._log: Log | None = None
        self._numbers = count(1)

    def append(self, now: Current, epoch: Epoch) -> tuple[Current, Callable[[], None]]:
        """Put a small epoch into the log; returns what is current then, and a wait until it is durable."""
        with explained(f"commit epoch {epoch.number}", self._layout.log):
            self._lock.check()
            record = encode(epoch)
            if self._log is None:
                begin, seal = now.state.log_start
                self._log = Log(log_file(self._layout.log, begin, self._lock.token), seal, self._vouch)
            log, end = self._log, self._log.append(record, epoch.number)
        for name, change in epoch.changes.items():
            if len(change):
                now.tail.add(epoch.number, name, change)
        now.tail.epochs += 1
        if epoch.positions:
            now.tail.reached.append((epoch.number, dict(epoch.positions)))
        positions = {**now.positions, **epoch.positions} if epoch.positions else now.positions
        after = replace(now, epoch=epoch.number, positions=positions)
        return after, lambda: self._settle(log, end)

    def _settle(self, log: Log, end: End) -> None:
        if self._synced:
            with explained("sync the change log", log.file, "Open the warehouse again and look at its epoch."):
                log.sync(end.length)
        elif log is self._log:
            log.vouch(end)
        fault("after-log")

    def _vouch(self, end: End) -> None:
        """Move the mark to the end of the log: on the disk, or in the hands of the system until that starts again."""
        self._vouched, state = end, self._state
        boot = "" if self._synced else boot_id()
        self._mark.move(Mark(state.sequence, state.seal, self._lock.token, end.epoch, end.length, end.crc, boot))

    def full(self, now: Current) -> bool:
        """Whether the log holds so much that a manifest should take it in."""
        size = self._log.end.length if self._log else 0
        return now.tail.epochs >= CHECKPOINT_EPOCHS or size >= CHECKPOINT_BYTES

    def commit(self, now: Current, epoch: Epoch) -> Current:
        """Write an epoch as runs and commit it by a manifest of its own."""
        if epoch.dropped or epoch.replaced:
            # What waits belongs to the maps as they were: it must have its runs before they end.
            now = self.checkpoint(now)
        with explained(f"commit epoch {epoch.number}", self._layout.root), self._orphans_removed() as written:
            fault("before-data")
            added = self._write_changes(now, epoch, written)
            commit = replace(
                self.next(now),
                epoch=epoch.number,
                positions=epoch.positions,
                catalog=epoch.catalog,
                dropped=tuple(epoch.dropped),
                replaced=tuple(epoch.replaced),
                added=added,
            )
            return self._publish(now, commit, written)

    def checkpoint(self, now: Current) -> Current:
        """Take what waits in the log into a manifest."""
        return self.publish(now, self.next(now)) if now.tail.epochs else now

    def next(self, now: Current) -> Manifest:
        """A manifest that changes nothing yet."""
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

    def substitute(self, now: Current, removed: Sequence[StoredRun], added: Runs) -> Current:
        """Commit a manifest that puts runs in the place of others; what waits in the log goes on waiting."""
        gone = tuple(run.file for run in removed)
        manifest = replace(self.next(now), epoch=now.state.epoch, log=now.state.log_start, removed=gone, added=added)
        return self.publish(now, manifest)

    def publish(self, now: Current, manifest: Manifest, *, whole: bool = False) -> Current:
        """Commit a manifest, with all that waits in the log unless it says that the log goes on."""
        with explained(f"commit manifest {manifest.sequence}", self._layout.root), self._orphans_removed() as written:
            return self._publish(now, manifest, written, whole=whole)

    def _publish(self, now: Current, manifest: Manifest, written: list[StoredRun], *, whole: bool = False) -> Current:
        if manifest.log is None:
            manifest = self._with_tail(now, manifest, written)
        sync_runs(self._layout.maps, (run for runs in manifest.added.values() for run in runs))
        after = manifest.apply(now.state)
        if whole or manifest.sequence % FULL_EVERY == 1:
            manifest = manifest.whole(after)
        self._lock.check()
        fault("before-manifest")
        try:
            after = replace(after, seal=write_manifest(self._layout.manifests, manifest))
        except FileExistsError:
            raise LockHeld(
                "another writer has taken over the warehouse",
                where=str(manifest_file(self._layout.manifests, manifest.sequence)),
                detail="It has committed the manifest that was next.",
                hint="Nothing was written. Open the warehouse again.",
            ) from None
        fault("after-manifest")
        written.clear()
        self._state = after
        if manifest.log is not None:
            if self._vouched.length:
                self._vouch(self._vouched)
            return replace(now, state=after)
        if self._log is not None:
            self._log.retire()
            self._log = None
        self.vouch(after)
        return Current.of(after)

    def vouch(self, state: State) -> None:
        """Move the mark to the newest manifest."""
        self._vouched = End()
        self._mark.move(_mark_of(state))

    def _with_tail(self, now: Current, manifest: Manifest, written: list[StoredRun]) -> Manifest:
        """The manifest with one run more for each map that has changes in the log."""
        added = dict(manifest.added)
        for name in now.tail.names():
            part = now.tail.part(name)
            if part is not None:
                run = self._write(part.table, now.state, name, written)
                added[name] = (*added.get(name, ()), run)
        reached = {**now.positions, **manifest.positions}
        moved = {source: at for source, at in reached.items() if now.state.positions.get(source) != at}
        known = now.state.ids.keys() - set(manifest.dropped)
        ids = {name: map_id(name, now.state.ids) for name in added.keys() - known}
        return replace(manifest, positions=moved, reached=tuple(now.tail.reached), ids=ids, added=added)

    def _write_changes(self, now: Current, epoch: Epoch, written: list[StoredRun]) -> Runs:
        added: dict[str, tuple[StoredRun, ...]] = {}
        for name, change in epoch.changes.items():
            if len(change):
                added[name] = tuple(self._write_change(now.state, name, change, epoch.number, written))
        return added

    def _write_change(
        self, state: State, name: str, change: ChangeSet, number: int, written: list[StoredRun]
    ) -> Iterator[StoredRun]:
        """One run, or one for each staged file. Files from elsewhere are copied: they are not ours to link."""
        staged = change.files or ()
        if not staged or not all(file.resolve().is_relative_to(self._layout.staging) for file in staged):
            yield self._write(with_epoch(change.arrow(), number), state, name, written)
            return
        for file in staged:
            if written:
                fault("between-files")
            run = adopt_run(file, number, self._layout.maps, self._new_file(state, name))
            if run is not None:
                written.append(run)
                yield run

    def write(self, table: pa.Table, now: Current, name: str) -> StoredRun:
        """Store rows of a map, each with its epoch, as a run for a manifest to come."""
        return self._write(table, now.state, name, [])

    def _write(self, table: pa.Table, state: State, name: str, written: list[StoredRun]) -> StoredRun:
        if written:
            fault("between-files")
        run = write_run(table, self._layout.maps, self._new_file(state, name))
        written.append(run)
        return run

    def _new_file(self, state: State, name: str) -> str:
        """A file name that no run ever had: the token is this writer's alone."""
        return f"{map_id(name, state.ids)}/{self._lock.token:08}-{next(self._numbers):08}.parquet"

    @contextmanager
    def _orphans_removed(self) -> Iterator[list[StoredRun]]:
        """A list for the runs that a commit writes; those still in it when the commit fails are deleted."""
        written: list[StoredRun] = []
        try:
            yield written
        except BaseException:
            for run in written:
                (self._layout.maps / run.file).unlink(missing_ok=True)
            raise

    def close(self) -> None:
        """Let the next writer in."""
        if self._log is not None:
            self._log.close()
        self._mark.close()
        self._lock.release()


def _mark_of(state: State) -> Mark:
    return Mark(state.sequence, state.seal, state.token, state.epoch)


def map_id(name: str, ids: Mapping[str, str]) -> str:
    """The folder of a map: a hash of its name, because names may hold anything; numbered where two hashes meet.

    >>> map_id("../my view", {}) == map_id("../my view", {}) != map_id("../My view", {})
    True
    """
    if name in ids:
        return ids[name]
    hashed = blake2s(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    taken = set(ids.values())
    return next(id_ for n in count() if (id_ := f"{hashed}-{n}" if n else hashed) not in taken)
