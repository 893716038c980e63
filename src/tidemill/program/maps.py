"""Maps: the state of a program. A key row leads to a weight and to ring values.

The weight of a key is how many rows carry it (COUNT(*) of a group, the multiplicity of a stored row). A ring value is
the sum of weight times an argument over those rows. Both add up, so a map is the sum of its changes, in any order.

=====================  =======================  ================
map                    keys                     values
=====================  =======================  ================
contents of a relation its columns              none
state of DISTINCT      the columns              none
state of GROUP BY      the grouping columns     sums and counts
=====================  =======================  ================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tidemill.algebra.aggregates.function import MultisetEnd
from tidemill.algebra.aggregates.partial_sums import LOW
from tidemill.model.types import BIGINT, DOUBLE, Field, Type

SPECIALS = (".nan", ".inf", ".ninf")
"""Columns that count the NaN, +inf and -inf of a DOUBLE ring value (with their weights).

The double-double sums the finite arguments only. So a NaN or an infinity can be deleted again without losing the finite
sum. Expressions see NaN if ``.nan`` is not 0 or both infinities are counted, else an infinity that is counted, else the
finite sum, rounded.
"""


@dataclass(frozen=True, slots=True)
class RingField:
    """A ring value: BIGINT, DECIMAL(38, s) or DOUBLE (kept as a double-double)."""

    name: str
    type: Type


@dataclass(frozen=True)
class Map:
    """A named piece of state: key columns, and the values summed for each key.

    With ``end`` it is a multiset from which nothing is deleted, and of the entries that differ only in their last key
    the least or greatest is needed. Runtimes may drop all others, and its weight means nothing.
    """

    name: str
    keys: tuple[Field, ...]
    values: tuple[RingField, ...] = ()
    end: MultisetEnd | None = None

    @cached_property
    def stored_fields(self) -> tuple[Field, ...]:
        """The columns in which it is stored: see ``map_fields``."""
        columns = list(self.keys)
        for value in self.values:
            columns.append(Field(value.name, value.type, nullable=False))
            if value.type == DOUBLE:
                columns.append(Field(value.name + LOW, DOUBLE, nullable=False))
                columns += [Field(value.name + special, BIGINT, nullable=False) for special in SPECIALS]
        return tuple(columns)


def map_fields(map_: Map) -> tuple[Field, ...]:
    """The columns in which a map is stored: keys, then values; a DOUBLE value is two DOUBLEs and three BIGINT counts.

    >>> [f.name for f in map_fields(Map("m", (Field("k", DOUBLE),), (RingField("s", DOUBLE),)))]
    ['k', 's', 's.lo', 's.nan', 's.inf', 's.ninf']
    """
    return map_.stored_fields
