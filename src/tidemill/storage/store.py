"""What the engine asks of a store: read maps as of an epoch, commit an epoch in one piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from tidemill.changes.changeset import Epoch
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.state_expiry import ExpiredEntries


@dataclass(frozen=True, slots=True)
class RunFile:
    """An immutable Parquet file of weighted rows: a map's fields, ``_weight`` and ``_epoch``."""

    file: Path
    rows: int
    bytes: int
    first_epoch: int
    last_epoch: int


class ReadableStore(Protocol):
    """Named maps of weighted rows with an epoch each, to be read."""

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 before the first."""

    def read(
        self, name: str, fields: Sequence[Field], *, until: int | None = None, since: int | None = None
    ) -> pa.Table:
        """Rows of map ``name`` of epochs in ``(since, until]``: ``fields``, ``_weight``, ``_epoch``; not summed."""

    def rows(self, name: str) -> int:
        """How many stored rows the map's runs hold, before summing: an upper bound of its size."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """A store as it was at an epoch."""

    store: ReadableStore
    epoch: int

    def read(
        self, name: str, fields: Sequence[Field], *, until: int | None = None, since: int | None = None
    ) -> pa.Table:
        """Rows of map ``name`` as they were."""
        return self.store.read(name, fields, until=self.epoch if until is None else until, since=since)

    def rows(self, name: str) -> int:
        """As many as there are now: it may have been more or fewer."""
        return self.store.rows(name)


class Store(ReadableStore, Protocol):
    """Named maps of weighted rows with an epoch each. One writer; readers see whole epochs only."""

    @property
    def oldest(self) -> int:
        """The oldest epoch that time travel still reaches."""

    @property
    def catalog(self) -> Mapping[str, object]:
        """The committed catalog; empty in a new warehouse."""

    @property
    def positions(self) -> Mapping[str, str]:
        """Where each source stood at the last epoch."""

    def runs(self, name: str, *, until: int | None = None) -> tuple[RunFile, ...]:
        """The files whose rows (of epochs up to ``until``) make up the map; empty for a map never written."""

    def staging(self, name: str) -> Path:
        """A new empty folder for Parquet files that become part of map ``name`` when an epoch commits them."""

    def commit(self, epoch: Epoch) -> None:
        """Make the epoch durable and visible, or leave everything as it was. ``epoch.number`` may equal the current
        epoch where only the catalog changes or a new view is filled."""

    def append(self, epoch: Epoch) -> Callable[[], None]:
        """Make the epoch visible; the returned function waits until it is durable, together with others who wait."""

    def require_writable(self) -> None:
        """Refuse where nothing can be committed."""

    def recover(self) -> None:
        """Be the last commit that was made, whole and durable, where an exception has left one half made.

        ``CommitUnknown`` where nobody can tell what was made: then only opening the store again does.
        """

    def refresh(self) -> bool:
        """Let a store that is open for reading see what was committed since; whether there was anything."""

    def compaction_due(self, name: str, most: int | None = None) -> bool:
        """Whether merging what the map has, in files of up to ``most`` rows together, would pay; quickly told."""

    def compact(self, maps: Mapping[str, Map], most: int | None = None) -> int:
        """Merge runs and drop rows whose weights cancel, epoch by epoch for those still reachable; returns bytes freed.
        The mapping goes by the name of each stored map; maps that it does not name are left alone. With ``most``, only
        the smallest files of a map are merged, that have so many rows together."""

    def trim(self, name: str, until: int, most: int | None = None) -> int:
        """Let go of what map ``name`` has of epochs up to ``until``: for a log of changes, whose rows nobody sums.

        With ``most``, what is held in memory is also cut down to the newest epochs, with about so many rows. Returns
        the epoch after which everything is still there.
        """

    def forget(self, forgotten: Sequence[ExpiredEntries], *, now: bool = False) -> None:
        """Let go of rows that nobody will ask for again, of all epochs: no change, and no epoch of its own.

        Where that is much work it may wait, unless it is to be done ``now``. Files stay until ``vacuum``.
        """

    def vacuum(self, keep: int) -> int:
        """Forget all but the last ``keep`` epochs and delete files that nothing names; returns bytes freed."""

    def close(self) -> None:
        """Let go of the lock."""
