"""Materialization: all rows of the view at once, out of the graph alone (algorithm 6)."""

from __future__ import annotations

from tidemill.runtimes.native.operators.joingraph.routes import CompiledGraph
from tidemill.runtimes.native.operators.joingraph.structure import JoinGraph
from tidemill.runtimes.native.operators.joingraph.view_diffs import ViewSums, aggregate
from tidemill.runtimes.native.operators.joingraph.walk import GraphWalk


def materialize(compiled: CompiledGraph, joined: JoinGraph, sums: ViewSums) -> GraphWalk:
    """Add every row of the view to ``sums``.

    Each complete path goes through one join tuple of each member, so any member will do to start from: the one with
    the fewest join tuples.
    """
    member = min(joined.members.values(), key=lambda member: len(member.join_tuples))
    route = compiled.routes[member.alias]
    walk = GraphWalk(route, member.join_tuples.values(), joined.lookahead)
    for start in member.join_tuples.values():
        for path in walk.paths(start):
            aggregate(compiled, route, path, start.projected.items(), sums)
    return walk
