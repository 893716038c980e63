"""Group sums: the rows of a view with sums, which add where their groups are the same.

A row has the columns of its group, the number of rows in it, and sums over them. The answer to a signed query holds
what the bound tuples add to these numbers and take from them, so several rows of one group mean their sum, and a row
of weight -1 means its negation. ``add_groups`` brings such rows to one for each group; a group without rows has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.zset import Row, ZSet
from tidemill.model.types import BIGINT, MAX_PRECISION, Type
from tidemill.model.types import Decimal as DecimalType

__all__ = ["GroupSums", "add_groups", "sum_type"]


class GroupSums:
    """The present row of each group; ``width`` is the number of columns of a group."""

    def __init__(self, width: int, rows: Iterable[tuple[Row, int]] = ()) -> None:
        self._width = width
        self._numbers: dict[Row, tuple[Any, ...]] = {}
        self.add(rows)

    def add(self, rows: Iterable[tuple[Row, int]]) -> ZSet:
        """Add weighted rows; returns the rows of groups that are replaced and those that replace them.

        >>> groups = GroupSums(1, [(("ann", 2, 30), 1)])
        >>> groups.add([(("ann", 1, 5), -1), (("bob", 1, 7), 1)])
        ZSet({('ann', 2, 30): -1, ('ann', 1, 25): 1, ('bob', 1, 7): 1})
        """
        change = ZSet()
        for group, numbers in add_numbers(rows, self._width).items():
            old = self._numbers.pop(group, None)
            if old is not None:
                change.add((*group, *old), -1)
                numbers = tuple(map(_plus, old, numbers))
            if any(numbers):
                self._numbers[group] = numbers
                change.add((*group, *numbers), 1)
        return change


def add_groups(rows: Iterable[tuple[Row, int]], width: int) -> ZSet:
    """One row for each group of weighted rows, whose first ``width`` columns are the group.

    >>> add_groups([(("ann", 1, 10), 2), (("ann", 1, 5), -1), (("bob", 1, 1), 1), (("bob", 1, 1), -1)], 1)
    ZSet({('ann', 1, 15): 1})
    """
    groups = add_numbers(rows, width)
    return ZSet({(*group, *numbers): 1 for group, numbers in groups.items() if any(numbers)})


def add_numbers(rows: Iterable[tuple[Row, int]], width: int) -> dict[Row, tuple[Any, ...]]:
    """The numbers of each group, added up."""
    groups: dict[Row, tuple[Any, ...]] = {}
    for row, weight in rows:
        group, numbers = row[:width], tuple([_times(number, weight) for number in row[width:]])
        known = groups.get(group)
        groups[group] = numbers if known is None else tuple(map(_plus, known, numbers))
    return groups


def sum_type(of: Type) -> Type:
    """The type of a sum of values of an exact type.

    >>> from tidemill.model.types import INT
    >>> print(sum_type(DecimalType(9, 2)), sum_type(INT))
    DECIMAL(38,2) BIGINT
    """
    return DecimalType(MAX_PRECISION, of.scale) if isinstance(of, DecimalType) else BIGINT


def _plus(one: Any, other: Any) -> Any:
    return EXACT.add(one, other) if isinstance(one, Decimal) else one + other


def _times(number: Any, weight: int) -> Any:
    return EXACT.multiply(number, Decimal(weight)) if isinstance(number, Decimal) else number * weight
