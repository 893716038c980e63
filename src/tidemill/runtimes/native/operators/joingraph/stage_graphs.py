"""Stages that walk their join graphs: which they are, and a change of an input on its way through the graphs."""

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

WALKS = True
"""Whether graphs are walked at all. The triggers of a stage mean the same, so tests can compare the two."""


def walks(stage: Stage) -> bool:
    """Whether changes of the inputs of ``stage`` go through its join graphs; the alternative are its triggers.

    These stay in use where nothing is to be walked for a change: rows are only made when they are read, or no member
    meets another one. So they do where maps of members are left in the store (``State.left``), since a graph has all of
    its members in memory; a map that only the reader of a stage reads is brought there for it.
    """
    return WALKS and stage.serve is not Serve.READ and any(len(graph.members) > 1 for graph in stage.graphs)


def reads(stage: Stage) -> bool:
    """Whether the rows of a stage that does not store them are found by walking its graphs."""
    return WALKS and bool(stage.graphs)


def fire(graphs: Iterable[CompiledGraph], relation: str, maps: MemberMaps, sums: dict[str, ViewSums]) -> None:
    """Take in a change of ``relation``, of which ``sums`` has the growth of each map, and add to ``sums`` what follows.

    A relation with several aliases changes one after the other, and each walk finds those before it changed and those
    after it unchanged. The maps themselves grow later, once the sums are complete. What they will hold is noted in
    their journals now, so that a walk that fails can be undone.
    """
    for number, compiled in enumerate(graphs):
        graph = compiled.graph
        if len(graph.members) > 1:
            layers = joined_in(number, compiled, maps).layers
            target = sums.setdefault(graph.target, {})
            for member in graph.members:
                if member.relation == relation:
                    layer = layers[member.alias]
                    moves = (TupleChange(*move) for move in maps[member.map].announce(sums.get(member.map, {})))
                    generate_view_diffs(
                        compiled, layer, [maintain(layer, diff) for diff in diffs_of(layer, moves)], target
                    )


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

    Its layers follow the maps of their members, so it lives as long as these do.
    """
    assert not any(maps[member.map].is_partial for member in compiled.graph.members)
    first, *others = compiled.graph.members
    joined = maps[first.map].states((number, first.alias), lambda: empty_graph(compiled).layers[first.alias]).joined
    for member in others:
        maps[member.map].states((number, member.alias), partial(joined.layers.__getitem__, member.alias))
    return joined
