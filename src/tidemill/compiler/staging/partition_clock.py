"""Partitions that a clock makes: those of a view reach to the partition in which its clock stands, also without rows.

The clock is one more input of the relation, which no slice reads: it only says which partitions there are. Its row
counts once there is a row before it, so partitions begin with rows.
"""

from __future__ import annotations

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, Project, Scan, UnionAll
from tidemill.algebra.relational.time_partitions import PARTITION_NUMBER, PartitionedInput, TimePartitioned
from tidemill.algebra.relational.walk import transform
from tidemill.compiler.staging.time_partitions import own_number
from tidemill.model.clocks import NOW, Clock
from tidemill.model.types import BIGINT


def followed_by_clock(relation: Relation, clock: Clock) -> Relation:
    """``relation`` whose partitions reach to where the clock stands."""
    return transform(relation, lambda node: _followed(node, clock) if isinstance(node, TimePartitioned) else node)


def _followed(node: TimePartitioned, clock: Clock) -> TimePartitioned:
    timed = [feed for feed in node.feeds if feed.every]
    return node if not timed else _with_feed(node, timed, clock)


def _with_feed(node: TimePartitioned, timed: list[PartitionedInput], clock: Clock) -> TimePartitioned:
    name = f"{node.name} clock"
    number, first = f"{name}.{PARTITION_NUMBER}", f"{name}.first"
    scan = Scan(clock.relation, name, (NOW,))
    at = call("partition_number", column(scan.fields[0]), Literal(node.every, BIGINT))
    numbers = [Project(feed.rows_in_partitions, (Named(number, own_number(node.every, feed)),)) for feed in timed]
    rows = numbers[0] if len(numbers) == 1 else UnionAll(tuple(numbers))
    begin = Aggregate(rows, (), (AggregateCall(first, "min", column(rows.fields[0]), BIGINT),))
    reached = Filter(Join(scan, begin), call("ge", at, Column(first, BIGINT)))
    feed = PartitionedInput(name, Project(reached, (Named(PARTITION_NUMBER, at),)), node.every)
    return TimePartitioned(
        node.name, node.every, (*node.feeds, feed), node.slices, node.initialize, node.update, node.rolls
    )
