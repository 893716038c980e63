"""Cutting a view into stages.

A stage is a sum of select-project-join blocks, followed by at most one aggregation, DISTINCT, top-k, window or
recursion with the filters and projections above it (HAVING and the select list). A grouped subquery inside a block is a
stage of its own, read by name like a table; the same subquery used twice is one stage, and so is the same join or sum.
A sum of many blocks that is joined with others is a stage, too, so that the number of blocks stays small. Stages are
named ``view/1``, ``view/2`` ...; the last has the view's own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.partial_sums import PartialSum
from tidemill.algebra.aggregates.registry import finalize, multiset_entries, needs_multiset, partial_sums
from tidemill.algebra.expressions.scalars import Column, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import Aggregate, Distinct, Project, Recursive, Scan, TopK, Window
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import (
    expressions,
    subqueries,
    walk,
    walk_all,
)
from tidemill.compiler.analysis.blocks import blocks, used_columns
from tidemill.compiler.analysis.filters import filtered
from tidemill.compiler.analysis.post_aggregation import PostAggregation, split_post_aggregation
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.rewrites.unique_aliases import unique_aliases
from tidemill.compiler.staging.cutting import StageCutter
from tidemill.compiler.staging.recursion import recursion
from tidemill.compiler.staging.sessions import SessionKeys, over_sessions, session_keys, session_maps
from tidemill.compiler.staging.time_filters import TimeFilter, TimeFilterParts, split_time_filter
from tidemill.compiler.staging.time_partitions import CompileBody, time_partition_maps
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import BIGINT, Field
from tidemill.program.maps import Map, RingField
from tidemill.program.stages import (
    Emission,
    GroupEmission,
    IterationEmission,
    MultisetRead,
    PartitionEmission,
    SessionEmission,
    key_of_groups,
)
from tidemill.program.statements import Trigger


@dataclass(frozen=True, slots=True)
class DraftMap:
    """A further map of a stage, such as the multiset of an aggregate's arguments, and the rows that it sums up."""

    map: Map
    body: Relation


@dataclass(frozen=True, slots=True)
class StageDraft:
    """A stage before a strategy makes its triggers.

    ``body`` is summed up by the stage: a tree without aggregates, whose columns are the keys of ``map`` and then its
    values, or the stage's output where there is no map. ``extra_maps`` are summed up as well. The body of a recursion
    reads ``recursive_map``, the map of the rows that count, to which only its iterations add; of a time-partitioned
    relation it is the map of the computed rows. ``session_map`` holds the sessions of the instants that are summed up
    in ``map``. ``identity`` are columns carried along to identify its rows. A
    ``time_filter`` says what an advance of the clock does: the clock is one of its inputs, and no join.
    """

    name: str
    output: tuple[Field, ...]
    body: Relation
    map: Map | None = None
    emission: Emission | None = None
    extra_maps: tuple[DraftMap, ...] = ()
    recursive_map: Map | None = None
    session_map: Map | None = None
    identity: frozenset[str] | None = None
    time_filter: TimeFilter | None = None

    @property
    def sums(self) -> tuple[tuple[str, Relation], ...]:
        """Every target of the stage and what is summed into it."""
        return (self.target, self.body), *((extra.map.name, extra.body) for extra in self.extra_maps)

    @property
    def maps(self) -> tuple[Map, ...]:
        """The maps of the stage itself."""
        return (
            *(m for m in (self.map, self.recursive_map, self.session_map) if m is not None),
            *(extra.map for extra in self.extra_maps),
        )

    @property
    def own_maps(self) -> frozenset[str]:
        """The maps of the stage that its body reads: they are empty when it is loaded."""
        return frozenset() if self.recursive_map is None else frozenset((self.recursive_map.name,))

    @property
    def target(self) -> str:
        """The map that the body is summed into."""
        return self.name if self.map is None else self.map.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The relations that the body reads, each once."""
        leaves = (leaf for _, body in self.sums for leaf in walk_all(body))
        read = dict.fromkeys(leaf.relation for leaf in leaves if isinstance(leaf, Scan))
        return tuple(name for name in read if name not in self.own_maps)

    @property
    def has_subqueries(self) -> bool:
        """True if an expression of the stage holds a subquery."""
        inside = [scalar for _, body in self.sums for node in walk(body) for scalar in expressions(node)]
        return any(map(subqueries, inside)) or self.has_subqueries_above

    @property
    def has_subqueries_above(self) -> bool:
        """True if an expression over the stage's state holds a subquery: in HAVING, or next to aggregates."""
        if self.emission is None:
            return False
        above = [output.scalar for output in self.emission.outputs]
        above += [] if self.emission.condition is None else [self.emission.condition]
        return any(map(subqueries, above))

    @property
    def key(self) -> frozenset[str] | None:
        """Output columns of which no two rows have the same values: the map's keys, where all of them come out."""
        if self.identity is not None:
            return self.identity
        if self.map is None or not isinstance(self.emission, GroupEmission):
            return None
        return key_of_groups(self.emission, self.map)


def draft_stages(
    view: str,
    relation: Relation,
    compile_body: CompileBody,
    tables: Mapping[str, Table] | None = None,
    streams: Set[str] | None = frozenset(),
) -> list[StageDraft]:
    """The stages of ``view`` in the order in which changes pass through them.

    They are drafted from the last to the first, because a stage outputs only the columns that later ones read: an
    aggregate that no later stage reads is not summed. ``compile_body`` compiles the queries of partitions. Where
    ``tables`` are given, inputs of joins are identified by their keys: relations that a join reads twice and elements
    of arrays become stages with an identity. Rows of ``streams`` may leave before they have come;
    where these are None, no sessions are grouped in one stage.
    """
    drafts: list[StageDraft] = []
    cutter = StageCutter(view, relation, tables, streams)
    last = cutter.opened(relation)
    needed: dict[str, set[str]] = {name: set(identity) for name, identity in cutter.identities.items()}
    for name, tree in reversed([*cutter.stages, (view, last)]):
        draft = _draft(name, tree, needed.get(name), compile_body)
        draft = replace(draft, identity=cutter.identities.get(name))
        for _, body in draft.sums:
            for read, columns in _reads(body):
                needed.setdefault(read, set()).update(columns)
        drafts.append(draft)
    return drafts[::-1]


def _reads(body: Relation) -> Iterator[tuple[str, set[str]]]:
    """Each relation that a body reads, with the columns that it reads of it; a relation may come several times.

    If only the weights are read, the first column carries them. A subquery that stays in an
    expression may read all columns.
    """
    nested = (q.relation for node in walk(body) for scalar in expressions(node) for q in subqueries(scalar))
    for scan in (node for relation in nested for node in walk_all(relation) if isinstance(node, Scan)):
        yield scan.relation, {f.name for f in scan.columns}
    for block in blocks(body):
        used = set(used_columns(block))
        for leaf in block.leaves:
            read = {f.name for f in leaf.columns if f"{leaf.alias}.{f.name}" in used}
            yield leaf.relation, read or {f.name for f in leaf.columns[:1]}


def _draft(name: str, tree: Relation, needed: set[str] | None, compile_body: CompileBody) -> StageDraft:
    """The stage of one tree, giving out the ``needed`` columns; None means all."""
    above, node = split_post_aggregation(tree)
    if needed is not None:
        # A row needs at least one column to carry its weight through files and frames.
        outputs = tuple(o for o in above.outputs if o.name in needed) or above.outputs[:1]
        above = replace(above, outputs=outputs)
    if isinstance(node, Distinct):
        return _draft_distinct(name, node, above)
    if isinstance(node, TopK | Window | Match):
        return _draft_partitions(name, node, above)
    if isinstance(node, Recursive):
        return _draft_recursive(name, node, above)
    if isinstance(node, TimePartitioned):
        return _draft_time_partitioned(name, node, above, compile_body)
    if isinstance(node, Aggregate) and (by := session_keys(node)) is not None:
        return _draft_sessions(name, node, by, above)
    if isinstance(node, Aggregate):
        return _draft_aggregate(name, node, above)
    timed = split_time_filter(name, tree, needed)
    return _draft_linear(name, tree, above) if timed is None else _draft_time_filter(name, timed)


def _draft_time_filter(name: str, timed: TimeFilterParts) -> StageDraft:
    """A time filter is a map of the rows that may still count, from which the clock takes them."""
    waiting = DraftMap(timed.filter.waiting, unique_aliases(timed.kept))
    shown = unique_aliases(timed.shown)
    return StageDraft(name, shown.fields, shown, extra_maps=(waiting,), time_filter=timed.filter)


def _draft_linear(name: str, tree: Relation, above: PostAggregation) -> StageDraft:
    kept = [Named(f.name, column(f)) for f in tree.fields if f.name in {o.name for o in above.outputs}]
    body = tree if len(kept) == len(tree.fields) else Project(tree, tuple(kept))
    return StageDraft(name, body.fields, unique_aliases(body))


def _draft_distinct(name: str, node: Distinct, above: PostAggregation) -> StageDraft:
    """DISTINCT is a map with no values: a row is output while its weight is positive."""
    map_ = Map(f"{name}/distinct", node.fields)
    return StageDraft(name, above.fields, unique_aliases(node.input), map_, above.finish(map_.name))


def _draft_aggregate(name: str, node: Aggregate, above: PostAggregation) -> StageDraft:
    """GROUP BY is a map of sums: each aggregate that is read is computed from partial sums, and equal sums are shared.

    Any other aggregate has a map with the multiset of its arguments; equal multisets are one map.
    """
    keys = tuple(key.field for key in node.keys)
    sums: dict[PartialSum, RingField] = {}
    multisets: dict[tuple[tuple[Scalar, ...], Scalar | None], DraftMap] = {}
    results: dict[str, Scalar] = {}
    multiset_reads: list[MultisetRead] = []
    for call in node.aggregates:
        if call.name not in above.columns_read:
            continue
        if needs_multiset(call):
            found = multisets.setdefault(
                multiset_entries(call), _multiset_map(f"{name}/bag_{len(multisets)}", node, call)
            )
            columns = map(column, found.map.keys[len(keys) :])
            multiset_reads.append(MultisetRead(found.map.name, replace(call, filter=None).over(columns)))
        else:
            results[call.name] = _from_sums(call, sums, keys)
    map_ = Map(f"{name}/groups", keys, tuple(sums.values()))
    body = Project(node.input, (*node.keys, *(Named(value.name, part.argument) for part, value in sums.items())))
    above = above.over(results)
    shown = replace(above.finish(map_.name), always=not node.keys, multiset_reads=tuple(multiset_reads))
    return StageDraft(name, above.fields, unique_aliases(body), map_, shown, tuple(multisets.values()))


def _draft_sessions(name: str, node: Aggregate, by: SessionKeys, above: PostAggregation) -> StageDraft:
    """GROUP BY with a session is a map of sums at each instant, and one of the sums of each session."""
    keys = tuple(key.field for key in by.others)
    sums: dict[PartialSum, RingField] = {}
    results: dict[str, Scalar] = {}
    for call in node.aggregates:
        if call.name in above.columns_read:
            results[call.name] = _from_sums(call, sums, keys)
    maps = session_maps(name, by, tuple(sums.values()))
    values = (Named(value.name, part.argument) for part, value in sums.items())
    body = Project(by.window.input, (*by.others, maps.instant, *values))
    above = over_sessions(above, by, maps, results)
    shown = SessionEmission(maps.instants.name, by.gap, above.finish(maps.sessions.name))
    return StageDraft(name, above.fields, unique_aliases(body), maps.instants, shown, session_map=maps.sessions)


def _from_sums(call: AggregateCall, sums: dict[PartialSum, RingField], keys: Sequence[Field]) -> Scalar:
    """An aggregate as an expression over partial sums; those that are not among ``sums`` yet are added to them."""
    values = [sums.setdefault(part, RingField(_sum_name(len(sums), keys), part.of)) for part in partial_sums(call)]
    weight = Column(WEIGHT, BIGINT, nullable=False)
    return finalize(call, [Column(v.name, v.type, nullable=False) for v in values], weight)


def _multiset_map(name: str, node: Aggregate, call: AggregateCall) -> DraftMap:
    """The map of the multiset of arguments of ``call`` in each group."""
    seen, condition = multiset_entries(call)
    taken = {key.name for key in node.keys}
    entries = tuple(Named(fresh(f"value_{i}", taken), scalar) for i, scalar in enumerate(seen))
    rows = filtered(node.input, condition)
    body = Project(rows, (*node.keys, *entries))
    return DraftMap(Map(name, body.fields), unique_aliases(body))


def _draft_partitions(name: str, node: TopK | Window | Match, above: PostAggregation) -> StageDraft:
    """Top-k, windows and patterns are a map of all rows, keyed by partition, then order, then the other columns.

    Ties are ordered by all columns. Among tied rows the columns that were moved to the front are equal, so the map's
    rows have the same order as those of the node.
    """
    entries: dict[Scalar, Named] = {}
    taken = {f.name for f in node.input.fields}
    for scalar in (*node.partition, *(term.scalar for term in node.order), *map(column, node.input.fields)):
        own = scalar.name if isinstance(scalar, Column) else fresh(f"by_{len(entries)}", taken)
        entries.setdefault(_bare(scalar), Named(own, scalar))
    body = Project(node.input, tuple(entries.values()))
    map_ = Map(f"{name}/rows", body.fields)
    partition = tuple(column(entries[_bare(scalar)].field) for scalar in node.partition)
    order = tuple(replace(term, scalar=column(entries[_bare(term.scalar)].field)) for term in node.order)
    rows = replace(node, input=Scan(map_.name, "", map_.keys), partition=partition, order=order)
    return StageDraft(
        name,
        above.fields,
        unique_aliases(body),
        map_,
        PartitionEmission(map_.name, rows, above.outputs, above.condition),
    )


def _draft_recursive(name: str, node: Recursive, above: PostAggregation) -> StageDraft:
    """A recursion is a map of the rows found in each iteration, and one of the rows that count there."""
    kept = recursion(name, node)
    above = above.over(kept.columns)
    again = Trigger(kept.kept.name, ())
    iterations = IterationEmission(
        *(kept.found.name, kept.kept.name, node.distinct, again),
        *(above.outputs, above.condition, node.levels, node.enough),
    )
    return StageDraft(name, above.fields, unique_aliases(kept.body), kept.found, iterations, recursive_map=kept.kept)


def _draft_time_partitioned(
    name: str, node: TimePartitioned, above: PostAggregation, compile_body: CompileBody
) -> StageDraft:
    """A time-partitioned relation is a map for each feed, one of partition numbers, and one of the computed rows."""
    made = time_partition_maps(name, node, compile_body)
    above = above.over(made.columns)
    slices = replace(made.emission, outputs=above.outputs, condition=above.condition)
    numbers, counted = made.numbers
    feeds = tuple(DraftMap(map_, unique_aliases(rows)) for map_, rows in made.feeds)
    return StageDraft(name, above.fields, unique_aliases(counted), numbers, slices, feeds, made.kept)


def _bare(scalar: Scalar) -> Scalar:
    """The column without its nullability: readers may differ in it."""
    return replace(scalar, nullable=True) if isinstance(scalar, Column) else scalar


def _sum_name(number: int, keys: Sequence[Field]) -> str:
    """A name for the next ring value that no grouping column has, nor begins with (files add suffixes to it)."""
    return fresh(f"sum_{number}", {f.name.partition(".")[0] for f in keys})
