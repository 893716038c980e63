"""Aggregates that need more than sums: their values are read from bags, which are piles of what they look at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import MultisetEnd
from tidemill.algebra.aggregates.registry import aggregate_multiset, function_of
from tidemill.algebra.user_functions import aggregate_of
from tidemill.changes.zset import Row
from tidemill.runtimes.native.operators.groups import GroupOutput, OutputRow
from tidemill.runtimes.native.operators.retractable import RetractableStates
from tidemill.runtimes.native.state.maps import RowMap
from tidemill.runtimes.native.state.ordered_groups import GroupVersion, OrderedGroup, OrderedGroupIndex, SortKeyOf


@dataclass(frozen=True, slots=True)
class MaintainedValue:
    """A bag that need not be looked into, because the state of its aggregate is kept."""

    value: Callable[[], Any]


@dataclass(frozen=True)
class MultisetAggregate:
    """A bag that an aggregate looks at: the entries of ``map`` under a key of ``width`` columns.

    ``seen`` gives what the aggregate sees of an entry. The least and the greatest are at an end, percentiles at places
    that are found by their number, all others look at the whole bag.
    """

    map: str
    width: int
    place_of: SortKeyOf
    call: AggregateCall
    seen: Callable[[Row], Row]

    @property
    def group_index_name(self) -> tuple[str, SortKeyOf]:
        """The map and the order in which its entries are read."""
        return self.map, self.place_of

    def ordered_groups(self, maps: Mapping[str, RowMap]) -> OrderedGroupIndex:
        """The bags of all keys."""
        return maps[self.map].ordered_groups(self.width, self.place_of)

    def sides(
        self, key: Row, pile: OrderedGroup, maps: Mapping[str, RowMap]
    ) -> tuple[GroupVersion | MaintainedValue, GroupVersion | MaintainedValue]:
        """What the aggregate is to be computed from, before the epoch and after it."""
        aggregate = aggregate_of(self.call)
        if aggregate is None or not aggregate.takes_back or self.call.distinct:
            return pile.before, pile.now
        states = maps[self.map].states(self.call, lambda: RetractableStates(self.width, aggregate, self.seen))
        return MaintainedValue(partial(states.before, key, pile)), MaintainedValue(partial(states.now, key, pile))

    def value(self, bag: GroupVersion | MaintainedValue) -> Any:
        """The value of the aggregate over a bag, before the epoch or after it."""
        if isinstance(bag, MaintainedValue):
            return bag.value()
        function = function_of(self.call)
        if function.end is not None:
            ends = bag.ascending() if function.end is MultisetEnd.LEAST else bag.descending()
            found = next(ends, None)
            return None if found is None else self.seen(found[0][-1])[0]
        # Positions count every row; those among distinct values are found by looking at all of them.
        if function.positions is not None and not self.call.distinct:
            return aggregate_multiset(self.call, self._around(bag, function.positions))
        return aggregate_multiset(self.call, [(self.seen(place[-1]), weight) for place, weight in bag.ascending()])

    def _around(self, bag: GroupVersion, positions: Callable[[AggregateCall, int], set[int]]) -> list[tuple[Row, int]]:
        """The entries at the positions that are looked at, each as often as there are rows up to the next one."""
        count = bag.sums()[0]
        found = sorted({bag.select(place) for place in positions(self.call, count)} if count else ())
        starts = [0, *(bag.sums(place)[0] for place in found[1:]), count]
        return [(self.seen(place[-1]), starts[i + 1] - starts[i]) for i, place in enumerate(found)]


class MultisetGroupOutput(GroupOutput):
    """One row for each key of a map, computed from its entry and from bags of what belongs to the key."""

    def __init__(
        self,
        source: str,
        row: Callable[..., OutputRow],
        bags: Sequence[MultisetAggregate],
        *,
        always: bool,
        repeats: bool,
    ) -> None:
        super().__init__(source, row, always=always, repeats=repeats)
        self._bags = bags

    def now(self, maps: Mapping[str, Any]) -> Iterator[tuple[Row, OutputRow]]:
        """Each touched key with what it gives now; nobody asks how its bags were."""
        held = {bag.group_index_name: bag.ordered_groups(maps) for bag in self._bags}
        moved = [{key[: bag.width]: None for key in maps[bag.map].journal} for bag in self._bags]
        for key, (_, after) in self._touched(maps, moved).items():
            here = {name: piles.pile(key) for name, piles in held.items()}
            sides = [bag.sides(key, here[bag.group_index_name], maps)[1] for bag in self._bags]
            yield key, self._found(key, after, sides)

    def _both(self, maps: Mapping[str, Any]) -> Iterator[tuple[OutputRow, OutputRow]]:
        # Aggregates that look at one bag in one order share its piles.
        held = {bag.group_index_name: bag.ordered_groups(maps) for bag in self._bags}
        moved = {name: dict(piles.moved(maps[name[0]].touched())) for name, piles in held.items()}
        for key, (before, after) in self._touched(maps, moved.values()).items():
            here = {name: piles[key] if key in piles else held[name].pile(key) for name, piles in moved.items()}
            sides = [bag.sides(key, here[bag.group_index_name], maps) for bag in self._bags]
            old = self._found(key, before, [side for side, _ in sides])
            yield old, self._found(key, after, [side for _, side in sides])

    def _touched(self, maps: Mapping[str, Any], moved: Collection[Iterable[Row]]) -> dict[Row, tuple[Any, Any]]:
        """The entries before and now of all keys that the epoch has touched, in the map itself or in a bag only."""
        held = maps[self.source]
        touched = {key: (before, after) for key, before, after in held.touched()}
        others = [key for key in dict.fromkeys(key for piles in moved for key in piles) if key not in touched]
        for name in {self.source, *(bag.map for bag in self._bags)}:
            maps[name].fill([*touched, *others])
        return touched | {key: (held.entries.get(key), held.entries.get(key)) for key in others}

    def _all(self, maps: Mapping[str, Any]) -> Iterator[OutputRow]:
        piles = [bag.ordered_groups(maps) for bag in self._bags]
        for key, entry in self._entries(maps):
            yield self._found(key, entry, [held.pile(key).now for held in piles])

    def _found(self, key: Row, entry: Any, bags: Sequence[GroupVersion | MaintainedValue]) -> OutputRow:
        """The row of a key; bags are looked into only where there is one."""
        if entry is None and not self._always:
            return None
        return self._row(key, entry, *[bag.value(held) for bag, held in zip(self._bags, bags, strict=True)])
