"""Look-ahead: join tuples that are known to lead nowhere are not followed.

*Local*: a join tuple without a partner at one of its vertices is in no complete path. Vertex values know their join
tuples, so that is looked up and not stored.

*Global*: a walk that found nothing behind a join tuple marks it *dead*, for walks that enter it by the same vertex. The
marks keep one promise: a dead join tuple has, at one of its vertices beyond, only dead join tuples or none. So when a
join tuple arrives, those that were dead for want of it are revived, then those that were dead for want of these, and so
on outward. When one leaves, no promise is broken: a join tuple that is dead now without a mark gets it from the next
walk. Marks say nothing of filters on paths, because these depend on where the walk came from.
"""

from __future__ import annotations

from tidemill.program.joingraph import Lookahead
from tidemill.runtimes.native.operators.joingraph.structure import JoinTuple, LookAhead, VertexValue


class NoLookAhead:
    """Everything is followed."""

    def is_known_dead(self, near: JoinTuple, entering: int) -> bool:
        """False: nothing is known."""
        return False

    def mark_dead(self, near: JoinTuple, entering: int, at: int) -> None:
        """Do nothing: nothing is remembered."""

    def mark_live(self, new: JoinTuple) -> None:
        """Do nothing: nothing was remembered."""

    def forget(self, old: JoinTuple) -> None:
        """Do nothing: nothing was remembered."""


class LocalLookAhead(NoLookAhead):
    """Join tuples without a partner at another vertex are not followed."""

    def is_known_dead(self, near: JoinTuple, entering: int) -> bool:
        """True if some other vertex has no join tuple on the other side."""
        return dangling_vertex(near, entering) is not None


class GlobalLookAhead:
    """Join tuples that were found dead are not followed again before a missing partner arrives."""

    def is_known_dead(self, near: JoinTuple, entering: int) -> bool:
        """True if ``near`` is dead; one with a dangling vertex is marked dead at once."""
        if entering in near.dead:
            return True
        dangling = dangling_vertex(near, entering)
        if dangling is not None:
            self.mark_dead(near, entering, dangling)
        return dangling is not None

    def mark_dead(self, near: JoinTuple, entering: int, at: int) -> None:
        """Mark ``near`` dead, and register it at the vertex value where no partner was found."""
        near.dead[entering] = at
        vertex = near.vertices[at]
        if vertex.waiting is None:
            vertex.waiting = ({}, {})
        vertex.waiting[near.member.sides[at]][near, entering] = None

    def mark_live(self, new: JoinTuple) -> None:
        """Mark tuples live again that lacked a partner at a vertex value of ``new``, then those that lacked these."""
        pending = list(zip(new.vertices, new.member.sides, strict=True))
        while pending:
            for woken, entering in _take_waiting(*pending.pop()):
                del woken.dead[entering]
                pending.append((woken.vertices[entering], woken.member.sides[entering]))

    def forget(self, old: JoinTuple) -> None:
        """Remove a join tuple that is gone from the lists of waiting ones."""
        for entering, at in old.dead.items():
            waiting = old.vertices[at].waiting
            assert waiting is not None
            del waiting[old.member.sides[at]][old, entering]


def create_lookahead(lookahead: Lookahead) -> LookAhead:
    """The look-ahead of that kind, which knows nothing yet."""
    match lookahead:
        case Lookahead.NONE:
            return NoLookAhead()
        case Lookahead.LOCAL:
            return LocalLookAhead()
        case Lookahead.GLOBAL:
            return GlobalLookAhead()


def dangling_vertex(near: JoinTuple, entering: int) -> int | None:
    """A vertex other than the one of entry at which ``near`` has no partner."""
    for at, (vertex, side) in enumerate(zip(near.vertices, near.member.sides, strict=True)):
        if at != entering and not vertex.tuples[1 - side]:
            return at
    return None


def _take_waiting(vertex: VertexValue, side: int) -> list[tuple[JoinTuple, int]]:
    """Remove and return the join tuples that waited at a vertex value for a partner on that side."""
    if vertex.waiting is None:
        return []
    waiting = vertex.waiting[1 - side]
    woken = list(waiting)
    waiting.clear()
    return woken
