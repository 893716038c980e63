"""Arrays of all values of a group (COLLECT_LIST, COLLECT_SET), edited as rows of large groups come and go."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import function_of, required_arguments
from tidemill.algebra.functions.comparison import order_key
from tidemill.changes.zset import Row
from tidemill.model.array_tree import ArrayTree, ArrayValue, as_array, is_long, spliced
from tidemill.runtimes.native.operators.retractable import ValuesOf
from tidemill.runtimes.native.state.ordered_groups import GroupVersion, OrderedGroup


class CollectedArrays:
    """Observes the map of a multiset. A group gets its array when it is first read, at the cost of the group; then a
    value that comes or goes is an edit of the array in O(log n). Small groups have none: they are read as they are.

    A rollback reverts the entries, and the arrays with them.
    """

    def __init__(self, width: int, call: AggregateCall, values_of: ValuesOf) -> None:
        self._width = width
        self._values_of = values_of
        self._different = function_of(call).idempotent
        self._skips_null = bool(required_arguments(call))
        self._arrays: dict[Row, tuple[ArrayValue, ArrayValue]] = {}
        """All values of a group in ascending order, and those of its array."""

    def fill(self, entries: Iterable[tuple[Row, int]]) -> None:
        """Do nothing: a group has no array before it is read."""

    def move(self, key: Row, old: int | None, new: int | None) -> None:
        """Change the weight of an entry; one with a negative weight is in no group yet."""
        group = key[: self._width]
        if group in self._arrays:
            self._arrays[group] = self._moved(self._arrays.pop(group), key, max(new or 0, 0) - max(old or 0, 0))

    def now(self, group: Row, ordered_group: OrderedGroup) -> ArrayValue:
        """The array of a group."""
        if group not in self._arrays:
            self._arrays[group] = self._sorted(ordered_group.new)
        return self._arrays[group][1]

    def before(self, group: Row, ordered_group: OrderedGroup) -> ArrayValue:
        """The array of a group before the epoch: the current one with its changes reverted."""
        self.now(group, ordered_group)
        arrays = self._arrays[group]
        for sort_key, old, new in ordered_group.changed:
            arrays = self._moved(arrays, sort_key[-1], old[0] - new[0])
        return arrays[1]

    def _sorted(self, version: GroupVersion) -> tuple[ArrayValue, ArrayValue]:
        found = [value for key, weight in version.ascending() for value in self._copies(key[-1], weight)]
        found.sort(key=order_key)
        every: ArrayValue = as_array(found)
        return every, as_array(_different(found)) if self._different else every

    def _copies(self, entry: Row, weight: int) -> tuple[Any, ...]:
        value = self._values_of(entry)[0]
        return () if value is None and self._skips_null else (value,) * weight

    def _moved(self, arrays: tuple[ArrayValue, ArrayValue], entry: Row, count: int) -> tuple[ArrayValue, ArrayValue]:
        """The arrays with so many copies of the value of an entry more, or fewer."""
        every, shown = arrays
        copies = self._copies(entry, abs(count))
        if not copies:
            return arrays
        value, (place, is_there) = copies[0], _place(every, copies[0])
        every = spliced(every, place, place, copies) if count > 0 else spliced(every, place, place + len(copies), ())
        if not self._different:
            return every, every
        stays = _place(every, value)[1]
        if is_there != stays:
            place = _place(shown, value)[0]
            shown = spliced(shown, place, place + is_there, (value,) if stays else ())
        return every, shown


def is_large(version: GroupVersion) -> bool:
    """True if a group has so many rows that its array is edited."""
    return is_long(version.sums()[0])


def _place(array: ArrayValue, value: Any) -> tuple[int, bool]:
    """The position of a value in an array in ascending order, and true if it is there."""
    sought = order_key(value)
    place = bisect_left(array, sought, key=order_key)
    return place, place < len(array) and order_key(array[place]) == sought


def _different(values: list[Any]) -> Iterator[Any]:
    """The different ones of values in ascending order."""
    last: Any = ArrayTree
    for value in values:
        key = order_key(value)
        if key != last:
            yield value
        last = key
