"""Z-sets: rows with integer weights. A relation, a change and a view are all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

Row = tuple[Any, ...]
WeightedRow = tuple[Row, int]
WeightedRows = Iterable[WeightedRow]


class ZSet(dict[Any, int]):
    """A finite map from rows to non-zero weights.

    >>> orders = ZSet.of([("ann",), ("ann",), ("bob",)])
    >>> orders + ZSet({("ann",): -2})
    ZSet({('bob',): 1})
    """

    __slots__ = ()

    @classmethod
    def of(cls, rows: Iterable[Hashable]) -> ZSet:
        """Each row once for each time it is given."""
        given = list(rows)
        result = cls(dict.fromkeys(given, 1))
        if len(result) < len(given):
            result = cls()
            for row in given:
                result[row] = result.get(row, 0) + 1
        return result

    @classmethod
    def summed(cls, pairs: Iterable[tuple[Hashable, int]]) -> ZSet:
        """The sum of ``(row, weight)`` pairs."""
        result = cls()
        for row, weight in pairs:
            result.add(row, weight)
        return result

    def add(self, row: Hashable, weight: int) -> None:
        """Add ``weight`` to the weight of ``row``; a weight of zero is no entry at all."""
        total = self.get(row, 0) + weight
        if total:
            self[row] = total
        else:
            self.pop(row, None)

    def weight(self, row: Hashable) -> int:
        """The number of times that ``row`` occurs."""
        return self.get(row, 0)

    def update_by(self, other: ZSet) -> None:
        """``self += other``, at the cost of ``other``."""
        for row, weight in other.items():
            self.add(row, weight)

    def __add__(self, other: ZSet) -> ZSet:
        result = ZSet(self)
        result.update_by(other)
        return result

    def __neg__(self) -> ZSet:
        return ZSet({row: -weight for row, weight in self.items()})

    def __sub__(self, other: ZSet) -> ZSet:
        return self + -other

    def expand(self) -> Iterator[Any]:
        """Every row as often as its weight says; rows of negative weight are left out."""
        for row, weight in self.items():
            for _ in range(weight):
                yield row

    def __repr__(self) -> str:
        return f"ZSet({dict.__repr__(self)})"
