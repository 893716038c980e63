"""A time-partitioned relation as a stage: the columns that it stores of its feeds, and the queries that compute it.

The queries are compiled like views, over the slices as tables. The columns that they read decide which columns of a
feed are stored. See ``algebra.relational.time_partitions`` for what the relation means, and ``program.stages`` for the
stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import gcd

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Scan, UnionAll, Values
from tidemill.algebra.relational.time_partitions import PARTITION_NUMBER, PartitionedInput, TimePartitioned
from tidemill.algebra.relational.walk import walk_all
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, Field
from tidemill.program.maps import Map
from tidemill.program.reads import reads_state, sources_of
from tidemill.program.stages import InputMap, Program, TimePartitionEmission
from tidemill.program.statements import RelationLoop

CompileBody = Callable[[str, Relation, Mapping[str, Table]], Program]
"""The program of a query, given its name and the tables that it reads."""


@dataclass(frozen=True, slots=True)
class TimePartitionMaps:
    """The state of a time-partitioned relation, and the rows that are summed into each map that statements fill.

    ``columns`` maps the columns of the relation to those of the map ``kept``.
    """

    numbers: tuple[Map, Relation]
    feeds: tuple[tuple[Map, Relation], ...]
    kept: Map
    emission: TimePartitionEmission
    columns: Mapping[str, Scalar]


def time_partition_maps(name: str, node: TimePartitioned, compile_body: CompileBody) -> TimePartitionMaps:
    """Maps and bodies of stage ``name`` for a time-partitioned relation."""
    scanned = _scanned(node)
    tables = {slice_.name: Table(slice_.name, scanned[slice_.feed]) for slice_ in node.slices}
    update = compile_body(f"{name}/update", node.update, tables)
    rolls = node.rolls and not reads_state(update)
    update = update if rolls else _loaded(update)
    same = node.initialize == node.update
    initialize = update if same else _loaded(compile_body(f"{name}/initialize", node.initialize, tables))
    used = _used(node, (initialize, update))
    # A feed that no slice reads only decides which partitions exist, which the numbers record.
    read = [feed for feed in node.feeds if any(slice_.feed == feed.name for slice_ in node.slices)]
    feeds = [_fed(name, feed, scanned[feed.name], used[feed.name]) for feed in read]
    numbers = Map(f"{name}/numbers", (_NUMBER,))
    kept = Map(f"{name}/rows", (_NUMBER, *scanned[node.name]))
    emission = TimePartitionEmission(
        node.every,
        tuple(InputMap(feed.name, map_.name, feed.every) for feed, (map_, _) in zip(read, feeds, strict=True)),
        node.slices,
        numbers.name,
        kept.name,
        initialize,
        update,
        outputs=(),
        rolls=rolls,
    )
    columns = {f.name: column(to) for f, to in zip(node.fields, kept.keys, strict=True)}
    return TimePartitionMaps((numbers, _numbers(node)), tuple(feeds), kept, emission, columns)


_NUMBER = Field(PARTITION_NUMBER, BIGINT, nullable=False)


def _loaded(body: Program) -> Program:
    """A query that is only loaded from whole inputs, never changed."""
    return replace(body, stages=tuple(replace(stage, inputs=(), triggers=()) for stage in body.stages))


def _scanned(node: TimePartitioned) -> dict[str, tuple[Field, ...]]:
    """The columns of each feed, and of the relation itself, by the names under which the bodies scan them."""
    columns = {feed.name: feed.rows.fields[1 if feed.every else 0 :] for feed in node.feeds}
    columns[node.name] = node.fields[1:]
    feed_of = {slice_.name: slice_.feed for slice_ in node.slices}
    for leaf in chain(walk_all(node.initialize), walk_all(node.update)):
        if isinstance(leaf, Scan):
            columns[feed_of[leaf.relation]] = leaf.columns
    return columns


def _used(node: TimePartitioned, bodies: Sequence[Program]) -> dict[str, set[str]]:
    """The columns of each feed that the bodies read."""
    feed_of = {slice_.name: slice_.feed for slice_ in node.slices}
    used: dict[str, set[str]] = {name: set() for name in (node.name, *(feed.name for feed in node.feeds))}
    for source in (source for body in bodies for source in _sources(body)):
        if source.relation in feed_of:
            used[feed_of[source.relation]].update(f.name for f in source.columns)
    return used


def _sources(body: Program) -> Iterator[RelationLoop]:
    for stage in body.stages:
        yield from sources_of(stage)
        yield from (step for add in stage.load for step in add.query.sources if isinstance(step, RelationLoop))


def _fed(name: str, feed: PartitionedInput, columns: Sequence[Field], used: set[str]) -> tuple[Map, Relation]:
    """The map of a feed, and the rows that are summed into it: those that are in a partition."""
    own = feed.rows.fields
    kept = [(to, f) for to, f in zip(columns, own[len(own) - len(columns) :], strict=True) if to.name in used]
    if feed.every:
        kept.insert(0, (_NUMBER, own[0]))
    kept = kept or [(columns[0], own[0])]  # the first column carries the weight of rows that are only counted
    rows = feed.rows_in_partitions if feed.every else feed.rows
    outputs = tuple(Named(to.name, column(f)) for to, f in kept)
    return Map(f"{name}/feed:{feed.name}", tuple(to for to, _ in kept)), Project(rows, outputs)


def _numbers(node: TimePartitioned) -> Relation:
    """For each row of a feed that has partitions, the partition of the relation in which its own begins."""
    inputs = tuple(
        Project(feed.rows_in_partitions, (Named(PARTITION_NUMBER, own_number(node.every, feed)),))
        for feed in node.feeds
        if feed.every
    )
    if not inputs:
        return Values((), (_NUMBER,))
    return UnionAll(inputs) if len(inputs) > 1 else inputs[0]


def own_number(every: int, feed: PartitionedInput) -> Scalar:
    """The partition of length ``every`` in which a partition of ``feed`` begins."""
    own, of_feed = abs(every), abs(feed.every)
    common = gcd(of_feed, own)
    number: Scalar = column(feed.rows.fields[0])
    if of_feed > common:
        number = call("multiply", number, Literal(of_feed // common, BIGINT))
    if own == common:
        return number
    # DIV rounds towards zero, and partitions before 1970 have negative numbers.
    over = Literal(own // common, BIGINT)
    return call("div", call("subtract", number, call("pmod", number, over)), over)
