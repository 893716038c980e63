"""A few records of a map as Python has them, one by one: as columns they would cost more than the epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.changes.arrow import canonical_double
from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Type
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.layout import I128, MapRecord, cell_type, is_object, is_window
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.scalars.conversions import inner_value
from tidemill.runtimes.native.state import double_sums

Records = npt.NDArray[np.void]

Cell = Any
"""A cell as NumPy gives it: a number, or the 16 bytes of a wide one."""

_BEYOND_DECIMAL: int = 10**t.MAX_PRECISION
_BEYOND_BIGINT = 2**63


class RecordReader:
    """Reads records of one map."""

    def __init__(self, map_: Map, record: MapRecord, strings: StringDictionary) -> None:
        names = list(record.columns.names or ())
        self._map = map_
        self._weight = names.index("weight")
        self._nulls = names.index("nulls") if record.nulls else None
        self._keys = [
            (names.index(f"key{i}"), 1 << i if key.nullable else 0, _reader(key.type, strings))
            for i, key in enumerate(map_.keys)
        ]
        self._values = [
            (tuple(map(names.index, parts)), value.type)
            for parts, value in zip(record.values, map_.values, strict=True)
        ]

    def keys(self, records: Records) -> list[Row]:
        """The key of each record."""
        return [self._key(record) for record in records.tolist()]

    def entries(self, records: Records) -> list[Any]:
        """The entry of each record in the form of ``state.maps``; None where the weight is 0."""
        return [self._entry(record) for record in records.tolist()]

    def touched(self, old: Records, new: Records) -> Iterator[tuple[Row, Any, Any]]:
        """The key of each record, with its entry before and now."""
        before, key, entry = old.tolist(), self._key, self._entry
        return zip(map(key, before), map(entry, before), map(entry, new.tolist()), strict=True)

    def stored_rows(self, records: Records) -> list[tuple[Row, int]]:
        """Each record as it is stored: keys, then values, and the weight. A sum that does not fit is a fault."""
        return [(self._key(record) + self._stored(record), record[self._weight]) for record in records.tolist()]

    def _key(self, record: tuple[Cell, ...]) -> Row:
        nulls = record[self._nulls] if self._nulls is not None else 0
        return tuple([None if nulls & bit else read(record[place]) for place, bit, read in self._keys])

    def _entry(self, record: tuple[Cell, ...]) -> Any:
        weight = record[self._weight]
        if not weight or not self._values:
            return weight or None
        entry = [weight]
        for places, type_ in self._values:
            if len(places) > 1:
                high, low, *counts = (record[place] for place in places)
                entry += [high, low, double_sums.pack(*counts)]
            else:
                entry.append(_sum(record[places[0]], type_))
        return tuple(entry)

    def _stored(self, record: tuple[Cell, ...]) -> Row:
        found: list[Any] = []
        for places, type_ in self._values:
            if len(places) > 1:
                found += [record[place] for place in places]
                continue
            number = int.from_bytes(record[places[0]], "little", signed=True)
            if not _fits(number, type_):
                raise ArithmeticFault(f"a sum does not fit {type_}: {number}", hint="Convert its argument to DOUBLE.")
            found.append(_number(number, type_))
        return tuple(found)


def _reader(type_: Type, strings: StringDictionary) -> Callable[[Cell], Any]:
    """From a cell to its inner value."""
    match type_:
        case t.Integral():
            return int
        case t.Floating():
            return canonical_double
        case t.Struct() if is_window(type_):
            return lambda cell: inner_value(int.from_bytes(cell, "little", signed=True), type_, strings.value)
        case _ if is_object(type_):
            return strings.nested
    if cell_type(type_) == I128:
        return lambda cell: _sum(cell, type_)
    return lambda cell: inner_value(cell, type_, strings.value)


def _sum(cell: Cell, type_: Type) -> Any:
    return _number(int.from_bytes(cell, "little", signed=True), type_)


def _fits(number: int, type_: Type) -> bool:
    if isinstance(type_, t.Decimal):
        return abs(number) < _BEYOND_DECIMAL
    return -_BEYOND_BIGINT <= number < _BEYOND_BIGINT


def _number(number: int, type_: Type) -> Any:
    """An integer or a DECIMAL, exactly, whatever the precision of the context."""
    if not isinstance(type_, t.Decimal):
        return number
    digits = tuple(map(int, str(abs(number))))
    return Decimal((number < 0, digits, -type_.scale))
