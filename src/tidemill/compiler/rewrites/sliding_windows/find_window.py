"""Sliding windows recognized: a body that groups the last n partitions, and nothing else.

``FROM s [WINDOW 60 MINUTES]`` is translated to this, and users may write it directly: each partition is computed from
all rows of its window. ``find_window`` recognizes it; ``methods`` has cheaper ways to compute it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemill.algebra.expressions.scalars import Call, Literal, Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Filter, Project, Scan
from tidemill.algebra.relational.time_partitions import (
    PARTITION_NUMBER,
    PartitionedInput,
    PartitionSlice,
    Subscript,
    TimePartitioned,
)
from tidemill.algebra.relational.walk import children, expressions, subqueries, walk, with_children
from tidemill.compiler.analysis.canonical import canonical
from tidemill.compiler.analysis.post_aggregation import PostAggregation, split_post_aggregation


@dataclass(frozen=True, slots=True)
class GroupedWindow:
    """A grouping of the last ``length`` partitions of an input, in partitions of the view's own length.

    ``above`` are the conditions and the select list above the groups. ``groups`` scans ``slice_`` of the only feed; the
    ``unread`` ones only say which partitions there are.
    """

    node: TimePartitioned
    above: PostAggregation
    groups: Aggregate
    slice_: PartitionSlice
    feed: PartitionedInput
    length: int
    unread: tuple[PartitionedInput, ...] = ()

    @property
    def clock(self) -> tuple[PartitionedInput, ...]:
        """The partition numbers of all rows of the feed, if the body filters some: they decide which partitions exist.

        Without it, a partition whose own rows are all filtered out would be missing, although its window has earlier
        rows.
        """
        if not any(isinstance(node, Filter) for node in walk(self.groups.input)):
            return self.unread
        numbers = Project(self.feed.rows, (Named(PARTITION_NUMBER, column(self.feed.rows.fields[0])),))
        return (PartitionedInput(f"{self.node.name} numbers", Distinct(numbers), self.feed.every), *self.unread)

    @property
    def slide(self) -> PartitionSlice:
        """The slice of the feed that is one slide."""
        times = self.node.every // self.feed.every
        return PartitionSlice(self.feed.name, Subscript(times=times), Subscript(times=times, plus=times - 1))

    def in_slides(self) -> tuple[PartitionedInput, PartitionSlice]:
        """The feed cut into slides, and the slice of one slide; the feed as it is if it cannot be cut so."""
        match self.feed.rows:
            case Project(input=rows, outputs=(Named(name, Call("partition_number", (instant, Literal()), of)), *rest)):
                number = Call("partition_number", (instant, Literal(self.node.every, of)), of)
                feed = replace(self.feed, rows=Project(rows, (Named(name, number), *rest)), every=self.node.every)
                return feed, PartitionSlice(feed.name, Subscript(), Subscript())
        return self.feed, self.slide

    def grouped(self, slice_: PartitionSlice) -> Relation:
        """The input of the groups, over another slice of the partitioned input."""
        return _moved(self.groups.input, self.slice_.name, slice_.name)


def find_window(node: TimePartitioned) -> GroupedWindow | None:
    """``node`` as a sliding window; None if it is none."""
    read = [feed for feed in node.feeds if any(slice_.feed == feed.name for slice_ in node.slices)]
    if len(node.slices) != 1 or len(read) != 1 or canonical(node.initialize) != canonical(node.update):
        return None
    (slice_,), (feed,) = node.slices, read
    length = _length(node, feed, slice_)
    above, groups = split_post_aggregation(node.update)
    if length is None or not isinstance(groups, Aggregate) or above.times is not None or not _is_plain(groups.input):
        return None
    unread = tuple(other for other in node.feeds if other is not feed)
    return GroupedWindow(node, above, groups, slice_, feed, length, unread)


def _length(node: TimePartitioned, feed: PartitionedInput, slice_: PartitionSlice) -> int | None:
    """Number of slides in a slice that ends with partition i and begins with a slide; None for other slices."""
    low, high = slice_.low, slice_.high
    if low is None or high is None or not feed.every or node.every % feed.every or slice_.feed != feed.name:
        return None
    times = node.every // feed.every
    slides, rest = divmod(high.plus - low.plus + 1, times)
    ends = (low.times, low.over, high.times, high.over, high.plus) == (times, 1, times, 1, times - 1)
    return slides if ends and not rest and slides > 0 else None


def _is_plain(rows: Relation) -> bool:
    """True if the body works row by row, so that the rows of a window are the sum over its partitions."""
    plain = all(isinstance(node, Filter | Project | Scan) for node in walk(rows))
    return plain and not any(subqueries(scalar) for node in walk(rows) for scalar in expressions(node))


def _moved(node: Relation, old: str, new: str) -> Relation:
    if isinstance(node, Scan) and node.relation == old:
        return replace(node, relation=new)
    return with_children(node, [_moved(child, old, new) for child in children(node)])
