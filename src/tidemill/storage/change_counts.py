"""Counts of the rows that epochs have inserted, updated and deleted in a map.

Nothing is counted while epochs are committed: a map is counted when its changes become a run, from their weights and
epochs, and what is still in the log when somebody asks. The counts are in the manifest beside the runs, so they are
those of the epochs that are committed, also after a crash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.changes.arrow import integer_array
from tidemill.model.schema import EPOCH, WEIGHT

HALF_LIFE = 256
"""Epochs after which a change counts half as much among the recent ones."""


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Rows inserted, updated and deleted in a map, by how many epochs, and the last of these.

    An epoch that both deletes and inserts rows updates as many as it can have: the lesser number of the two. ``recent``
    are the same three counts, in which a change that is ``HALF_LIFE`` epochs older than ``last`` counts half.

    >>> def counts(weights, epochs): return ChangeCounts.of(np.array(weights), np.array(epochs))
    >>> counts([1, 1, 1, -1, 1], [1, 1, 2, 3, 3])
    ChangeCounts(inserted=3, updated=1, deleted=0, epochs=3, last=3, recent=(2.986..., 1.0, 0.0))
    >>> counts([5], [1]) + counts([-2], [257])
    ChangeCounts(inserted=5, updated=0, deleted=2, epochs=2, last=257, recent=(2.5, 0.0, 2.0))
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    epochs: int = 0
    last: int = 0
    recent: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @classmethod
    def of(cls, weights: npt.NDArray[np.int64], epochs: npt.NDArray[np.int64]) -> ChangeCounts:
        """The counts of weighted rows, each of an epoch, in the order of epochs."""
        if not len(weights):
            return cls()
        starts = np.flatnonzero(epochs[1:] != epochs[:-1]) + 1
        firsts = np.concatenate([[0], starts])
        numbers = epochs[firsts]
        both, net = (np.add.reduceat(one, firsts) for one in (np.abs(weights), weights))
        came, left = (both + net) // 2, (both - net) // 2
        updated = np.minimum(came, left)
        kinds = (came - updated, updated, left - updated)
        last = int(numbers[-1])
        ages = np.exp2((numbers - last) / HALF_LIFE)
        inserted, updates, deleted = (int(kind.sum()) for kind in kinds)
        recent = tuple(float(kind @ ages) for kind in kinds)
        return cls(inserted, updates, deleted, len(numbers), last, (recent[0], recent[1], recent[2]))

    @classmethod
    def of_tables(cls, *tables: pa.Table) -> ChangeCounts:
        """The counts of stored rows, which may be in several tables."""
        weights, epochs = ([_numbers(table.column(name)) for table in tables] for name in (WEIGHT, EPOCH))
        return cls.of(np.concatenate(weights), np.concatenate(epochs))

    @classmethod
    def of_uncounted(cls, rows: int, epoch: int) -> ChangeCounts:
        """The counts of a map that was stored before there were any, as if its rows had come in its last epoch."""
        return cls(inserted=rows, epochs=1 if rows else 0, last=epoch, recent=(float(rows), 0.0, 0.0))

    @classmethod
    def from_json(cls, said: Any) -> ChangeCounts:
        """The counts as a manifest has them."""
        return cls(**{**said, "recent": tuple(said["recent"])})

    def __add__(self, later: ChangeCounts) -> ChangeCounts:
        """The counts together with those of later epochs."""
        last = max(self.last, later.last)
        aged, more = self.recent_at(last), later.recent_at(last)
        return ChangeCounts(
            self.inserted + later.inserted,
            self.updated + later.updated,
            self.deleted + later.deleted,
            self.epochs + later.epochs,
            last,
            (aged[0] + more[0], aged[1] + more[1], aged[2] + more[2]),
        )

    def recent_at(self, epoch: int) -> tuple[float, float, float]:
        """The recent counts as of an epoch that is not before the last one counted."""
        age = 2.0 ** ((self.last - epoch) / HALF_LIFE)
        inserted, updated, deleted = self.recent
        return inserted * age, updated * age, deleted * age

    @property
    def rows(self) -> int:
        """The rows that are left, each as often as it is there."""
        return self.inserted - self.deleted

    @property
    def changes(self) -> int:
        """All rows that were inserted, updated or deleted."""
        return self.inserted + self.updated + self.deleted


NO_CHANGES = ChangeCounts()
"""The counts of a map that never changed."""


def condensed(marks: pa.Table) -> pa.Table:
    """Weights and epochs of stored rows with the same counts: rows of one epoch as two, those that came and that left.

    >>> condensed(pa.table({WEIGHT: [1, 2, -1, 1], EPOCH: [5, 5, 5, 5]})).to_pydict()
    {'_weight': [4, -1], '_epoch': [5, 5]}
    """
    epochs, weights = (_numbers(marks.column(name)) for name in (EPOCH, WEIGHT))
    if len(epochs) < 2 or epochs.min() != epochs.max():
        return marks
    came = int(weights[weights > 0].sum())
    return marks_of(came, came - int(weights.sum()), int(epochs[0]))


def marks_of(came: int, left: int, epoch: int) -> pa.Table:
    """Weights and epochs that count as rows of one epoch do, of which so many came and left."""
    columns = [np.array(one, np.int64) for one in ((came, -left), (epoch, epoch))]
    return pa.Table.from_arrays([integer_array(one) for one in columns], names=[WEIGHT, EPOCH])


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """The whole numbers of a column, as they lie in its buffers.

    Arrow's own conversion imports pandas when it is first called, which takes longer than all else in a commit.
    """
    parts = [
        np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), chunk.offset * np.dtype(np.int64).itemsize)
        for chunk in column.chunks
        if len(chunk)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])
