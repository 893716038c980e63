"""The base diff filter: of a change of a relation, what it does to each join tuple of a member (algorithm 1).

A member has the rows that pass its conditions, and no others. Generated code (the *growth* of the member's map) tries
each row by itself and sums up what passes, by projected tuple. An update comes as a row that leaves and one that comes:
where both pass it is still an update, where one does it has become a delete or an insert, and where none does nothing
is left of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tidemill.changes.zset import Row
from tidemill.runtimes.native.operators.joingraph.structure import MemberTuples, ProjectedEntry


class DiffKind(Enum):
    """The kind of a diff, and of the modification of the graph that it causes."""

    INSERT = "insert"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class TupleChange:
    """The amounts that a change adds to a projected tuple, in the form of an entry, and its new entry or None."""

    row: Row
    added: ProjectedEntry
    after: ProjectedEntry | None

    @property
    def count(self) -> int:
        """The number of rows that come, or leave if negative. An extended tuple may change in its sums alone."""
        return int(self.added[0] if isinstance(self.added, tuple) else self.added)


@dataclass(frozen=True, slots=True)
class Diff:
    """All moves of projected tuples that belong to the join tuple with these ``values``.

    They are one diff, because what they meet is the same: one walk is enough for all of them.
    """

    values: Row
    moves: list[TupleChange] = field(default_factory=list)

    @property
    def kind(self) -> DiffKind:
        """An update has something that leaves and something that comes, or sums that change."""
        if all(move.count > 0 for move in self.moves):
            return DiffKind.INSERT
        return DiffKind.DELETE if all(move.count < 0 for move in self.moves) else DiffKind.UPDATE


def diffs_of(member: MemberTuples, moves: Iterable[TupleChange]) -> list[Diff]:
    """The moves by join tuple. Those of rows that can meet nothing are left out."""
    found: dict[Row, Diff] = {}
    for move in moves:
        values = member.values_of(move.row)
        if values is not None:
            if values not in found:
                found[values] = Diff(values)
            found[values].moves.append(move)
    return list(found.values())
