"""Lateness: changes of a table that are later than it allows go to a separate table of late changes.

The *head* of a table is the last partition that any change reached before the epoch, or the latest time if LATENESS and
RETAIN are not whole partitions. A change further behind it than LATENESS is late: it goes to ``s_late``, in the same
epoch, and not to ``s``. So views over ``s`` see exactly the accepted changes. Heads are stored among the positions and
committed with the epochs that move them. Events that are fed one by one are each compared with those before, wherever
epochs end.

A change very far after the head is set aside as well, until somebody says that it is right: a gap in the times of rows,
or a clock that went wrong.

Where LATENESS is declared BY a column, each source that it names has a head of its own (``source_heads``), and the head
of the table says what is retained.

Where RETAIN is made longer, what was forgotten by then does not come back: the instant from which everything is there,
the *floor*, is stored with the head, and changes before it stay late.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.algebra.relational.time_partitions import MOST_PARTITIONS
from tidemill.changes.arrow import instants
from tidemill.changes.changeset import ChangeSet
from tidemill.engine.partitions.source_heads import SOURCE_HEADS, RowSources, SourceHeads, reset_source_heads, without
from tidemill.model.partition_lengths import longest
from tidemill.model.schema import Partitioning, Table, late_table, names_of
from tidemill.program.expiry.entries import number_of

HEAD_PREFIX = "head:"
"""Prefix of the position that stores the head of a table, followed by the name of the table."""


def is_head(position: str) -> bool:
    """True if a position is the head of a table, or of what its rows name as sources, and not how far a feed is."""
    return position.startswith((HEAD_PREFIX, SOURCE_HEADS))


def head_of(positions: Mapping[str, str], table: str) -> int | None:
    """The head of ``table``, in units of its ``Partitioning.head_unit``; None before the first change."""
    text = positions.get(HEAD_PREFIX + table, "").partition(" ")[0]
    return int(text) if text else None


def floor_of(positions: Mapping[str, str], table: str) -> int | None:
    """The first instant of which ``table`` has not forgotten anything, in microseconds; None if RETAIN alone tells.

    >>> floor_of({"head:s": "7 60000000"}, "s"), head_of({"head:s": "7 60000000"}, "s")
    (60000000, 7)
    """
    text = positions.get(HEAD_PREFIX + table, "").partition(" ")[2]
    return int(text) if text else None


def head_text(head: int, floor: int | None) -> str:
    """A head as it is stored."""
    return str(head) if floor is None else f"{head} {floor}"


def initial_head(table: Table, positions: Mapping[str, str]) -> dict[str, str]:
    """The positions of a new table: they reset the heads of a dropped table of the same name."""
    if late_table(table) is None:
        return {}
    return {HEAD_PREFIX + table.name: "", **reset_source_heads(table.name, positions)}


@dataclass
class LatenessFilter:
    """Splits changes of epoch ``number`` into accepted ones and those for the tables of late changes.

    ``tables`` are those whose changes may be late; ``before`` has their heads among the positions.
    """

    tables: Mapping[str, Table]
    before: Mapping[str, str]
    number: int
    moved: dict[str, str] = field(default_factory=dict)
    """The positions of heads that have moved."""

    def admit(self, changes: Mapping[str, ChangeSet]) -> dict[str, ChangeSet]:
        """The changes by the table that takes them; all are compared with the heads before the epoch."""
        admitted = dict(changes)
        for name, change in changes.items():
            table = self.tables.get(name)
            if table is not None and change.rows:
                accepted, rest = self._split(table, change)
                admitted[name] = accepted
                late = late_table(table)
                if rest and late is not None:
                    given = admitted[late.name].pairs() if late.name in admitted else []
                    admitted[late.name] = ChangeSet.of([*given, *rest], late.fields)
        return admitted

    def replay(self, changes: Mapping[str, ChangeSet]) -> None:
        """Move the heads of tables by late changes that are applied, of which some may lie after all others."""
        for name, change in changes.items():
            table = self.tables.get(name)
            if table is not None and table.partitioning is not None and change.rows:
                cut = table.partitioning
                last = pc.max(times_of(change, names_of(table.fields).index(cut.column))).as_py()
                head = head_of(self.before, name)
                if last is not None and head is not None:
                    self._move(name, head, last // cut.head_unit)
                    self._move_sources(table, change, times_of(change, names_of(table.fields).index(cut.column)))

    def _split(self, table: Table, change: ChangeSet) -> tuple[ChangeSet, list[tuple[tuple[object, ...], int]]]:
        cut = table.partitioning
        assert cut is not None and cut.lateness is not None
        times = times_of(change, names_of(table.fields).index(cut.column))
        last = pc.max(times).as_py()
        if last is None:
            return change, []
        head, floor = head_of(self._heads, table.name), floor_of(self._heads, table.name)
        if head is None:
            self._move(table.name, head, last // cut.head_unit)
            self._move_sources(table, change, times)
            return change, []
        first, end = accepted_from(cut, head, floor), ahead_from(cut, head)
        if not cut.source and pc.min(times).as_py() >= first and last < end:
            self._move(table.name, head, last // cut.head_unit)
            return change, []
        firsts: int | pa.Array = first
        if cut.source:
            sources = RowSources.of(change, names_of(table.fields).index(cut.source))
            firsts = sources.accepted_from(SourceHeads(table.name, self._heads), cut, first)
        fits = pc.fill_null(pc.and_(pc.greater_equal(times, firsts), pc.less(times, end)), True)
        last = pc.max(times.filter(fits)).as_py()
        if last is not None:
            self._move(table.name, head, last // cut.head_unit)
        self._move_sources(table, change, without(times, fits))
        if pc.all(fits).as_py():
            return change, []
        late = _filtered(change, pc.invert(fits))
        marked = [((*row, 1 if weight > 0 else -1, self.number), abs(weight)) for row, weight in late.pairs()]
        return _filtered(change, fits), marked

    def _move_sources(self, table: Table, change: ChangeSet, times: pa.ChunkedArray | pa.Array) -> None:
        """Move the heads of the sources of a change, whose rows have these times; NULL moves none."""
        cut = table.partitioning
        assert cut is not None
        if not cut.source:
            return
        heads = SourceHeads(table.name, self._heads)
        sources = RowSources.of(change, names_of(table.fields).index(cut.source))
        latest = dict(sources.latest(heads, times, cut.head_unit))
        head, floor = head_of(self._heads, table.name), floor_of(self._heads, table.name)
        self.moved |= heads.moved(latest, retained_from(cut, head, floor))

    @property
    def _heads(self) -> dict[str, str]:
        return {**self.before, **self.moved}

    def _move(self, table: str, head: int | None, last: int) -> None:
        if head is None or last > head:
            self.moved[HEAD_PREFIX + table] = head_text(last, floor_of(self._heads, table))


def times_of(change: ChangeSet, place: int) -> pa.ChunkedArray | pa.Array:
    """The times of rows, in microseconds since 1970. Of files only the time column is read."""
    name = change.fields[place].name
    if change.is_python_only:
        times = [row[place] for row, _ in change.pairs()]
        return pa.array([None if time is None else number_of(time) for time in times], pa.int64())
    if change.files is not None:
        parts = [pq.read_table(file, columns=[name], coerce_int96_timestamp_unit="us") for file in change.files]
        return instants(pa.concat_tables(parts).column(name))
    return instants(change.arrow().column(name))


def _filtered(change: ChangeSet, mask: pa.ChunkedArray | pa.Array) -> ChangeSet:
    if change.is_python_only:
        pairs = zip(change.pairs(), mask.to_pylist(), strict=True)
        return ChangeSet.of((pair for pair, chosen in pairs if chosen), change.fields)
    return ChangeSet.of_arrow(change.arrow().filter(mask), change.fields)


def accepted_from(cut: Partitioning, head: int, floor: int | None = None) -> int:
    """The first instant whose changes a table with LATENESS accepts, of any source, in microseconds since 1970."""
    assert cut.lateness is not None
    if cut.source:
        first = retained_from(cut, head, floor)
        return -sys.maxsize if first is None else first
    return max(head * cut.head_unit - cut.lateness, -sys.maxsize if floor is None else floor)


def ahead_from(cut: Partitioning, head: int) -> int:
    """The first instant so far after the head that changes from there on are set aside, in microseconds since 1970.

    That is after a million partitions; of a table that has none, after a million times its LATENESS. A clock that went
    wrong would otherwise make all changes late that come after it.

    >>> ahead_from(Partitioning("ts", 10, lateness=30), head=7)
    10000080
    """
    assert cut.lateness is not None
    return head * cut.head_unit + longest(cut.every or cut.lateness) * MOST_PARTITIONS + cut.head_unit


def retained_from(cut: Partitioning, head: int | None, floor: int | None = None) -> int | None:
    """The first instant that a table retains, in microseconds since 1970; None if it retains everything.

    >>> retained_from(Partitioning("ts", 10, retain=30), head=7), retained_from(Partitioning("ts", 10), head=7)
    (40, None)
    >>> retained_from(Partitioning("ts", 10, retain=30), head=7, floor=50)
    50
    """
    by_head = None if head is None or cut.retain is None else head * cut.head_unit - cut.retain
    return max((bound for bound in (by_head, floor) if bound is not None), default=None)
