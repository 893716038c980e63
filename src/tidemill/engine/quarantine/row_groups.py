"""Groups of the input rows of a view that are computed independently of each other.

In a view that filters and projects one relation each row is its own group. In an aggregate over such rows a group is
that of GROUP BY. If one group cannot be computed, the others still can, and what is held back is just its rows. All
other views (joins, windows, top-k) have no such groups: they stop as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.scalars import Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Filter, Project, Scan, Unnest
from tidemill.algebra.relational.walk import substitute, walk_all
from tidemill.changes.zset import Row, ZSet
from tidemill.engine.catalog.view import View
from tidemill.model.errors import ArithmeticFault
from tidemill.program.reads import reads_state

__all__ = ["Group", "RowGroups", "row_groups"]

Group = Hashable
"""The key of a group, or a row that is alone in its group."""


@dataclass(frozen=True)
class RowGroups:
    """The groups of the rows of ``input``; ``keys`` computes their keys after the row, None where each row is alone."""

    input: str
    keys: Relation | None

    def of(self, rows: Collection[Row]) -> dict[Row, Group]:
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


def row_groups(view: View) -> RowGroups | None:
    """The groups of a view; None if it has none."""
    leaves = [node for node in walk_all(view.relation) if isinstance(node, Scan)]
    if len(leaves) != 1 or view.inputs != (leaves[0].relation,) or view.shares:
        return None
    if leaves[0].relation in reads_state(view.program):
        return None
    below = view.relation
    while isinstance(below, Filter | Project | Distinct | Unnest):
        below = below.input
    if isinstance(below, Scan):
        return RowGroups(below.relation, None)
    return _aggregated(below) if isinstance(below, Aggregate) else None


def _aggregated(node: Aggregate) -> RowGroups | None:
    """The groups of an aggregate over filtered and projected rows of one relation."""
    above: list[Project] = []
    below = node.input
    while isinstance(below, Filter | Project):
        above += [below] if isinstance(below, Project) else []
        below = below.input
    if not isinstance(below, Scan):
        return None
    values: dict[str, Scalar] = {f.name: column(f) for f in below.fields}
    for project in reversed(above):
        values = {out.name: substitute(out.scalar, values) for out in project.outputs}
    whole = tuple(Named(f.name, column(f)) for f in below.fields)
    keys = (Named(f"key {place}", substitute(key.scalar, values)) for place, key in enumerate(node.keys))
    return RowGroups(below.relation, Project(below, (*whole, *keys)))
