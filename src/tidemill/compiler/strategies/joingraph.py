"""Join graphs: the relations of a join are held once, compactly, and a change walks from its row to all others.

Where viewlets keep a map for every way in which a change can reach the view, here each relation has one map, reduced
to what the join and the view use. That costs memory in the size of the data and not of the joins between them, and
a change costs what it adds to the view. The triggers are those of first-order deltas over these maps, so any runtime
can run them; a runtime that supports join graphs walks the graph instead (see ``program.joingraph``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.analysis.blocks import QueryBlock, blocks
from tidemill.compiler.delta.joingraph import graph_of
from tidemill.compiler.delta.nested_loops import nested_loops
from tidemill.compiler.delta.stream_history import StreamHistory, find_histories, histories_by_map, read_from_history
from tidemill.compiler.delta.sum_pushdown import PushedSums, SumTerm, Terms, TermsOf, push_down, with_sums
from tidemill.compiler.delta.triangles import Triangle, partition_stages, triangle_of
from tidemill.compiler.delta.triggers import change_of, load_of
from tidemill.compiler.rewrites.push_down_extremes import push_down_extremes
from tidemill.compiler.rewrites.push_down_top_k import push_down_top_k
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies.strategy import NotAccepted, Reason, StageContext, Strategy, StrategyOption
from tidemill.compiler.viewlets.ring_calculus.polynomials import expand, product_of
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Table
from tidemill.program.joingraph import Graph, Lookahead, Serve
from tidemill.program.joins import DegreeRole
from tidemill.program.maps import Map
from tidemill.program.stages import IterationEmission, Program, Stage
from tidemill.program.statements import Add, Query, RelationLoop, Trigger, Version

GRAPH = Reason("GRAPH", "rows are stored once, with their join partners, so a change costs the partners that it visits")

HEAVY_LIGHT = Reason(
    "HEAVY_LIGHT", "relations are kept in parts, by how many rows share a value, so a change visits O(sqrt N) of them"
)


def joingraph(draft: StageDraft, context: StageContext) -> Stage:
    """The stage that holds every input in a map of its own, and walks from a change to the others.

    With option ``serve`` other than ``both`` the rows of the view are not stored but computed from these maps when
    read. A view with ``serve = 'read'`` computes no rows when a change comes. This holds for the rows of the view
    itself only: later stages need the changes of the others.
    """
    serve = Serve(context.options["serve"]) if draft.name == context.view else Serve.BOTH
    found = [(target, block) for target, body in draft.sums for block in blocks(body)]
    refusal = _refusal(draft, [block for _, block in found], serve)
    if refusal and serve is not Serve.BOTH:
        raise _unserved(context.view, serve, refusal)
    if refusal:
        raise NotAccepted(refusal)
    triangle = _triangle(draft, context, found, serve)
    if triangle is not None:
        return _triangle_stage(draft, triangle)
    return _graph_stage(draft, context, found, serve)


def _refusal(draft: StageDraft, found: Sequence[QueryBlock], serve: Serve) -> str:
    """The reason why a stage cannot be walked as a join graph; empty if it can."""
    if isinstance(draft.emission, IterationEmission):
        return "it is recursive: rows follow from rows of the iteration before"
    if any(block.arrays for block in found):
        return "elements of arrays are no rows of a relation"
    joins = any(len(block.leaves) > 1 for block in found)
    return "" if joins or serve is not Serve.BOTH else "it joins nothing"


def _unserved(view: str, serve: Serve, refusal: str) -> Unsupported:
    return Unsupported(
        f"view \"{view}\" cannot be served with serve = '{serve.value}'",
        detail=f"Its rows cannot be computed from a join graph, since {refusal}.",
        hint="Leave the option out: then the rows are stored.",
    )


def _triangle(
    draft: StageDraft, context: StageContext, found: list[tuple[str, QueryBlock]], serve: Serve
) -> Triangle | None:
    """The triangle that a stage sums up, whose relations are kept in heavy and light parts.

    Members over streams cannot be filled again, so they stay as earlier versions have stored them.
    """
    if len(found) != 1 or draft.emission is None or serve is not Serve.BOTH or context.over_streams:
        return None
    return triangle_of(draft.name, found[0][1], draft.map, _terms)


def _triangle_stage(draft: StageDraft, triangle: Triangle) -> Stage:
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=tuple(corner.partition.name for corner in triangle.corners),
        maps=(*draft.maps, *triangle.maps()),
        load=triangle.load(),
        triggers=triangle.triggers(),
        finish=draft.emission,
        strategy="joingraph",
        degrees=DegreeRole.TRIANGLE,
        before=partition_stages(triangle),
    )


def _graph_stage(draft: StageDraft, context: StageContext, found: list[tuple[str, QueryBlock]], serve: Serve) -> Stage:
    keys, streams, lookahead = context.keys, context.streams, Lookahead(context.options["lookahead"])
    pushed = _pushed(draft, [block for _, block in found], None if context.over_streams else _terms)
    changes = {name: [_summed(add, draft, pushed) for add in change_of(draft, name, keys)] for name in draft.inputs}
    whole = [_summed(Add(target, nested_loops(block, keys)), draft, pushed) for target, block in found]
    read = changes.values() if serve is Serve.BOTH else (*changes.values(), whole)
    histories = find_histories(
        draft.name, draft.body, [add.query for adds in read for add in adds], set(draft.inputs), pushed.members
    )
    triggers = [Trigger(name, tuple(_on_change(name, changes[name], histories, serve))) for name in draft.inputs]
    members = tuple(history.map for history in histories_by_map(histories))
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=draft.inputs,
        maps=(*(() if serve is Serve.READ else draft.maps), *members),
        load=(*_growths(histories, streams), *_kept_rows(load_of(draft, keys, streams), draft, serve)),
        triggers=tuple(triggers),
        finish=None if serve is Serve.READ else draft.emission,
        strategy="joingraph",
        graphs=tuple(_graphs(found, histories, lookahead)),
        serve=serve,
        reader=None if serve is Serve.BOTH else _reader(draft, whole, histories, members),
    )


def _pushed(draft: StageDraft, found: list[QueryBlock], terms_of: TermsOf | None) -> PushedSums:
    """Sums that members hold themselves. Aggregates that are no sums read their rows one by one."""
    each = [] if draft.extra_maps else [push_down(block, draft.map, terms_of) for block in found]
    members = {alias: sums for one in each for alias, sums in one.members.items()}
    return PushedSums(members, {scalar: terms for one in each for scalar, terms in one.values.items()})


def _terms(scalar: Scalar, owners: Mapping[str, str]) -> Terms | None:
    """A value as viewlets take it apart, if each factor is of one member: sums and products, and counts of these."""
    terms = []
    for term in expand(scalar, owners.get):
        factors: dict[str, list[Scalar]] = {}
        for factor in term.factors:
            read = {owners[name] for name in columns_in(factor)}
            if len(read) != 1:
                return None
            factors.setdefault(next(iter(read)), []).append(factor)
        terms.append(SumTerm(term.coefficient, tuple((alias, product_of(own)) for alias, own in factors.items())))
    return tuple(terms)


def _summed(add: Add, draft: StageDraft, pushed: PushedSums) -> Add:
    return add if draft.map is None else replace(add, query=with_sums(add.query, len(draft.map.keys), pushed))


def _on_change(name: str, adds: list[Add], histories: Mapping[str, StreamHistory], serve: Serve) -> Iterator[Add]:
    """Statements that add a change to the view, unless that is computed when read, and then to the relation's maps."""
    if serve is not Serve.READ:
        yield from (Add(add.target, read_from_history(add.query, histories)) for add in adds)
    yield from (history.growth() for history in histories_by_map(histories) if history.scan.relation == name)


def _growths(histories: Mapping[str, StreamHistory], streams: Set[str]) -> Iterator[Add]:
    """Statements that load the maps from whole inputs; a stream starts empty."""
    for history in histories_by_map(histories):
        if history.scan.relation not in streams:
            growth = history.growth()
            yield replace(growth, query=_of_state(growth.query))


def _kept_rows(adds: Iterable[Add], draft: StageDraft, serve: Serve) -> Iterator[Add]:
    """Statements that load the view: none for rows that are computed when read."""
    for add in adds:
        if serve is Serve.BOTH or (serve is Serve.SUBSCRIBE and add.target != draft.name):
            yield add


def _of_state(query: Query) -> Query:
    sources = (replace(step, version=Version.STATE) for step in query.sources if isinstance(step, RelationLoop))
    return replace(query, sources=tuple(sources))


def _graphs(
    found: list[tuple[str, QueryBlock]], histories: Mapping[str, StreamHistory], lookahead: Lookahead
) -> Iterator[Graph]:
    for target, block in found:
        if block.leaves and all(leaf.alias in histories for leaf in block.leaves):
            yield graph_of(target, block, histories, lookahead)


def _reader(
    draft: StageDraft, whole: list[Add], histories: Mapping[str, StreamHistory], members: tuple[Map, ...]
) -> Stage:
    """The stage that computes the rows when they are read, from the maps of the graph."""
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=(),
        maps=(*draft.maps, *members),
        load=tuple(Add(add.target, read_from_history(add.query, histories)) for add in whole),
        triggers=(),
        finish=draft.emission,
        strategy="joingraph",
    )


def _with_pruned_members(relation: Relation, tables: Mapping[str, Table], options: Mapping[str, str]) -> Relation:
    """MIN, MAX and top-k in the members. A view that is only read has nothing computed before that."""
    if Serve(options["serve"]) is Serve.READ:
        return relation
    return push_down_top_k(push_down_extremes(relation, tables), tables)


def _joins_relations(program: Program) -> bool:
    stages = program.stages
    return any(stage.degrees or any(len(graph.members) > 1 for graph in stage.graphs) for stage in stages)


def _reason(stage: Stage) -> Reason:
    return GRAPH if stage.degrees is None else HEAVY_LIGHT


STRATEGY = Strategy(
    "joingraph",
    joingraph,
    missing="no join graph",
    options=(
        StrategyOption("lookahead", tuple(one.value for one in Lookahead), default="global"),
        StrategyOption(
            "serve",
            tuple(one.value for one in Serve),
            default="both",
            refusal="Only a join graph can compute the rows of a view when they are read.",
        ),
    ),
    rewrite=_with_pruned_members,
    reason=_reason,
    is_compared=_joins_relations,
)
