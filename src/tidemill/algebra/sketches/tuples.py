"""Tuple sketches: theta sketches whose hashes have a number each, the summary of the rows with that key.

Entries lie in a hash table, and bytes have them in its order, so a sketch is built in the table that Apache
DataSketches builds. Beyond the size of a sketch its hashes depend on the order of rows, which is ascending here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

from tidemill.algebra.sketches.theta import COMPACT, EMPTY, NO_LIMIT, READ_ONLY, SEED_HASH, Theta
from tidemill.model.errors import ArithmeticFault

FAMILY, COMPACT_KIND, VERSION = 9, 1, 3
"""The number of tuple sketches among all kinds of sketches, of compact ones among them, and of their format."""

MODES = ("sum", "min", "max", "alwaysone")
"""Ways to combine summaries of one key; a summary is stored with the place of its mode."""

INTEGER, DOUBLE = "i", "d"
"""The forms of summaries."""

LEAST_LG, GROWTH = 5, 3
"""Binary logarithms of the least size of a table, and of how much it grows at once."""

Summary = tuple[Any, int]
"""A number, and the place of the mode by which it was combined."""


@dataclass(frozen=True, slots=True)
class TupleSketch:
    """Hashes with summaries in the order of a table, all below ``limit``; ``empty`` if no key came at all."""

    entries: tuple[tuple[int, Summary], ...] = ()
    limit: int = NO_LIMIT
    empty: bool = True

    @property
    def share(self) -> float:
        """The share of all hashes that lie below the limit."""
        return self.limit / 2**63 if self.limit < NO_LIMIT else 1.0

    @property
    def estimate(self) -> float:
        """The number of different keys: exact while all hashes are kept."""
        return len(self.entries) / self.share


def neutral(mode: str, form: str) -> Any:
    """The summary of a key that has none, such as those of a theta sketch.

    >>> neutral("min", INTEGER), neutral("max", DOUBLE), neutral("alwaysone", INTEGER)
    (2147483647, -inf, 1)
    """
    extremes = (2**31 - 1, -(2**31)) if form == INTEGER else (float("inf"), float("-inf"))
    zero, one = (0, 1) if form == INTEGER else (0.0, 1.0)
    return (zero, *extremes, one)[MODES.index(mode)]


def combined(mode: str, form: str) -> Callable[[Any, Any], Any]:
    """The number for a key with two numbers; whole numbers wrap around as they do in Java."""
    match mode:
        case "sum" if form == INTEGER:
            return lambda one, other: (one + other + 2**31) % 2**32 - 2**31
        case "sum":
            return lambda one, other: one + other
        case "min":
            return lambda one, other: other if other < one else one
        case "max":
            return lambda one, other: other if other > one else one
    return lambda one, other: neutral(mode, form)


@dataclass(slots=True)
class Table:
    """The hash table of a sketch that keeps some ``2**lg`` hashes."""

    lg: int
    size: int = field(init=False)
    slots: list[tuple[int, Summary] | None] = field(init=False)
    count: int = 0
    limit: int = NO_LIMIT

    def __post_init__(self) -> None:
        target = self.lg + 1
        self.size = LEAST_LG if target <= LEAST_LG else (target - LEAST_LG) % GROWTH + LEAST_LG
        self.slots = [None] * (1 << self.size)

    def put(self, hash_: int, first: Summary, again: Callable[[Summary], Summary]) -> None:
        """Store a summary for a hash, ``first`` or what ``again`` makes of the one that is there."""
        if not 0 < hash_ < self.limit:
            return
        place = _place(self.slots, self.size, hash_)
        known = self.slots[place]
        self.slots[place] = (hash_, first if known is None else again(known[1]))
        self.count += known is None
        full = 15 / 16 if self.size > self.lg else 1 / 2
        if self.count > int(len(self.slots) * full):
            self._make_room()

    def _make_room(self) -> None:
        kept = [entry for entry in self.slots if entry is not None]
        if self.size > self.lg:
            self.limit = sorted(hash_ for hash_, _ in kept)[1 << self.lg]
            kept = [entry for entry in kept if entry[0] < self.limit]
        else:
            self.size += GROWTH
        self.slots, self.count = _table_of(kept, self.size), len(kept)

    @property
    def entries(self) -> list[tuple[int, Summary]]:
        """The entries in the order of the table."""
        return [entry for entry in self.slots if entry is not None]


def _place(slots: Sequence[tuple[int, Summary] | None], size: int, hash_: int) -> int:
    """The place of a hash in a table of ``2**size``, or the free one where it belongs."""
    step, place = 2 * (hash_ >> size & 127) + 1, hash_ & len(slots) - 1
    while (found := slots[place]) is not None and found[0] != hash_:
        place = place + step & len(slots) - 1
    return place


def _table_of(entries: Iterable[tuple[int, Summary]], size: int) -> list[tuple[int, Summary] | None]:
    slots: list[tuple[int, Summary] | None] = [None] * (1 << size)
    for entry in entries:
        slots[_place(slots, size, entry[0])] = entry
    return slots


def sketch_of(rows: Iterable[tuple[int, Any]], lg: int, mode: str, form: str) -> TupleSketch:
    """The sketch of keys, by their hashes, with a number each; a hash of 0 is no key.

    >>> sketch_of([(7, 1), (8, 5), (7, 2)], 12, "sum", INTEGER).entries
    ((7, (3, 0)), (8, (5, 0)))
    """
    table, join, place, seen = Table(lg), combined(mode, form), MODES.index(mode), False
    for hash_, number in rows:
        seen = seen or hash_ > 0
        first = join(neutral(mode, form), number)
        table.put(hash_, (first, place), lambda known, number=number: (join(known[0], number), place))  # type: ignore[misc]
    return TupleSketch(tuple(table.entries), table.limit, not seen)


def union(sketches: Iterable[TupleSketch], lg: int, mode: str, form: str) -> TupleSketch:
    """The sketch of the keys of either sketch, those of several with their summaries combined."""
    table, limit, empty = Table(lg), NO_LIMIT, True
    join, place = combined(mode, form), MODES.index(mode)
    for one in sketches:
        limit, empty = min(limit, one.limit), empty and one.empty
        for hash_, summary in one.entries:
            table.put(hash_, summary, lambda known, new=summary: (join(known[0], new[0]), place))  # type: ignore[misc]
        limit = min(limit, table.limit)
    kept = [entry for entry in table.entries if entry[0] < limit]
    if len(kept) > 1 << lg:
        limit = sorted(hash_ for hash_, _ in kept)[1 << lg]
        kept = [entry for entry in kept if entry[0] < limit]
    return TupleSketch(tuple(kept), limit, empty)


def intersection(sketches: Sequence[TupleSketch], mode: str, form: str) -> TupleSketch:
    """The sketch of the keys that all sketches have, with their summaries combined; of no sketch an empty one."""
    if not sketches or any(one.empty for one in sketches):
        return TupleSketch()
    join, place = combined(mode, form), MODES.index(mode)
    limit = min(one.limit for one in sketches)
    entries = _rehashed(sketches[0].entries)
    for one in sketches[1:]:
        known = dict(entries)
        shared = [(hash_, summary) for hash_, summary in one.entries if hash_ in known]
        entries = _rehashed([(hash_, (join(known[hash_][0], new), place)) for hash_, (new, _) in shared])
    return TupleSketch(tuple(entry for entry in entries if entry[0] < limit), limit, empty=False)


def _rehashed(entries: Sequence[tuple[int, Summary]]) -> list[tuple[int, Summary]]:
    """The entries in the order of a table that is three quarters full at most."""
    wanted = -(-4 * len(entries) // 3)
    return [entry for entry in _table_of(entries, max((wanted - 1).bit_length(), 4)) if entry is not None]


def difference(one: TupleSketch, hashes: Iterable[int], limit: int) -> TupleSketch:
    """The sketch of the keys of ``one`` that are not among the hashes of another sketch with that limit."""
    if one.empty:
        return one
    limit, left_out = min(one.limit, limit), set(hashes)
    kept = tuple(entry for entry in one.entries if entry[0] < limit and entry[0] not in left_out)
    return TupleSketch(kept, limit, empty=not kept and limit == NO_LIMIT)


def with_summaries(sketch: Theta, mode: str, form: str) -> TupleSketch:
    """A theta sketch as a tuple sketch with the summary that changes none."""
    summary = (neutral(mode, form), MODES.index(mode))
    return TupleSketch(tuple((hash_, summary) for hash_ in sketch.hashes), sketch.limit, sketch.empty)


# ------------------------------------------------------------------------------------------------------------- bytes


def to_bytes(sketch: TupleSketch, form: str) -> bytes:
    """The bytes of a sketch, with summaries of a form.

    >>> to_bytes(TupleSketch(), INTEGER).hex()
    '01030901000ecc93'
    """
    flags, exact = READ_ONLY | COMPACT, sketch.limit == NO_LIMIT
    if sketch.empty:
        return struct.pack("<6BH", 1, VERSION, FAMILY, COMPACT_KIND, 0, flags | EMPTY, SEED_HASH)
    count = len(sketch.entries)
    longs = 1 if count == 1 and exact else 2 if exact else 3
    head = struct.pack("<6BH", longs, VERSION, FAMILY, COMPACT_KIND, 0, flags, SEED_HASH)
    counted = struct.pack("<Q", count) if longs > 1 else b""
    limited = struct.pack("<Q", sketch.limit) if longs > 2 else b""
    entries = (struct.pack(f"<Q{form}B", hash_, *summary) for hash_, summary in sketch.entries)
    return head + counted + limited + b"".join(entries)


def from_bytes(data: bytes, form: str) -> TupleSketch:
    """The sketch with these bytes; an ArithmeticFault if they are none with summaries of that form."""
    try:
        return _read(data, form)
    except (struct.error, ValueError):
        raise ArithmeticFault("these bytes are no tuple sketch with such summaries") from None


def _read(data: bytes, form: str) -> TupleSketch:
    longs, version, family, kind, _, flags = struct.unpack_from("<6B", data)
    if (version, family, kind) != (VERSION, FAMILY, COMPACT_KIND):
        raise ValueError("another kind of sketch")
    if flags & EMPTY:
        return TupleSketch()
    count = struct.unpack_from("<I", data, 8)[0] if longs > 1 else 1
    limit = struct.unpack_from("<Q", data, 16)[0] if longs > 2 else NO_LIMIT
    body = data[8 * longs :]
    entry = struct.Struct(f"<Q{form}B")
    if len(body) < entry.size * count:
        raise ValueError("too few bytes")
    found = list(entry.iter_unpack(body[: entry.size * count]))
    if any(mode >= len(MODES) for _, _, mode in found):
        raise ValueError("another form of summaries")
    return TupleSketch(tuple((hash_, (number, mode)) for hash_, number, mode in found), limit, empty=False)


def summed_up(sketch: TupleSketch, mode: str, form: str) -> Any:
    """The summaries of all keys combined by a mode; of no key zero."""
    numbers = [number for _, (number, _) in sketch.entries]
    zero = 0 if form == INTEGER else 0.0
    if mode == "alwaysone":
        return zero + len(numbers)
    if mode == "sum":
        return reduce(add, numbers, zero)
    unknown = [number for number in numbers if math.isnan(number)]
    return unknown[0] if unknown else (min if mode == "min" else max)(numbers, default=zero)
