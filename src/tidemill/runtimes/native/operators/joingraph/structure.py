"""The join graph: members that share the values on which they meet, and the indexes that find everything in O(1).

A stage keeps each member in a map, which is stored, journaled and rolled back like any other. The graph follows these
maps as an index does: told what the entry of a key is to be, it makes or removes projected tuples, join tuples and
vertex values. To be told twice does no harm, and to be told of an entry of old undoes what came in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidemill.changes.zset import Row
from tidemill.program.joingraph import Graph, Vertex
from tidemill.program.maps import Map
from tidemill.runtimes.native.state.indexes import values_at

ProjectedEntry = Any
"""The count of a projected tuple; of an extended one a tuple of its count and its sums."""

JoinColumns = Mapping[str, tuple[str, ...]]
"""The join columns of each member, by its alias."""

DeadTuple = tuple["JoinTuple", int]
"""A join tuple that leads nowhere when it is entered by that one of its vertices."""


@dataclass(slots=True, eq=False)
class VertexValue:
    """Values on which two members meet, and the join tuples that touch here: those of the one, those of the other.

    ``waiting`` are join tuples that the global look-ahead has found dead because nothing alive is beyond: they wait
    for something to come to the other side.
    """

    values: Row
    tuples: tuple[dict[JoinTuple, None], dict[JoinTuple, None]] = field(default_factory=lambda: ({}, {}))
    waiting: tuple[dict[DeadTuple, None], dict[DeadTuple, None]] | None = None


@dataclass(slots=True, eq=False)
class JoinTuple:
    """All rows of a member that are equal in its join columns, and so meet the same others.

    ``vertices`` are its vertex values in the order of the member's vertices, ``projected`` its projected tuples: keys
    of the member's map with their entries. ``dead`` says for which vertex of entry the walk is known to lead nowhere,
    and at which other vertex nothing was found.
    """

    member: MemberTuples
    values: Row
    vertices: tuple[VertexValue, ...]
    projected: dict[Row, ProjectedEntry] = field(default_factory=dict)
    dead: dict[int, int] = field(default_factory=dict)


class LookAhead(Protocol):
    """The look-ahead of walks. A vertex is given by its position among those of the join tuple's member."""

    def is_known_dead(self, near: JoinTuple, entering: int) -> bool:
        """True if a walk that enters ``near`` by that vertex is known to find nothing."""

    def mark_dead(self, near: JoinTuple, entering: int, at: int) -> None:
        """Mark ``near`` dead for walks that enter by one vertex: nothing was found through the vertex ``at``."""

    def mark_live(self, new: JoinTuple) -> None:
        """Mark tuples live again whose last missing join partner is the new join tuple."""

    def forget(self, old: JoinTuple) -> None:
        """Forget what is known of a join tuple that is about to leave."""


class MemberTuples:
    """The join tuples of one member.

    Its *join columns* are those of its vertices and those that filters on paths read. ``sides`` says on which side of
    each of its vertices it stands. A row with NULL where it should meet others is in no complete path: it stays in the
    map, and out of the graph.
    """

    def __init__(self, joined: JoinGraph, alias: str, map_: Map, columns: tuple[str, ...]) -> None:
        vertices = joined.graph.around(alias)
        names = [f.name for f in map_.keys]
        self.joined = joined
        self.alias = alias
        self.sides = tuple(vertex.members.index(alias) for vertex in vertices)
        self.join_tuples: dict[Row, JoinTuple] = {}
        self.vertex_values = tuple(joined.vertex_values[vertex] for vertex in vertices)
        self._meets = len({column for vertex in vertices for column in vertex.of(alias)})
        self._values_of = values_at([names.index(column) for column in columns])
        self._at = tuple(values_at([columns.index(column) for column in vertex.of(alias)]) for vertex in vertices)

    def values_of(self, row: Row) -> Row | None:
        """The values of a row in the join columns; None where it meets nothing."""
        values = self._values_of(row)
        return None if None in values[: self._meets] else values

    def find(self, values: Row) -> JoinTuple:
        """The join tuple with these values, made where there is none, and with it the vertex values that it needs."""
        found = self.join_tuples.get(values)
        if found is None:
            pairs = zip(self._at, self.vertex_values, strict=True)
            found = JoinTuple(self, values, tuple(_found(index, at(values)) for at, index in pairs))
            self.join_tuples[values] = found
            for vertex, side in zip(found.vertices, self.sides, strict=True):
                vertex.tuples[side][found] = None
            self.joined.lookahead.mark_live(found)
        return found

    def remove(self, gone: JoinTuple) -> None:
        """Remove a join tuple, and the vertex values where no other one is."""
        self.joined.lookahead.forget(gone)
        del self.join_tuples[gone.values]
        for vertex, side, index in zip(gone.vertices, self.sides, self.vertex_values, strict=True):
            del vertex.tuples[side][gone]
            if not any(vertex.tuples):
                del index[vertex.values]

    def fill(self, entries: Iterable[tuple[Row, ProjectedEntry]]) -> None:
        """Take in the entries of the member's map."""
        for row, entry in entries:
            self.move(row, None, entry)

    def move(self, key: Row, old: ProjectedEntry | None, new: ProjectedEntry | None) -> None:
        """Update the projected tuple of an entry of the member's map; None and 0 stand for no entry."""
        values = self.values_of(key)
        if values is None:
            return
        if new:
            self.find(values).projected[key] = new
            return
        known = self.join_tuples.get(values)
        if known is not None and known.projected.pop(key, None) is not None and not known.projected:
            self.remove(known)


class JoinGraph:
    """The join tuples of all members, and for each vertex the values that two of them share."""

    def __init__(self, graph: Graph, maps: Mapping[str, Map], columns: JoinColumns, lookahead: LookAhead) -> None:
        self.graph = graph
        self.lookahead = lookahead
        self.vertex_values: dict[Vertex, dict[Row, VertexValue]] = {vertex: {} for vertex in graph.vertices}
        self.members = {m.alias: MemberTuples(self, m.alias, maps[m.map], columns[m.alias]) for m in graph.members}


def _found(index: dict[Row, VertexValue], values: Row) -> VertexValue:
    found = index.get(values)
    if found is None:
        found = index[values] = VertexValue(values)
    return found
