"""The join graphs of a stage, and how a change of an input goes through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from tidemill.program.joingraph import Serve
from tidemill.program.stages import Stage
from tidemill.runtimes.native.operators.joingraph.diff_filter import TupleChange, diffs_of
from tidemill.runtimes.native.operators.joingraph.lookahead import create_lookahead
from tidemill.runtimes.native.operators.joingraph.maintenance import maintain
from tidemill.runtimes.native.operators.joingraph.materialize import materialize
from tidemill.runtimes.native.operators.joingraph.routes import CompiledGraph
from tidemill.runtimes.native.operators.joingraph.structure import JoinGraph
from tidemill.runtimes.native.operators.joingraph.view_diffs import ViewSums, generate_view_diffs
from tidemill.runtimes.native.state.maps import RingMap, RowMap

MemberMaps = Mapping[str, RowMap | RingMap]

USE_WALKS = True
"""True if graphs are walked at all. The triggers of a stage mean the same, so tests can compare the two."""


def walks(stage: Stage) -> bool:
    """True if changes of the inputs of ``stage`` go through its join graphs; the alternative are its triggers.

    Triggers are used where nothing is to be walked for a change: rows are only made when they are read, or there is one
    member. They are also used where maps of members are left in the store (``RuntimeState.left``), since a graph has
    all of its members in memory; a map that only the reader of a stage reads is loaded for it.
    """
    return USE_WALKS and stage.serve is not Serve.READ and any(len(graph.members) > 1 for graph in stage.graphs)


def reads(stage: Stage) -> bool:
    """True if the rows of a stage that does not store them are found by walking its graphs."""
    return USE_WALKS and bool(stage.graphs)


def fire(graphs: Iterable[CompiledGraph], relation: str, maps: MemberMaps, sums: dict[str, ViewSums]) -> None:
    """Take in a change of ``relation``, of which ``sums`` has the growth of each map, and add to ``sums`` what follows.

    A relation with several aliases changes one after the other, and each walk finds those before it changed and those
    after it unchanged. The maps themselves grow later, once the sums are complete. What they will hold is noted in
    their journals now, so that a walk that fails can be undone.
    """
    for number, compiled in enumerate(graphs):
        graph = compiled.graph
        if len(graph.members) > 1:
            members = joined_in(number, compiled, maps).members
            target = sums.setdefault(graph.target, {})
            for member in graph.members:
                if member.relation == relation:
                    tuples = members[member.alias]
                    moves = (TupleChange(*move) for move in maps[member.map].announce(sums.get(member.map, {})))
                    modifications = [maintain(tuples, diff) for diff in diffs_of(tuples, moves)]
                    generate_view_diffs(compiled, tuples, modifications, target)


def fill(graphs: Iterable[CompiledGraph], maps: MemberMaps, sums: dict[str, ViewSums]) -> None:
    """Add all rows of the graphs to the sums of their targets."""
    for number, compiled in enumerate(graphs):
        materialize(compiled, joined_in(number, compiled, maps), sums.setdefault(compiled.graph.target, {}))


def empty_graph(compiled: CompiledGraph) -> JoinGraph:
    """The join graph of empty members."""
    graph = compiled.graph
    return JoinGraph(graph, compiled.maps, compiled.columns, create_lookahead(graph.lookahead))


def joined_in(number: int, compiled: CompiledGraph, maps: MemberMaps) -> JoinGraph:
    """The join graph on ``maps``, the one of that number in its stage; made when it is first asked for.

    Its join tuples are maintained as observers of the members' maps, so it lives as long as these do.
    """
    assert not any(maps[member.map].is_partial for member in compiled.graph.members)
    first, *others = compiled.graph.members
    joined = maps[first.map].states((number, first.alias), lambda: empty_graph(compiled).members[first.alias]).joined
    for member in others:
        maps[member.map].states((number, member.alias), partial(joined.members.__getitem__, member.alias))
    return joined
