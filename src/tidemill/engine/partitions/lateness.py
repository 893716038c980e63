"""Late changes: a table that says how late they may be takes the others into a table of their own.

The *head* of a table is the last partition that any change has come to, before the epoch. A change of a partition that
lies further behind it than LATENESS is late: it goes to ``s_late``, in the same epoch, and not to ``s``. So what ``s``
is, to all views, are the changes that were accepted. Heads are committed with the epochs that move them, among the
positions. Where events come one by one, each is judged by those before it, whenever epochs end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.algebra.relational.time_partitions import MOST_PARTITIONS
from tidemill.changes.arrow import instants
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.frontends.script.statements import Delete, ReplayLate
from tidemill.compiler.frontends.translate import translate_delete
from tidemill.model.errors import DataError, Unsupported
from tidemill.model.schema import LATE, WEIGHT, Partitioning, Table, late_table, names_of
from tidemill.program.state_expiry import number_of

if TYPE_CHECKING:
    from tidemill.engine.engine import Engine

HEAD_PREFIX = "head:"
"""Heads stand among the positions under this and the name of the table."""


def is_head(position: str) -> bool:
    """Whether a position is the head of a table, and no source's."""
    return position.startswith(HEAD_PREFIX)


def head_of(positions: Mapping[str, str], table: str) -> int | None:
    """The last partition of ``table`` that a change has come to; None before the first."""
    text = positions.get(HEAD_PREFIX + table, "")
    return int(text) if text else None


def initial_head(table: Table) -> dict[str, str]:
    """The positions of a table that begins: one of the same name may have been there before."""
    return {} if late_table(table) is None else {HEAD_PREFIX + table.name: ""}


@dataclass
class LatenessFilter:
    """Lets changes of epoch ``number`` in, and those that are late into the tables for these."""

    tables: Mapping[str, Table]
    before: Mapping[str, str]
    number: int
    moved: dict[str, str] = field(default_factory=dict)
    """The positions of heads that have moved."""

    def admit(self, changes: Mapping[str, ChangeSet]) -> dict[str, ChangeSet]:
        """The changes as tables take them; all are judged by the heads as they were before."""
        admitted = dict(changes)
        for name, change in changes.items():
            late = late_table(self.tables[name])
            if late is not None and len(change):
                accepted, rest = self._split(self.tables[name], change)
                admitted[name] = accepted
                if rest:
                    given = admitted[late.name].pairs() if late.name in admitted else []
                    admitted[late.name] = ChangeSet.of([*given, *rest], late.fields)
        return admitted

    def _split(self, table: Table, change: ChangeSet) -> tuple[ChangeSet, list[tuple[tuple[object, ...], int]]]:
        cut = table.partitioning
        assert cut is not None and cut.lateness is not None
        times = _times(change, names_of(table.fields).index(cut.column))
        last = pc.max(times).as_py()
        if last is None:
            return change, []
        head = head_of({**self.before, **self.moved}, table.name)
        self._move(table.name, head, last // cut.every)
        if head is None or pc.min(times).as_py() >= (bound := (head * cut.every - cut.lateness)):
            return change, []
        is_late = pc.fill_null(pc.less(times, bound), False)
        accepted, late = _filtered(change, pc.invert(is_late)), _filtered(change, is_late)
        return accepted, [((*row, 1 if weight > 0 else -1, self.number), abs(weight)) for row, weight in late.pairs()]

    def _move(self, table: str, head: int | None, last: int) -> None:
        if head is not None and last - head > MOST_PARTITIONS:
            raise DataError(
                f'a row of "{table}" lies {last - head:,} partitions after all others',
                detail="Whatever comes between would be late.",
                hint="Look for a row with a wrong time.",
            )
        if head is None or last > head:
            self.moved[HEAD_PREFIX + table] = str(last)


def _times(change: ChangeSet, place: int) -> pa.ChunkedArray | pa.Array:
    """The times of rows, in microseconds since 1970. Of files just that column is read."""
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


def late_change_count(engine: Engine, table: Table, epoch: int) -> int:
    """How many changes of a table were late in an epoch that is committed."""
    late = late_table(table)
    if late is None:
        return 0
    found = engine.store.read(late.name, late.fields, since=epoch - 1, until=epoch)
    weights = found.column(WEIGHT)
    return int(pc.sum(pc.filter(weights, pc.greater(weights, 0))).as_py() or 0)


class LateReplay(NamedTuple):
    """What became of late changes: so many were taken in, by that epoch, and so many came too late for that."""

    epoch: int
    taken: int
    left: int

    def told(self, table: Table) -> str:
        """The same in words."""
        left = f"; left in {table.name}{LATE}, for their partitions are forgotten: {self.left}" if self.left else ""
        return f"late changes of {table.name} replayed in epoch {self.epoch}: {self.taken}{left}"


def replay(engine: Engine, statement: ReplayLate) -> LateReplay:
    """Take late changes in after all, as an epoch, where their partitions are still retained; others stay."""
    with engine.settled():
        table = engine.catalog.table(statement.table)
        late = late_table(table)
        if late is None or table.partitioning is None:
            raise Unsupported(
                f'"{table.name}" has no late changes',
                where=statement.place,
                hint="A table or stream that is declared with LATENESS or RETAIN has.",
            )
        chosen = Delete(statement.place, late.name, statement.where, late.name)
        pairs = engine.answer(translate_delete(chosen, late, engine.catalog.relations)).pairs()
        first = retained_from(table.partitioning, head_of(engine.store.positions, table.name))
        place = names_of(table.fields).index(table.partitioning.column)
        taken = [(row, weight) for row, weight in pairs if first is None or number_of(row[place]) >= first]
        width = len(table.fields)
        changes = {
            table.name: ChangeSet.of(((row[:width], row[width] * weight) for row, weight in taken), table.fields),
            late.name: ChangeSet.of(((row, -weight) for row, weight in taken), late.fields),
        }
        epoch = engine.apply(changes, late=True) if taken else engine.store.epoch
        count = sum(weight for _, weight in taken)
        return LateReplay(epoch, count, sum(weight for _, weight in pairs) - count)


def retained_from(cut: Partitioning, head: int | None) -> int | None:
    """The first instant of what a table retains, in microseconds since 1970; None where that is everything.

    >>> retained_from(Partitioning("ts", 10, retain=30), head=7), retained_from(Partitioning("ts", 10), head=7)
    (40, None)
    """
    return None if head is None or cut.retain is None else head * cut.every - cut.retain
