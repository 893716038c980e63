"""The order of replayed events.

Each entry names a table, and each table occurs once for each of its rows. Where no row depends on one before it, events
can be applied together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.hashing import hash_columns
from tidemill.model.errors import InvalidArgument, UnknownName
from tidemill.model.schema import WEIGHT, Table

__all__ = ["EventOrder", "order_matters", "parse_event_order"]

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


def order_matters(table: Table, change: ChangeSet) -> bool:
    """True if the rows of ``change`` might not mean the same one by one as together.

    They do where no key occurs twice, but for a row that is deleted before another one is inserted. Without a primary
    key, a row may occur several times if all of them are inserted, or all deleted.

    >>> from tidemill.model.types import INT, Field
    >>> table = Table("t", (Field("id", INT, nullable=False), Field("n", INT)), primary_key=("id",))
    >>> def matters(*pairs): return order_matters(table, ChangeSet.of(pairs, table.fields))
    >>> matters(((1, 5), -1), ((2, 5), 1), ((1, 6), 1)), matters(((1, 6), 1), ((1, 5), -1))
    (False, True)
    """
    rows = change.arrow()
    weights = rows.column(WEIGHT).to_numpy()
    if not table.primary_key:
        return bool((weights > 0).any() and (weights < 0).any())
    if not np.isin(weights, (-1, 1)).all():
        return True
    keys = hash_columns([rows.column(name) for name in table.primary_key])
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(again):
        return False
    first, second = order[again], order[again + 1]
    if (np.diff(again) == 1).any() or (weights[first] != -1).any() or (weights[second] != 1).any():
        return True
    # A row that is deleted and inserted as it was leaves nothing to check.
    others = hash_columns([rows.column(f.name) for f in table.fields])
    return bool((others[first] == others[second]).any())
