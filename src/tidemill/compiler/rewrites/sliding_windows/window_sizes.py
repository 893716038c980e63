"""Sizes of sliding windows from statistics: rows and groups of a slide, by which methods are priced."""

from __future__ import annotations

from tidemill.algebra.expressions.scalars import Call, Column, Named
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Scan
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import columns_in, walk_all
from tidemill.compiler.rewrites.sliding_windows.find_window import GroupedWindow, find_window
from tidemill.compiler.statistics.sizes import TOGETHER, Statistics, WindowSizes
from tidemill.model.partition_lengths import longest

__all__ = ["window_sizes"]


def window_sizes(relation: Relation, statistics: Statistics) -> dict[str, WindowSizes]:
    """The sizes of the sliding windows of a relation, by their names; those that nothing is known of are left out."""
    windows = {node.name: find_window(node) for node in walk_all(relation) if isinstance(node, TimePartitioned)}
    found = {name: _sizes_of(window, statistics) for name, window in windows.items() if window is not None}
    return {name: sizes for name, sizes in found.items() if sizes is not None}


def _sizes_of(window: GroupedWindow, statistics: Statistics) -> WindowSizes | None:
    match window.feed.rows:
        case Project(input=Scan(relation=table), outputs=(Named(_, Call("partition_number", (time, _), _)), *shown)):
            names = {_bare(output.name) for output in shown}
        case _:
            return None
    rows = statistics.rows.get(table)
    if not rows:
        return None
    groups = _groups(window, table, names, statistics)
    spans = [statistics.span(table, _bare(name)) for name in columns_in(time)]
    if groups is None or len(spans) != 1 or spans[0] is None:
        return None
    slide = rows / (spans[0] // longest(window.node.every) + 1)
    # Rows that fall into groups at random leave some of them out.
    return WindowSizes(slide, groups * (1.0 - (1.0 - 1.0 / groups) ** slide), groups)


def _groups(window: GroupedWindow, table: str, names: set[str], statistics: Statistics) -> float | None:
    """The groups of all rows; None where a key is no column of the table, or its values are not counted."""
    keys = [_bare(key.scalar.name) for key in window.groups.keys if isinstance(key.scalar, Column)]
    if not window.groups.keys:
        return 1.0
    if len(keys) < len(window.groups.keys) or not names.issuperset(keys):
        return None
    counted = statistics.distinct(table, TOGETHER.join(sorted(set(keys))))
    return None if counted is None else max(float(counted), 1.0)


def _bare(name: str) -> str:
    """The name of a column without that of its relation."""
    return name.rpartition(".")[2]
