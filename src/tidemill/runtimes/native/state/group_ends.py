"""The ends of large groups: MIN and MAX need a few entries of a group, so the others can stay in a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import ZERO, from_arrow, plain_array
from tidemill.changes.zset import Row, WeightedRow
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Date, Decimal, Field, Integral, String, Timestamp
from tidemill.storage.segments import has_values

END_ENTRIES = 16
"""Entries at each end of a group that are loaded; once all of one end have gone, the whole group is loaded."""

SMALL_GROUP = 64
"""Average number of rows up to which groups are loaded as they are: to look for their ends would take longer."""

ORDERED_TYPES = (Integral, Decimal, Date, Timestamp, String)
"""Types of which Arrow, Python and SQL have the same order and equality."""


@dataclass(frozen=True, slots=True)
class GroupEnds:
    """Stored changes of a group: all of them, or all outside of an open interval of the values by which it is ordered.

    ``between`` are the bounds of that interval; None if there is none.
    """

    rows: Sequence[WeightedRow]
    between: tuple[Any, Any] | None = None


def have_ends(fields: Sequence[Field]) -> bool:
    """True if groups by all columns but the last, in the order of the last, have ends that can be found."""
    return all(isinstance(f.type, ORDERED_TYPES) for f in fields)


def find_ends(table: pa.Table, fields: Sequence[Field], groups: Collection[Row]) -> dict[Row, GroupEnds]:
    """The ends of ``groups``, the values of all ``fields`` but the last one, which orders their entries.

    ``table`` has all rows of these groups, and perhaps others.
    """
    if table.num_rows <= SMALL_GROUP * len(groups):
        rows: dict[Row, list[WeightedRow]] = {group: [] for group in groups}
        for pair in from_arrow(table, fields):
            under = rows.get(pair[0][:-1])
            if under is not None:
                under.append(pair)
        return {group: GroupEnds(found) for group, found in rows.items()}
    return {group: _ends_of(_under(table, fields, group), fields) for group in groups}


def _under(table: pa.Table, fields: Sequence[Field], group: Row) -> pa.Table:
    """The rows of one group."""
    where = {f.name: plain_array([value], f.type) for f, value in zip(fields, group, strict=False)}
    return table.filter(has_values(table, where)) if where else table


def _ends_of(rows: pa.Table, fields: Sequence[Field]) -> GroupEnds:
    value = fields[-1].name
    there = _positive(rows, value)
    if len(there) <= 2 * END_ENTRIES:
        return GroupEnds(from_arrow(rows, fields))
    entries = pa.table([there], names=[value])
    least, greatest = (
        entries.take(pc.select_k_unstable(entries, END_ENTRIES, [(value, order)])).column(0)
        for order in ("ascending", "descending")
    )
    column = rows.column(value)
    outside = pc.or_(pc.less_equal(column, pc.max(least)), pc.greater_equal(column, pc.min(greatest)))
    found = from_arrow(rows.filter(pc.or_kleene(outside, pc.is_null(column))), fields)
    return GroupEnds(found, (max(_values(least, fields[-1])), min(_values(greatest, fields[-1]))))


def _values(column: pa.ChunkedArray, field: Field) -> list[Any]:
    return [row[0] for row, _ in from_arrow(pa.table([column], names=[field.name]), [field])]


def _positive(rows: pa.Table, value: str) -> pa.ChunkedArray:
    """The distinct values that have not gone, or, where nothing has gone, all of them as they are."""
    least = pc.min(rows.column(WEIGHT)).as_py()
    if least is None or least > 0:
        return rows.column(value).drop_null()
    sums = rows.select([value, WEIGHT]).group_by(value, use_threads=False).aggregate([(WEIGHT, "sum")])
    return sums.filter(pc.greater(sums.column(f"{WEIGHT}_sum"), ZERO)).column(value).drop_null()
