"""Relations that are defined by time partitions: each partition from a few others, never from all history.

Time is divided into partitions of equal length, numbered from 1970 on: of so many microseconds, or of so many calendar
months (``model.partition_lengths``). Relations may have partitions of different lengths of one kind, so their
boundaries agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidemill.algebra.expressions.scalars import Call, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BIGINT, BOOLEAN, Field

PARTITION_NUMBER = "partition"
"""The column of the partition number; queries cannot have a column of this name where it is visible."""

MOST_PARTITIONS = 1_000_000
"""Maximum number of partitions between the first and the last of a view: a wrong clock is refused."""


@dataclass(frozen=True, slots=True)
class Subscript:
    """The partition that is read for partition ``i``: number ``i * times // over + plus``.

    >>> Subscript(plus=-60).at(100), Subscript(times=5, plus=4).at(2), Subscript(over=5).at(14)
    (40, 14, 2)
    >>> str(Subscript(plus=-60)), str(Subscript(times=5, plus=4)), str(Subscript(over=5))
    ('i-60', '5*i+4', 'i/5')
    """

    plus: int = 0
    times: int = 1
    over: int = 1

    def at(self, number: int) -> int:
        """The number of the partition that partition ``number`` reads."""
        return number * self.times // self.over + self.plus

    def reaches(self, number: int) -> int:
        """The first partition that reads number ``number`` or a later one.

        >>> [Subscript(over=5).reaches(n) for n in (2, 3)], Subscript(times=5, plus=4).reaches(15)
        ([10, 15], 3)
        """
        return -((self.plus - number) * self.over // self.times)

    def __str__(self) -> str:
        scaled = f"{self.times}*i" if self.times != 1 else "i"
        scaled = f"{scaled}/{self.over}" if self.over != 1 else scaled
        return f"{scaled}{self.plus:+d}" if self.plus else scaled


@dataclass(frozen=True, slots=True)
class PartitionedInput:
    """A relation that slices are taken from: the first column of ``rows`` is the number of each row's partition.

    A row without a number (its time is NULL) is in no partition. ``every`` is the length of the partitions, of
    the kind of the relation's own; a feed of length 0 has none: it is read whole, its rows have no number, and it
    creates no partitions.
    """

    name: str
    rows: Relation
    every: int

    @property
    def rows_in_partitions(self) -> Relation:
        """The rows whose number is known, of a feed that has partitions."""
        number = self.rows.fields[0]
        return Filter(self.rows, Call("is_not_null", (column(number),), BOOLEAN)) if number.nullable else self.rows


@dataclass(frozen=True, slots=True)
class PartitionSlice:
    """Some partitions of a feed, or of the view itself, as one relation without numbers.

    From ``low`` to ``high``, both included; without ``low`` from the first on. Partitions that do not exist are empty.
    A feed without partitions is read whole (neither ``low`` nor ``high``). A body scans the relation ``name``, for
    example ``s[i-59..i]``.
    """

    feed: str
    low: Subscript | None
    high: Subscript | None

    @property
    def name(self) -> str:
        """The name of the relation in a body."""
        low, high = ("" if end is None else str(end) for end in (self.low, self.high))
        return f"{self.feed}[{high}]" if low == high else f"{self.feed}[{low}..{high}]"

    def has(self, number: int, beside: int) -> bool:
        """True if partition ``number`` of the feed is in the slice that partition ``beside`` reads."""
        first, last = self.readers(number)
        return first <= beside <= last

    def readers(self, number: int) -> tuple[float, float]:
        """The first and the last partition whose slice has partition ``number``; none if they cross.

        >>> PartitionSlice("s", Subscript(plus=-2), Subscript()).readers(7)
        (7, 9)
        >>> PartitionSlice("s", None, Subscript(over=5)).readers(2)
        (10, inf)
        """
        first = -math.inf if self.high is None else self.high.reaches(number)
        return first, math.inf if self.low is None else self.low.reaches(number + 1) - 1


@dataclass(frozen=True, slots=True)
class TimePartitioned(Relation):
    """A relation whose partition ``i`` is the result of ``update`` over the ``slices`` for i; the first, of
    ``initialize``.

    There is a partition for every number from the first to the last that a row of a feed falls into, including those in
    between, counted in partitions of this relation's own length ``every``. A slice whose feed is ``name`` has earlier
    partitions of the relation itself. The columns are the number, and then those of the bodies. Both bodies have the
    same columns, and scan nothing but slices.

    ``rolls`` does not affect the rows: partition i may be computed by moving the state that was kept for i-1.
    """

    name: str
    every: int
    feeds: tuple[PartitionedInput, ...]
    slices: tuple[PartitionSlice, ...]
    initialize: Relation
    update: Relation
    rolls: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        both = zip(self.initialize.fields, self.update.fields, strict=True)
        body = (Field(one.name, one.type, one.nullable or two.nullable) for one, two in both)
        return (Field(PARTITION_NUMBER, BIGINT, nullable=False), *body)

    def own_number(self, feed: PartitionedInput, number: int) -> int:
        """The partition of this relation in which partition ``number`` of a feed begins."""
        return number * feed.every // self.every


def last_beginning(number: int, every: int, other: int) -> int:
    """The last partition of length ``other`` that begins before partition ``number`` of length ``every`` ends.

    >>> last_beginning(2, 5, 1), last_beginning(14, 1, 5), last_beginning(1, -3, -1)
    (14, 2, 5)
    """
    return -(-(number + 1) * every // other) - 1


def too_many_partitions(first: int, last: int) -> ArithmeticFault:
    """The error for rows that are too far apart in time."""
    return ArithmeticFault(
        f"a view would have {last - first + 1:,} partitions, of which most are empty",
        hint="Look for rows with a wrong time, or cut time into longer partitions.",
    )
