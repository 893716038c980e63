"""SHOW PARTITIONS: the partitions of a table or view, and which of them can still change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Literal, Named, column
from tidemill.algebra.functions.datetime.time_windows import partition_start
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Scan
from tidemill.algebra.relational.time_partitions import PARTITION_NUMBER
from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.partitions.change_bounds import changeable_from, heads_of
from tidemill.model.errors import Unsupported
from tidemill.model.partition_lengths import period_start
from tidemill.model.schema import Partitioning, Table
from tidemill.model.types import BIGINT, TIMESTAMP

__all__ = ["Partition", "partitions_of"]


class Partition(NamedTuple):
    """A partition that has rows: ``name`` is its relation and ``number``, ``start`` its first instant.

    Its ``state`` is ``open`` while arriving rows can change it, ``replay`` if only replayed late changes can, and
    ``closed`` if nothing can.
    """

    name: str
    number: int
    start: datetime
    rows: int
    state: str = "open"


def partitions_of(
    catalog: Catalog, positions: Mapping[str, str], answer: Callable[[Relation], ChangeSet], name: str
) -> list[Partition]:
    """The partitions of a table or view, in time order."""
    entry = catalog.entry(name)
    cut = entry.partitioning
    if cut is None or not cut.is_cut:
        raise Unsupported(
            f'"{entry.name}" is not cut into partitions',
            hint="Tables and views have partitions by PARTITION BY ts EVERY 1 MINUTE, views also by UPDATE v[i] AS.",
        )
    if isinstance(entry, Table) and not entry.kept:
        raise Unsupported(
            f'"{entry.name}" is a stream',
            detail="Its rows are not kept, and its partitions only in what views make of them.",
            hint="Ask for the partitions of a view, or declare it as a TABLE.",
        )
    counted = sorted(answer(_counts(entry, cut)).zset())
    heads = heads_of(catalog, positions)
    states = {
        "open": changeable_from(catalog, positions, heads, by_replay=False).get(entry.name, -math.inf),
        "replay": changeable_from(catalog, positions, heads).get(entry.name, -math.inf),
        "closed": -math.inf,
    }
    return [_partition(entry.name, cut, number, rows, states) for number, rows in counted]


def _partition(name: str, cut: Partitioning, number: int, rows: int, states: Mapping[str, float]) -> Partition:
    state = next(state for state, since in states.items() if period_start(number + 1, cut.every) > since)
    return Partition(f"{name}_{number}", number, partition_start(number, cut.every), rows, state)


def _counts(entry: Table | View, cut: Partitioning) -> Aggregate:
    """The query for the number of rows of each partition; rows without a time are in none."""
    scan = Scan(entry.name, entry.name, entry.fields)
    (time,) = (column(f) for f, own in zip(scan.fields, entry.fields, strict=True) if own.name == cut.column)
    number = call("partition_number", convert(time, TIMESTAMP), Literal(cut.every, BIGINT))
    timed = Filter(scan, call("is_not_null", time))
    return Aggregate(timed, (Named(PARTITION_NUMBER, number),), (AggregateCall("rows", "count", None, BIGINT),))
