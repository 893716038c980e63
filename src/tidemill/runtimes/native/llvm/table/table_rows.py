"""The rows of a table by number: columns as they came, and the last few rows as Python has them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_schema, from_arrow, to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.hashing import hash_columns
from tidemill.changes.zset import Row
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field

RowNumbers = npt.NDArray[np.int64]

LOOSE_ROWS = 4096
"""Number of rows that are kept as Python rows before they become columns."""

SMALL_PART = 1 << 16
"""Row count below which adjacent parts are joined, unless one is much smaller than the other."""

MANY_PARTS = 1024
"""Number of parts at which they are joined, though no row has been taken from them."""


class TableRows:
    """Rows that are appended and found by number. Deleted rows stay: their numbers are not used any more.

    >>> from tidemill.model import types as t
    >>> rows = TableRows((Field("id", t.BIGINT), Field("name", t.STRING)))
    >>> rows.append(pa.table({"id": [7, 8], "name": ["ann", "bob"]}))
    >>> rows.append_rows([(9, "eve")])
    >>> rows.row(2), rows.take(np.array([1, 0])).column("name").to_pylist(), len(rows)
    ((9, 'eve'), ['bob', 'ann'], 3)
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = tuple(fields)
        self._schema = pa.schema(list(arrow_schema(self._fields))[:-1])
        self._parts: list[pa.Table] = []
        self._starts: list[int] = []
        self._loose: list[Row] = []
        self._joined = 0

    def __len__(self) -> int:
        return self._columnar + len(self._loose)

    @property
    def _columnar(self) -> int:
        """The number of rows that are columns."""
        return self._starts[-1] + int(self._parts[-1].num_rows) if self._parts else 0

    def append(self, table: pa.Table) -> None:
        """Append rows; the columns are taken as they are."""
        if self._loose:
            self._close()
        self._add(table.select(self._schema.names))

    def append_rows(self, rows: Sequence[Row]) -> None:
        """Append a few rows."""
        self._loose += rows
        if len(self._loose) >= LOOSE_ROWS:
            self._close()

    def first(self, count: int) -> pa.Table:
        """The first ``count`` rows, as columns."""
        return self._columns().slice(0, count)

    def _columns(self) -> pa.Table:
        if self._loose:
            self._close()
        return pa.concat_tables([self._schema.empty_table(), *self._parts])

    def truncate(self, count: int) -> None:
        """Forget all but the first ``count`` rows."""
        del self._loose[max(count - self._columnar, 0) :]
        while self._parts and self._starts[-1] >= count:
            del self._parts[-1], self._starts[-1]
        self._joined = min(self._joined, len(self._parts))
        if self._columnar > count:
            self._parts[-1] = self._parts[-1].slice(0, count - self._starts[-1])

    def row(self, number: int) -> Row:
        """One row."""
        if number >= self._columnar:
            return self._loose[number - self._columnar]
        part = bisect_right(self._starts, number) - 1
        return from_arrow(self._parts[part].slice(number - self._starts[part], 1), self._fields)[0][0]

    def take(self, numbers: RowNumbers) -> pa.Table:
        """Some rows, in the order in which they are asked for."""
        order, table = self.take_by_part(numbers, self._schema.names)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return table.take(pa.array(back))

    def take_by_part(self, numbers: RowNumbers, names: Sequence[str]) -> tuple[RowNumbers, pa.Table]:
        """Columns of some rows in the order in which their parts lie, and for each row its place among ``numbers``.

        To put them back in order would copy every column once more.
        """
        if self._loose and len(numbers) and numbers.max() >= self._columnar:
            self._close()
        self._join()
        # Numbers of parts have 16 bits: NumPy sorts these by counting.
        places = (np.searchsorted(self._starts, numbers, side="right") - 1).astype(np.int16)
        order = np.argsort(places, kind="stable")
        counts = np.bincount(places, minlength=len(self._parts))
        found, begin = [self._schema.empty_table().select(names)], 0
        for part in np.flatnonzero(counts):
            inside = numbers[order[begin : begin + counts[part]]] - self._starts[part]
            found.append(self._parts[part].select(names).take(pa.array(inside)))
            begin += counts[part]
        return order, pa.concat_tables(found)

    def kept(self, gone: RowNumbers) -> pa.Table:
        """All rows but those with these numbers, as columns."""
        there = np.ones(len(self), np.bool_)
        there[gone] = False
        return self._columns().filter(pa.array(there)).combine_chunks()

    def _close(self) -> None:
        loose, self._loose = self._loose, []
        self._add(to_arrow(((row, 1) for row in loose), self._fields).drop_columns([WEIGHT]))

    def _add(self, table: pa.Table) -> None:
        if table.num_rows:
            self._starts.append(self._columnar)
            self._parts.append(table)
        if len(self._parts) - self._joined > MANY_PARTS:
            self._join()

    def _join(self) -> None:
        """Join small parts that are neighbours, before rows are taken: a table that only grows is never copied.

        Rows are then taken from few parts, and every row is copied only as often as parts grow by a quarter or more.
        """
        begin = self._joined
        later = self._parts[begin:]
        del self._parts[begin:], self._starts[begin:]
        for part in later:
            self._starts.append(self._columnar)
            self._parts.append(part)
            while len(self._parts) > 1 and self._parts[-2].num_rows < min(4 * self._parts[-1].num_rows, SMALL_PART):
                last = self._parts.pop()
                del self._starts[-1]
                self._parts[-1] = pa.concat_tables([self._parts[-1], last])
            begin = min(begin, len(self._parts) - 1)
        self._parts[begin:] = [part.combine_chunks() for part in self._parts[begin:]]
        self._joined = len(self._parts)


def same_rows(some: pa.Table, others: pa.Table) -> bool:
    """True if two tables hold equal rows, number by number. NaN counts as different: ask again, row by row.

    >>> same_rows(pa.table({"a": [1, None]}), pa.table({"a": [1, None]}))
    True
    """
    return all(one.equals(other) for one, other in zip(some.columns, others.columns, strict=True))


def shared_rows(table: pa.Table, some: RowNumbers, others: RowNumbers) -> npt.NDArray[np.bool_] | None:
    """The mask of the rows ``some`` that equal those at the same place of ``others``; None if Arrow cannot compare.

    Columns are looked at one by one, and only where those before it are equal: updates differ in one of the first.

    >>> rows = pa.table({"a": [1, None, 3, 1, 1, 3], "b": [1, 2, 3, 2, 2, 3]})
    >>> shared_rows(rows, np.array([0, 1, 2]), np.array([3, 4, 5])).tolist()
    [False, False, True]
    """
    shared = np.arange(len(some))
    plain = [column for column in table.columns if not pa.types.is_nested(column.type)]
    for column in plain:
        if len(shared):
            one, other = (column.take(pa.array(numbers[shared])) for numbers in (some, others))
            shared = shared[equal_values(one, other)]
    if len(shared) and len(plain) < table.num_columns:
        return None
    found = np.zeros(len(some), np.bool_)
    found[shared] = True
    return found


def equal_values(one: pa.ChunkedArray, other: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """The mask of equal values, with NULL equal to NULL and NaN to NaN."""
    equal = _true(pc.equal(one, other))
    if one.null_count and other.null_count:
        equal = equal | _true(pc.is_null(one)) & _true(pc.is_null(other))
    if pa.types.is_floating(one.type):
        equal = equal | _true(pc.is_nan(one)) & _true(pc.is_nan(other))
    return equal


def net_rows(change: ChangeSet, key: Sequence[str]) -> pa.Table:
    """The rows of a change of a table with a primary key, each once: of rows that come and go the rest is left.

    Only rows under keys of rows that have gone are summed. Rows with equal hashes are taken for equal only once they
    have been compared.

    >>> from tidemill.model import types as t
    >>> fields = (Field("id", t.BIGINT), Field("n", t.BIGINT))
    >>> net_rows(ChangeSet.of([((1, 2), 1), ((3, 4), 1), ((1, 2), -1)], fields), ["id"]).to_pylist()
    [{'id': 3, 'n': 4, '_weight': 1}]
    """
    table = change.arrow()
    going = table.column(WEIGHT).to_numpy() != 1
    if not going.any():  # under each key of the table there is one row, so no row came twice
        return table
    hashes = hash_columns(table.select(key).columns)
    touched = pc.is_in(pa.array(hashes), value_set=pa.array(np.unique(hashes[going])))
    summed = _summed(ChangeSet.of_arrow(table.filter(touched), change.fields))
    return pa.concat_tables([table.filter(pc.invert(touched)), summed.select(table.column_names).cast(table.schema)])


def _summed(change: ChangeSet) -> pa.Table:
    """The rows of a change with their summed weights, without those of weight 0."""
    table = change.arrow()
    weights = table.column(WEIGHT).to_numpy()
    rows = table.drop_columns([WEIGHT])
    order = np.argsort(hashes := hash_columns(rows.columns), kind="stable")
    first = np.flatnonzero(np.diff(hashes[order], prepend=~hashes[order[:1]]))
    totals = np.add.reduceat(weights[order], first)
    like = np.repeat(order[first], np.diff(first, append=len(order)))
    distinct = order != like
    if not np.isin(totals, (-1, 0, 1)).all() or not same_rows(rows.take(order[distinct]), rows.take(like[distinct])):
        return to_arrow(change.zset().items(), change.fields)
    left = np.flatnonzero(totals)
    left = left[np.argsort(order[first[left]])]
    return rows.take(order[first[left]]).append_column(WEIGHT, pa.array(totals[left]))


def _true(flags: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (pc.fill_null(flags, False) if flags.null_count else flags).to_numpy()
    return found
