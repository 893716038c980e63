"""A view that is defined by partitions, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.viewdf.sliding_windows import SlidingWindow
from tidemill.compiler.frontends.viewdf.subscripts import PartitionRange
from tidemill.model.errors import TextLocation


@dataclass(frozen=True)
class PartitionQuery:
    """``INITIALIZE v[k] AS query``, or UPDATE: its tree, and the bracketed items of FROM by their names in the tree."""

    query: ParsedText
    partitions: Mapping[str, PartitionRange | SlidingWindow]
    place: TextLocation


@dataclass(frozen=True)
class PartitionedView:
    """A view by partitions, each ``every`` long: the first defined by ``initialize``, others by ``update``.

    Without ``initialize`` all have the same query; without ``every`` they are as long as the partitions that the view
    reads.
    """

    view: str
    initialize: PartitionQuery | None
    update: PartitionQuery
    every: int | None = None

    @property
    def bodies(self) -> tuple[PartitionQuery, ...]:
        """The queries of the first partition and of the others, where they differ."""
        return (self.update,) if self.initialize is None else (self.initialize, self.update)
