"""The order of rows: that of ORDER BY, with a tie-breaking rule, so that no two different rows are equal in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.functions.comparison import order_key


@dataclass(frozen=True, slots=True)
class SortOrder:
    """One term of an ORDER BY."""

    scalar: Scalar
    descending: bool = False
    nulls_first: bool = True


def sort_key(values: Sequence[Any], order: Sequence[SortOrder]) -> Any:
    """A key for ``sorted``: of two rows with these values of the terms, the one that comes first has the smaller key.

    >>> from tidemill.algebra.expressions.scalars import Column
    >>> from tidemill.model.types import INT
    >>> down = SortOrder(Column("n", INT), descending=True, nulls_first=False)
    >>> sorted([None, 1, 3, 2], key=lambda n: sort_key((n,), (down,)))
    [3, 2, 1, None]
    """
    return tuple([_term(value, one) for value, one in zip(values, order, strict=True)])


def _term(value: Any, order: SortOrder) -> Any:
    if value is None:
        return (0,) if order.nulls_first else (2,)
    key = order_key(value)
    return (1, descending_key(key) if order.descending else key)


def _compare(one: Any, other: Any) -> int:
    return int(one < other) - int(one > other)


descending_key: Callable[[Any], Any] = cmp_to_key(_compare)
"""A key that compares the other way round."""
