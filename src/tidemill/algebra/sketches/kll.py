"""KLL sketches: samples of values at several levels, each of twice the weight of the one below.

Up to ``k`` values all are kept, and quantiles and ranks are exact. Beyond that every second value of a full level moves
up; Spark tosses a coin which, here it is always the first.
"""

from __future__ import annotations

import math
import struct
from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tidemill.model.errors import ArithmeticFault

DEFAULT_K, LEAST_K, MOST_K = 200, 8, 65535
LEAST_CAPACITY = 8
FAMILY = 15
EMPTY, SINGLE = 1, 4
"""The flags of a sketch."""


@dataclass(frozen=True, slots=True)
class Kll:
    """``count`` values, of which ``levels`` has some, the last added first; ``ends`` are the least and greatest."""

    k: int
    count: int
    levels: tuple[tuple[Any, ...], ...]
    ends: tuple[Any, Any] | None

    def weighted(self) -> list[tuple[Any, int]]:
        """The kept values in ascending order, with their weights."""
        return sorted((value, 1 << level) for level, values in enumerate(self.levels) for value in values)

    def quantile(self, share: float) -> Any:
        """The least value up to which at least that share of all values lies."""
        wanted, reached = math.ceil(share * self.count), 0
        for value, weight in self.weighted():
            reached += weight
            if reached >= max(wanted, 1):
                return value
        return None if self.ends is None else self.ends[1]

    def rank(self, value: Any) -> float:
        """The share of all values up to ``value``."""
        return sum(weight for kept, weight in self.weighted() if kept <= value) / self.count


def sketch_of(values: Iterable[Any], k: int) -> Kll:
    """The sketch of values that arrive in this order.

    >>> sketch_of([1, 2, 3, 4], 200).quantile(0.5)
    2
    """
    return _grown(Kll(k, 0, ((),), None), [(value, 0) for value in values])


def _grown(start: Kll, arriving: Iterable[tuple[Any, int]]) -> Kll:
    levels, count, ends = [list(level) for level in start.levels], start.count, start.ends
    for value, level in arriving:
        while len(levels) <= level:
            levels.append([])
        if level:
            insort(levels[level], value)
        else:
            levels[0].insert(0, value)
        count += 1 << level
        ends = (value, value) if ends is None else (min(ends[0], value), max(ends[1], value))
        _compact(levels, start.k)
    while len(levels) > 1 and not levels[-1]:
        levels.pop()
    return Kll(start.k, count, tuple(map(tuple, levels)), ends)


def _compact(levels: list[list[Any]], k: int) -> None:
    """Where the levels have more values than room, move half of the first full one up."""
    while sum(map(len, levels)) > sum(_capacity(k, len(levels), height) for height in range(len(levels))):
        full = next(h for h, level in enumerate(levels) if len(level) >= _capacity(k, len(levels), h))
        if full == len(levels) - 1:
            levels.append([])
        # The newest value of the first level stays where it is.
        newest = levels[full][:1] if full == 0 else []
        moving = sorted(levels[full][len(newest) :])
        odd = moving[:1] if len(moving) % 2 else []
        moving = moving[len(odd) :]
        levels[full] = [*newest, *odd]
        levels[full + 1] = sorted([*levels[full + 1], *moving[::2]])


def _capacity(k: int, count: int, height: int) -> int:
    depth = count - height - 1
    return max(LEAST_CAPACITY, int(((2 * k << depth) // 3**depth + 1) >> 1))


def merged(start: Kll, sketches: Iterable[Kll]) -> Kll:
    """``start`` with all values of ``sketches``, those of each level in the order in which it holds them."""
    for one in sketches:
        arriving = [(value, height) for height, level in enumerate(one.levels) for value in level]
        start = _grown(start, sorted(arriving, key=lambda item: -item[1]))
        if one.ends is not None and start.ends is not None:
            ends = min(start.ends[0], one.ends[0]), max(start.ends[1], one.ends[1])
            start = replace(start, ends=ends)
    return start


def summary(sketch: Kll, form: str, write: Callable[[Any], str]) -> str:
    """The description of a sketch as the library prints it; ``write`` writes a value."""
    height, kept = len(sketch.levels), sum(map(len, sketch.levels))
    room = sum(_capacity(sketch.k, height, one) for one in range(height))
    assert sketch.ends is not None
    facts = {
        "K": sketch.k,
        "Dynamic min K": sketch.k,
        "M": LEAST_CAPACITY,
        "N": sketch.count,
        "Epsilon": f"{2.296 / sketch.k**0.9723:.3%}",
        "Epsilon PMF": f"{2.446 / sketch.k**0.9433:.3%}",
        "Empty": "false",
        "Estimation Mode": str(height > 1).lower(),
        "Levels": height,
        "Level 0 Sorted": "false",
        "Capacity Items": room,
        "Retained Items": kept,
        "Free Space": room - kept,
        "ReadOnly": "false",
        "Updatable Storage Bytes": 24 + 4 * height + struct.calcsize(form) * (room + 2),
        "Compact Storage Bytes": len(to_bytes(sketch, form)),
        "Min Item": write(sketch.ends[0]),
        "Max Item": write(sketch.ends[1]),
    }
    name = {"q": "Longs", "d": "Doubles", "f": "Floats"}[form]
    lines = [f"### KllKll{name}Sketch Summary:", *(f"   {fact:<23}: {value}" for fact, value in facts.items())]
    return "\n" + "\n".join([*lines, "### End sketch summary", ""])


# ------------------------------------------------------------------------------------------------------------- bytes


def to_bytes(sketch: Kll, form: str) -> bytes:
    """The bytes of a sketch of values of that form: ``q`` for BIGINT, ``d`` for DOUBLE, ``f`` for FLOAT.

    >>> to_bytes(sketch_of([0], 200), "q").hex()
    '02020f04c80008000000000000000000'
    """
    if not sketch.count or sketch.ends is None:
        return struct.pack("<4BHBx", 2, 1, FAMILY, EMPTY, sketch.k, LEAST_CAPACITY)
    if sketch.count == 1:
        return struct.pack(f"<4BHBx{form}", 2, 2, FAMILY, SINGLE, sketch.k, LEAST_CAPACITY, sketch.levels[0][0])
    height = len(sketch.levels)
    room = sum(_capacity(sketch.k, height, one) for one in range(height))
    starts, place = [], room - sum(map(len, sketch.levels))
    for level in sketch.levels:
        starts.append(place)
        place += len(level)
    items = [value for level in sketch.levels for value in level]
    head = struct.pack("<4BHBxQHBx", 5, 1, FAMILY, 0, sketch.k, LEAST_CAPACITY, sketch.count, sketch.k, height)
    return head + struct.pack(f"<{height}I{2 + len(items)}{form}", *starts, *sketch.ends, *items)


def from_bytes(data: bytes, form: str) -> Kll:
    """The sketch with these bytes; an ArithmeticFault if they are none."""
    try:
        return _read(data, form)
    except (struct.error, IndexError, ValueError):
        raise ArithmeticFault("these bytes are no KLL sketch") from None


def _read(data: bytes, form: str) -> Kll:
    longs, version, family, flags, k = struct.unpack_from("<4BH", data)
    if family != FAMILY or version not in (1, 2) or longs not in (2, 5):
        raise ValueError("another kind of sketch")
    if flags & EMPTY:
        return Kll(k, 0, ((),), None)
    if flags & SINGLE or version == 2:
        (value,) = struct.unpack_from(f"<{form}", data, 8)
        return Kll(k, 1, ((value,),), (value, value))
    count, _, height = struct.unpack_from("<QHB", data, 8)
    starts = struct.unpack_from(f"<{height}I", data, 20)
    kept = sum(_capacity(k, height, one) for one in range(height)) - starts[0]
    least, greatest, *items = struct.unpack_from(f"<{2 + kept}{form}", data, 20 + 4 * height)
    bounds = [*(start - starts[0] for start in starts), kept]
    levels = tuple(tuple(items[one:other]) for one, other in pairwise(bounds))
    return Kll(k, count, levels, (least, greatest))
