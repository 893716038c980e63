"""The catalog of partitions: which ones a relation has, and from which of its feeds a view makes them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tidemill.algebra.aggregates import AggregateCall
from tidemill.algebra.coercion import convert
from tidemill.algebra.functions import call
from tidemill.algebra.functions.time_windows import partition_start
from tidemill.algebra.layers import NUMBER, Layer, Layered, Subscript
from tidemill.algebra.relations import Aggregate, Filter, Scan
from tidemill.algebra.scalars import Literal, Named, column
from tidemill.algebra.walk import walk_all
from tidemill.compiler.frontends.intervals import spelled
from tidemill.compiler.sliding.rewrite import sliding
from tidemill.engine.catalog import View
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Partitioning, Table
from tidemill.model.types import BIGINT, TIMESTAMP

if TYPE_CHECKING:
    from tidemill.engine.engine import Engine


class Partition(NamedTuple):
    """A partition that has rows: ``name`` is that of its relation and ``number``, ``start`` its first instant."""

    name: str
    number: int
    start: datetime
    rows: int


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
    return [Partition(f"{entry.name}_{n}", n, partition_start(n, cut.every), rows) for n, rows in counted]


def _counts(entry: Table | View, cut: Partitioning) -> Aggregate:
    """How many rows each partition has; those without a time are in none."""
    scan = Scan(entry.name, entry.name, entry.fields)
    (time,) = (column(f) for f, own in zip(scan.fields, entry.fields, strict=True) if own.name == cut.column)
    number = call("partition_number", convert(time, TIMESTAMP), Literal(cut.every, BIGINT))
    timed = Filter(scan, call("is_not_null", time))
    return Aggregate(timed, (Named(NUMBER, number),), (AggregateCall("rows", "count", None, BIGINT),))


def partition_facts(view: View) -> Iterator[tuple[str, str]]:
    """What EXPLAIN says of a view that is made by partitions: how it is cut, and how far each feed is read.

    The source lower and upper bound (SLB, SUB) are the first and the last partition of the feed that partition i needs.
    """
    if view.partitioning is None:
        return
    yield "partitions", f"of {spelled(view.partitioning.every)}, by {view.partitioning.column}"
    (layered,) = (node for node in walk_all(view.relation) if isinstance(node, Layered))
    for feed in dict.fromkeys(layer.feed for layer in layered.layers):
        layers = [layer for layer in layered.layers if layer.feed == feed]
        read = ", ".join(dict.fromkeys(layer.name for layer in layers))
        yield f"reads {feed}", f"{view.name}[i] reads {read}: {_bounds(layers)}"
    for choice in sliding(view.name, view.relation, view.options.get("method", "auto"))[1].values():
        yield "window", f"made by method {choice.method}: {choice.reason}"


def _bounds(layers: list[Layer]) -> str:
    highs = [layer.high for layer in layers if layer.high is not None]
    if not highs:
        return "all rows, it has no partitions"
    lows = [layer.low for layer in layers]
    first = min((low for low in lows if low is not None), key=_plus) if None not in lows else "the first"
    return f"SLB {first}, SUB {max(highs, key=_plus)}"


def _plus(subscript: Subscript) -> int:
    """All subscripts of one feed go along with time, so they differ in this alone."""
    return subscript.plus
