"""The committed state of an open folder, and the only way in which it advances from one commit to the next.

An exception may come at any point of a commit. So the state is marked unsure before a commit and sure after it, and the
next caller who finds it unsure reads the folder again, by the same rules as after a crash. A sync that fails leaves
open whether the disk has what was written: then every further use ends with the same ``CommitUnknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import RLock, get_ident
from typing import TypeVar

from tidemill.model.errors import CommitUnknown, Corrupt, LockHeld, StorageError
from tidemill.storage.commits.layout import CommittedState, Layout, commit_fingerprint, recover
from tidemill.storage.commits.manifest import Manifest, manifest_file
from tidemill.storage.filesystem.durable_files import OutcomeUnknown, storage_error_of
from tidemill.storage.filesystem.file_system import FilePath
from tidemill.storage.folder_writer import FolderWriter
from tidemill.storage.segments import Segment
from tidemill.storage.snapshot import OpenSnapshots, StoreSnapshot
from tidemill.storage.vacuumed_files import find_vacuumed

T = TypeVar("T")


@dataclass
class _JointCommit:
    """A joint commit that has begun: the state that its thread alone sees."""

    thread: int
    now: CommittedState


class FolderCommits:
    """The committed state (``now``), the snapshots that readers hold, and the writer unless it is read-only."""

    def __init__(self, layout: Layout, now: CommittedState, writer: FolderWriter | None) -> None:
        self._committed = now
        self._joint: _JointCommit | None = None
        self.writer = writer
        self.snapshots = OpenSnapshots()
        self.lock = RLock()
        self._layout = layout
        self._unsure = False
        self._broken: CommitUnknown | LockHeld | None = None
        self._seen: tuple[int, int] | None = None

    @property
    def now(self) -> CommittedState:
        """The committed state; for the thread of a joint commit, that after its commits so far."""
        joint = self._joint
        return self._committed if joint is None or joint.thread != get_ident() else joint.now

    @property
    def is_joint(self) -> bool:
        """True between the first and the last commit of a joint one."""
        return self._joint is not None

    @property
    def is_broken(self) -> bool:
        """True after a failed sync: what the disk has is unknown until the folder is opened again."""
        return isinstance(self._broken, CommitUnknown)

    @property
    def is_sure(self) -> bool:
        """True if ``now`` is what the folder has."""
        return not self._unsure and self._broken is None

    def refresh(self) -> bool:
        """Advance a read-only store to the last commit; True if there was a new one. Lists two folders."""
        seen = commit_fingerprint(self._layout)
        if self.writer is not None or (seen is not None and seen == self._seen):
            return False
        before, now = self.now, recover(self._layout)
        self._seen = seen
        self._become(now)
        return (before.epoch, before.state.sequence) != (now.epoch, now.state.sequence)

    def snapshot(
        self, parts: Callable[[str], Sequence[Segment]], close: Callable[[StoreSnapshot], None]
    ) -> StoreSnapshot:
        """A snapshot of what is committed, held until it is closed; ``parts`` are the runs of a map."""
        now, state = self.now, self.now.state
        reading = partial(self.reading, now)
        snapshot = StoreSnapshot(
            now.epoch, state.oldest, state.catalog, now.positions, parts, now.tail, close, state.losses, reading
        )
        return self.snapshots.add(snapshot, state)

    @contextmanager
    def reading(self, now: CommittedState) -> Iterator[None]:
        """Context in which files of ``now`` are read: ``EpochGone`` if another process has vacuumed them.

        The writer knows what it has deleted, so for it a missing file is damage.
        """
        try:
            yield
        except Corrupt as found:
            gone = find_vacuumed(self._layout, now) if self.writer is None else None
            if gone is None:
                raise
            raise gone from found

    def advance(self, doing: str, step: Callable[[], tuple[CommittedState, T]]) -> T:
        """Advance from one commit to the next. After an error the folder is read again to see if the commit was made.

        An ``OSError`` with the commit present means that its sync failed: it may or may not be durable. Any other
        exception can come at any point, and leaves recovery to the next caller.
        """
        self._unsure = True
        try:
            after, result = step()
        except OSError as refused:
            self._require_unmade(doing, refused)
            self._recovered()
            raise storage_error_of(doing, self._layout.root, refused) from refused
        except (CommitUnknown, LockHeld) as over:
            self._broken = over
            raise
        self._become(after)
        self._unsure = False
        return result

    def publish(self, manifest: Manifest, *, whole: bool = False) -> None:
        """Advance by one manifest."""
        writer = self.require_writer()
        doing = f"commit manifest {manifest.sequence}"
        self.advance(doing, lambda: (writer.publish(self.now, manifest, whole=whole), None))

    @contextmanager
    def joint(self) -> Iterator[None]:
        """Context of a joint commit of the next epoch: what this thread commits is seen by it alone, and becomes
        visible and durable by one manifest at the end. The log is in runs."""
        with self.lock:
            writer = self.require_writer()
            if not self._committed.state.sequence:  # runs without any manifest would be those of a damaged folder
                self.publish(writer.next(self._committed))
            before = self._committed
            writer.joint = True
            state = replace(before.state, epoch=before.epoch + 1, log=None)
            self._joint = joint = _JointCommit(get_ident(), CommittedState.of(state))
        try:
            yield
            with self.lock:
                self.advance(f"commit epoch {joint.now.epoch}", lambda: (self._end(joint, writer, before), None))
        except BaseException:
            self._unsure, self._joint = True, None
            raise

    def _end(self, joint: _JointCommit, writer: FolderWriter, before: CommittedState) -> CommittedState:
        if self._joint is not joint:
            raise StorageError("an error has undone the commit", where=str(self._layout.root), hint="Try it again.")
        committed = writer.publish_joint(before, joint.now)
        self._joint = None
        return committed

    def wait(self, number: int, durable: Callable[[], None]) -> None:
        """Wait until an epoch of the log is durable. If the sync fails, that is unknown until the log is read again."""
        try:
            durable()
        except FileExistsError as ended:
            assert self.writer is not None
            self._broken = self.writer.log_taken_over(number)
            raise self._broken from ended
        except OSError as refused:
            self._broken = _unknown(f"commit epoch {number}", self._layout.log, refused)
            raise self._broken from refused

    def recover(self) -> None:
        """Return to the state in the folder after an exception has interrupted a commit."""
        with self.lock:
            self.require_sound()
            if self._unsure or self._joint is not None:
                self._recovered()

    def require_writer(self) -> FolderWriter:
        """The writer, once an interrupted commit is recovered; refused for a reader and in a forked process."""
        if self.writer is None:
            raise StorageError(
                "the warehouse is not open for writing",
                where=str(self._layout.root),
                hint="Open it, or open it without read_only=True.",
            )
        self.writer.require_own()
        if not self.is_sure:
            self.recover()
        return self.writer

    def require_sound(self) -> None:
        """Refuse every use after a failed sync."""
        if self._broken is not None:
            raise self._broken.with_traceback(None)

    def _become(self, now: CommittedState) -> None:
        if self._joint is None:
            self._committed = now
        else:
            self._joint.now = now
        self.snapshots.witness(now.state)

    def _require_unmade(self, doing: str, refused: OSError) -> None:
        """Close the store if a manifest has its name but may not be durable. The log is kept until it is."""
        file = manifest_file(self._layout.manifests, self.now.state.sequence + 1)
        try:
            if not isinstance(refused, OutcomeUnknown) and not file.exists():
                return
        except OSError:
            pass  # then it is unknown
        self._broken = _unknown(doing, file, refused)
        raise self._broken from refused

    def _recovered(self) -> CommittedState:
        assert self.writer is not None
        self._unsure, self._joint = True, None
        try:
            now = self.writer.recover(self._committed)
        except LockHeld as over:
            self._broken = over
            raise
        except (OSError, Corrupt) as trouble:
            self._broken = _unknown("go on after an error", self._layout.root, trouble)
            raise self._broken from trouble
        self._become(now)
        self._unsure = False
        return now


def durable_already() -> None:
    """Return at once: a manifest is durable when it exists."""


def _unknown(doing: str, where: FilePath, trouble: OSError | Corrupt) -> CommitUnknown:
    said = trouble.what if isinstance(trouble, Corrupt) else trouble.strerror or trouble
    return CommitUnknown(
        f"cannot {doing}: the disk may or may not have it",
        where=str(where),
        detail=f"The system says: {said}. The warehouse is closed, and what the disk has is read when it is opened.",
        hint="Close the warehouse, open it again and look at its epoch.",
    )
