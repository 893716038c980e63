"""Views over filtered, projected and joined rows, with an aggregate or without: rows can be held back from these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Filter, Join, OuterJoin, Project, Scan, Unnest
from tidemill.algebra.relational.walk import walk_all
from tidemill.compiler.choose import AUTO
from tidemill.engine.catalog.views.view_options import error_policy

__all__ = ["VIEWLET", "joins_rows", "requested_strategy", "rows_below", "scans_in"]

VIEWLET = "viewlet"
"""The strategy whose maps have all rows of a join that its triggers look up."""


def rows_below(relation: Relation) -> tuple[Aggregate | None, Relation] | None:
    """The aggregate of such a view, if it has one, and the scans or joins below; None for all other views."""
    above, aggregate = relation, None
    while isinstance(above, Filter | Project | Distinct | Unnest):
        above = above.input
    if isinstance(above, Aggregate):
        aggregate, above = above, above.input
    below = list(walk_all(above))
    plain = all(isinstance(node, Filter | Project | Join | OuterJoin | Scan) for node in below)
    everywhere = sum(1 for _ in scans_in(relation))
    return (aggregate, above) if plain and everywhere == sum(1 for _ in scans_in(above)) > 0 else None


def scans_in(rows: Relation) -> Iterator[Scan]:
    """The scans of a relation, also those in subqueries."""
    return (node for node in walk_all(rows) if isinstance(node, Scan))


def requested_strategy(relation: Relation, options: Mapping[str, str], name: str) -> str:
    """The strategy that a view has by its options: one that sets rows aside has to keep the rows that it joins."""
    asked = options.get("strategy", AUTO)
    guarded = asked == AUTO and error_policy(options, name) == "quarantine"
    return VIEWLET if guarded and joins_rows(relation) else asked


def joins_rows(relation: Relation) -> bool:
    """True for such a view that joins rows: they can be held back if it keeps them itself."""
    found = rows_below(relation)
    return found is not None and sum(1 for _ in scans_in(found[1])) > 1
