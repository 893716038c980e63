"""The order of replayed events.

Each entry names a table, and each table occurs once for each of its rows. Where no row depends on one before it, events
can be applied together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.changes.arrow import from_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.hashing import Hashes, hash_columns
from tidemill.changes.zset import Row
from tidemill.model.errors import InvalidArgument, UnknownName
from tidemill.model.schema import WEIGHT, Table
from tidemill.runtimes.integrity import not_appended

__all__ = ["EventOrder", "appending_entry", "event_slices", "parse_event_order", "rows_put_back"]

EventOrder = npt.NDArray[np.integer[Any]]
"""For each event the index of its relation among those replayed."""


def parse_event_order(order: Sequence[str] | EventOrder, changes: Mapping[str, ChangeSet]) -> EventOrder:
    """``order``, given as names of tables or their indexes in ``changes``, as indexes.

    >>> from tidemill.model.types import INT, Field
    >>> change = ChangeSet.of([((1,), 1), ((2,), 1)], (Field("a", INT),))
    >>> parse_event_order(["T", "t"], {"t": change}).tolist()
    [0, 0]
    """
    turns = order if isinstance(order, np.ndarray) else _places(order, changes)
    if turns.ndim != 1 or not (np.issubdtype(turns.dtype, np.integer) or not turns.size):
        raise InvalidArgument(f'"order" must be an array of whole numbers, and this has {turns.dtype} values')
    if turns.size and not (turns.min() >= 0 and turns.max() < len(changes)):
        raise InvalidArgument(f'"order" must have numbers from 0 to {len(changes) - 1}, the places of the tables')
    turns = turns.astype(np.int64) if not turns.size else turns
    for (name, change), wanted in zip(changes.items(), np.bincount(turns, minlength=len(changes)), strict=True):
        if len(change) != wanted:
            raise InvalidArgument(
                f'"order" has {wanted} events of "{name}", and {len(change)} rows of it are given',
                hint="Name a table once for each of its rows.",
            )
    return turns


def _places(order: Sequence[str], changes: Mapping[str, ChangeSet]) -> EventOrder:
    places = {name: place for place, name in enumerate(changes)}
    try:
        return np.array([places[name.lower()] for name in order], dtype=np.uint8 if len(places) < 256 else np.uint32)
    except KeyError as error:
        raise UnknownName(f"no rows of {error} are given", hint=f"There are rows of {', '.join(places)}.") from None


def rows_put_back(table: Table, change: ChangeSet) -> list[Row] | None:
    """The rows that are deleted and inserted as they were; None if order matters: the rows of ``change`` might not mean
    the same one by one as together.

    They do where no key occurs twice, but for a row that is deleted before another one is inserted. If that is the row
    itself, the two leave nothing to check together, so the caller has to see that the table has it. Without a primary
    key, a row may occur several times if all of them are inserted, or all deleted.

    >>> from tidemill.model.types import INT, Field
    >>> table = Table("t", (Field("id", INT, nullable=False), Field("n", INT)), primary_key=("id",))
    >>> def put_back(*pairs): return rows_put_back(table, ChangeSet.of(pairs, table.fields))
    >>> put_back(((1, 5), -1), ((2, 5), 1), ((1, 6), 1)), put_back(((1, 6), 1), ((1, 5), -1))
    ([], None)
    >>> put_back(((1, 5), -1), ((2, 5), -1), ((1, 5), 1))
    [(1, 5)]
    """
    rows = change.arrow()
    weights = rows.column(WEIGHT).to_numpy()
    if not table.primary_key:
        return None if (weights > 0).any() and (weights < 0).any() else []
    if not (np.abs(weights) == 1).all():
        return None
    twice = _found_twice(hash_columns([rows.column(name) for name in table.primary_key]))
    if twice is None:
        return None
    if not len(twice):
        return []
    signs = weights[twice]
    if (signs[0::2] != -1).any() or (signs[1::2] != 1).any():
        return None
    updated = rows.take(pa.array(twice))
    hashes = hash_columns([updated.column(f.name) for f in table.fields])
    equal = np.flatnonzero(hashes[0::2] == hashes[1::2])
    return [row for row, _ in from_arrow(updated.take(pa.array(2 * equal)), table.fields)]


def _found_twice(keys: Hashes) -> npt.NDArray[np.int64] | None:
    """The places of keys that occur twice, in pairs in the order in which they come; None if one occurs more often.

    >>> _found_twice(np.array([7, 5, 9, 5, 7], np.uint64)).tolist(), _found_twice(np.array([7, 7, 7], np.uint64))
    ([1, 3, 0, 4], None)
    """
    ascending = np.sort(keys)  # several times as fast as argsort, which only the keys that occur twice need
    again = ascending[1:][ascending[1:] == ascending[:-1]]
    if not len(again):
        return np.zeros(0, np.int64)
    places = np.flatnonzero(again[np.searchsorted(again, keys).clip(max=len(again) - 1)] == keys)
    return places[np.argsort(keys[places], kind="stable")] if len(places) == 2 * len(again) else None


def event_slices(
    turns: EventOrder, tables: Mapping[str, pa.Table], size: int
) -> Iterator[tuple[EventOrder, dict[str, pa.Table]]]:
    """Slices of ``size`` events, with their rows."""
    done = np.zeros(len(tables), dtype=np.int64)
    for start in range(0, len(turns), max(size, 1)):
        some = turns[start : start + size]
        taken = np.bincount(some, minlength=len(tables))
        yield some, {name: t.slice(at, n) for (name, t), at, n in zip(tables.items(), done, taken, strict=True)}
        done += taken


def appending_entry(table: Table, call: Callable[..., None]) -> Callable[..., None]:
    """The entry ``call`` for events, of a stream that is APPEND ONLY: machine code does not look at signs."""

    def append(weight: int, *row: Any) -> None:
        if isinstance(weight, int) and weight < 0:
            raise not_appended(table, f"{table.name} {row!r}")
        call(weight, *row)

    return append
