"""Look-ahead: what is known of a join tuple before a walk follows it.

*Local*: a join tuple that touches nothing at one of its vertices is in no complete path. Vertex values know who
touches, so that is asked and not kept.

*Global*: a walk that found nothing behind a join tuple marks it *dead*, for walks that enter it by the same vertex. The
marks keep one promise: a dead join tuple has, at one of its vertices beyond, only dead join tuples or none. So when
a join tuple arrives, those that were dead for want of it are revived, then those that were dead for want of these, and
so on outward. When one leaves, no promise is broken: whoever is dead now without a mark gets it from the next walk.
Marks say nothing of filters on paths, because these depend on where the walk came from.
"""

from __future__ import annotations

from tidemill.program.joingraph import Lookahead
from tidemill.runtimes.native.operators.joingraph.structure import JoinTuple, LookAhead, VertexValue


class NoLookAhead:
    """Everything is followed."""

    def skips(self, near: JoinTuple, entering: int) -> bool:
        """Nothing is known."""
        return False

    def failed(self, near: JoinTuple, entering: int, at: int) -> None:
        """Nothing is remembered."""

    def mark_live(self, new: JoinTuple) -> None:
        """Nothing was remembered."""

    def left(self, old: JoinTuple) -> None:
        """Nothing was remembered."""


class LocalLookAhead(NoLookAhead):
    """What touches nothing at another vertex is not followed."""

    def skips(self, near: JoinTuple, entering: int) -> bool:
        """Whether some other vertex has nobody on the other side."""
        return dangling_vertex(near, entering) is not None


class GlobalLookAhead:
    """What was found to lead nowhere is not followed again, until something comes that it was waiting for."""

    def skips(self, near: JoinTuple, entering: int) -> bool:
        """Whether ``near`` is dead; a loose end is found out at once, and marked like any other."""
        if entering in near.dead:
            return True
        loose = dangling_vertex(near, entering)
        if loose is not None:
            self.failed(near, entering, loose)
        return loose is not None

    def failed(self, near: JoinTuple, entering: int, at: int) -> None:
        """Mark ``near``, and let it wait for what may come to the vertex value where nothing was found."""
        near.dead[entering] = at
        vertex = near.vertices[at]
        if vertex.waiting is None:
            vertex.waiting = ({}, {})
        vertex.waiting[near.layer.sides[at]][near, entering] = None

    def mark_live(self, new: JoinTuple) -> None:
        """Revive what was waiting for somebody at the vertex values of ``new``, and what was waiting for these."""
        pending = list(zip(new.vertices, new.layer.sides, strict=True))
        while pending:
            for woken, entering in _take_waiting(*pending.pop()):
                del woken.dead[entering]
                pending.append((woken.vertices[entering], woken.layer.sides[entering]))

    def left(self, old: JoinTuple) -> None:
        """Who is gone waits for nothing."""
        for entering, at in old.dead.items():
            waiting = old.vertices[at].waiting
            assert waiting is not None
            del waiting[old.layer.sides[at]][old, entering]


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
    """A vertex other than the one of entry at which ``near`` touches nobody."""
    for at, (vertex, side) in enumerate(zip(near.vertices, near.layer.sides, strict=True)):
        if at != entering and not vertex.tuples[1 - side]:
            return at
    return None


def _take_waiting(vertex: VertexValue, side: int) -> list[tuple[JoinTuple, int]]:
    """Who was waiting at a vertex value for somebody to come to that side."""
    if vertex.waiting is None:
        return []
    waiting = vertex.waiting[1 - side]
    woken = list(waiting)
    waiting.clear()
    return woken
