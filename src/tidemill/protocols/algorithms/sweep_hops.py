"""The hops of SWEEP: one select-project-join query for each source, in which the rows so far are a leaf.

A condition is checked on the first hop that has all its columns, and only columns that are still read are sent on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.algebra.expressions.scalars import Column, Named, Scalar, column
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.changes.zset import ZSet
from tidemill.model.types import Field
from tidemill.sources.remote_queries.signed_query import SignedQuery, SignedTerm, SpjView


@dataclass(frozen=True)
class SweepHop:
    """The query for ``source``: its own leaves of the view, joined with the rows so far under the alias ``swept``."""

    source: str
    view: SpjView
    swept: str

    def query_for(self, rows: ZSet) -> SignedQuery:
        """The query for these rows; without terms if there are no rows."""
        return SignedQuery(self.view, (SignedTerm(1, {self.swept: rows}),) if rows else ())


def sweep_hops(first: str, view: SpjView, homes: Mapping[str, str]) -> list[SweepHop]:
    """The hops for a change of source ``first``.

    Columns of the rows so far are named by number: ``known`` maps every original column to its current name.
    """
    alias = _unused("swept", {leaf.alias for leaf in view.leaves})
    known: dict[str, Scalar] = {}
    unchecked: Sequence[Scalar] = view.conditions
    hops: list[SweepHop] = []
    route = _route(first, view, homes)
    for source in route:
        swept = Scan("", alias, tuple(Field(f"c{n}", scalar.type) for n, scalar in enumerate(known.values())))
        leaves = tuple(leaf for leaf in view.leaves if homes[leaf.relation] == source)
        known |= {field.name: column(field) for leaf in leaves for field in leaf.fields}
        checked = [condition for condition in unchecked if columns_in(condition) <= known.keys()]
        unchecked = [condition for condition in unchecked if not columns_in(condition) <= known.keys()]
        read = set[str]().union(*map(columns_in, unchecked), *(columns_in(output.scalar) for output in view.outputs))
        carried = {name: scalar for name, scalar in known.items() if name in read}
        outputs = tuple(Named(f"c{n}", scalar) for n, scalar in enumerate(carried.values()))
        if source == route[-1]:
            outputs = tuple(Named(output.name, substitute(output.scalar, known)) for output in view.outputs)
        conditions = tuple(substitute(condition, known) for condition in checked)
        hops.append(SweepHop(source, SpjView((swept, *leaves) if hops else leaves, conditions, outputs), alias))
        known = {name: Column(f"{alias}.c{n}", scalar.type) for n, (name, scalar) in enumerate(carried.items())}
    return hops


def _route(first: str, view: SpjView, homes: Mapping[str, str]) -> list[str]:
    """All sources, beginning with ``first``; a cross product with those before is taken as late as possible."""
    homes_of = {leaf.alias: homes[leaf.relation] for leaf in view.leaves}
    ties = [{homes_of[alias] for alias in tie} for tie in view.ties]
    left = [source for source in dict.fromkeys(homes[leaf.relation] for leaf in view.leaves) if source != first]
    route = [first]
    while left:
        tied = [source for source in left if any(source in tie and tie & set(route) for tie in ties)]
        route.append((tied or left)[0])
        left.remove(route[-1])
    return route


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
