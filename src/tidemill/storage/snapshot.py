"""Snapshots: an epoch that a reader has opened, unaffected by later commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import pyarrow as pa

from tidemill.model.errors import EpochGone
from tidemill.model.schema import EPOCH
from tidemill.model.types import Field
from tidemill.storage.commits.manifest import LostEpochs, WarehouseState
from tidemill.storage.segments import (
    FindRows,
    RecentEpochs,
    Segment,
    check_readable,
    find_rows,
    read_segments,
    stored_schema,
)
from tidemill.storage.store import ColumnValues


@dataclass(frozen=True, eq=False)
class StoreSnapshot:
    """The maps of a store as of ``epoch``. While it is open, no file that it may read is deleted.

    >>> from tidemill.storage.memory_store import MemoryStore
    >>> with MemoryStore().pin() as snapshot:
    ...     snapshot.epoch, snapshot.read("never written", []).num_rows
    (0, 0)
    """

    epoch: int
    oldest: int
    catalog: Mapping[str, object]
    positions: Mapping[str, str]
    parts: Callable[[str], Sequence[Segment]]
    tail: RecentEpochs
    on_close: Callable[[StoreSnapshot], None] = field(default=lambda snapshot: None)
    losses: tuple[LostEpochs, ...] = ()
    reading: Callable[[], AbstractContextManager[None]] = nullcontext
    """Context of every read, which says what has become of files that are no longer there."""

    def read(
        self,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None = None,
        since: int | None = None,
        where: ColumnValues | None = None,
    ) -> pa.Table:
        """Rows of map ``name`` of epochs in ``(since, until]``, as ``Store.read`` gives them."""
        bound = check_readable(self.oldest, self.epoch, since, until)
        require_not_lost(self.losses, name, since, bound)
        parts = [*self.parts(name), *self.tail.parts(name, since=since, until=bound)]
        with self.reading():
            return read_segments(parts, stored_schema(fields), since, bound, where)

    def find(self, name: str, fields: Sequence[Field], columns: Sequence[Field], find: FindRows) -> pa.Table:
        """The rows of map ``name`` that ``find`` finds by some columns, with their weights and what it says of them."""
        require_not_lost(self.losses, name, None, self.epoch)
        parts = [*self.parts(name), *self.tail.parts(name, since=None, until=self.epoch)]
        by = pa.schema([stored_schema(fields).field(one.name) for one in columns])
        with self.reading():
            return find_rows(parts, stored_schema(fields), self.epoch, by, find)

    def epochs(self, name: str, since: int) -> set[int]:
        """The epochs after ``since`` that changed map ``name``. Of a file that has one epoch nothing is read."""
        bound = check_readable(self.oldest, self.epoch, since, None)
        found = set(self.tail.numbers(name, since=since, until=bound))
        for part in self.parts(name):
            if part.last <= since or part.ended is not None:
                continue
            if part.first == part.last:
                found.add(part.last)
            else:
                numbers = part.load(stored_schema(())).column(EPOCH).unique().to_pylist()
                found.update(number for number in numbers if since < number <= bound)
        return found

    def close(self) -> None:
        """Release the epoch."""
        self.on_close(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def require_not_lost(losses: Sequence[LostEpochs], name: str, since: int | None, until: int) -> None:
    """Refuse to read map ``name`` as of epochs that were damaged and could not be restored."""
    for loss in losses:
        for asked in (since, until):
            if loss.map in (None, name) and asked is not None and loss.first <= asked <= loss.last:
                raise EpochGone(
                    f'"{name}" can no longer be read as of epoch {asked}',
                    detail=f"{loss.reason} Epochs {loss.first} to {loss.last} are affected.",
                    hint="Read the current epoch, or one before the damage.",
                )


class OpenSnapshots:
    """The open snapshots of a folder, and the run files that must be kept for them.

    These are the files of every state since the first snapshot was opened, not only of the pinned states: a reader may
    also have asked for files by name meanwhile.
    """

    def __init__(self) -> None:
        self._open: set[StoreSnapshot] = set()
        self._states: list[WarehouseState] = []

    def add(self, snapshot: StoreSnapshot, state: WarehouseState) -> StoreSnapshot:
        """Add a snapshot that was taken of ``state``."""
        if not self._open:
            self._states = [state]
        self._open.add(snapshot)
        return snapshot

    def discard(self, snapshot: StoreSnapshot) -> None:
        """Remove a snapshot; with the last one, the files kept for them are released."""
        self._open.discard(snapshot)
        if not self._open:
            self._states = []

    def witness(self, state: WarehouseState) -> None:
        """Keep the files of a new state too, if a snapshot is open."""
        if self._open:
            self._states.append(state)

    def files(self) -> set[str]:
        """The files that must be kept."""
        return {file for state in self._states for file in state.files()}
