"""EXPLAIN of a view by partitions: its partitioning, what it reads of each feed, and its retention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemill.algebra.relational.time_partitions import PartitionSlice, Subscript, TimePartitioned
from tidemill.algebra.relational.walk import walk_all
from tidemill.algebra.values.casts import timestamp_of
from tidemill.compiler.frontends.sql.expressions.intervals import format_duration, format_period
from tidemill.compiler.rewrites.sliding_windows.rewrite import rewrite_sliding_windows
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.partitions.beginnings import beginning
from tidemill.engine.partitions.change_bounds import expiry_of, heads_of
from tidemill.model.schema import LATE, Partitioning, Table

__all__ = ["late_rule", "partition_facts"]


def partition_facts(catalog: Catalog, positions: Mapping[str, str], view: View) -> Iterator[tuple[str, str]]:
    """The facts of EXPLAIN about late rows, and of a view by partitions what it reads of each feed.

    The source lower and upper bound (SLB, SUB) are the first and the last partition of the feed that partition i needs.
    """
    if view.partitioning is not None:
        yield from _partition_facts(view, view.partitioning)
    if begins := beginning(catalog, view):
        yield "begins", begins
    yield from _retention_facts(catalog, positions, view)


def _partition_facts(view: View, cut: Partitioning) -> Iterator[tuple[str, str]]:
    yield "partitions", f"of {format_period(cut.every)}, by {cut.column}"
    if not view.is_made_by_partitions:
        return
    (partitioned,) = (node for node in walk_all(view.relation) if isinstance(node, TimePartitioned))
    for feed in dict.fromkeys(slice_.feed for slice_ in partitioned.slices):
        slices = [slice_ for slice_ in partitioned.slices if slice_.feed == feed]
        read = ", ".join(dict.fromkeys(slice_.name for slice_ in slices))
        yield f"reads {feed}", f"{view.name}[i] reads {read}: {_bounds(slices)}"
    method = view.options.get("method", "auto")
    for choice in rewrite_sliding_windows(view.name, view.relation, method, view.plan.windows)[1].values():
        yield "window", f"made by method {choice.method}: {choice.reason}"


def _retention_facts(catalog: Catalog, positions: Mapping[str, str], view: View) -> Iterator[tuple[str, str]]:
    """The lateness of a view's inputs, the partitions that can still change, and the expiry of its state."""
    late = [catalog.late[name] for name in sorted(catalog.ancestors(view)) if name in catalog.late]
    for table in late:
        yield f"late rows of {table.name}", late_rule(table)
    if not late or view.partitioning is None:
        return
    known = expiry_of(catalog, positions, heads_of(catalog, positions))
    if (first := known.changeable_from(view.name)) is not None:
        yield "can change", f"from {timestamp_of(first)} on"
    elif view.is_made_by_partitions:
        yield "can change", "as a whole: not all that it reads has partitions that end, or has had rows yet"
    else:
        yield "can change", f"as a whole: no bound of {view.partitioning.column} follows from what it reads"
    found = {one.map for one in known.expired(view)}
    kept = [map_.name for stage in view.program.stages for map_ in stage.maps if map_.name not in found]
    yield "forgets", "what cannot change any more" + (f", but for all of {', '.join(kept)}" if kept else "")
    if view.partitioning.retain is not None:
        yield "retains", f"{format_duration(view.partitioning.retain)} of its rows"


def late_rule(table: Table) -> str:
    """Handling of late changes of a table, in words.

    >>> from tidemill.model.schema import Partitioning
    >>> late_rule(Table("s", (), partitioning=Partitioning("ts", 60_000_000, lateness=120_000_000, retain=180_000_000)))
    'more than 2 MINUTES behind go to s_late, to be replayed up to 3 MINUTES behind'
    """
    cut = table.partitioning
    assert cut is not None and cut.lateness is not None
    reach = "at any time" if cut.retain is None else f"up to {format_duration(cut.retain)} behind"
    whom = f" the others of their {cut.source}" if cut.source else ""
    return f"more than {format_duration(cut.lateness)} behind{whom} go to {table.name}{LATE}, to be replayed {reach}"


def _bounds(slices: list[PartitionSlice]) -> str:
    highs = [slice_.high for slice_ in slices if slice_.high is not None]
    if not highs:
        return "all rows, it has no partitions"
    lows = [slice_.low for slice_ in slices]
    first = min((low for low in lows if low is not None), key=_offset) if None not in lows else "the first"
    return f"SLB {first}, SUB {max(highs, key=_offset)}"


def _offset(subscript: Subscript) -> int:
    """The offset of a subscript; all subscripts of one feed move with time, so they differ only in this."""
    return subscript.plus
