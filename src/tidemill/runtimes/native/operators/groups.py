"""Output rows of a stage from its maps, one for each key: those that an epoch has changed, or all after a load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import starmap
from typing import Any

from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.state.row_map import RowMap

ChangedRows = Callable[[Iterable[tuple[Row, int | None, int | None]]], dict[Row, int]]
"""The net change of rows, from touched entries before the epoch and now."""

OutputRow = Any
"""A row, a row with its multiplicity, or None for no row."""


class OutputOperator(ABC):
    """Computes output rows from maps. A map is anything that gives what an epoch has ``touched``."""

    keeps_best = False
    """True if a map keeps only entries that no other one beats, because none of its rows is ever deleted."""

    def leave_out_beaten(self, sums: dict[str, dict[Row, Any]], maps: Mapping[str, Any]) -> None:
        """Take what cannot matter from what is about to be added to maps, if they keep the best entries alone."""
        assert not self.keeps_best, "which entries are the best is for the operator to say"

    @abstractmethod
    def changed(self, maps: Mapping[str, Any]) -> dict[Row, int]:
        """Old rows retracted, new rows inserted, for all that the epoch has touched."""

    @abstractmethod
    def whole(self, maps: Mapping[str, Any]) -> ZSet:
        """The rows of maps that were filled in this epoch, so that all of their entries are touched."""


class GroupOutput(OutputOperator):
    """One row for each key of the map ``source``, given by ``row``; with ``repeats`` it also gives the multiplicity.

    Where a row is made of its key alone, ``changed_rows`` makes those that come and go, in one call.
    """

    def __init__(
        self,
        source: str,
        row: Callable[..., OutputRow],
        changed_rows: ChangedRows | None = None,
        *,
        always: bool,
        repeats: bool,
    ) -> None:
        self.source = source
        self._row = row
        self._changed_rows = changed_rows
        self._always = always
        self._repeats = repeats
        self._difference: Callable[[Iterable[tuple[OutputRow, OutputRow]]], dict[Row, int]] = (
            _difference_of_repeated if repeats else _difference
        )

    def changed(self, maps: Mapping[str, Any]) -> dict[Row, int]:
        """Old rows retracted, new rows inserted, for keys whose row has changed."""
        held = maps[self.source]
        if self._changed_rows is not None and type(held) is RowMap:
            return self._changed_rows(held.touched())
        return self._difference(self._both(maps))

    def whole(self, maps: Mapping[str, Any]) -> ZSet:
        """The rows of all keys."""
        return self._all_rows(self._all(maps))

    def _all_rows(self, rows: Iterable[OutputRow]) -> ZSet:
        found = [row for row in rows if row is not None]
        return ZSet.summed(found) if self._repeats else ZSet.of(found)

    def now(self, maps: Mapping[str, Any]) -> Iterator[tuple[Row, OutputRow]]:
        """The new row of each touched key, for a caller that knows the old one."""
        for key, _, after in maps[self.source].touched():
            yield key, None if after is None and not self._always else self._row(key, after)

    def _both(self, maps: Mapping[str, Any]) -> Iterator[tuple[OutputRow, OutputRow]]:
        """The old and the new row of each touched key."""
        row = self._row
        if self._always:
            return ((row(key, before), row(key, after)) for key, before, after in maps[self.source].touched())
        return (
            (None if before is None else row(key, before), None if after is None else row(key, after))
            for key, before, after in maps[self.source].touched()
        )

    def _all(self, maps: Mapping[str, Any]) -> Iterator[OutputRow]:
        return starmap(self._row, self._entries(maps))

    def _entries(self, maps: Mapping[str, Any]) -> list[tuple[Row, Any]]:
        entries = [(key, after) for key, _, after in maps[self.source].touched() if after is not None]
        return [((), None)] if self._always and not entries else entries


def _difference(found: Iterable[tuple[Row | None, Row | None]]) -> dict[Row, int]:
    net: dict[Row, int] = {}
    for old, new in found:
        if old == new:
            continue
        if old is not None:
            net[old] = net.get(old, 0) - 1
        if new is not None:
            net[new] = net.get(new, 0) + 1
    return net


def _difference_of_repeated(found: Iterable[tuple[tuple[Row, int] | None, tuple[Row, int] | None]]) -> dict[Row, int]:
    net: dict[Row, int] = {}
    for old, new in found:
        if old == new:
            continue
        if old is not None:
            net[old[0]] = net.get(old[0], 0) - old[1]
        if new is not None:
            net[new[0]] = net.get(new[0], 0) + new[1]
    return net


class StoredRowOutput(OutputOperator):
    """The rows of a map of rows, with their weights; ``row`` gives the output row for one, or None.

    Keys that differ only in columns that are not output (the iteration of a recursion) add up.
    """

    def __init__(self, kept: str, row: Callable[[Row, int], Row | None]) -> None:
        self.source = kept
        self._row = row

    def changed(self, maps: Mapping[str, Any]) -> dict[Row, int]:
        """The change of the epoch."""
        row_of = self._row
        moved = [
            (row, weight)
            for key, before, after in maps[self.source].touched()
            if (weight := (after or 0) - (before or 0)) and (row := row_of(key, 1)) is not None
        ]
        net = dict(moved)
        if len(net) < len(moved):
            net = dict.fromkeys(net, 0)
            for row, weight in moved:
                net[row] += weight
        return net

    def whole(self, maps: Mapping[str, Any]) -> ZSet:
        """All rows, of maps that were empty."""
        return ZSet.summed(self.changed(maps).items())
