"""The invariants of join graphs and of readers, as part of ``program.verification.verify``.

- The members of a graph are maps of the stage, over relations that it reads; changes of these are added to them.
- The sums of a member are the values of its map, over columns of its own.
- Vertices connect all members and close no cycle; they pair keys that can be compared.
- Filters read keys of members; a graph adds to a map of the stage, or to its own output.
- Rows are stored, or there is a reader, and not both. A reader has no inputs and no triggers, fills its own maps from
  those that it shares with the stage, and gives the rows that the stage would.
- If changes are not published, only the maps of members are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.algebra.relational.walk import columns_in
from tidemill.model.types import Type
from tidemill.program.compatible_types import comparable, sums_up
from tidemill.program.joingraph import Graph, GraphMember, Serve, Vertex
from tidemill.program.maps import Map
from tidemill.program.reads import reads_old, relation_of
from tidemill.program.stages import Stage
from tidemill.program.statements import Add


def joingraph_problems(stage: Stage) -> Iterator[str]:
    """Violations in the graphs of ``stage``, and in how its rows are served."""
    yield from _of_serving(stage)
    for graph in stage.graphs:
        yield from _of_members(graph, stage)
        yield from _of_vertices(graph, stage)
        yield from _of_paths(graph, stage)


def _maps(stage: Stage) -> dict[str, Map]:
    return {map_.name: map_ for map_ in stage.maps}


def _of_members(graph: Graph, stage: Stage) -> Iterator[str]:
    aliases = [member.alias for member in graph.members]
    if len(set(aliases)) != len(aliases) or not aliases:
        yield f"the members {aliases} of a join graph are not told apart"
    for member in graph.members:
        map_ = _maps(stage).get(member.map)
        if map_ is None or member.relation not in stage.inputs:
            yield f'the member "{member.alias}" holds "{member.relation}" in "{member.map}", which the stage does not'
        elif [sum_.name for sum_ in member.sums] != [value.name for value in map_.values]:
            yield f'the sums of the member "{member.alias}" are not the values of "{member.map}"'
        elif not all(map(sums_up, (s.scalar.type for s in member.sums), (v.type for v in map_.values))):
            yield f'what the member "{member.alias}" sums up does not fit the values of "{member.map}"'
        elif not all(name.startswith(f"{member.alias}.") for sum_ in member.sums for name in columns_in(sum_.scalar)):
            yield f'the member "{member.alias}" sums up columns of others'
        elif not _grows(member, stage):
            yield f'a change of "{member.relation}" does not reach "{member.map}"'


def _grows(member: GraphMember, stage: Stage) -> bool:
    triggers = [trigger for trigger in stage.triggers if trigger.relation == member.relation]
    return any(statement.target == member.map for trigger in triggers for statement in trigger.statements)


def _of_vertices(graph: Graph, stage: Stage) -> Iterator[str]:
    reached = {graph.members[0].alias} if graph.members else set()
    left = list(graph.vertices)
    while near := [vertex for vertex in left if len(reached & set(vertex.members)) == 1]:
        reached |= set(near[0].members)
        left.remove(near[0])
    if left or reached != {member.alias for member in graph.members}:
        yield "the vertices of a join graph are no tree over its members"
    for vertex in graph.vertices:
        if not all(comparable(*pair) for pair in _meetings(vertex, graph, stage)):
            yield f"the members {vertex.members} of a join graph cannot meet by {vertex.columns}"


def _meetings(vertex: Vertex, graph: Graph, stage: Stage) -> Iterator[tuple[Type | None, Type | None]]:
    one, other = (_keys(graph, alias, stage) for alias in vertex.members)
    yield from ((one.get(a), other.get(b)) for a, b in vertex.columns)


def _keys(graph: Graph, alias: str, stage: Stage) -> dict[str, Type]:
    """The columns that distinguish projected tuples of a member."""
    held = [_maps(stage).get(member.map) for member in graph.members if member.alias == alias]
    return {f.name: f.type for map_ in held if map_ is not None for f in map_.keys}


def _of_paths(graph: Graph, stage: Stage) -> Iterator[str]:
    """The conditions and targets of paths; a graph that is only read adds to a map of the reader."""
    known = {f"{m.alias}.{name}" for m in graph.members for name in _keys(graph, m.alias, stage)}
    shown = stage.reader or stage
    target = _maps(shown).get(graph.target) or Map(shown.name, shown.output)
    if target.name != graph.target or (target.name == shown.name and shown.finish is not None):
        yield f'a join graph adds to "{graph.target}", which the stage does not have'
    if not all(columns_in(scalar) <= known for scalar in graph.filters):
        yield f'a join graph to "{graph.target}" asks for what its members do not hold'


def _of_serving(stage: Stage) -> Iterator[str]:
    reader = stage.reader
    if (stage.serve is Serve.BOTH) != (reader is None):
        yield f"it is served to {stage.serve.value}, and has {'no' if reader is None else 'a'} reader"
    if reader is None:
        return
    if reader.inputs or reader.triggers or (reader.name, reader.output) != (stage.name, stage.output):
        yield "its reader is no stage that gives its rows and does nothing else"
    held, own = _maps(stage), _maps(reader)
    read = {relation_of(step) for add in reader.load for step in add.query.sources if reads_old(step)}
    if any(name not in held or held[name] != own.get(name) for name in read):
        yield f"its reader reads {sorted(read)}, which are not all maps that both have"
    members = {member.map for graph in stage.graphs for member in graph.members}
    kept = {s.target for trigger in stage.triggers for s in trigger.statements if isinstance(s, Add)}
    if stage.serve is Serve.READ and (stage.finish is not None or not kept <= members):
        yield "it is only read, and keeps more than its members"
