"""The order in which the rows of a partition stand, as terms over the keys of their map."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.maps.group_order import KeyOrder
from tidemill.runtimes.native.python.row_functions import total_order

MAX_COLUMNS = 12
"""Columns at most that a sort key is made of."""


def has_sort_key(map_: Map, width: int, order: Sequence[SortOrder]) -> bool:
    """True if rows can be ordered by their columns, of which there are few."""
    terms = total_order(map_.keys, width, order)
    return len(terms) <= MAX_COLUMNS and all(isinstance(term.scalar, Column) for term in terms)


def sort_terms(map_: Map, width: int, order: Sequence[SortOrder]) -> tuple[KeyOrder, ...]:
    """The terms of an order by columns, then all other columns of a row, after the ``width`` ones of its partition."""
    places = {key.name: place for place, key in enumerate(map_.keys)}
    return tuple(
        KeyOrder(places[term.scalar.name], term.descending, term.nulls_first)
        for term in total_order(map_.keys, width, order)
        if isinstance(term.scalar, Column)
    )
