"""Rows of relations that stages with a lineage read in Spark, counted by queries of their own.

What a join reads of a relation is what its lookups find there, before filters, as in this process. Spark does not say
how many rows these are, so they are counted by one job more in an epoch: but only once somebody has asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Literal, Named
from tidemill.changes.changeset import ChangeSet
from tidemill.model.types import STRING, Field
from tidemill.program.maps import Map
from tidemill.program.stages import Stage
from tidemill.program.statements import Query, RelationLoop, Version

__all__ = ["READS", "BaseReads"]

READS = Map("base reads", (Field("relation", STRING, nullable=False),))
"""The form of what is counted: the weight of a relation is the number of its rows that were read."""


class BaseReads:
    """The counts of all stages, and the queries that count for the running epoch."""

    def __init__(self) -> None:
        self._asked = False
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.queries: defaultdict[str, list[str]] = defaultdict(list)

    def of(self, stage: str) -> Mapping[str, int]:
        """The rows of each relation that were read for a stage since this was first asked."""
        self._asked = True
        return self._counts[stage]

    def counting(self, stage: Stage, query: Query) -> Iterator[Query]:
        """For each relation that a query joins with a part of a change, the query that counts the rows it finds."""
        loops = [source for source in query.sources if isinstance(source, RelationLoop)]
        if not self._asked or all(loop.split is None for loop in loops):
            return
        own = {map_.name for map_ in stage.maps}
        for place, source in enumerate(query.sources):
            if isinstance(source, RelationLoop) and source.version is Version.STATE and source.relation not in own:
                found = (*query.sources[:place], replace(source, filters=()))
                yield Query(found, (Named("relation", Literal(source.relation, STRING)),))

    def note(self, stage: str, counted: ChangeSet) -> None:
        """Add what was counted in an epoch."""
        for (relation,), count in counted.pairs():
            self._counts[stage][relation] += count
