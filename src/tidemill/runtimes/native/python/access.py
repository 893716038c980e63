"""Access: the rows and entries that generated functions read, and their form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tidemill.changes.split import SplitColumns
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.statements import ChangeSubset, Version
from tidemill.runtimes.native.python.accumulation import zero_sum
from tidemill.runtimes.native.state import double_sums
from tidemill.runtimes.runtime import FieldsOf

NO_PLACES = SplitColumns((), (), ())


class AccessForm(Enum):
    """The form in which a function reads rows."""

    ROWS = "all rows, with their entries"
    INDEX = "rows by some of their columns"
    ENTRIES = "entries by whole keys"
    ORDER = "sums by some columns, in the order of another one"
    RANGE = "rows in the order of one of their columns"
    ELEMENTS = "rows of a change, with the elements of an array that differ"
    NUMBERED = "the same, each element with the number of equal ones before it"


@dataclass(frozen=True, slots=True)
class Access:
    """An input of a function: rows of a relation or entries of a map, in some form.

    ``positions`` are the columns that are looked up, or read beside the elements of the array at ``column``. Otherwise
    ``column`` is the position of the ordering column, ``floats`` is true if that is a DOUBLE. Of a change that is
    split, one ``part`` is read, found by ``places``.
    """

    relation: str
    version: Version
    form: AccessForm = AccessForm.ROWS
    positions: tuple[int, ...] = ()
    column: int = 0
    floats: bool = False
    part: ChangeSubset | None = None
    places: SplitColumns = NO_PLACES

    @property
    def changes(self) -> bool:
        """True if these are rows of a change, and not of the state before it."""
        return self.version is Version.CHANGE


@dataclass(frozen=True)
class RowShapes:
    """The columns of rows: of the maps of the stage, and of everything else that it reads."""

    maps: Mapping[str, Map]
    others: FieldsOf

    def fields(self, relation: str) -> tuple[Field, ...]:
        """The columns of a relation, or the keys of a map."""
        return self.maps[relation].keys if relation in self.maps else self.others(relation)

    def has_sums(self, relation: str) -> bool:
        """True if the entries of a map are tuples of numbers; otherwise they are weights."""
        return relation in self.maps and bool(self.maps[relation].values)

    def places(self, map_: str) -> dict[str, int]:
        """The positions of the weight and of each exact sum in an entry; a DOUBLE takes three."""
        places, place = {WEIGHT: 0}, 1
        for value in self.maps[map_].values:
            places[value.name] = place
            place += 3 if isinstance(value.type, t.Double) else 1
        return places

    def exact(self, map_: str) -> list[str]:
        """The weight and the exact sums in the order in which range sums have them."""
        return [WEIGHT, *(v.name for v in self.maps[map_].values if not isinstance(v.type, t.Double))]

    def zeros(self, map_: str) -> tuple[Any, ...]:
        """The weight and the exact sums of nothing."""
        return (0, *(zero_sum(v.type) for v in self.maps[map_].values if not isinstance(v.type, t.Double)))


def zero_entry(map_: Map) -> tuple[Any, ...]:
    """The entry of a missing key: its weight and its values, a DOUBLE in three places.

    >>> from tidemill.program.maps import RingField
    >>> zero_entry(Map("m", (), (RingField("n", t.BIGINT), RingField("x", t.DOUBLE))))
    (0, 0, 0.0, 0.0, 0)
    """
    entry: list[Any] = [0]
    for value in map_.values:
        entry += double_sums.ZERO if isinstance(value.type, t.Double) else (zero_sum(value.type),)
    return tuple(entry)
