"""The catalog of partitions: which ones a relation has, and from which of its feeds a view makes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Named, column
from tidemill.algebra.functions.time_windows import partition_start
from tidemill.algebra.relational.relations import Aggregate, Filter, Scan
from tidemill.algebra.relational.time_partitions import PARTITION_NUMBER, PartitionSlice, Subscript, TimePartitioned
from tidemill.algebra.relational.walk import walk_all
from tidemill.algebra.values.casts import timestamp_of
from tidemill.compiler.frontends.sql.expressions.intervals import format_duration
from tidemill.compiler.rewrites.sliding_windows.rewrite import rewrite_sliding_windows
from tidemill.engine.catalog.view import View
from tidemill.engine.partitions.retention import changeable_from, forgettable_state, heads_of
from tidemill.model.errors import Unsupported
from tidemill.model.schema import LATE, Partitioning, Table
from tidemill.model.types import BIGINT, TIMESTAMP

if TYPE_CHECKING:
    from tidemill.engine.engine import Engine


class Partition(NamedTuple):
    """A partition that has rows: ``name`` is that of its relation and ``number``, ``start`` its first instant.

    Its ``state`` is ``open`` while rows may change it as they come, ``replay`` where only late ones that are replayed
    can, and ``closed`` where nothing can.
    """

    name: str
    number: int
    start: datetime
    rows: int
    state: str = "open"


def partitions_of(engine: Engine, name: str) -> list[Partition]:
    """The partitions of a table or view, in the order of time."""
    entry = engine.catalog.entry(name)
    cut = entry.partitioning
    if cut is None:
        raise Unsupported(
            f'"{entry.name}" is not cut into partitions',
            hint="A table is declared with PARTITION BY ts EVERY 1 MINUTE, a view defined by UPDATE v[i] AS.",
        )
    if isinstance(entry, Table) and not entry.kept:
        raise Unsupported(
            f'"{entry.name}" is a stream',
            detail="Its rows are not kept, and its partitions only in what views make of them.",
            hint="Ask for the partitions of a view, or declare it as a TABLE.",
        )
    counted = sorted(engine.answer(_counts(entry, cut)).zset())
    heads = heads_of(engine.catalog, engine.store.positions)
    states = {
        "open": changeable_from(engine.catalog, heads, by_replay=False).get(entry.name, -math.inf),
        "replay": changeable_from(engine.catalog, heads).get(entry.name, -math.inf),
        "closed": -math.inf,
    }
    return [_partition(entry.name, cut, number, rows, states) for number, rows in counted]


def _partition(name: str, cut: Partitioning, number: int, rows: int, states: Mapping[str, float]) -> Partition:
    state = next(state for state, since in states.items() if number * cut.every >= since)
    return Partition(f"{name}_{number}", number, partition_start(number, cut.every), rows, state)


def _counts(entry: Table | View, cut: Partitioning) -> Aggregate:
    """How many rows each partition has; those without a time are in none."""
    scan = Scan(entry.name, entry.name, entry.fields)
    (time,) = (column(f) for f, own in zip(scan.fields, entry.fields, strict=True) if own.name == cut.column)
    number = call("partition_number", convert(time, TIMESTAMP), Literal(cut.every, BIGINT))
    timed = Filter(scan, call("is_not_null", time))
    return Aggregate(timed, (Named(PARTITION_NUMBER, number),), (AggregateCall("rows", "count", None, BIGINT),))


def partition_facts(engine: Engine, view: View) -> Iterator[tuple[str, str]]:
    """What EXPLAIN says of a view that is made by partitions: how it is cut, and how far each feed is read.

    The source lower and upper bound (SLB, SUB) are the first and the last partition of the feed that partition i needs.
    """
    if view.partitioning is None:
        return
    yield "partitions", f"of {format_duration(view.partitioning.every)}, by {view.partitioning.column}"
    (layered,) = (node for node in walk_all(view.relation) if isinstance(node, TimePartitioned))
    for feed in dict.fromkeys(layer.feed for layer in layered.layers):
        layers = [layer for layer in layered.layers if layer.feed == feed]
        read = ", ".join(dict.fromkeys(layer.name for layer in layers))
        yield f"reads {feed}", f"{view.name}[i] reads {read}: {_bounds(layers)}"
    for choice in rewrite_sliding_windows(view.name, view.relation, view.options.get("method", "auto"))[1].values():
        yield "window", f"made by method {choice.method}: {choice.reason}"
    yield from _retention_facts(engine, view)


def _retention_facts(engine: Engine, view: View) -> Iterator[tuple[str, str]]:
    """Which changes are late for a view, which of its partitions can still change, and what its state forgets."""
    catalog = engine.catalog
    late = [catalog.late[name] for name in sorted(catalog.ancestors(view)) if name in catalog.late]
    for table in late:
        yield f"late rows of {table.name}", late_rule(table)
    if not late:
        return
    heads = heads_of(catalog, engine.store.positions)
    known = changeable_from(catalog, heads)
    if view.name in known:
        yield "can change", f"from {timestamp_of(known[view.name])} on"
    else:
        yield "can change", "as a whole: not all that it reads has partitions that end, or has had rows yet"
    found = {one.map for one in forgettable_state(catalog, view, known)}
    kept = [map_.name for stage in view.program.stages for map_ in stage.maps if map_.name not in found]
    yield "forgets", "what cannot change any more" + (f", but for all of {', '.join(kept)}" if kept else "")
    if view.partitioning is not None and view.partitioning.retain is not None:
        yield "retains", f"{format_duration(view.partitioning.retain)} of its rows"


def late_rule(table: Table) -> str:
    """What becomes of late changes of a table.

    >>> late_rule(Table("s", (), partitioning=Partitioning("ts", 60_000_000, lateness=120_000_000, retain=180_000_000)))
    'more than 2 MINUTES behind go to s_late, to be replayed up to 3 MINUTES behind'
    """
    cut = table.partitioning
    assert cut is not None and cut.lateness is not None
    reach = "at any time" if cut.retain is None else f"up to {format_duration(cut.retain)} behind"
    return f"more than {format_duration(cut.lateness)} behind go to {table.name}{LATE}, to be replayed {reach}"


def _bounds(layers: list[PartitionSlice]) -> str:
    highs = [layer.high for layer in layers if layer.high is not None]
    if not highs:
        return "all rows, it has no partitions"
    lows = [layer.low for layer in layers]
    first = min((low for low in lows if low is not None), key=_offset) if None not in lows else "the first"
    return f"SLB {first}, SUB {max(highs, key=_offset)}"


def _offset(subscript: Subscript) -> int:
    """All subscripts of one feed go along with time, so they differ in this alone."""
    return subscript.plus
