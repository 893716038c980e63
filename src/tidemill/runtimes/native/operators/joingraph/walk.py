"""Walking: breadth-first search from join tuples of one member for the complete paths that go through them.

The search goes outward member by member and comes to each vertex value once, however many paths share it: what is on
its other side is the same for all of them. On the way back it drops what turned out to lead nowhere. So every path that
is then put together from what is left is complete, unless a filter ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidemill.runtimes.native.operators.joingraph.routes import BoundFilter, Crossing, WalkRoute
from tidemill.runtimes.native.operators.joingraph.structure import JoinTuple, LookAhead, VertexValue

JoinPath = tuple[JoinTuple, ...]
"""Join tuples that touch, one of each member that the route has come to, in its order."""


class GraphWalk:
    """A search from ``starts``, join tuples of the member at which ``route`` begins; they need not be in the graph.

    ``visited`` counts the join tuples that were followed.
    """

    def __init__(self, route: WalkRoute, starts: Iterable[JoinTuple], lookahead: LookAhead) -> None:
        self._route = route
        self._lookahead = lookahead
        self._met: list[dict[VertexValue, list[JoinTuple]]] = [{} for _ in route.crossings]
        self.visited = 0
        self._go_out([start for start in starts if _passes((start,), route.filters)])
        self._come_back()

    def paths(self, start: JoinTuple) -> Iterable[JoinPath]:
        """The complete paths through ``start``, which is one of those where the search began."""
        if not _passes((start,), self._route.filters) or not self._goes_on(start, self._route.onward):
            return ()
        paths: Iterable[JoinPath] = ((start,),)
        for crossing in self._route.crossings:
            paths = self._extended(paths, crossing)
        return paths

    def _go_out(self, starts: list[JoinTuple]) -> None:
        """Reach all join tuples that are to be followed, one member after the other."""
        reached = [starts, *([] for _ in self._route.crossings)]
        for crossing in self._route.crossings:
            met, leaving = self._met[crossing.number], crossing.leaving
            for near in reached[crossing.source]:
                vertex = near.vertices[leaving]
                if vertex not in met:
                    met[vertex] = self._beyond(vertex, crossing)
                    reached[crossing.target] += met[vertex]
            # A join tuple without a partner at one vertex need not be followed through the others.
            reached[crossing.source] = [near for near in reached[crossing.source] if met[near.vertices[leaving]]]
            self.visited += len(reached[crossing.target])

    def _beyond(self, vertex: VertexValue, crossing: Crossing) -> list[JoinTuple]:
        """The join tuples on the other side of a vertex value that are not known to be dead."""
        return [
            near for near in vertex.tuples[crossing.side] if not self._lookahead.is_known_dead(near, crossing.entering)
        ]

    def _come_back(self) -> None:
        """Drop join tuples that lead nowhere, the farthest first, and tell the look-ahead."""
        for crossing in reversed(self._route.crossings):
            if crossing.onward:
                met = self._met[crossing.number]
                for vertex, near in met.items():
                    met[vertex] = [one for one in near if self._goes_on(one, crossing.onward, crossing.entering)]

    def _goes_on(self, near: JoinTuple, onward: Sequence[Crossing], entering: int | None = None) -> bool:
        """True if a partner is left at each vertex by which the walk goes on from ``near``."""
        for crossing in onward:
            if not self._met[crossing.number].get(near.vertices[crossing.leaving]):
                if entering is not None:
                    self._lookahead.mark_dead(near, entering, crossing.leaving)
                return False
        return True

    def _extended(self, paths: Iterable[JoinPath], crossing: Crossing) -> Iterator[JoinPath]:
        """Each path by each join tuple that it meets next."""
        met, filters = self._met[crossing.number], crossing.filters
        for path in paths:
            for near in met[path[crossing.source].vertices[crossing.leaving]]:
                longer = (*path, near)
                if _passes(longer, filters):
                    yield longer


def _passes(path: JoinPath, filters: Iterable[BoundFilter]) -> bool:
    return all(one.filter.passes(*[path[at].values[column] for at, column in one.places]) for one in filters)
