"""Replay of late changes: they are applied as one epoch if their partitions are still retained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import pyarrow.compute as pc

from tidemill.algebra.node import Relation
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.frontends.script.statements import Delete, ReplayLate
from tidemill.compiler.frontends.translate import translate_delete
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.partitions.lateness import ahead_from, floor_of, head_of, retained_from
from tidemill.model.errors import Unsupported
from tidemill.model.schema import LATE, WEIGHT, Partitioning, Table, late_table, names_of
from tidemill.program.expiry.entries import number_of
from tidemill.storage.store import Store

__all__ = ["LateReplay", "LateReplayer", "late_change_count", "replay_late_changes"]


class LateReplayer(Protocol):
    """A warehouse as the replay of late changes uses it."""

    @property
    def catalog(self) -> Catalog:
        """Its tables and views."""

    @property
    def store(self) -> Store:
        """The store that holds the late changes."""

    def settled(self) -> AbstractContextManager[None]:
        """Hold the warehouse exclusively, at its last commit."""

    def answer(self, relation: Relation) -> ChangeSet:
        """The rows of a query."""

    def apply(self, changes: Mapping[str, ChangeSet], *, late: bool) -> int:
        """Commit one epoch."""


def late_change_count(store: Store, table: Table, epoch: int) -> int:
    """The number of late changes of a table in a committed epoch."""
    late = late_table(table)
    if late is None:
        return 0
    found = store.read(late.name, late.fields, since=epoch - 1, until=epoch)
    weights = found.column(WEIGHT)
    return int(pc.sum(pc.filter(weights, pc.greater(weights, 0))).as_py() or 0)


class LateReplay(NamedTuple):
    """Result of a replay: the number of changes applied (``taken``) in ``epoch``, and of those that are ``left``.

    These are no longer retained, or lie so far after all others that a clock may have gone wrong (``ahead_from``).
    """

    epoch: int
    taken: int
    left: int

    def told(self, table: Table) -> str:
        """The result as text."""
        why = "their partitions are forgotten, or far ahead"
        left = f"; left in {table.name}{LATE}, for {why}: {self.left}" if self.left else ""
        return f"late changes of {table.name} replayed in epoch {self.epoch}: {self.taken}{left}"


def _replayed(cut: Partitioning, head: int | None, floor: int | None) -> tuple[float, float]:
    """The instants from which and up to which late changes can be replayed."""
    first = retained_from(cut, head, floor)
    return -math.inf if first is None else first, math.inf if head is None else ahead_from(cut, head)


def replay_late_changes(engine: LateReplayer, statement: ReplayLate) -> LateReplay:
    """Apply late changes as one epoch if their partitions are still retained; the others stay where they are."""
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
        positions = engine.store.positions
        first, end = _replayed(table.partitioning, head_of(positions, table.name), floor_of(positions, table.name))
        first, end = (end, math.inf) if statement.ahead else (first, end)
        place = names_of(table.fields).index(table.partitioning.column)
        taken = [(row, weight) for row, weight in pairs if first <= number_of(row[place]) < end]
        width = len(table.fields)
        changes = {
            table.name: ChangeSet.of(((row[:width], row[width] * weight) for row, weight in taken), table.fields),
            late.name: ChangeSet.of(((row, -weight) for row, weight in taken), late.fields),
        }
        epoch = engine.apply(changes, late=True) if taken else engine.store.epoch
        count = sum(weight for _, weight in taken)
        return LateReplay(epoch, count, sum(weight for _, weight in pairs) - count)
