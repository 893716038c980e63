"""Views by partitions to algebra: each query reads slices of partitions, and subscripts are checked.

The rows of such a view are those of its queries, with a first column for the partition: its first instant, named like
the partitioning column of its first feed. If the queries output a column of that name themselves, its values must lie
within the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Scan
from tidemill.algebra.relational.time_partitions import (
    PARTITION_NUMBER,
    PartitionedInput,
    PartitionSlice,
    Subscript,
    TimePartitioned,
)
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.sql.expressions.intervals import format_period
from tidemill.compiler.frontends.sql.names.projections import all_columns, cast_columns
from tidemill.compiler.frontends.sql.query.context import NamedRelation
from tidemill.compiler.frontends.sql.query.translator import QueryTranslator
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.compiler.frontends.viewdf.definition import PartitionedView, PartitionQuery
from tidemill.compiler.frontends.viewdf.partition_by import TIME_TYPES
from tidemill.compiler.frontends.viewdf.sliding_windows import SlidingWindow
from tidemill.compiler.frontends.viewdf.subscripts import PartitionRange
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported
from tidemill.model.partition_lengths import DAY, MONTH, is_calendar, longest
from tidemill.model.schema import Partitioning, RelationFields
from tidemill.model.types import BIGINT, TIMESTAMP, Field

MAX_TYPE_ITERATIONS = 40
"""Limit on how often a view may widen the types of its own columns: DECIMAL ends at 38 digits."""

ColumnFields = tuple[Field, ...]


def translate_definition(
    definition: PartitionedView, relations: RelationFields, partitionings: Mapping[str, Partitioning]
) -> tuple[Relation, Partitioning]:
    """The rows of a view that is defined by partitions, and their partitioning."""
    every = definition.every or _common_length(definition, partitionings)
    reading = _PartitionReader(definition.view, every, relations, partitionings)
    initialize, update = _bodies(definition, reading)
    cut = [partitionings[name] for name in reading.feeds if name in partitionings]
    if not cut:
        raise Unsupported(
            f'nothing that "{definition.view}" reads is partitioned',
            where=definition.update.place,
            detail="So its partitions are undefined.",
            hint="Declare a table or stream with PARTITION BY ts EVERY 1 MINUTE.",
        )
    feeds, slices = tuple(reading.feeds.values()), tuple(reading.slices.values())
    partitioned = TimePartitioned(definition.view, every, feeds, slices, initialize, update)
    return _with_time(partitioned, cut[0].column, definition)


def _common_length(definition: PartitionedView, partitionings: Mapping[str, Partitioning]) -> int:
    """The length of the partitions of everything that the view reads, where they are alike."""
    tables = (table for body in definition.bodies for table in body.query.node.find_all(exp.Table))
    names = {partitions.relation for body in definition.bodies for partitions in body.partitions.values()}
    names |= {table.name.lower() for table in tables}
    lengths = {partitionings[name].every for name in names if name in partitionings}
    if len(lengths) > 1:
        by_length = sorted(lengths, key=longest)
        raise ParseError(
            f'the length of the partitions of "{definition.view}" is not clear',
            where=definition.update.place,
            detail=f"It reads partitions of {' and '.join(map(format_period, by_length))}.",
            hint=f"Write PARTITION BY {format_period(by_length[0])} at the end, or another length.",
        )
    return lengths.pop() if lengths else 1


def _bodies(definition: PartitionedView, reading: _PartitionReader) -> tuple[Relation, Relation]:
    """The first partition and the others as relations, with columns of the same types.

    The view may read its own columns, so their types are computed iteratively until they are stable.
    """
    if definition.initialize is None:
        every = reading.rows(definition.update, None).relation
        return every, every
    first = reading.rows(definition.initialize, None)
    names = tuple(f.name for f in first.relation.fields)
    own = first.relation.fields
    for _ in range(MAX_TYPE_ITERATIONS):
        update = reading.rows(definition.update, own).relation
        wider = _common(first.relation, update, definition.update)
        if wider == own:
            types = [f.type for f in own]
            return cast_columns(first.relation, types, list(names)), cast_columns(update, types, list(names))
        own = wider
    raise TypeMismatch(
        f'the types of the columns of "{definition.view}" do not converge',
        where=definition.update.place,
        hint="Give each column a type of its own with CAST, in INITIALIZE and in UPDATE.",
    )


def _common(first: Relation, update: Relation, body: PartitionQuery) -> ColumnFields:
    if len(first.fields) != len(update.fields):
        raise TypeMismatch(
            f"INITIALIZE has {len(first.fields)} columns, and UPDATE {len(update.fields)}",
            where=body.place,
            hint="Columns are matched by position, as in UNION ALL.",
        )
    with body.query.source.locating(body.query.node):
        pairs = zip(first.fields, update.fields, strict=True)
        return tuple(Field(a.name, common_type([a.type, b.type]), a.nullable or b.nullable) for a, b in pairs)


@dataclass
class _PartitionReader:
    """The inputs of the queries of ``view``, as they are translated: relations, and slices of their partitions."""

    view: str
    every: int
    relations: RelationFields
    partitionings: Mapping[str, Partitioning]
    feeds: dict[str, PartitionedInput] = field(default_factory=dict)
    slices: dict[str, PartitionSlice] = field(default_factory=dict)

    def rows(self, body: PartitionQuery, own: ColumnFields | None) -> NamedRelation:
        """The rows of a query; ``own`` are the columns of the view itself, where it has any partitions yet."""
        queries = QueryTranslator(body.query.source, {}, tables=dict(self._tables(body, own)), prefix=f"{self.view}.")
        return queries.rows(body.query.node)

    def _tables(
        self, body: PartitionQuery, own: ColumnFields | None
    ) -> Iterator[tuple[str, Callable[[str], NamedRelation]]]:
        """The relations that the query may read; without a subscript, up to the end of the partition."""
        for name in self.relations:
            yield name, partial(self._whole, name, body)
        for name, partitions in body.partitions.items():
            yield name, partial(self._slice_rows, self._checked(partitions, own), own=own)
        yield self.view, partial(self._whole, self.view, body)

    def _whole(self, name: str, body: PartitionQuery, alias: str) -> NamedRelation:
        return self._slice_rows(self._all_of(name, body), alias)

    def _slice_rows(self, slice_: PartitionSlice, alias: str, own: ColumnFields | None = None) -> NamedRelation:
        self.slices[slice_.name] = slice_
        if slice_.feed == self.view:
            fields = tuple(Field(self._bare(f.name), f.type, f.nullable) for f in own or ())
        else:
            self.feeds.setdefault(slice_.feed, self._feed(slice_.feed))
            fields = self._shown(slice_.feed)
        return NamedRelation(Scan(slice_.name, alias, fields), tuple(f.name for f in fields))

    def _bare(self, name: str) -> str:
        return name.removeprefix(f"{self.view}.")

    def _shown(self, name: str) -> ColumnFields:
        """The columns visible to readers by partitions."""
        cut = self.partitionings.get(name)
        return tuple(f for f in self.relations[name] if cut is None or not (cut.added and f.name == cut.column))

    def _feed(self, name: str) -> PartitionedInput:
        cut, scan = self.partitionings.get(name), Scan(name, name, self.relations[name])
        if cut is None:
            return PartitionedInput(name, scan, 0)
        columns = dict(zip((f.name for f in self.relations[name]), all_columns(scan), strict=True))
        time = convert(columns[cut.column].scalar, TIMESTAMP)
        every = self._length(name)
        number = Named(PARTITION_NUMBER, call("partition_number", time, Literal(every, BIGINT)))
        shown = (columns[f.name] for f in self._shown(name))
        return PartitionedInput(name, Project(scan, (number, *shown)), every)

    def _length(self, name: str) -> int:
        """The length by which the view numbers the rows of a relation: that of its partitions.

        A view by months takes the rows of shorter partitions by the month that these are in.
        """
        every = self.every if name == self.view else self.partitionings[name].every
        if is_calendar(every) == is_calendar(self.every):
            return every
        if is_calendar(every) or DAY % every:
            raise Unsupported(
                f'a view by partitions of {format_period(self.every)} cannot read those of "{name}"',
                detail=f"They are {format_period(every)} long, and "
                + ("months differ in length." if is_calendar(every) else "do not end with each month."),
                hint="A view by months can read partitions of days, or of what a day is made of.",
            )
        return MONTH

    def _checked(self, read: PartitionRange | SlidingWindow, own: ColumnFields | None) -> PartitionSlice:
        """The slice that a range of partitions, or a window, reads, if it is valid."""
        itself = read.relation == self.view
        if not itself:
            self._check_cut(read)
        length = self._length(read.relation)
        if isinstance(read, PartitionRange) and not itself and length != self.partitionings[read.relation].every:
            raise Unsupported(
                f'a subscript of "{read.relation}" cannot say which partitions a month has',
                where=read.place,
                detail=f"They are {format_period(self.partitionings[read.relation].every)} long, and months differ.",
                hint=f"Write {read.relation} [WINDOW {format_period(self.every)}] for the rows of a partition.",
            )
        partitions = read.to_partition_range(length, self.every) if isinstance(read, SlidingWindow) else read
        if itself:
            self._check_own(partitions, own)
        self._check_pace(partitions, length)
        return partitions.partition_slice

    def _check_cut(self, read: PartitionRange | SlidingWindow) -> None:
        if read.relation not in self.relations:
            raise unknown_name("table or view", read.relation, [*self.relations, self.view], read.place)
        if read.relation not in self.partitionings:
            raise Unsupported(
                f'"{read.relation}" is not partitioned',
                where=read.place,
                hint="Leave the brackets out to read all of it, or declare it with PARTITION BY ts EVERY 1 MINUTE.",
            )

    def _check_own(self, partitions: PartitionRange, own: ColumnFields | None) -> None:
        if own is None:
            raise Unsupported(
                f'the first partition of "{self.view}" cannot read the one before it',
                where=partitions.place,
                detail="There is none, so its columns are unknown.",
                hint="Define the first partition in INITIALIZE, and the others in UPDATE.",
            )
        if partitions.high.plus >= 0:
            raise Unsupported(
                f'a partition of "{self.view}" can only read earlier ones',
                where=partitions.place,
                hint=f"Write {self.view}[i-1].",
            )

    def _check_pace(self, partitions: PartitionRange, length: int) -> None:
        """Subscripts must advance with the partitions, so that each reads equally far back."""
        pace = Fraction(self.every, length)
        for end in filter(None, (partitions.low, partitions.high)):
            if Fraction(end.times, end.over) != pace:
                raise Unsupported(
                    f'a partition of "{self.view}" is {format_period(self.every)} long, '
                    f'one of "{partitions.relation}" is '
                    f"{format_period(length)}: this subscript does not advance with its partitions",
                    where=partitions.place,
                    hint=f"Write {_paced(partitions.relation, pace)}.",
                )
        if partitions.high.plus >= pace:
            raise Unsupported(
                f'"{partitions.relation}" is read at later partitions',
                where=partitions.place,
                detail="A partition can only read rows up to its end.",
            )
        if partitions.low is not None and partitions.low.plus > partitions.high.plus:
            raise ParseError("this range ends before it begins", where=partitions.place)

    def _all_of(self, name: str, body: PartitionQuery) -> PartitionSlice:
        """All partitions of a relation that begin before partition i ends; all rows of one that has none."""
        if name == self.view:
            raise Unsupported(
                f'a partition of "{name}" can only read earlier ones, not all',
                where=body.place,
                hint=f"Write {name}[.. i-1].",
            )
        if name not in self.partitionings:
            return PartitionSlice(name, None, None)
        pace = Fraction(self.every, self._length(name))
        if pace.numerator != 1 and pace.denominator != 1:
            raise Unsupported(
                f'"{name}" cannot be read without a subscript here',
                where=body.place,
                detail="Its partitions and those of the view do not end together.",
                hint=f"Write {name}[.. {Subscript(0, pace.numerator, pace.denominator)}], or one more.",
            )
        return PartitionSlice(name, None, Subscript(pace.numerator - 1, pace.numerator, pace.denominator))


def _paced(name: str, pace: Fraction) -> str:
    """The subscript that reads all that belongs to a partition.

    >>> _paced("s", Fraction(5)), _paced("s", Fraction(1, 5)), _paced("s", Fraction(1))
    ('s[5*i .. 5*i+4]', 's[i/5]', 's[i]')
    """
    low = Subscript(0, pace.numerator, pace.denominator)
    high = Subscript(-(-pace.numerator // pace.denominator) - 1, pace.numerator, pace.denominator)
    return f"{name}[{low}]" if low == high else f"{name}[{low} .. {high}]"


def _with_time(partitioned: TimePartitioned, time: str, definition: PartitionedView) -> tuple[Relation, Partitioning]:
    """The rows with their time, called ``time``: their own, or the first instant of the partition."""
    number, every = column(partitioned.fields[0]), Literal(partitioned.every, BIGINT)
    outputs = [Named(f.name.removeprefix(f"{partitioned.name}."), column(f)) for f in partitioned.fields[1:]]
    if time not in (named.name for named in outputs):
        first = Named(time, call("partition_start", number, every))
        return Project(partitioned, (first, *outputs)), Partitioning(time, partitioned.every, added=True)

    def checked(scalar: Scalar) -> Scalar:
        if scalar.type not in TIME_TYPES:
            raise TypeMismatch(
                f'column "{time}" is the time of a row, and cannot be {scalar.type}',
                where=definition.update.place,
                hint="Give the column another name, with AS.",
            )
        return convert(call("partition_time", convert(scalar, TIMESTAMP), number, every), scalar.type)

    shown = (Named(named.name, checked(named.scalar)) if named.name == time else named for named in outputs)
    return Project(partitioned, tuple(shown)), Partitioning(time, partitioned.every)
