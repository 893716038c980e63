"""Routes: the order in which a walk that starts at one member reaches all others, vertex by vertex, nearest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemill.program.joingraph import Graph
from tidemill.program.maps import Map
from tidemill.runtimes.native.operators.joingraph.structure import JoinColumns


@dataclass(frozen=True, slots=True)
class PathFilter:
    """A filter on paths: ``passes`` of the values of ``columns``, each a member's alias and a join column of it."""

    columns: tuple[tuple[str, str], ...]
    passes: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class BoundFilter:
    """A filter on paths and where its values are: each at a place on the route, in one of the join columns there."""

    filter: PathFilter
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Crossing:
    """A step of a route: from a join tuple of a member through one of its vertex values to those on the other side.

    ``source`` and ``target`` are the places of the two members on the route, ``leaving`` and ``entering`` the vertex
    among those of each, ``side`` is where the target stands. ``onward`` are the steps that go on from the target, and
    ``filters`` what can be tried on a path that has come this far.
    """

    source: int
    target: int
    leaving: int
    entering: int
    side: int
    filters: tuple[BoundFilter, ...]
    onward: list[Crossing] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Its place among the steps of the route: each comes to one more member."""
        return self.target - 1


@dataclass(frozen=True, slots=True)
class WalkRoute:
    """All steps from one member, of which ``onward`` are the first.

    ``filters`` can be tried on that member alone. ``order`` has the place on the route of each member of the graph.
    """

    crossings: tuple[Crossing, ...]
    onward: tuple[Crossing, ...]
    filters: tuple[BoundFilter, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A join graph, ready to be walked.

    ``collect(sums, *tuples)`` adds the rows of a complete path to the sums of the graph's target, from the projected
    tuples of each member with their entries, in the order of the members. ``maps`` are those of the members,
    ``columns`` their join columns, ``routes`` the walks that start at each of them.
    """

    graph: Graph
    maps: Mapping[str, Map]
    columns: JoinColumns
    collect: Callable[..., None]
    routes: Mapping[str, WalkRoute]


def route_from(start: str, graph: Graph, columns: JoinColumns, filters: Sequence[PathFilter]) -> WalkRoute:
    """The route from the member ``start`` to all others."""
    met, crossings, untried = [start], list[Crossing](), list(filters)
    first = _bound(untried, met, columns)
    # The list grows while the loop runs: that is what makes the search go breadth first.
    for place, alias in enumerate(met):
        for leaving, vertex in enumerate(graph.around(alias)):
            beyond = vertex.beyond(alias)
            if beyond not in met:
                met.append(beyond)
                entering, side = graph.around(beyond).index(vertex), vertex.members.index(beyond)
                bound = _bound(untried, met, columns)
                crossings.append(Crossing(place, len(met) - 1, leaving, entering, side, bound))
    for crossing in crossings:
        crossing.onward.extend(after for after in crossings if after.source == crossing.target)
    onward = tuple(crossing for crossing in crossings if crossing.source == 0)
    return WalkRoute(tuple(crossings), onward, first, tuple(met.index(member.alias) for member in graph.members))


def _bound(untried: list[PathFilter], met: list[str], columns: JoinColumns) -> tuple[BoundFilter, ...]:
    """Take out of ``untried`` the filters that can be tried once all members of ``met`` are on the path."""
    ready = [one for one in untried if {alias for alias, _ in one.columns} <= set(met)]
    untried[:] = [one for one in untried if one not in ready]
    return tuple(
        BoundFilter(one, tuple((met.index(alias), columns[alias].index(name)) for alias, name in one.columns))
        for one in ready
    )
