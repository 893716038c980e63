"""Groups with a weight and ring values, and their changes in the columns of the store."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidemill.changes.zset import Row, WeightedRow
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BIGINT, DOUBLE, Decimal, Type
from tidemill.program.maps import SPECIALS, Map
from tidemill.runtimes.native.state import double_sums
from tidemill.runtimes.native.state.journaled_map import JournaledMap

MapSums = Mapping[Row, Any]
"""The amounts that a statement adds to a map: for each key its weight, or a list of the weight and the sums."""

RingEntry = tuple[Any, ...]
"""A key's weight and ring values; a DOUBLE value takes three places (``double_sums.DoubleSumState``)."""


class RingMap(JournaledMap[RingEntry]):
    """Groups: a weight and ring values for each key. A key of weight 0 has no entry, so its sums start again from 0.

    ``combine`` adds the sums of a statement for a key to the key's entry; it is generated for the map's values (see
    ``python.compile``), and ``zero`` is the entry of a missing key.
    """

    def __init__(self, map_: Map, zero: RingEntry, combine: Callable[[RingEntry, Sequence[Any]], RingEntry]) -> None:
        self._exact = exact_places(map_)
        self._whole = len(self._exact) == 1 + len(map_.values)
        super().__init__(tuple(zero[place] for place in self._exact))
        self._map = map_
        self._keys = len(map_.keys)
        self._doubles = tuple(value.type == DOUBLE for value in map_.values)
        self._plain = bool(map_.values) and all(value.type == BIGINT for value in map_.values)
        self._zero = zero
        self._combine = combine

    def numbers_of(self, entry: RingEntry) -> tuple[Any, ...]:
        """The weight and all sums but those of DOUBLE, in the order of the map's values."""
        return entry if self._whole else tuple([entry[place] for place in self._exact])

    def add(self, sums: MapSums) -> None:
        """Add to each key of ``sums`` the sums of a statement."""
        if self._snapshot is not None:
            self.fill(sums)
        if self._plain and not (self.entries or self.journal or self._followers):
            # As in a first load: integer sums added to nothing are the entry itself.
            self._came = {key: tuple(addend) for key, addend in sums.items() if addend[0]}
            self.journal.update(dict.fromkeys(sums))
            self.entries.update(self._came)
            return
        self._came = None
        entries, journal, zero, combine = self.entries, self.journal, self._zero, self._combine
        followers = self._followers
        for key, addend in sums.items():
            old = entries.get(key)
            if key not in journal:
                journal[key] = old
            new = combine(zero if old is None else old, addend)
            if new[0]:
                entries[key] = new
            elif old is not None:
                del entries[key]
            for follower in followers:
                follower.move(key, old, new if new[0] else None)

    def replace(self, sums: MapSums) -> None:
        """Set the contents to exactly ``sums``; entries that stay the same are not touched."""
        fresh = {key: entry for key, addend in sums.items() if (entry := self._combine(self._zero, addend))[0]}
        for key in [key for key in self.entries if key not in fresh]:
            self.set(key, None)
        for key, entry in fresh.items():
            if self.entries.get(key) != entry:
                self.set(key, entry)

    def _summed(self, stored: Iterable[WeightedRow]) -> dict[Row, RingEntry]:
        entries: dict[Row, RingEntry] = {}
        for row, weight in stored:
            key = row[: self._keys]
            entries[key] = self._combine(entries.get(key, self._zero), self._addend(row, weight))
        return {key: entry for key, entry in entries.items() if entry[0]}

    def catch_up(self, stored: Iterable[WeightedRow]) -> None:
        """Add stored changes that others have made. Only their total is checked, as in ``_summed``."""
        self.settle()
        moved: dict[Row, RingEntry] = {}
        for row, weight in stored:
            key = self._key_of(row)
            old = moved.get(key) or self.entries.get(key, self._zero)
            moved[key] = self._combine(old, self._addend(row, weight))
        for key, entry in moved.items():
            self._put(key, entry if entry[0] else None)

    def _key_of(self, stored: Row) -> Row:
        return stored[: self._keys]

    def changes(self) -> list[tuple[Row, int]]:
        """The epoch's net change, in the columns of ``map_fields``: added to the old entries it gives exactly the new
        ones."""
        result: list[tuple[Row, int]] = []
        for key, old, new in self.touched():
            if old != new:
                result += self._stored_change(key, old or self._zero, new or self._zero)
        return result

    def _stored_change(self, key: Row, old: RingEntry, new: RingEntry) -> list[tuple[Row, int]]:
        parts: list[Any] = []
        for (before, after), value in zip(self._values(old, new), self._map.values, strict=True):
            change = _difference(before, after, value.type)
            if change is None:
                if self._zero in (old, new):
                    raise ArithmeticFault(
                        f"a sum does not fit {value.type}: {after}", where=f"{self._map.name} {key!r}"
                    )
                # The difference of the two sums is not representable: retract the old entry, then insert the new one.
                return [*self._stored_change(key, old, self._zero), *self._stored_change(key, self._zero, new)]
            parts += change
        return [((*key, *parts), new[0] - old[0])]

    def _values(self, *entries: RingEntry) -> Iterator[tuple[Any, ...]]:
        """The ring values of several entries side by side, a DOUBLE value as its three parts."""
        place = 1
        for is_double in self._doubles:
            width = 3 if is_double else 1
            yield tuple(entry[place : place + 3] if is_double else entry[place] for entry in entries)
            place += width

    def _addend(self, row: Row, weight: int) -> list[Any]:
        """A stored change in the form in which a statement sums."""
        addend: list[Any] = [weight]
        stored = iter(row[self._keys :])
        for is_double in self._doubles:
            if is_double:
                addend.append([next(stored), next(stored)])
                counts = [next(stored) for _ in SPECIALS]
                addend.append(list(zip((math.nan, math.inf, -math.inf), counts, strict=True)) if any(counts) else [])
            else:
                addend.append(next(stored))
        return addend


def exact_places(map_: Map) -> tuple[int, ...]:
    """The positions of the weight and of the exact sums in an entry; a DOUBLE, which is none, takes three.

    >>> from tidemill.model.types import BIGINT
    >>> from tidemill.program.maps import RingField
    >>> exact_places(Map("m", (), (RingField("n", BIGINT), RingField("x", DOUBLE), RingField("m", BIGINT))))
    (0, 1, 5)
    """
    places, place = [0], 1
    for value in map_.values:
        if value.type == DOUBLE:
            place += 3
        else:
            places.append(place)
            place += 1
    return tuple(places)


def _difference(before: Any, after: Any, type_: Type) -> Sequence[Any] | None:
    """The stored columns of a change of a ring value; None if it is not representable in them."""
    if type_ == DOUBLE:
        change = double_sums.difference(after, before)
        return None if change is None else (change[0], change[1], *double_sums.unpack(change[2]))
    moved = after - before
    if isinstance(type_, Decimal):
        fits = moved.adjusted() < type_.precision - type_.scale
    else:
        fits = -(1 << 63) <= moved < 1 << 63
    return (moved,) if fits else None
