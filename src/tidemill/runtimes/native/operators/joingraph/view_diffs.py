"""View diffs: the change of the view that modifications of the graph cause (algorithm 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidemill.changes.zset import Row
from tidemill.runtimes.native.operators.joingraph.maintenance import Modification
from tidemill.runtimes.native.operators.joingraph.routes import CompiledGraph, WalkRoute
from tidemill.runtimes.native.operators.joingraph.structure import MemberTuples, ProjectedEntry
from tidemill.runtimes.native.operators.joingraph.walk import GraphWalk, JoinPath

ViewSums = dict[Row, Any]
"""The amounts that are added to each key of a graph's target."""


def generate_view_diffs(
    compiled: CompiledGraph, member: MemberTuples, modifications: Sequence[Modification], sums: ViewSums
) -> GraphWalk:
    """Add to ``sums`` the change of the view that ``modifications`` of a member cause.

    An update walks once for what leaves and what comes, since both meet the same others.
    """
    route = compiled.routes[member.alias]
    walk = GraphWalk(route, [modification.join_tuple for modification in modifications], member.joined.lookahead)
    for modification in modifications:
        for path in walk.paths(modification.join_tuple):
            aggregate(compiled, route, path, modification.projected, sums)
    return walk


def aggregate(
    compiled: CompiledGraph,
    route: WalkRoute,
    path: JoinPath,
    projected: Iterable[tuple[Row, ProjectedEntry]],
    sums: ViewSums,
) -> None:
    """Add the product of the projected tuples along a complete path, of its first join tuple only those given.

    Counts are multiplied, and what falls on one key of the view is added up: the *aggregator* of the algorithm.
    """
    tuples = [projected, *(met.projected.items() for met in path[1:])]
    compiled.collect(sums, *[tuples[place] for place in route.order])
