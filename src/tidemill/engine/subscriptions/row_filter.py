"""Filters of subscriptions: rows with given values in given columns, matched on whole columns."""

from __future__ import annotations

import decimal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_type, canonical_double, to_arrow, without_negative_zeros
from tidemill.changes.run_end_encoding import plain, taken
from tidemill.changes.zset import Row
from tidemill.model.coerce import coerce
from tidemill.model.errors import BadValue, UnknownName, Unsupported
from tidemill.model.schema import names_of
from tidemill.model.types import BIGINT, INT, Array, Decimal, Field, Floating, Map, Struct

Where = Mapping[str, Any]
"""Columns, each with a value or a collection of values."""

Int64Array = npt.NDArray[np.int64]

FILTER_CHUNK_ROWS = 1 << 16
"""Number of rows that are matched at once."""


class RowFilter:
    """The rows whose columns at ``positions`` are one of ``keys``. NULL is equal to NULL.

    >>> from tidemill.model.types import INT, STRING
    >>> fields = (Field("who", INT), Field("text", STRING))
    >>> parse_where({"who": [7, 9]}, fields, "posts").codes(to_arrow([((9, "a"), 1), ((8, "b"), 1)], fields)).tolist()
    [1, -1]
    """

    def __init__(self, fields: Sequence[Field], positions: tuple[int, ...], keys: Iterable[Row]) -> None:
        self.positions = positions
        self.keys = list(dict.fromkeys(keys))
        self._fields = [fields[position] for position in positions]

    @cached_property
    def asked(self) -> set[Row]:
        """The keys as a set, for lookup."""
        return set(self.keys)

    def key(self, row: Row) -> Row:
        """The values of a row in the filter columns."""
        return tuple([row[position] for position in self.positions])

    def codes(self, table: pa.Table) -> Int64Array:
        """For each row the index of its key, or -1: one hash lookup for each column."""
        if not self.keys:
            return np.full(table.num_rows, -1)
        codes = self._places(table, 0)
        for place, sought in enumerate(self._steps, start=1):
            codes = _joined(codes, self._places(table, place), len(self._values[place]), sought)
        return codes if len(self._fields) == 1 else np.where(codes < 0, -1, self._order[codes])

    def matches(self, table: pa.Table) -> tuple[Int64Array, Int64Array]:
        """The numbers of the rows that match, and the indexes of their keys.

        In chunks, so that intermediate arrays stay in the processor's caches.
        """
        rows, codes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for start in range(0, table.num_rows, FILTER_CHUNK_ROWS):
            found = self.codes(table.slice(start, FILTER_CHUNK_ROWS))
            hits = np.flatnonzero(found >= 0)
            rows.append(hits + start)
            codes.append(found[hits])
        return np.concatenate(rows), np.concatenate(codes)

    def matching(self, table: pa.Table) -> pa.Table:
        """The rows of a table that match."""
        return taken(table, self.matches(table)[0])

    def _places(self, table: pa.Table, place: int) -> Int64Array:
        field = self._fields[place]
        column = plain(table.column(field.name))
        near = self._near[place]
        if near is not None and not column.null_count:
            return near.places(column.to_numpy())
        if isinstance(field.type, Floating):
            column = without_negative_zeros(column)
        found = pc.fill_null(pc.index_in(column, value_set=self._values[place]), -1)
        return np.asarray(found.to_numpy(), dtype=np.int64)

    @cached_property
    def _values(self) -> list[pa.Array]:
        """The distinct values of each column; for a single column these are the keys, in the same order."""
        columns = [list(dict.fromkeys(key[place] for key in self.keys)) for place in range(len(self._fields))]
        return [
            to_arrow((((value,), 1) for value in values), (field,))
            .column(0)
            .combine_chunks()
            .cast(arrow_type(field.type))
            for field, values in zip(self._fields, columns, strict=True)
        ]

    @cached_property
    def _near(self) -> list[_DenseIndex | None]:
        """For each column a dense index, which needs no hashing, if its values are integers in a small range."""
        return [_DenseIndex.of(values) if field.type in (INT, BIGINT) else None for field, values in self._typed]

    @property
    def _typed(self) -> list[tuple[Field, pa.Array]]:
        return list(zip(self._fields, self._values, strict=True))

    @cached_property
    def _steps(self) -> list[Int64Array]:
        """For each column after the first, the distinct numbers of key prefixes up to it, ascending."""
        return [np.unique(numbers) for numbers in self._prefixes[1:]]

    @cached_property
    def _order(self) -> Int64Array:
        """The indexes of the keys, in the order of their last prefix numbers."""
        return np.argsort(self._prefixes[-1], kind="stable")

    @cached_property
    def _prefixes(self) -> list[Int64Array]:
        """For each column and key a number for its prefix up to that column, kept small by renumbering."""
        found: list[Int64Array] = []
        for place in range(len(self._fields)):
            places = {value: at for at, value in enumerate(dict.fromkeys(key[place] for key in self.keys))}
            numbers = np.array([places[key[place]] for key in self.keys], dtype=np.int64)
            if found:
                before = np.searchsorted(np.unique(found[-1]), found[-1]) if place > 1 else found[-1]
                numbers = before * len(places) + numbers
            found.append(numbers)
        return found


MAX_DENSE_RANGE = 1 << 22
"""Width of the range of integers up to which a dense index has an entry for each of them."""


@dataclass(frozen=True, slots=True)
class _DenseIndex:
    """Array from integers, offset by ``first``, to their indexes; the last entry stands for all others."""

    first: int
    table: Int64Array

    @classmethod
    def of(cls, values: pa.Array) -> _DenseIndex | None:
        """The dense index of these integers, unless it would be too large; it does not cover NULL."""
        bounds = pc.min_max(values)
        first, last = bounds["min"].as_py(), bounds["max"].as_py()
        if first is None or last - first >= MAX_DENSE_RANGE:
            return None
        table = np.full(last - first + 2, -1)
        known = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        table[values.take(pa.array(known)).to_numpy().astype(np.int64) - first] = known
        return cls(first, table)

    def places(self, numbers: npt.NDArray[Any]) -> Int64Array:
        """The index of each number, or -1. Offsets are unsigned, so numbers below ``first`` wrap to large ones."""
        with np.errstate(over="ignore"):
            offsets = (numbers.astype(np.int64, copy=False) - np.int64(self.first)).view(np.uint64)
        return self.table[np.minimum(offsets, np.uint64(len(self.table) - 1))]


def _joined(before: Int64Array, found: Int64Array, values: int, sought: Int64Array) -> Int64Array:
    """The indexes in ``sought`` of the numbers combined from the indexes of two columns; -1 if there is none."""
    numbers = before * values + found
    at = np.minimum(np.searchsorted(sought, numbers), len(sought) - 1)
    return np.where((before < 0) | (found < 0) | (sought[at] != numbers), -1, at)


def parse_where(where: Where, fields: Sequence[Field], view: str) -> RowFilter:
    """The filter for ``where``; unknown columns and values of other types are refused."""
    names = [name.lower() for name in names_of(fields)]
    wanted: dict[int, list[Any]] = {}
    for column, given in where.items():
        if column.lower() not in names:
            known = ", ".join(names_of(fields))
            raise UnknownName(
                f'view "{view}" has no column "{column}"',
                where=f"where {column}",
                detail=f"Its columns are {known}.",
                hint="Filter by a column that the view shows.",
            )
        position = names.index(column.lower())
        wanted[position] = list(_values_of(given, fields[position], f"{view}.{fields[position].name}"))
    positions = tuple(sorted(wanted))
    return RowFilter(fields, positions, product(*(wanted[position] for position in positions)))


def _values_of(given: Any, field: Field, place: str) -> Iterable[Any]:
    if isinstance(field.type, Array | Map | Struct):
        raise Unsupported(
            f"{place} cannot be filtered by",
            detail=f"Values of type {field.type} are not looked up.",
            hint="Filter by a plain column, or show a part of it as a column of its own.",
        )
    several = isinstance(given, Collection) and not isinstance(given, str | bytes)
    for value in given if several else (given,):
        inner = coerce(value, field.type, where=place)
        if isinstance(field.type, Decimal) and inner is not None and decimal.Decimal(str(value)) != inner:
            raise BadValue(f"{value!r} is not a value of type {field.type}", where=place, hint="Round it first.")
        yield canonical_double(inner) if isinstance(field.type, Floating) and inner is not None else inner
