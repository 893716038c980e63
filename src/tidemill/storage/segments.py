"""Segments: weighted rows stored together, in a file or in memory. A map is the sum of its segments.

Reading is the same in both stores, and is implemented here, over segments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate, chain, groupby, takewhile
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_schema, integer_array, to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.model.errors import EpochGone, StorageError
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import Field
from tidemill.storage.change_counts import NO_CHANGES, ChangeCounts
from tidemill.storage.mapped.table_index import TableIndexes
from tidemill.storage.store import ColumnValues

Places = npt.NDArray[np.int64]
"""Places of rows, ascending."""

FindRows = Callable[[pa.Table], pa.Table]
"""Finds rows by some of their columns: gives their places in the column ``PLACE``, and what else it says of each."""

PLACE = "_place of the row"
"""The column of the places that rows have among others."""


class Segment(Protocol):
    """Rows of epochs ``first`` to ``last``, visible before epoch ``ended``, at which their map was replaced."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...

    @property
    def ended(self) -> int | None: ...

    def load(self, schema: pa.Schema, where: ColumnValues | None = None) -> pa.Table:
        """The rows, or those with the values of ``where``, with exactly the columns of ``schema``."""

    def take(self, schema: pa.Schema, places: Places) -> pa.Table:
        """The rows at some places, ascending, of those that ``load`` gives, with exactly the columns of ``schema``."""


class ArrowChange(Protocol):
    """A change that can be converted to Arrow; most are a ``ChangeSet``."""

    def arrow(self) -> pa.Table: ...

    def __len__(self) -> int: ...

    @property
    def rows(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TableSegment:
    """A segment in memory: an Arrow table with a column of epochs."""

    table: pa.Table
    first: int
    last: int
    ended: int | None = None
    indexes: TableIndexes = field(init=False, default_factory=TableIndexes, compare=False, repr=False)

    def load(self, schema: pa.Schema, where: ColumnValues | None = None) -> pa.Table:
        """The rows, or those with the values of ``where``, with exactly the columns of ``schema``."""
        found = None if where is None else self.indexes.find(self.table, schema, where)
        table = self.table.select(schema.names).cast(schema) if found is None else found
        return table if where is None else table.filter(has_values(table, where))

    def take(self, schema: pa.Schema, places: Places) -> pa.Table:
        """The rows at some places, ascending, with exactly the columns of ``schema``."""
        return self.table.select(schema.names).take(integer_array(places)).cast(schema)

    def followed_by(self, other: TableSegment, changes: int) -> TableSegment:
        """The rows of both, in which there are so many changes."""
        return TableSegment(_joined(pa.concat_tables([self.table, other.table]), changes), self.first, other.last)

    def after(self, epoch: int) -> TableSegment:
        """The rows of later epochs; a segment is returned as it is if less than half of it is older."""
        if self.first + self.last > 2 * epoch:
            return self
        later = self.table.filter(pc.greater(self.table.column(EPOCH), epoch))
        return replace(self, table=later, first=epoch + 1)


class RecentEpochs:
    """The newest epochs, in memory and by map: those in the log of a folder, or most of those of a memory store.

    Adding an epoch appends to one list per changed map; a feed finds the epochs after its own by bisection. So both
    cost O(change), however long the tail is. ``reached`` lists the epochs that moved source positions, with the new
    positions.
    """

    def __init__(self) -> None:
        self.epochs = 0
        self.reached: list[tuple[int, Mapping[str, str]]] = []
        self._numbers: dict[str, list[int]] = {}
        self._changes: dict[str, list[ArrowChange]] = {}
        self._rows: Counter[str] = Counter()
        self._largest: dict[str, int] = {}
        self._counted: dict[str, tuple[int, ChangeCounts]] = {}
        self._gathered: dict[str, list[tuple[int, TableSegment]]] = {}
        """The first changes of a map as segments, each with the number of changes up to its end."""

    def add(self, number: int, name: str, change: ArrowChange) -> None:
        """Append the change of map ``name`` in epoch ``number``."""
        if name not in self._changes:
            self._numbers[name], self._changes[name], self._largest[name] = [], [], 0
        self._numbers[name].append(number)
        self._changes[name].append(change)
        rows = change.rows
        self._rows[name] += rows
        if rows > self._largest[name]:
            self._largest[name] = rows

    def names(self) -> tuple[str, ...]:
        """The maps that have changes here."""
        return tuple(self._changes)

    def count(self, name: str) -> int:
        """Number of changes of map ``name``."""
        return len(self._changes.get(name, ()))

    def rows(self, name: str) -> int:
        """Number of rows in those changes."""
        return self._rows[name]

    def largest(self, name: str) -> int:
        """Number of rows in the largest of those changes; 0 if there is none."""
        return self._largest.get(name, 0)

    def counts(self, name: str) -> ChangeCounts:
        """The counts of those changes, each of which is counted once; rows that were never Arrow are not converted."""
        changes = self._changes.get(name, [])
        before, counts = self._counted.get(name, (0, NO_CHANGES))
        new = changes[before:]
        if new:
            numbers = np.array(self._numbers[name][before : before + len(new)], dtype=np.int64)
            epochs = np.repeat(numbers, [len(change) for change in new])
            counts += ChangeCounts.of(np.concatenate([_weights_of(change) for change in new]), epochs)
            self._counted[name] = before + len(new), counts
        return counts

    def part(self, name: str, *, until: int | None = None) -> TableSegment | None:
        """The changes of map ``name`` up to epoch ``until`` as one segment."""
        return self._segment(name, 0, self._end(name, until))

    def parts(self, name: str, *, since: int | None, until: int) -> Sequence[TableSegment]:
        """The changes of map ``name`` of epochs in ``(since, until]`` as segments.

        From the beginning on, they are those of earlier reads and one more: a lookup in every epoch would otherwise
        gather and index all rows again. A segment of less than twice the rows that follow becomes one with these, so
        there are few of them, and a row is gathered as often as the logarithm of their number.
        """
        end = self._end(name, until)
        if since is not None:
            later = self._segment(name, bisect_right(self._numbers.get(name, ()), since), end)
            return [] if later is None else [later]
        gathered = self._gathered.get(name, [])
        known = [(reached, segment) for reached, segment in gathered if reached <= end]
        is_earlier = len(known) < len(gathered)
        newest = self._segment(name, known[-1][0] if known else 0, end)
        if newest is not None:
            while known and known[-1][1].table.num_rows < 2 * newest.table.num_rows:
                newest = known.pop()[1].followed_by(newest, end - (known[-1][0] if known else 0))
            known.append((end, newest))
            if not is_earlier:
                self._gathered[name] = known
        return [segment for _, segment in known]

    def numbers(self, name: str, *, since: int, until: int) -> Sequence[int]:
        """The epochs in ``(since, until]`` that changed map ``name``."""
        known = self._numbers.get(name, ())
        return known[bisect_right(known, since) : self._end(name, until)]

    def _end(self, name: str, until: int | None) -> int:
        """The number of changes of a map up to epoch ``until``."""
        numbers = self._numbers.get(name, ())
        return len(numbers) if until is None else bisect_right(numbers, until)

    def _segment(self, name: str, begin: int, end: int) -> TableSegment | None:
        """Some changes of a map, by their places, as one segment."""
        if begin >= end:
            return None
        numbers = self._numbers[name][begin:end]
        return TableSegment(_gather(numbers, self._changes[name][begin:end]), numbers[0], numbers[-1])

    def older(self, name: str, most: int) -> int:
        """The last epoch before the newest changes of map ``name`` that have up to ``most`` rows; 0 if all fit."""
        if self._rows[name] <= most:
            return 0
        sizes = accumulate(map(len, reversed(self._changes[name])))
        newest = max(sum(1 for _ in takewhile(lambda rows: rows <= most, sizes)), 1)
        return self._numbers[name][-newest] - 1

    def trimmed(self, name: str, until: int) -> RecentEpochs:
        """The tail without the changes of map ``name`` of epochs up to ``until``."""
        gone = bisect_right(self._numbers.get(name, ()), until)
        if not gone:
            return self
        result = self.without(name)
        for number, change in zip(self._numbers[name][gone:], self._changes[name][gone:], strict=True):
            result.add(number, name, change)
        return result

    def without(self, name: str) -> RecentEpochs:
        """The tail without map ``name``; it shares the lists of the other maps and replaces this one."""
        result = RecentEpochs()
        result.epochs, result.reached = self.epochs, self.reached
        result._numbers = {other: numbers for other, numbers in self._numbers.items() if other != name}
        result._changes = {other: changes for other, changes in self._changes.items() if other != name}
        result._rows = Counter({other: rows for other, rows in self._rows.items() if other != name})
        result._largest = {other: rows for other, rows in self._largest.items() if other != name}
        return result

    def cut(self, epoch: int) -> None:
        """Drop everything after ``epoch``: changes of an epoch that was never committed."""
        self.reached = [moved for moved in self.reached if moved[0] <= epoch]
        self._counted.clear()
        self._gathered.clear()
        for name in {*self._numbers, *self._changes}:
            kept = bisect_right(self._numbers.setdefault(name, []), epoch)
            changes = self._changes.setdefault(name, [])
            del self._numbers[name][kept:], changes[kept:]
            self._rows[name] = sum(map(len, changes))
            self._largest[name] = max(map(len, changes), default=0)
            if not changes:
                del self._numbers[name], self._changes[name], self._rows[name], self._largest[name]

    def copy(self) -> RecentEpochs:
        """A copy that does not see later additions."""
        result = RecentEpochs()
        result.epochs, result.reached = self.epochs, list(self.reached)
        result._numbers = {name: list(numbers) for name, numbers in self._numbers.items()}
        result._changes = {name: list(changes) for name, changes in self._changes.items()}
        result._rows, result._largest = self._rows.copy(), self._largest.copy()
        return result


LARGE_CHANGE = 1024
"""Average number of rows from which changes stay separate chunks of a table: to copy them into one gains nothing."""


def _gather(numbers: Sequence[int], changes: Sequence[ArrowChange]) -> pa.Table:
    """All changes in one table, each row with the number of its epoch."""
    epochs = np.repeat(np.array(numbers, dtype=np.int64), [len(change) for change in changes])
    return _joined(pa.concat_tables(_tables_of(changes)).append_column(EPOCH, integer_array(epochs)), len(changes))


def _joined(table: pa.Table, changes: int) -> pa.Table:
    """The table of so many changes, copied into one chunk if they are small."""
    return table if table.num_rows >= LARGE_CHANGE * changes else table.combine_chunks()


def _tables_of(changes: Sequence[ArrowChange]) -> Iterator[pa.Table]:
    """The changes as tables. Creating a table costs as much as filling it with dozens of rows, so adjacent changes that
    are still Python rows become one table."""
    for loose, neighbours in groupby(
        changes, key=lambda change: isinstance(change, ChangeSet) and change.is_python_only
    ):
        if loose:
            plain = [change for change in neighbours if isinstance(change, ChangeSet)]
            yield to_arrow(chain.from_iterable(change.pairs() for change in plain), plain[0].fields)
        else:
            yield from (change.arrow() for change in neighbours)


def _weights_of(change: ArrowChange) -> npt.NDArray[np.int64]:
    if isinstance(change, ChangeSet) and change.is_python_only:
        return np.array([weight for _, weight in change.pairs()], dtype=np.int64)
    return np.asarray(change.arrow().column(WEIGHT), dtype=np.int64)


def stored_schema(fields: Iterable[Field]) -> pa.Schema:
    """The columns of a run: the map's fields, the weight and the epoch.

    >>> stored_schema([]).names
    ['_weight', '_epoch']
    """
    return arrow_schema(tuple(fields)).append(pa.field(EPOCH, pa.int64()))


def with_epoch(table: pa.Table, epoch: int) -> pa.Table:
    """The table with one epoch for all of its rows."""
    column = integer_array(np.full(table.num_rows, epoch, dtype=np.int64))
    return table.append_column(pa.field(EPOCH, pa.int64()), column)


def has_values(table: pa.Table, where: ColumnValues) -> pa.ChunkedArray:
    """Mask of the rows that have one of the listed values in each column of ``where``."""
    masks = [pc.is_in(table.column(name), value_set=values) for name, values in where.items()]
    return reduce(pc.and_, masks)


def read_segments(
    parts: Iterable[Segment], schema: pa.Schema, since: int | None, until: int, where: ColumnValues | None = None
) -> pa.Table:
    """The rows of epochs in ``(since, until]``; a segment outside those bounds is never loaded.

    A segment that ended is read as if epoch ``ended`` had retracted all its rows: a reader from an earlier epoch sees
    the rows and the retraction, a later one neither.
    """
    tables = [table for part in parts for table in _rows_of(part, schema, since, until, where)]
    return pa.concat_tables(tables) if tables else pa.Table.from_batches([], schema)


def find_rows(parts: Sequence[Segment], schema: pa.Schema, until: int, columns: pa.Schema, find: FindRows) -> pa.Table:
    """The rows as of epoch ``until`` that ``find`` finds by some columns, with what it says of them.

    Of a file with none of them nothing else is read, and of others the parts that have some.
    """
    parts = [part for part in parts if is_visible_at(part, until)]
    known = [part.load(columns) for part in parts]
    found = find(pa.concat_tables([columns.empty_table(), *known])).sort_by(PLACE)
    others = pa.schema([field for field in schema if field.name not in columns.names])
    shown = [*schema.names, *(name for name in found.column_names if name != PLACE)]
    tables, begin = [], 0
    for part, rows in zip(parts, known, strict=True):
        first, last = np.searchsorted(found.column(PLACE), (begin, begin + rows.num_rows))
        if first < last:
            said = found.slice(first, last - first)
            places = said.column(PLACE).to_numpy() - begin
            whole = _beside(part.take(others, places), rows.take(integer_array(places)), said)
            tables.append(_between(whole, part, None, until).select(shown))
        begin += rows.num_rows
    return pa.concat_tables([_beside(schema.empty_table(), found.slice(0, 0)).select(shown), *tables])


def _beside(*tables: pa.Table) -> pa.Table:
    """The columns of several tables of the same rows."""
    names = [name for table in tables for name in table.column_names]
    return pa.table([column for table in tables for column in table.columns], names=names)


def _rows_of(
    part: Segment, schema: pa.Schema, since: int | None, until: int, where: ColumnValues | None
) -> list[pa.Table]:
    ended = part.ended is not None and part.ended <= until
    if ended and (since is None or since >= (part.ended or 0)):
        return []
    if ended:
        whole = part.load(schema, where)
        return [_between(whole, part, since, until), _taken_back(whole, part.ended or 0)]
    if part.first > until or (since is not None and part.last <= since):
        return []
    return [_between(part.load(schema, where), part, since, until)]


def _between(table: pa.Table, part: Segment, since: int | None, until: int) -> pa.Table:
    if since is not None and part.first <= since:
        table = table.filter(pc.greater(table.column(EPOCH), since))
    if part.last > until:
        table = table.filter(pc.less_equal(table.column(EPOCH), until))
    return table


def _taken_back(table: pa.Table, epoch: int) -> pa.Table:
    place = table.schema.get_field_index(WEIGHT)
    table = table.set_column(place, table.schema.field(place), pc.negate(table.column(WEIGHT)))
    return with_epoch(table.drop_columns([EPOCH]), epoch)


def is_visible_at(part: Segment, until: int) -> bool:
    """True if the segment has rows of the map as of epoch ``until``."""
    return part.first <= until and (part.ended is None or part.ended > until)


def check_readable(oldest: int, epoch: int, since: int | None, until: int | None) -> int:
    """The epoch to read up to, if the store reaches from there back to ``since``; else ``EpochGone``.

    >>> check_readable(3, 9, since=4, until=None)
    9
    """
    for asked in (since, until):
        if asked is not None and not oldest <= asked <= epoch:
            happened = "is still to come" if asked > epoch else "is no longer kept"
            raise EpochGone(
                f"epoch {asked} {happened}",
                detail=f"The store reaches from epoch {oldest} to epoch {epoch}.",
                hint="Read the current epoch, or vacuum with a larger keep.",
            )
    return epoch if until is None else until


def check_epoch_number(number: int, epoch: int) -> None:
    """Refuse to commit an epoch before the last one."""
    if number < epoch:
        raise StorageError(
            f"epoch {number} cannot be committed",
            detail=f"The last epoch is {epoch}, and epochs only go forward.",
            hint="Open the warehouse again and continue from its epoch.",
        )
