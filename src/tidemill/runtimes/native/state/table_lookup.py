"""Lookups in tables, by which a change is checked against their contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from tidemill.changes.zset import Row, ZSet
from tidemill.model.schema import Table
from tidemill.runtimes.integrity import RowsUnderKey, WeightOf
from tidemill.runtimes.native.state.overlay import OverlaidRelation, index_key
from tidemill.runtimes.native.state.row_map import BULK_ROWS, RowMap
from tidemill.runtimes.native.state.snapshot import ColumnPositions


def net_rows(pairs: list[tuple[Row, int]]) -> ZSet:
    """The sum of weighted rows; if they are all distinct, as is usual, nothing is added up."""
    net = ZSet(pairs)
    if len(net) < len(pairs) or 0 in net.values():
        return ZSet.summed(pairs)
    return net


def adds_new_keys(table: Table, change: ZSet, contents: RowMap | OverlaidRelation) -> bool:
    """True if ``change`` only inserts one row for each of some new primary keys. Cheap if it does."""
    if (
        not table.primary_key
        or len(change) < BULK_ROWS
        or set(change.values()) != {1}
        or isinstance(contents, OverlaidRelation)
    ):
        return False
    keys = set(map(itemgetter(*table.key_positions), change))
    return len(keys) == len(change) and contents.index(table.key_positions).keys().isdisjoint(keys)


def rows_held(
    table: Table, contents: RowMap | OverlaidRelation, change: ZSet, near: ColumnPositions
) -> tuple[WeightOf, RowsUnderKey]:
    """The weight of a row in the table, and the rows under a primary key, for the rows of ``change``.

    A large table is looked up by the columns ``near``, the key or a part of it.
    """
    positions = table.key_positions
    if isinstance(contents, OverlaidRelation):
        if not positions:
            return contents.weights(change).weight, lambda key: ()
        found = contents.lookup(near, {tuple([row[i] for i in near]) for row in change})
        return rows_found(table, [pair for pairs in found.values() for pair in pairs])
    index = contents.index(positions) if positions else {}
    return lambda row: contents.entries.get(row, 0), lambda key: index.get(index_key(key), ())


def rows_found(table: Table, pairs: Iterable[tuple[Row, int]]) -> tuple[WeightOf, RowsUnderKey]:
    """The weight of a row, and the rows under a primary key, among the weighted rows under all keys of a change."""
    held = ZSet.summed(pairs)
    under = group_by_columns(held.items(), table.key_positions)
    return held.weight, lambda key: under.get(index_key(key), ())


def group_by_columns(pairs: Iterable[tuple[Row, int]], positions: tuple[int, ...]) -> dict[Any, list[tuple[Row, int]]]:
    """Weighted rows of a change by some of their columns; NULL equals nothing."""
    groups: dict[Any, list[tuple[Row, int]]] = {}
    for pair in pairs:
        key = tuple(pair[0][position] for position in positions)
        if None not in key:
            groups.setdefault(key if len(key) > 1 else key[0], []).append(pair)
    return groups


@dataclass(frozen=True, slots=True)
class CountedIndex:
    """An index that counts the rows found in it."""

    rows: Mapping[Any, Collection[Any]]
    relation: str
    reads: Counter[str]

    def get(self, key: Any, default: Collection[Any]) -> Collection[Any]:
        """The rows under a key."""
        found = self.rows.get(key, default)
        self.reads[self.relation] += len(found)
        return found
