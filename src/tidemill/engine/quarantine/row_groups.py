"""Groups of the input rows of a view that are held back together, so that its other rows go on.

In a view that filters and projects one relation each row is its own group. In an aggregate over such rows a group is
that of GROUP BY. If one group cannot be computed, the others still can, and what is held back is just its rows.

Over joins any rows of an input may be held back, too: the view is then what it is over the others. They are those of a
group of GROUP BY where an input has all of its columns, else those of a primary key, so that a row that replaces
another waits with it. The rows of an input must be in maps of the view itself for that (``VIEWLET`` sees to it). All
other views (windows, top-k) stop as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.scalars import Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, OuterJoin, Project, Scan
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.changes.zset import Row, ZSet
from tidemill.engine.catalog.views.joined_rows import VIEWLET, rows_below, scans_in
from tidemill.engine.catalog.views.view import View
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.program.reads import reads_state

__all__ = ["Group", "RowGroups", "row_groups", "why_whole"]

Group = Hashable
"""The key of a group, or a row that is alone in its group."""


@dataclass(frozen=True)
class RowGroups:
    """The groups of the rows of ``input``: ``keys`` computes their keys after the row, None where each row is alone.

    They are ``of`` GROUP BY ("group"), of a primary key ("key") or rows by themselves ("row"). Where groups are
    ``independent``, no other row decides whether a group can be computed.
    """

    input: str
    keys: Relation | None
    of: str
    independent: bool

    def of_rows(self, rows: Collection[Row]) -> dict[Row, Group]:
        """The group of each row; a row whose key cannot be computed is alone."""
        if self.keys is None:
            return {row: (row,) for row in rows}
        try:
            return self._keyed(rows)
        except (ArithmeticFault, ArithmeticError):
            return {row: self._group(row) for row in rows}

    def _group(self, row: Row) -> Group:
        try:
            return self._keyed([row])[row]
        except (ArithmeticFault, ArithmeticError):
            return ("row", row)

    def _keyed(self, rows: Collection[Row]) -> dict[Row, Group]:
        assert self.keys is not None
        width = len(next(iter(rows), ()))
        found = evaluate(self.keys, {self.input: ZSet.of(set(rows))})
        return {row[:width]: ("group", row[width:]) for row in found}


def row_groups(view: View, tables: Mapping[str, Table]) -> dict[str, RowGroups]:
    """The groups of the rows of each input of a view; empty if it has none, and stops as a whole."""
    found = rows_below(view.relation)
    if found is None or view.shares or not reads_state(view.program).isdisjoint(view.inputs):
        return {}
    aggregate, rows = found
    scans = list(scans_in(rows))
    if {scan.relation for scan in scans} != set(view.inputs):
        return {}
    return {name: _groups_of(name, aggregate, rows, scans, tables) for name in view.inputs}


def why_whole(view: View) -> str:
    """The reason why nothing but a whole view can be held back, which has no groups."""
    if rows_below(view.relation) is None:
        return "it has no groups that can be told apart"
    if view.shares:
        return "it shares stages with other views"
    return f"its strategy looks rows up where others keep them, and {VIEWLET} would keep them for it alone"


def _groups_of(
    name: str, aggregate: Aggregate | None, rows: Relation, scans: list[Scan], tables: Mapping[str, Table]
) -> RowGroups:
    own = [scan for scan in scans if scan.relation == name]
    scan, alone = own[0], len(own) == 1
    if aggregate is not None and alone:
        keys = _group_by(aggregate, rows, scan)
        if keys is not None:
            return RowGroups(name, _keyed(scan, keys), "group", True)
    table = tables.get(name)
    if len(scans) > 1 and table is not None and table.primary_key:
        by_key = [column(scan.fields[place]) for place in table.key_positions]
        return RowGroups(name, _keyed(scan, by_key), "key", alone and aggregate is None)
    return RowGroups(name, None, "row", alone and aggregate is None)


def _group_by(aggregate: Aggregate, rows: Relation, scan: Scan) -> list[Scalar] | None:
    """The keys of an aggregate as values of the rows of one scan; None if they need others."""
    values = _values(rows)
    keys = [substitute(key.scalar, values) for key in aggregate.keys]
    own = {f.name for f in scan.fields}
    return keys if all(columns_in(key) <= own for key in keys) else None


def _values(node: Relation) -> dict[str, Scalar]:
    """The columns of projected and joined rows as values of the columns of scans."""
    match node:
        case Project():
            below = _values(node.input)
            return {out.name: substitute(out.scalar, below) for out in node.outputs}
        case Filter():
            return _values(node.input)
        case Join() | OuterJoin():
            return _values(node.left) | _values(node.right)
    return {f.name: column(f) for f in node.fields}


def _keyed(scan: Scan, keys: Sequence[Scalar]) -> Relation:
    whole = tuple(Named(f.name, column(f)) for f in scan.fields)
    return Project(scan, (*whole, *(Named(f"key {place}", key) for place, key in enumerate(keys))))
