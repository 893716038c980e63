"""Maintenance: the diffs of a member become modifications of the graph (algorithms 2 to 4).

Weights are signed, so the three algorithms are one. An *insert* finds the join tuple, or makes it and the vertex values
that are missing, and attaches a projected tuple or counts it up. A *delete* counts down: without a count a projected
tuple goes, without these a join tuple, without these a vertex value. An *update* does both to one join tuple, which
stays. An update of join columns is a delete from one join tuple and an insert into another one, so it is two diffs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.changes.zset import Row
from tidemill.runtimes.native.operators.joingraph.diff_filter import Diff, DiffKind
from tidemill.runtimes.native.operators.joingraph.structure import JoinTuple, MemberTuples, ProjectedEntry


@dataclass(frozen=True, slots=True)
class Modification:
    """A modification of a join tuple, which may be gone now: projected tuples, with the amounts added to each."""

    kind: DiffKind
    join_tuple: JoinTuple
    projected: list[tuple[Row, ProjectedEntry]]


def maintain(member: MemberTuples, diff: Diff) -> Modification:
    """Bring a join tuple up to date with a diff."""
    found = member.find(diff.values)
    for move in diff.moves:
        if move.after is None:
            found.projected.pop(move.row, None)
        else:
            found.projected[move.row] = move.after
    if not found.projected:
        member.remove(found)
    return Modification(diff.kind, found, [(move.row, move.added) for move in diff.moves])
