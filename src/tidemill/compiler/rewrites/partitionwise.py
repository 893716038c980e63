"""Time-partitioned relations with independent partitions, as ordinary relations with a column for the partition number.

If partition i reads only partition i of feeds of the same length, it is the body over the rows with number i. So the
body, additionally grouped by the number, computes all partitions at once and is maintained by deltas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Column, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import (
    Aggregate,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    OuterJoin,
    Project,
    Repeat,
    Scan,
    TopK,
    UnionAll,
    Unnest,
    Window,
)
from tidemill.algebra.relational.time_partitions import PARTITION_NUMBER, PartitionedInput, Subscript, TimePartitioned
from tidemill.algebra.relational.walk import children, expressions, subqueries, transform, walk


def partitionwise(relation: Relation) -> Relation:
    """``relation`` with its time-partitioned relations replaced by ordinary ones where partitions are independent."""
    return transform(relation, lambda node: _ordinary(node) if isinstance(node, TimePartitioned) else node)


def _ordinary(node: TimePartitioned) -> Relation:
    if node.initialize != node.update or not _stays_in_place(node):
        return node
    try:
        lifted = _Lifting(node).lift(node.update)
    except _NotPartitionwiseError:
        return node
    return Project(
        lifted, (Named(PARTITION_NUMBER, _number(lifted)), *(Named(f.name, column(f)) for f in lifted.fields[1:]))
    )


def _stays_in_place(node: TimePartitioned) -> bool:
    """True if partition i reads only partition i, of feeds with partitions of the same length."""
    alike = all(feed.every == node.every for feed in node.feeds)
    here = Subscript()
    return alike and all(slice_.low == slice_.high == here and slice_.feed != node.name for slice_ in node.slices)


class _NotPartitionwiseError(Exception):
    """A body has rows for partitions without input rows, or combines several partitions."""


class _Lifting:
    """Adds the partition number as the first column of every relation of a body."""

    def __init__(self, node: TimePartitioned) -> None:
        self._feeds = {slice_.name: feed for slice_ in node.slices for feed in node.feeds if feed.name == slice_.feed}
        self._names = count(1)

    def lift(self, node: Relation) -> Relation:
        """``node`` for all partitions at once. It must have no rows for a partition without input rows."""
        if any(map(subqueries, expressions(node))):
            raise _NotPartitionwiseError
        match node:
            case Scan(relation=name):
                return self._lift_scan(node, self._feeds[name])
            case Filter() | Distinct() | Repeat() | Unnest():
                return replace(node, input=self.lift(node.input))
            case Project(outputs=outputs):
                below = self.lift(node.input)
                return replace(node, input=below, outputs=(_passed(below), *outputs))
            case UnionAll(inputs=inputs):
                return UnionAll(tuple(map(self.lift, inputs)))
            case Intersect() | Except():
                return replace(node, left=self.lift(node.left), right=self.lift(node.right))
            case Aggregate(keys=keys) if keys:
                below = self.lift(node.input)
                return replace(node, input=below, keys=(_passed(below), *keys))
            case TopK() | Window() | Match():
                below = self.lift(node.input)
                return replace(node, input=below, partition=(_number(below), *node.partition))
            case Join():
                return self._lift_join(node)
            case OuterJoin():
                return self._lift_outer_join(node)
        raise _NotPartitionwiseError

    def _lift_scan(self, scan: Scan, feed: PartitionedInput) -> Relation:
        number, *columns = feed.rows.fields
        outputs = [Named(to.name, column(f)) for to, f in zip(scan.fields, columns, strict=True)]
        return Project(
            feed.rows_in_partitions, (Named(f"{PARTITION_NUMBER} {next(self._names)}", column(number)), *outputs)
        )

    def _lift_join(self, join: Join) -> Relation:
        """Rows are joined within their partition; constant rows belong to all partitions."""
        constant = [_is_constant(side) for side in children(join)]
        if all(constant):
            raise _NotPartitionwiseError
        left, right = (side if fixed else self.lift(side) for side, fixed in zip(children(join), constant, strict=True))
        numbers = [_number(side) for side, fixed in zip((left, right), constant, strict=True) if not fixed]
        return _met(Join(left, right, _within(numbers, join.condition)), numbers, numbers[0])

    def _lift_outer_join(self, join: OuterJoin) -> Relation:
        left, right = self.lift(join.left), self.lift(join.right)
        numbers = [_number(left), _number(right)]
        kept = [number for number, keeps in zip(numbers, (join.keeps_left, join.keeps_right), strict=True) if keeps]
        met = replace(join, left=left, right=right, condition=_within(numbers, join.condition))
        return _met(met, numbers, kept[0] if len(kept) == 1 else call("coalesce", *kept))


def _number(lifted: Relation) -> Column:
    """The number of the partition, which is the first column."""
    return column(lifted.fields[0])


def _passed(lifted: Relation) -> Named:
    return Named(lifted.fields[0].name, _number(lifted))


def _within(numbers: Sequence[Column], condition: Scalar | None) -> Scalar | None:
    """The condition of a join within partitions: first equal numbers, without which ``condition`` might fail."""
    same = [call("eq", *numbers)] if len(numbers) > 1 else []
    return conjunction([*same, *([] if condition is None else [condition])])


def _met(join: Join | OuterJoin, numbers: Sequence[Column], number: Scalar) -> Relation:
    """The rows of a join with ``number`` as the first column, in place of the numbers of both sides."""
    sides = {side.name for side in numbers}
    others = [Named(f.name, column(f)) for f in join.fields if f.name not in sides]
    return Project(join, (Named(numbers[0].name, number), *others))


def _is_constant(relation: Relation) -> bool:
    return not any(isinstance(node, Scan) for node in walk(relation))
