"""A store in memory, with the same guarantees except durability."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from threading import RLock, get_ident
from typing import NamedTuple

import pyarrow as pa

from tidemill.changes.alterations import Alteration, present_columns, present_rows
from tidemill.changes.changeset import Epoch
from tidemill.model.errors import StorageError
from tidemill.model.types import Field
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.maps import Map, map_fields
from tidemill.storage.change_counts import NO_CHANGES, ChangeCounts
from tidemill.storage.commits.position_history import positions_since, with_history
from tidemill.storage.compaction.consolidate import consolidate
from tidemill.storage.compaction.expired_rows import unexpired_rows
from tidemill.storage.filesystem.durable_files import TemporaryFolder
from tidemill.storage.runs import write_table
from tidemill.storage.segments import (
    LARGE_CHANGE,
    RecentEpochs,
    TableSegment,
    check_epoch_number,
    check_readable,
    is_visible_at,
    stored_schema,
)
from tidemill.storage.snapshot import StoreSnapshot
from tidemill.storage.store import ColumnValues, RunFile, StoreTraffic

COMBINE_AT = 64
"""Number of pending changes of a map that a read combines into one table, so that the next read is cheap."""

COMPACT_AT = 4096
"""Rows that must have been added to a map, and at least as many as it had, before compaction pays: the amortized cost
is then a few rows for each added one, and a map takes at most about twice its minimal space."""


@dataclass(frozen=True, slots=True)
class _MapHistory:
    """The combined segments of a map: tables, and counts since they were last summed.

    ``changes`` is the number of changes added since then, ``summed`` the number of rows at that time, or of the largest
    change since: the rows of one change are summed already, so a bulk load alone gives nothing to combine. ``oldest``
    is the oldest epoch that was kept at that time: until it is left behind, nothing more can be summed. ``counts`` are
    those of all changes that were ever combined.
    """

    parts: tuple[TableSegment, ...] = ()
    changes: int = 0
    summed: int = 0
    oldest: int = 0
    counts: ChangeCounts = NO_CHANGES

    def ended(self, epoch: int) -> _MapHistory:
        """The same history, with every segment ended at ``epoch``."""
        parts = (part if part.ended is not None else replace(part, ended=epoch) for part in self.parts)
        return replace(self, parts=tuple(parts), counts=NO_CHANGES)

    def altered(self, alterations: Sequence[Alteration]) -> _MapHistory:
        """The history with other columns: those in memory are changed at once, and most of them are not copied."""
        return replace(self, parts=tuple(_altered(part, alterations) for part in self.parts))

    def reaching(self, oldest: int) -> _MapHistory:
        """The history without segments that ended by the oldest epoch that is kept."""
        return replace(self, parts=tuple(p for p in self.parts if p.ended is None or p.ended > oldest))

    @property
    def bytes(self) -> int:
        """Memory size of the tables in bytes."""
        return sum(part.table.nbytes for part in self.parts)


def _altered(part: TableSegment, alterations: Sequence[Alteration]) -> TableSegment:
    columns = present_columns(part.table.schema, alterations)
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    return TableSegment(present_rows(part.table, schema, columns), part.first, part.last, part.ended)


_NOTHING = _MapHistory()


class _CommittedEpoch(NamedTuple):
    """The state after a commit. It is immutable and replaced as a whole, so that a commit is atomic."""

    epoch: int
    oldest: int
    catalog: Mapping[str, object]
    positions: Mapping[str, str]
    histories: Mapping[str, _MapHistory]
    tail: RecentEpochs

    def history(self, name: str) -> _MapHistory:
        """The combined segments of a map."""
        return self.histories.get(name, _NOTHING)

    def having(self, name: str, history: _MapHistory, tail: RecentEpochs | None = None) -> _CommittedEpoch:
        """A copy with other combined segments for a map."""
        return self._replace(histories={**self.histories, name: history}, tail=tail or self.tail)

    def settled(self, name: str) -> _CommittedEpoch:
        """A copy in which the pending changes of a map are combined into a table."""
        part = self.tail.part(name)
        if part is None:
            return self
        history, count = self.history(name), self.tail.count(name)
        summed = max(history.summed, self.tail.largest(name))
        history = replace(
            history,
            parts=(*history.parts, part),
            changes=history.changes + count,
            summed=summed,
            counts=history.counts + ChangeCounts.of_tables(part.table),
        )
        return self.having(name, history, self.tail.without(name))

    def after(self, epoch: Epoch) -> _CommittedEpoch:
        """The state after ``epoch``, whose changes are added to a copy of the tail."""
        now = self._replace(tail=self.tail.copy())
        for name in {*epoch.altered, *epoch.renamed}:
            now = now.settled(name)
        if epoch.renamed:
            now = now._replace(histories={epoch.renamed.get(n, n): held for n, held in now.histories.items()})
        for name, alterations in epoch.altered.items():
            now = now.having(name, now.history(name).altered(alterations))
        for name in epoch.dropped:
            kept = {other: history for other, history in now.histories.items() if other != name}
            now = now._replace(histories=kept, tail=now.tail.without(name))
        for name in epoch.replaced:
            now = now.settled(name)
            now = now.having(name, now.history(name).ended(epoch.number))
        return now.appended(epoch)

    def appended(self, epoch: Epoch) -> _CommittedEpoch:
        """The state after ``epoch``, whose changes are appended to the shared tail; this must be the newest state."""
        for name, change in epoch.changes.items():
            if change.rows:
                self.tail.add(epoch.number, name, change)
        positions = {**self.positions, **epoch.positions} if epoch.positions else self.positions
        catalog = self.catalog if epoch.catalog is None else epoch.catalog
        return _CommittedEpoch(epoch.number, self.oldest, catalog, positions, self.histories, self.tail)


def _nothing() -> None:
    """Wait for nothing: there is no disk."""


class MemoryStore:
    """Keeps each epoch's changes as they come. A commit appends to a few lists: microseconds, and no conversion.

    History grows with every epoch; ``vacuum`` sets how far back it must reach, and ``compact`` sums the epochs before.

    >>> from tidemill.changes.changeset import ChangeSet
    >>> from tidemill.model.types import STRING
    >>> fields, store = (Field("name", STRING),), MemoryStore()
    >>> store.commit(Epoch(1, {"people": ChangeSet.of([(("ann",), 1)], fields)}))
    >>> store.read("people", fields).to_pylist()
    [{'name': 'ann', '_weight': 1, '_epoch': 1}]
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._committed = _CommittedEpoch(0, 0, {}, {}, {}, RecentEpochs())
        self._joint: _CommittedEpoch | None = None
        self._joint_thread = 0
        self._unsure = False
        self._moved: dict[int, Mapping[str, str]] = {}
        self._folder: TemporaryFolder | None = None
        self._files: list[tuple[TableSegment, RunFile]] = []
        self._closed = False
        self.traffic = StoreTraffic()

    @property
    def _now(self) -> _CommittedEpoch:
        """The committed state; for the thread of a joint commit, that after its commits so far."""
        joint = self._joint
        return self._committed if joint is None or self._joint_thread != get_ident() else joint

    @_now.setter
    def _now(self, now: _CommittedEpoch) -> None:
        if self._joint is not None and self._joint_thread == get_ident():
            self._joint = now
        else:
            self._committed = now

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 before the first."""
        return self._now.epoch

    @property
    def oldest(self) -> int:
        """The oldest epoch that time travel still reaches."""
        return self._now.oldest

    @property
    def catalog(self) -> Mapping[str, object]:
        """The committed catalog; empty at first."""
        return self._now.catalog

    @property
    def positions(self) -> Mapping[str, str]:
        """The position of each source at the last epoch."""
        return self._now.positions

    def history(self) -> dict[int, Mapping[str, str]]:
        """The source positions of each epoch that moved one, oldest first."""
        with self._lock:
            known: Mapping[str, str] = {}
            return {number: (known := {**known, **self._moved[number]}) for number in sorted(self._moved)}

    def read(
        self,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None = None,
        since: int | None = None,
        where: ColumnValues | None = None,
    ) -> pa.Table:
        """Rows of map ``name`` of epochs in ``(since, until]``: ``fields``, ``_weight``, ``_epoch``."""
        with self._lock:
            self._require_open()
            # A feed that reads the last few changes must not pay for combining all of them.
            if since is None and self._now.tail.count(name) > COMBINE_AT:
                self._now = self._now.settled(name)
            return _snapshot(self._now).read(name, fields, until=until, since=since, where=where)

    def pin(self) -> StoreSnapshot:
        """A snapshot of the current epoch."""
        with self._lock:
            self._require_open()
            return _snapshot(self._now._replace(tail=self._now.tail.copy()))

    def runs(self, name: str, *, until: int | None = None) -> tuple[RunFile, ...]:
        """The map's rows in files of a temporary folder, for runtimes that only read files."""
        with self._lock:
            self._require_open()
            bound = check_readable(self.oldest, self.epoch, None, until)
            self._now = self._now.settled(name)
            return tuple(self._file_of(part) for part in self._now.history(name).parts if is_visible_at(part, bound))

    def rows(self, name: str) -> int:
        """Number of rows in the map's changes before summing."""
        with self._lock:
            self._require_open()
            settled = sum(int(p.table.num_rows) for p in self._now.history(name).parts if p.ended is None)
            return settled + self._now.tail.rows(name)

    def counts(self, name: str) -> ChangeCounts:
        """The rows that epochs have inserted, updated and deleted in the map."""
        with self._lock:
            self._require_open()
            return self._now.history(name).counts + self._now.tail.counts(name)

    def bytes(self, name: str) -> int:
        """Bytes of the map's changes as columns."""
        with self._lock:
            self._require_open()
            self._now = self._now.settled(name)
            return sum(part.table.nbytes for part in self._now.history(name).parts if part.ended is None)

    def staging(self, name: str) -> Path:
        """A new empty folder for Parquet files of the next epoch; it is deleted with the store."""
        with self._lock:
            return Path(mkdtemp(dir=self._temporary()))

    def shared_staging(self, name: str) -> None:
        """None: files are on a disk of this machine."""

    def access(self) -> None:
        """None: files are on a disk of this machine."""

    def temporary_folder(self) -> Path:
        """A folder for temporary files of queries."""
        with self._lock:
            return self._temporary()

    def published_folder(self) -> Path:
        """A folder for what is derived from published tables; it is deleted with the store."""
        return self.temporary_folder() / "published"

    def append(self, epoch: Epoch) -> Callable[[], None]:
        """Commit the epoch; there is no disk to wait for."""
        self.commit(epoch)
        return _nothing

    def refresh(self) -> bool:
        """Return False: there is no other writer."""
        return False

    def commit(self, epoch: Epoch) -> None:
        """Commit the epoch. Only the last assignment makes it visible."""
        with self._lock:
            self._require_open()
            now = self._now
            check_epoch_number(epoch.number, now.epoch)
            if epoch.positions and (lasting := with_history(epoch.positions)):
                self._moved[epoch.number] = {**self._moved.get(epoch.number, {}), **lasting}
            if epoch.number == now.epoch or epoch.dropped or epoch.replaced or epoch.altered or epoch.renamed:
                self._now = now.after(epoch)
                return
            # Copying the tail would cost more than the epoch: changes are appended in place, and cut off after an
            # exception.
            self._unsure = True
            self._now = now.appended(epoch)
            self._unsure = False

    def undisturbed(self) -> AbstractContextManager[object]:
        """Context in which no other thread holds the lock that reading takes."""
        return self._lock

    @contextmanager
    def joint(self) -> Iterator[None]:
        """Context in which the commits of this thread are seen by it alone, and become one at its end."""
        with self._lock:
            self._require_open()
            before, moved = self._committed, dict(self._moved)
            self._joint_thread = get_ident()
            self._joint = joint = before._replace(epoch=before.epoch + 1, tail=before.tail.copy())
        try:
            yield
            with self._lock:
                if self._joint is None:
                    raise StorageError("an error has undone the commit", hint="Try it again.")
                joint, self._joint = self._joint, None
                self._committed = joint
        except BaseException:
            self._joint, self._moved = None, moved
            raise

    def require_writable(self) -> None:
        """Refuse if the store is closed."""
        if self._closed or self._unsure:
            self.recover()

    def recover(self) -> None:
        """Return to the last commit after an exception has interrupted the next one."""
        with self._lock:
            self._joint = None
            self._require_open()

    def compaction_due(self, name: str, most: int | None = None) -> bool:
        """True if the map has so many small changes that summing them pays.

        With ``most``, as in ``compact``, later epochs are left alone.
        """
        with self._lock:
            history, tail, rows = self._now.history(name), self._now.tail, self.rows(name)
            if tail.count(name) + history.changes <= COMBINE_AT or rows <= COMPACT_AT:
                return False
            is_large = tail.rows(name) >= LARGE_CHANGE * tail.count(name)
            if most is not None and is_large and history.oldest >= self._now.oldest:
                return False  # nothing to sum, and nothing gained by copying large changes into one table
            summed = max(history.summed, tail.largest(name))
            return rows - summed > max(COMPACT_AT, summed)

    def compact(self, maps: Mapping[str, Map], most: int | None = None) -> int:
        """Sum the epochs that time travel no longer distinguishes; returns the bytes freed.

        With ``most``, segments of later epochs are left alone: each epoch keeps its own rows, so summing them gains
        next to nothing.
        """
        with self._lock:
            self._require_open()
            return sum(self._compact(name, map_, later=most is None) for name, map_ in maps.items())

    def trim(self, name: str, until: int, most: int | None = None) -> int:
        """Drop the epochs of a change log up to ``until``, and all but its newest ``most`` rows."""
        with self._lock:
            self._require_open()
            now = self._now
            if most is not None:
                until = max(until, now.tail.older(name, most))
            history = now.history(name)
            parts = tuple(part.after(until) for part in history.parts if part.last > until)
            self._now = now.having(name, replace(history, parts=parts), now.tail.trimmed(name, until))
            return until

    def forget(self, forgotten: Sequence[ExpiredEntries], *, now: bool = False) -> None:
        """Delete expired rows, which no change can reach, in all epochs; it is cheap in memory and done at once."""
        with self._lock:
            self._require_open()
            for one in forgotten:
                self._forget(one)

    def vacuum(self, keep: int) -> int:
        """Drop all but the last ``keep`` epochs: frees replaced maps at once, the rest when they are compacted."""
        with self._lock:
            self._require_open()
            now = self._now
            oldest = max(now.oldest, now.epoch - max(keep, 1) + 1)
            histories = {name: history.reaching(oldest) for name, history in now.histories.items()}
            self._now = now._replace(oldest=oldest, histories=histories)
            self._moved = positions_since(self.history(), oldest)
            return sum(history.bytes - histories[name].bytes for name, history in now.histories.items())

    def close(self, *, keep: bool = True) -> None:
        """Drop all data, and remove the temporary folder if there is one."""
        with self._lock:
            self._closed = True
            self._now, self._files = _CommittedEpoch(self.epoch, self.oldest, {}, {}, {}, RecentEpochs()), []
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def _require_open(self) -> None:
        if self._closed:
            raise StorageError("the warehouse is closed", detail="What it held was in memory alone.")
        if self._unsure:
            self._now.tail.cut(self._now.epoch)
            self._unsure = False

    def _compact(self, name: str, map_: Map, *, later: bool) -> int:
        now = self._now.settled(name)
        history = now.history(name)

        def is_due(part: TableSegment) -> bool:
            return part.ended is None and (later or part.first <= now.oldest)

        due = [part for part in history.parts if is_due(part)]
        kept = [part for part in history.parts if not is_due(part)]
        after = _summed(due, map_, now.oldest)
        rows = sum(part.table.num_rows for part in (*kept, *after) if part.ended is None)
        self._now = now.having(name, replace(history, parts=(*kept, *after), changes=0, summed=rows, oldest=now.oldest))
        return int(sum(part.table.nbytes for part in due) - sum(part.table.nbytes for part in after))

    def _forget(self, forgotten: ExpiredEntries) -> None:
        now = self._now.settled(forgotten.map)
        history = now.history(forgotten.map)
        tables = [part.table for part in history.parts]
        kept = unexpired_rows(tables, forgotten)
        parts = (replace(part, table=table) for part, table in zip(history.parts, kept, strict=True))
        gone = sum(table.num_rows for table in tables) - sum(table.num_rows for table in kept)
        left = replace(history, parts=tuple(p for p in parts if p.table.num_rows), summed=max(history.summed - gone, 0))
        self._now = now.having(forgotten.map, left)

    def _temporary(self) -> Path:
        if self._folder is None:
            self._folder = TemporaryFolder()
        return self._folder.path

    def _file_of(self, part: TableSegment) -> RunFile:
        known = next((run for written, run in self._files if written is part), None)
        if known is not None:
            return known
        file = self._temporary() / f"{len(self._files)}.parquet"
        write_table(part.table, file)
        prefix = file.parent / "mapped" / file.stem
        run = RunFile(file, part.table.num_rows, file.stat().st_size, part.first, part.last, prefix)
        self._files.append((part, run))
        return run


def _summed(parts: Sequence[TableSegment], map_: Map, oldest: int) -> list[TableSegment]:
    """The same rows, with the epochs up to ``oldest`` as one."""
    if not parts:
        return []
    schema = stored_schema(map_fields(map_))
    whole = pa.concat_tables([part.load(schema) for part in parts])
    return [TableSegment(*one) for one in consolidate(whole, map_, oldest, whole=True, ordered=False)]


def _snapshot(now: _CommittedEpoch) -> StoreSnapshot:
    return StoreSnapshot(
        epoch=now.epoch,
        oldest=now.oldest,
        catalog=now.catalog,
        positions=now.positions,
        parts=lambda name: now.history(name).parts,
        tail=now.tail,
    )
