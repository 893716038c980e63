"""A store without a disk: the same promises, kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import RLock

import pyarrow as pa

from tidemill.changes.batch import Epoch
from tidemill.model.errors import StorageError
from tidemill.model.types import Field
from tidemill.program.forgetting import Forgotten
from tidemill.program.maps import Map, map_fields
from tidemill.storage.compact import fold
from tidemill.storage.forget import remaining
from tidemill.storage.parts import TablePart, Tail, check_number, check_reach, counts, stored_schema
from tidemill.storage.runs import write_table
from tidemill.storage.snapshot import Snapshot
from tidemill.storage.store import Run

SETTLE_AT = 64
"""Loose changes of a map that a read turns into one table, so that the next read finds them together."""

COMPACT_AT = 4096
"""Rows that must have come to a map, and as many as it had, for compaction to be worth while: its cost is then that of
a few rows for each one that came, and a map takes at most about twice the space that it must."""


@dataclass
class _History:
    """The settled part of a map: tables, and what is known of them since they were last summed.

    ``changes`` is how many they took in since then, ``summed`` how many rows they had then.
    """

    parts: list[TablePart] = field(default_factory=list)
    changes: int = 0
    summed: int = 0

    def end(self, epoch: int) -> None:
        """All of it counts only before ``epoch``."""
        self.parts = [part if part.ended is not None else replace(part, ended=epoch) for part in self.parts]

    def forget(self, oldest: int) -> int:
        """Drop what ended before the oldest epoch that is kept; returns its bytes."""
        gone = [part for part in self.parts if part.ended is not None and part.ended <= oldest]
        self.parts = [part for part in self.parts if part.ended is None or part.ended > oldest]
        return sum(part.table.nbytes for part in gone)


class MemoryStore:
    """Keeps each epoch's changes as they come. A commit appends to a few lists: microseconds, and no conversion.

    History grows with every epoch; ``vacuum`` sets how far back it must reach, and ``compact`` sums what lies before.

    >>> from tidemill.changes.batch import ChangeSet
    >>> from tidemill.model.types import STRING
    >>> fields, store = (Field("name", STRING),), MemoryStore()
    >>> store.commit(Epoch(1, {"people": ChangeSet.of([(("ann",), 1)], fields)}))
    >>> store.read("people", fields).to_pylist()
    [{'name': 'ann', '_weight': 1, '_epoch': 1}]
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._epoch = 0
        self._oldest = 0
        self._catalog: Mapping[str, object] = {}
        self._positions: Mapping[str, str] = {}
        self._histories: dict[str, _History] = {}
        self._tail = Tail()
        self._folder: TemporaryDirectory[str] | None = None
        self._files: list[tuple[TablePart, Run]] = []
        self._closed = False

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 before the first."""
        return self._epoch

    @property
    def oldest(self) -> int:
        """The oldest epoch that time travel still reaches."""
        return self._oldest

    @property
    def catalog(self) -> Mapping[str, object]:
        """The committed catalog; empty at first."""
        return self._catalog

    @property
    def positions(self) -> Mapping[str, str]:
        """Where each source stood at the last epoch."""
        return self._positions

    def read(
        self, name: str, fields: Sequence[Field], *, until: int | None = None, since: int | None = None
    ) -> pa.Table:
        """Rows of map ``name`` of epochs in ``(since, until]``: ``fields``, ``_weight``, ``_epoch``."""
        with self._lock:
            self._require_open()
            # A feed that takes the last few changes must not pay for gathering all of them.
            if since is None and self._tail.count(name) > SETTLE_AT:
                self._settle(name)
            return self._snapshot(self._histories, self._tail).read(name, fields, until=until, since=since)

    def pin(self) -> Snapshot:
        """The current epoch, to be read later as it is now."""
        with self._lock:
            self._require_open()
            histories = {name: _History(list(history.parts)) for name, history in self._histories.items()}
            return self._snapshot(histories, self._tail.copy())

    def runs(self, name: str, *, until: int | None = None) -> tuple[Run, ...]:
        """The map's rows in files of a temporary folder, for runtimes that read nothing but files."""
        with self._lock:
            self._require_open()
            bound = check_reach(self._oldest, self._epoch, None, until)
            self._settle(name)
            return tuple(self._file_of(part) for part in self._history(name).parts if counts(part, bound))

    def rows(self, name: str) -> int:
        """How many rows the map's changes hold, before summing."""
        with self._lock:
            self._require_open()
            settled = sum(int(p.table.num_rows) for p in self._history(name).parts if p.ended is None)
            return settled + self._tail.rows(name)

    def staging(self, name: str) -> Path:
        """A new empty folder for Parquet files of an epoch to come; it lives as long as the store."""
        with self._lock:
            return Path(mkdtemp(dir=self._temporary()))

    def append(self, epoch: Epoch) -> Callable[[], None]:
        """Take the epoch in; there is no disk to wait for."""
        self.commit(epoch)
        return lambda: None

    def refresh(self) -> bool:
        """Nobody else writes here."""
        return False

    def commit(self, epoch: Epoch) -> None:
        """Take the epoch in."""
        with self._lock:
            check_number(epoch.number, self._epoch)
            for name in epoch.dropped:
                self._histories.pop(name, None)
                self._tail.forget(name)
            for name in epoch.replaced:
                self._settle(name)
                self._history(name).end(epoch.number)
            for name, change in epoch.changes.items():
                if len(change):
                    self._tail.add(epoch.number, name, change)
            if epoch.positions:
                self._positions = {**self._positions, **epoch.positions}
            if epoch.catalog is not None:
                self._catalog = epoch.catalog
            self._epoch = epoch.number

    def compaction_due(self, name: str, most: int | None = None) -> bool:
        """Whether the map has taken in so many small changes that summing them is worth while. There are no files
        that could be left as they are, so ``most`` says nothing here."""
        with self._lock:
            history = self._history(name)
            came = self.rows(name) - history.summed
            return self._tail.count(name) + history.changes > SETTLE_AT and came > max(COMPACT_AT, history.summed)

    def compact(self, maps: Mapping[str, Map], most: int | None = None) -> int:
        """Sum what time travel no longer tells apart; returns bytes freed."""
        with self._lock:
            return sum(self._compact(name, map_) for name, map_ in maps.items())

    def trim(self, name: str, until: int, most: int | None = None) -> int:
        """Let go of what a log of changes has of epochs up to ``until``, and of all but its newest ``most`` rows."""
        with self._lock:
            if most is not None:
                until = max(until, self._tail.older(name, most))
            self._tail.trim(name, until)
            history = self._history(name)
            history.parts = [part.after(until) for part in history.parts if part.last > until]
            return until

    def forget(self, forgotten: Sequence[Forgotten], *, now: bool = False) -> None:
        """Let go of rows that nobody will ask for again, of all epochs; it is little work, so it is done at once."""
        with self._lock:
            for one in forgotten:
                self._forget(one)

    def vacuum(self, keep: int) -> int:
        """Forget all but the last ``keep`` epochs: frees replaced content at once, the rest when it is compacted."""
        with self._lock:
            self._oldest = max(self._oldest, self._epoch - max(keep, 1) + 1)
            return sum(history.forget(self._oldest) for history in self._histories.values())

    def close(self) -> None:
        """Forget everything, and remove the temporary folder, if there is one."""
        with self._lock:
            self._closed = True
            self._histories, self._tail, self._files = {}, Tail(), []
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def _require_open(self) -> None:
        if self._closed:
            raise StorageError("the warehouse is closed", detail="What it held was in memory alone.")

    def _history(self, name: str) -> _History:
        return self._histories.get(name) or self._histories.setdefault(name, _History())

    def _snapshot(self, histories: Mapping[str, _History], tail: Tail) -> Snapshot:
        nothing = _History()
        return Snapshot(
            epoch=self._epoch,
            oldest=self._oldest,
            catalog=self._catalog,
            positions=self._positions,
            parts=lambda name: histories.get(name, nothing).parts,
            tail=tail,
        )

    def _settle(self, name: str) -> None:
        part = self._tail.part(name)
        if part is not None:
            history = self._history(name)
            history.parts.append(part)
            history.changes += self._tail.count(name)
            self._tail.forget(name)

    def _compact(self, name: str, map_: Map) -> int:
        self._settle(name)
        history = self._history(name)
        live = [part for part in history.parts if part.ended is None]
        if not live:
            return 0
        schema = stored_schema(map_fields(map_))
        before = pa.concat_tables([part.load(schema) for part in live])
        after = [TablePart(table, first, last) for table, first, last in fold(before, map_, self._oldest, whole=True)]
        history.parts = [part for part in history.parts if part.ended is not None] + after
        history.changes, history.summed = 0, sum(part.table.num_rows for part in after)
        return int(before.nbytes - sum(part.table.nbytes for part in after))

    def _forget(self, forgotten: Forgotten) -> None:
        self._settle(forgotten.map)
        history = self._history(forgotten.map)
        tables = [part.table for part in history.parts]
        kept = remaining(tables, forgotten)
        parts = [replace(part, table=table) for part, table in zip(history.parts, kept, strict=True)]
        history.parts = [part for part in parts if part.table.num_rows]
        gone = sum(table.num_rows for table in tables) - sum(table.num_rows for table in kept)
        history.summed = max(history.summed - gone, 0)

    def _temporary(self) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="tidemill-")
        return Path(self._folder.name)

    def _file_of(self, part: TablePart) -> Run:
        known = next((run for written, run in self._files if written is part), None)
        if known is not None:
            return known
        file = self._temporary() / f"{len(self._files)}.parquet"
        write_table(part.table, file)
        run = Run(file, part.table.num_rows, file.stat().st_size, part.first, part.last)
        self._files.append((part, run))
        return run
