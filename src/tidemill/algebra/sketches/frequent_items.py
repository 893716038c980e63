"""Frequent items: how often values come, for the most frequent of them, in the hash table of Apache DataSketches.

While there are no more different values than are tracked, counts are exact, and only the order of values that come
equally often is the table's. Beyond that the table gives up rare values, and the order in which values come matters.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tidemill.algebra.sketches.murmur import W64, finished
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Type

DEFAULT_TRACKED, MOST_TRACKED = 10_000, 1_000_000
"""Number of tracked values, by default and at most."""

FAMILY, VERSION, LEAST_LG, SAMPLES = 10, 1, 3, 1024
EMPTY = 5
"""The flags of a sketch without values."""

STRIDE = (math.sqrt(5) - 1) / 2
"""The share of the table that lies between two places that are read one after the other."""

EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(slots=True)
class FrequentItems:
    """The counts of values in a table of at most ``2**most``; what was given up of each value is ``offset``."""

    of: Type
    most: int
    size: int = LEAST_LG
    slots: list[tuple[Any, int] | None] = field(default_factory=lambda: [None] * (1 << LEAST_LG))
    count: int = 0
    weight: int = 0
    offset: int = 0
    nulls: int = 0

    def add(self, item: Any, weight: int) -> None:
        """Count a value so many times."""
        if item is None:
            self.nulls += weight
            return
        self.weight += weight
        self._put(item, weight)
        if self.count > len(self.slots) * 3 // 4:
            self._make_room()

    def _put(self, item: Any, weight: int) -> None:
        place = finished(java_hash(item, self.of) & W64) & len(self.slots) - 1
        while (found := self.slots[place]) is not None and found[0] != item:
            place = place + 1 & len(self.slots) - 1
        self.slots[place] = (item, weight + (found[1] if found else 0))
        self.count += found is None

    def _make_room(self) -> None:
        kept = [entry for entry in self.slots if entry is not None]
        if self.size < self.most:
            self.size += 1
        else:
            sample = sorted(weight for _, weight in kept[: min(SAMPLES, (1 << self.most) * 3 // 4)])
            rare = sample[len(sample) // 2]
            self.offset += rare
            kept = [(item, weight - rare) for item, weight in kept if weight > rare]
        self.slots, self.count = [None] * (1 << self.size), 0
        for item, weight in kept:
            self._put(item, weight)

    def merge(self, other: FrequentItems) -> None:
        """Count the values of another sketch as well."""
        for item, weight in other.in_strides():
            self.add(item, weight)
        self.offset += other.offset
        self.weight += other.weight - sum(weight for _, weight in other.in_strides())
        self.nulls += other.nulls

    def in_strides(self) -> Iterator[tuple[Any, int]]:
        """The values and counts in the order in which the table is read."""
        step, place = int(len(self.slots) * STRIDE) | 1, 0
        for _ in self.slots:
            if (entry := self.slots[place]) is not None:
                yield entry
            place = place + step & len(self.slots) - 1

    def top(self, wanted: int) -> tuple[tuple[Any, int], ...]:
        """The most frequent values and their counts; NULL comes behind values that come as often."""
        found = [(item, count + self.offset) for item, count in self.in_strides() if count > self.offset]
        if self.nulls:
            found.append((None, self.nulls))
        return tuple(sorted(found, key=lambda entry: -entry[1])[:wanted])


def sketch_of(items: Iterable[tuple[Any, int]], of: Type, tracked: int) -> FrequentItems:
    """The sketch of values of a type with how often each comes.

    >>> sketch_of([("a", 1), ("b", 3)], t.STRING, 100).top(5)
    (('b', 3), ('a', 1))
    """
    sketch = FrequentItems(of, table_size(tracked))
    for item, weight in items:
        sketch.add(item, weight)
    return sketch


def table_size(tracked: int) -> int:
    """The binary logarithm of the largest table for so many values, which is three quarters full then."""
    return max((-(-4 * tracked // 3) - 1).bit_length(), LEAST_LG)


def java_hash(item: Any, of: Type) -> int:
    """The hash of a value as an object of Java."""
    match of:
        case t.Boolean():
            return 1231 if item else 1237
        case t.String():
            return _text_hash(item)
        case t.Float():
            return int(struct.unpack("<i", struct.pack("<f", item))[0])
        case t.Double():
            return _folded(struct.unpack("<q", struct.pack("<d", item))[0])
        case t.Decimal():
            return _decimal_hash(item)
        case t.BigInt() | t.Timestamp():
            return _folded(_number(item))
    return _number(item)


def _folded(number: int) -> int:
    """The halves of 64 bits as one number of 32."""
    return ((number ^ (number & W64) >> 32) + 2**31) % 2**32 - 2**31


def _text_hash(text: str) -> int:
    found = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        found = (31 * found + unit) % 2**32
    return (found + 2**31) % 2**32 - 2**31


def _decimal_hash(number: decimal.Decimal) -> int:
    """Numbers that are equal have one hash, whatever their type is."""
    if number == int(number):
        whole = int(number)
        return whole if -(2**31) <= whole < 2**31 else _folded(whole)
    double = float(number)
    narrow = struct.unpack("<f", struct.pack("<f", double))[0]
    return java_hash(double, t.FLOAT if narrow == double else t.DOUBLE)


def _number(item: Any) -> int:
    """The number of days or microseconds from 1970 on of a date or timestamp, or a number itself."""
    if isinstance(item, datetime.datetime):
        return (item - EPOCH) // datetime.timedelta(microseconds=1)
    return (item - EPOCH.date()).days if isinstance(item, datetime.date) else int(item)


# ------------------------------------------------------------------------------------------------------------- bytes


def to_bytes(sketch: FrequentItems) -> bytes:
    """The bytes of a sketch."""
    entries = [entry for entry in sketch.slots if entry is not None]
    nulls = struct.pack(">q", sketch.nulls)
    if not entries:
        return struct.pack("<6BH", 1, VERSION, FAMILY, sketch.most, sketch.size, EMPTY, 0) + nulls
    head = struct.pack("<6BH", 4, VERSION, FAMILY, sketch.most, sketch.size, 0, 0)
    numbers = struct.pack(f"<{3 + len(entries)}q", len(entries), sketch.weight, sketch.offset, *(n for _, n in entries))
    return head + numbers + _written([item for item, _ in entries], sketch.of) + nulls


def from_bytes(data: bytes, of: Type) -> FrequentItems:
    """The sketch of values of a type with these bytes; an ArithmeticFault if they are none."""
    try:
        longs, version, family, most, size, _ = struct.unpack_from("<6B", data)
        if (version, family) != (VERSION, FAMILY):
            raise ValueError("another kind of sketch")
        sketch = FrequentItems(of, most, size, [None] * (1 << size))
        if longs > 1:
            count, weight, offset = struct.unpack_from("<3q", data, 8)
            counts = struct.unpack_from(f"<{count}q", data, 32)
            for item, known in zip(_read(data[32 + 8 * count : -8], count, of), counts, strict=True):
                sketch._put(item, known)
            sketch.weight, sketch.offset = weight, offset
        (sketch.nulls,) = struct.unpack(">q", data[-8:])
    except (struct.error, ValueError, IndexError, OverflowError):
        raise ArithmeticFault("these bytes are no sketch of frequent items") from None
    return sketch


MARKED: dict[Type, tuple[int, str]] = {t.TINYINT: (2, "b"), t.SMALLINT: (3, "h"), t.INT: (9, "i"), t.DATE: (9, "i")}
"""Types whose values have a mark of their kind before them, and a form."""


def _form(of: Type) -> tuple[int | None, str]:
    """The mark and the form of the numbers of a type; no form for those of any length."""
    match of:
        case t.Decimal(precision=precision) if precision <= 9:
            return 9, "i"
        case t.Decimal(precision=precision) if precision <= 18:
            return None, "q"
        case t.Float():
            return 6, "f"
        case t.Double():
            return None, "d"
        case t.String() | t.Decimal():
            return None, ""
    return MARKED.get(of, (None, "q"))


def _written(items: list[Any], of: Type) -> bytes:
    if of == t.BOOLEAN:
        return bytes(sum(item << place for place, item in enumerate(items[i : i + 8])) for i in range(0, len(items), 8))
    mark, form = _form(of)
    before = b"" if mark is None else bytes([mark])
    if form:
        return b"".join(before + struct.pack(f"<{form}", _stored(item, of)) for item in items)
    pieces = (item.encode() if isinstance(item, str) else _unscaled_bytes(_stored(item, of)) for item in items)
    return b"".join(struct.pack("<i", len(piece)) + piece for piece in pieces)


def _stored(item: Any, of: Type) -> Any:
    if isinstance(of, t.Decimal):
        return int(item.scaleb(of.scale))
    return item if isinstance(item, float) else _number(item)


def _unscaled_bytes(number: int) -> bytes:
    """The shortest bytes of a number, the highest first."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def _read(data: bytes, count: int, of: Type) -> list[Any]:
    if of == t.BOOLEAN:
        return [bool(data[place // 8] >> place % 8 & 1) for place in range(count)]
    mark, form = _form(of)
    back = _restored(of)
    if form:
        entry = struct.Struct(f"<{'' if mark is None else 'x'}{form}")
        return [back(number) for (number,) in entry.iter_unpack(data[: entry.size * count])]
    found, place = [], 0
    for _ in range(count):
        (length,) = struct.unpack_from("<i", data, place)
        piece = data[place + 4 : place + 4 + length]
        found.append(piece.decode() if of == t.STRING else back(int.from_bytes(piece, "big", signed=True)))
        place += 4 + length
    return found


def _restored(of: Type) -> Callable[[Any], Any]:
    """The value of a type with a stored number."""
    match of:
        case t.Decimal(scale=scale):
            return lambda number: decimal.Decimal(number).scaleb(-scale)
        case t.Date():
            return lambda number: EPOCH.date() + datetime.timedelta(number)
        case t.Timestamp():
            return lambda number: EPOCH + datetime.timedelta(microseconds=number)
    return lambda number: number
