"""Costs of lookups, in values that could be read instead, by which it is decided when an index pays.

Nobody knows how many lookups are still to come. So an index is made once the lookups that had to do without it have
cost as much as making it costs: all of them together never cost more than twice what the best decision would have.
"""

from __future__ import annotations

LOOKUP_VALUES = 10_000
"""Values that could be read in the time that it takes to open a run and read its footer."""

FILE_VALUES = 20_000
"""Values that could be read in the time that it takes to create and map a file."""

COLUMN_VALUES = 2
"""Values that could be read in the time that it takes to copy one to a mapped file."""

INDEX_VALUES = 5
"""Values that could be read in the time that it takes to hash a row's key, and to sort and write it."""

WORTH = 1.0
"""The part of its cost that an index must have been missed for before it is made."""


def making_cost(rows: int, columns: int, indexes: int) -> float:
    """The cost of mapped copies of so many columns of a run, and of so many indexes."""
    return WORTH * (columns * (COLUMN_VALUES * rows + FILE_VALUES) + indexes * (INDEX_VALUES * rows + FILE_VALUES))
