"""Views that begin after rows that are gone: what they lack, and the first partition that lacks nothing.

A stream keeps no rows, and a table with RETAIN forgets some. A view that is created after them follows from what came
since, or from what was left, and its first partitions may read further back than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import walk_all
from tidemill.algebra.values.casts import timestamp_of
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.partitions.lateness import floor_of, head_of, retained_from
from tidemill.model.partition_lengths import period_number, period_start
from tidemill.model.schema import Table

__all__ = ["beginning", "beginning_notes"]


def beginning(catalog: Catalog, view: View) -> str:
    """Rows of its inputs that a view lacks, in words; empty if it began with their first rows."""
    if view.created == 0:
        return ""
    gone = [f"rows of {table.name} that {_how(table)}" for table in _unkept(catalog, view)]
    return f"after epoch {view.created}: {' and '.join(gone)} before are not in it" if gone else ""


def beginning_notes(catalog: Catalog, positions: Mapping[str, str], view: View) -> tuple[str, ...]:
    """A note on what a view that is created now lacks of its inputs, and on the first partition that lacks nothing."""
    begins = beginning(catalog, view)
    if not begins:
        return ()
    whole = _complete_from(catalog, positions, view)
    since = f"; its partitions are complete from {whole} on" if whole else ""
    return (f'view "{view.name}" begins {begins}{since}',)


def _how(table: Table) -> str:
    return "were forgotten" if table.kept else "came"


def _unkept(catalog: Catalog, view: View) -> list[Table]:
    """The inputs of a view of which not all rows are stored; lake tables are read as a whole."""
    tables = [catalog.tables[name] for name in view.inputs if name in catalog.tables and not catalog.is_in_lake(name)]
    return [table for table in tables if not table.kept or table.forgets]


def _complete_from(catalog: Catalog, positions: Mapping[str, str], view: View) -> str:
    """The first instant of the partitions that lack nothing, of a view that is created now; empty if none is known.

    Where a partition follows from those before it, what these lack is lacking for ever.
    """
    nodes = [node for node in walk_all(view.relation) if isinstance(node, TimePartitioned)]
    if len(nodes) != 1:
        return ""
    (node,) = nodes
    unkept = {table.name: table for table in _unkept(catalog, view)}
    firsts = {name: _first_whole(table, positions, node) for name, table in unkept.items()}
    numbers = list(_complete_readers(node, firsts))
    if not numbers or None in numbers:
        return ""
    return str(timestamp_of(period_start(max(number for number in numbers if number is not None), node.every)))


def _first_whole(table: Table, positions: Mapping[str, str], node: TimePartitioned) -> int | None:
    """The first partition of a table of which all rows will be seen; None if that is not known."""
    cut, head = table.partitioning, head_of(positions, table.name)
    every = next((feed.every for feed in node.feeds if feed.name == table.name), 0)
    if cut is None or head is None or not every:
        return None
    if not table.kept:  # rows of the last partition may have come already
        return period_number(head * cut.head_unit, every) + 1
    first = retained_from(cut, head, floor_of(positions, table.name))
    if first is None:
        return None
    number = period_number(first, every)
    return number if period_start(number, every) == first else number + 1


def _complete_readers(node: TimePartitioned, firsts: Mapping[str, int | None]) -> Iterator[int | None]:
    """For each slice the first partition that reads whole ones alone; None if there is none."""
    for slice_ in node.slices:
        if slice_.feed == node.name:
            yield None
        elif slice_.feed in firsts:
            first = firsts[slice_.feed]
            yield None if first is None or slice_.low is None else slice_.low.reaches(first)
