"""Initial load of a view over sources: its rows in one state of each source, while these go on changing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidemill.algebra.expressions.scalars import Named, column
from tidemill.changes.zset import ZSet
from tidemill.engine.catalog.views.remote_subplans import MaintainedSubplan, source_name_of
from tidemill.model.errors import SourceSlow
from tidemill.sources.remote_queries.group_sums import add_groups
from tidemill.sources.remote_queries.local_evaluation import IndexedRelations
from tidemill.sources.remote_queries.signed_query import SignedQuery, SpjView
from tidemill.sources.source import Answered, Position, Source


@dataclass
class InitialLoad:
    """The first rows of remote subplans. One of a single source is queried whole; of others, the relations are."""

    subplans: tuple[MaintainedSubplan, ...]
    sources: Mapping[str, Source]
    positions: dict[str, Position] = field(default_factory=dict)
    _found: dict[SpjView, ZSet] = field(default_factory=dict)

    def fetch(self, timeout: float) -> None:
        """Fetch the needed rows from every source."""
        for name, source in self.sources.items():
            source.start(None)
            wanted = [
                p for kept in self.subplans for p in _initial_queries(kept) if source_name_of(p.relations[0]) == name
            ]
            self._fetch(name, source, wanted, time.monotonic() + timeout)

    def _fetch(self, name: str, source: Source, wanted: list[SpjView], deadline: float) -> None:
        """Query one source. If it changes between two answers, all queries are repeated, so that all show one state."""
        states: set[Position] = set()
        while len(states) != 1:
            asked = {source.ask(in_source_names(product.query, name)): product for product in wanted}
            states = set()
            while asked:
                message = source.receive(0.1)
                if isinstance(message, Answered):
                    self._found[asked.pop(message.number)] = message.rows
                    states.add(message.position)
                if time.monotonic() > deadline:
                    raise SourceSlow(
                        f'the rows of a view over "{name}" did not come in time',
                        detail=f"It has answered {len(wanted) - len(asked)} of {len(wanted)} queries.",
                        hint="Create the view while the source has less to do.",
                    )
        (self.positions[name],) = states

    def rows(self, kept: MaintainedSubplan) -> ZSet:
        """The rows of a remote subplan, once everything is fetched."""
        product = kept.subplan.product
        if product in self._found:
            found = self._found[product]
            return add_groups(found.items(), len(product.outputs)) if product.sums else found
        contents = {part.leaves[0].relation: self._found[part] for part in _initial_queries(kept)}
        return IndexedRelations(contents).answer(product.query)


def _initial_queries(kept: MaintainedSubplan) -> list[SpjView]:
    """The queries for the rows of a remote subplan: itself, or each of its relations if no source has all of them."""
    product = kept.subplan.product
    if len(kept.homes) == 1:
        return [product]
    leaves = {leaf.relation: leaf for leaf in product.leaves}
    return [SpjView((leaf,), (), tuple(Named(f.name, column(f)) for f in leaf.fields)) for leaf in leaves.values()]


def in_source_names(query: SignedQuery, source: str) -> SignedQuery:
    """The query with the source's own names of the relations."""
    leaves = tuple(replace(leaf, relation=leaf.relation.removeprefix(f"{source}.")) for leaf in query.view.leaves)
    return replace(query, view=replace(query.view, leaves=leaves))
