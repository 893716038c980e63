"""Seeded rows and changes of the workloads; a history knows its tables as they are now, for others to recompute from.

Of the rows that change 40 percent are new, 20 percent are updated and 40 percent are deleted, in every table as its
size says. So tables keep their size, and a case does not depend on those that were measured before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.schema import WEIGHT

Ids = npt.NDArray[np.int64]
Row = tuple[Any, ...]
Maker = Callable[[np.random.Generator, Ids, Mapping[str, Ids]], pa.Table]
"""Makes rows with these ids, given the ids that there are in each table."""

MIX = (0.4, 0.2, 0.4)
"""Of the rows that change: inserted, updated, deleted."""

WINDOW = 60
LATE, LATEST = 0.05, 3
"""The share of flows that come late, and by how many minutes at most."""

MINUTE = 60_000_000
START = int(datetime(2026, 1, 1).timestamp()) // 3600 * 3600 * 1_000_000


@dataclass(frozen=True)
class Change:
    """What happens to a table: rows that go and rows that come. An updated row is in both, and counts once."""

    gone: pa.Table
    come: pa.Table
    rows: int

    def weighted(self) -> pa.Table:
        """The change as Tidemill takes it, deletions first."""
        return pa.concat_tables([_with_weight(self.gone, -1), _with_weight(self.come, +1)])

    def pairs(self) -> list[tuple[int, Row]]:
        """The same as pairs of a weight and a row."""
        return [(-1, row) for row in rows_of(self.gone)] + [(+1, row) for row in rows_of(self.come)]


Epoch = dict[str, Change]


def size_of(epoch: Epoch) -> int:
    """How many rows an epoch changes."""
    return sum(change.rows for change in epoch.values())


class History(Protocol):
    """Rows of all tables, and what comes next."""

    tables: dict[str, pa.Table]

    def draw(self, rows: int) -> Epoch:
        """One epoch that changes so many rows."""
        ...

    def singles(self, count: int) -> list[Epoch]:
        """So many epochs of one row."""
        ...


class MixedHistory:
    """Tables with a key ``id`` whose rows come, go and change."""

    def __init__(self, sizes: Mapping[str, int], makers: Mapping[str, Maker], seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        self._makers = makers
        self._next = dict(sizes)
        self._live: dict[str, Ids] = {name: np.arange(size) for name, size in sizes.items()}
        self.tables = {name: self._make(name, self._live[name]) for name in sizes}

    def draw(self, rows: int) -> Epoch:
        """One epoch over all tables, each row changed at most once."""
        return {name: _change(*parts) for name, parts in self._draw(rows).items()}

    def singles(self, count: int) -> list[Epoch]:
        """Epochs of one row each, of different rows, so that they can be applied in any order."""
        epochs = [{name: change} for name, parts in self._draw(count).items() for change in _singly(*parts)]
        self._random.shuffle(epochs)
        return epochs

    def _draw(self, rows: int) -> dict[str, tuple[pa.Table, pa.Table, pa.Table, pa.Table]]:
        sizes = np.array([table.num_rows for table in self.tables.values()])
        shares = self._random.multinomial(rows, sizes / sizes.sum())
        return {name: self._part(name, int(share)) for name, share in zip(self.tables, shares, strict=True) if share}

    def _part(self, name: str, rows: int) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
        """Rows that are new, rows before and after their update, and rows that are deleted."""
        inserts, updates, deletes = map(int, self._random.multinomial(rows, MIX))
        table, first = self.tables[name], self._next[name]
        chosen = self._random.choice(table.num_rows, updates + deletes, replace=False)
        old, deleted = table.take(chosen[:updates]), table.take(chosen[updates:])
        new = self._make(name, old["id"].to_numpy())
        inserted = self._make(name, np.arange(first, first + inserts))
        left = np.ones(table.num_rows, dtype=bool)
        left[chosen] = False
        self._next[name] = first + inserts
        self.tables[name] = pa.concat_tables([table.filter(pa.array(left)), new, inserted]).combine_chunks()
        self._live[name] = self.tables[name]["id"].to_numpy()
        return inserted, old, new, deleted

    def _make(self, name: str, ids: Ids) -> pa.Table:
        return self._makers[name](self._random, ids, self._live)


class FlowHistory:
    """Flows that come in the order of time, a few late; ``tables`` has those of the last hour, others have expired."""

    def __init__(self, rows: int, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        self._each_minute = max(rows // WINDOW, 1)
        self._next = 0
        self.tables = {"flows": self._make(rows)}
        # The hour ends in the middle of a minute, so that some epochs of one row begin another one.
        self.draw(self._each_minute // 2)

    def draw(self, rows: int) -> Epoch:
        """The next flows, and those that expire by them."""
        come = self._make(rows)
        return {"flows": Change(self._expire(come), come, rows)}

    def singles(self, count: int) -> list[Epoch]:
        """Epochs of one flow each; flows expire with the first one of a minute."""
        come = self._make(count)
        minutes = np.maximum.accumulate(come["ts"].cast(pa.int64()).to_numpy() // MINUTE)
        starts = [0, *(np.flatnonzero(np.diff(minutes)) + 1).tolist(), count]
        epochs: list[Epoch] = []
        for start, stop in pairwise(starts):
            minute = come.slice(start, stop - start)
            gone = self._expire(minute)
            for place in range(minute.num_rows):
                epochs.append({"flows": Change(gone.slice(0, None if place == 0 else 0), minute.slice(place, 1), 1)})
        return epochs

    def _expire(self, come: pa.Table) -> pa.Table:
        """Let these flows come, and give those that are in the window no longer."""
        flows = pa.concat_tables([self.tables["flows"], come]).combine_chunks()
        minutes = pc.divide(flows["ts"].cast(pa.int64()), MINUTE)
        inside = pc.greater(minutes, pc.subtract(pc.max(minutes), WINDOW))
        self.tables["flows"] = flows.filter(inside)
        return flows.filter(pc.invert(inside))

    def _make(self, rows: int) -> pa.Table:
        draw = self._random
        ids = np.arange(self._next, self._next + rows)
        self._next += rows
        late = (draw.random(rows) < LATE) * draw.integers(0, LATEST * MINUTE, rows)
        ts = np.maximum(START + ids * MINUTE // self._each_minute - late, START)
        return pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us")),
                "id": ids,
                "src": draw.integers(0, 100, rows),
                "dest": draw.integers(0, 10, rows),
                "bytes": draw.integers(40, 1_500, rows),
            }
        )


def _change(inserted: pa.Table, old: pa.Table, new: pa.Table, deleted: pa.Table) -> Change:
    rows = inserted.num_rows + old.num_rows + deleted.num_rows
    return Change(pa.concat_tables([deleted, old]), pa.concat_tables([new, inserted]), rows)


def _singly(inserted: pa.Table, old: pa.Table, new: pa.Table, deleted: pa.Table) -> Iterator[Change]:
    """The same, a row at a time."""
    none = inserted.slice(0, 0)
    for place in range(inserted.num_rows):
        yield Change(none, inserted.slice(place, 1), 1)
    for place in range(old.num_rows):
        yield Change(old.slice(place, 1), new.slice(place, 1), 1)
    for place in range(deleted.num_rows):
        yield Change(deleted.slice(place, 1), none, 1)


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table as tuples."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _with_weight(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column(WEIGHT, pa.array(np.full(table.num_rows, weight)))
