"""The store protocol of the engine: read maps as of an epoch, commit an epoch atomically."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from tidemill.changes.changeset import Epoch
from tidemill.model.types import Field
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.maps import Map
from tidemill.storage.change_counts import ChangeCounts
from tidemill.storage.filesystem.file_system import Access

if TYPE_CHECKING:
    from tidemill.storage.shared_staging import SharedStaging
    from tidemill.storage.snapshot import StoreSnapshot

ColumnValues = Mapping[str, pa.Array]
"""Keys by which rows are looked up, as columns of one length: what stands at one place in all of them is one key.

Each column has the type of that of its name; NULL finds NULLs."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """An immutable Parquet file of weighted rows: a map's fields, ``_weight`` and ``_epoch``.

    ``derived`` is the path that the names of its derived files begin with. Any process may open both: tasks on other
    machines have copies of their own (``filesystem.fetched_file``).
    """

    file: os.PathLike[str]
    rows: int
    bytes: int
    first_epoch: int
    last_epoch: int
    derived: os.PathLike[str]

    @property
    def prefix(self) -> Path:
        """The path of derived files on this machine."""
        return Path(self.derived)


class StoreTraffic:
    """Running totals of a store since it was opened: bytes written to files, and keys sought in files."""

    written = 0
    lookups = 0


class ReadableStore(Protocol):
    """Named maps of weighted rows with an epoch each, to be read."""

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 before the first."""

    def read(
        self,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None = None,
        since: int | None = None,
        where: ColumnValues | None = None,
    ) -> pa.Table:
        """Rows of map ``name`` of epochs in ``(since, until]``: ``fields``, ``_weight``, ``_epoch``; not summed.

        With ``where`` those that have one of the keys, and perhaps others, whose columns have values of several keys.
        """

    def rows(self, name: str) -> int:
        """Number of stored rows in the map's runs before summing: an upper bound of its size."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """A store as it was at an epoch."""

    store: ReadableStore
    epoch: int

    def read(
        self,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None = None,
        since: int | None = None,
        where: ColumnValues | None = None,
    ) -> pa.Table:
        """Rows of map ``name`` as of the epoch."""
        return self.store.read(name, fields, until=self.epoch if until is None else until, since=since, where=where)

    def rows(self, name: str) -> int:
        """The number of rows now: at the epoch it may have been more or fewer."""
        return self.store.rows(name)


class Store(ReadableStore, Protocol):
    """Named maps of weighted rows with an epoch each. One writer; readers see whole epochs only."""

    traffic: StoreTraffic

    @property
    def oldest(self) -> int:
        """The oldest epoch that time travel still reaches."""

    @property
    def catalog(self) -> Mapping[str, object]:
        """The committed catalog; empty in a new warehouse."""

    @property
    def positions(self) -> Mapping[str, str]:
        """The position of each source at the last epoch."""

    def pin(self) -> StoreSnapshot:
        """A snapshot of the current epoch. Until it is closed, no file referenced meanwhile is deleted."""

    def history(self) -> Mapping[int, Mapping[str, str]]:
        """The positions of all sources by the epoch that reached them, oldest first, for epochs that moved one."""

    def runs(self, name: str, *, until: int | None = None) -> tuple[RunFile, ...]:
        """The files whose rows (of epochs up to ``until``) make up the map; empty for a map never written."""

    def counts(self, name: str) -> ChangeCounts:
        """The rows that epochs have inserted, updated and deleted in the map since it was created."""

    def bytes(self, name: str) -> int:
        """Bytes that the map takes: compressed in files, with mapped copies and indexes, and as columns in memory."""

    def staging(self, name: str) -> Path:
        """A new empty folder for Parquet files that become part of map ``name`` when an epoch commits them."""

    def shared_staging(self, name: str) -> SharedStaging | None:
        """The place where tasks on other machines put files for map ``name``; None if they need the same disk."""

    def access(self) -> Access | None:
        """Access for tasks on other machines, to read and write files; None if they need the same disk."""

    def temporary_folder(self) -> Path:
        """A folder for temporary files of queries; it is deleted with the store."""

    def published_folder(self) -> Path:
        """A folder of this machine for what is derived from published tables; anybody may delete it."""

    def commit(self, epoch: Epoch) -> None:
        """Make the epoch durable and visible, or leave everything as it was. ``epoch.number`` may equal the current
        epoch where only the catalog changes or a new view is filled."""

    def append(self, epoch: Epoch) -> Callable[[], None]:
        """Make the epoch visible; the returned function waits until it is durable, together with others who wait."""

    def joint(self) -> AbstractContextManager[None]:
        """Context of a joint commit of the next epoch: what this thread commits is seen by it alone, and becomes
        visible and durable together at the end, or not at all. All of it has the number of that epoch."""

    def undisturbed(self) -> AbstractContextManager[object] | None:
        """Context in which no other thread is within the store, so that a process forked from this one can read it;
        None if it cannot: connections to object storage do not survive a fork. It may be entered several times."""

    def require_writable(self) -> None:
        """Refuse if nothing can be committed."""

    def recover(self) -> None:
        """Return to the last commit, whole and durable, after an exception has interrupted the next one.

        ``CommitUnknown`` if it is unknown which commits are durable: then the store has to be opened again.
        """

    def refresh(self) -> bool:
        """Advance a store that is open for reading to the last commit; True if there was a new one."""

    def compaction_due(self, name: str, most: int | None = None) -> bool:
        """True if merging the map's runs, of up to ``most`` rows together, would pay; this is cheap to tell."""

    def compact(self, maps: Mapping[str, Map], most: int | None = None) -> int:
        """Merge runs and drop rows whose weights cancel, epoch by epoch for those still reachable; returns the bytes
        freed. ``maps`` is keyed by the name of each stored map; other maps are left alone. With ``most``, only the
        smallest files of a map are merged, with up to that many rows together."""

    def trim(self, name: str, until: int, most: int | None = None) -> int:
        """Drop the rows of map ``name`` of epochs up to ``until``: for a change log, whose rows are never summed.

        With ``most``, rows held in memory are also reduced to about that many, of the newest epochs. Returns the epoch
        after which everything is still present.
        """

    def forget(self, forgotten: Sequence[ExpiredEntries], *, now: bool = False) -> None:
        """Delete expired rows, which no change can reach, in all epochs: this is no change and has no epoch of its own.

        Expensive deletions may be deferred, unless ``now`` is set. Files stay until ``vacuum``.
        """

    def vacuum(self, keep: int) -> int:
        """Drop all but the last ``keep`` epochs and delete unreferenced files; returns the bytes freed."""

    def close(self, *, keep: bool = True) -> None:
        """Release the lock. Where nothing is to be kept, nothing is written for that."""
