"""Partitions in programs: how the rows of a stage come partition by partition (see
``algebra.relational.time_partitions``).

The feeds of the relation are maps of the stage, each with the number of the partition as its first key and the columns
in use after it; ordinary statements add to them. What was made is in the map ``kept``, with the same kind of key. The
map ``numbers`` counts the rows of all feeds that begin in each partition of the stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.algebra.expressions.scalars import Named, Scalar
from tidemill.algebra.relational.time_partitions import PartitionSlice

if TYPE_CHECKING:
    from tidemill.program.statements import Program


@dataclass(frozen=True, slots=True)
class InputMap:
    """The map that holds the rows of feed ``name``, cut into partitions of ``every`` microseconds (0: into none).

    Where there are no partitions, its keys are the columns in use alone.
    """

    name: str
    map: str
    every: int


@dataclass(frozen=True, slots=True)
class TimePartitionEmission:
    """How the rows of a stage come from partitions: each that an epoch touches is made anew, in the order of time.

    Partition i is touched where an entry of a feed has changed in a layer beside i, where a partition of the stage's
    own that it reads came out different, and where it is new: the first and the last of ``numbers`` may move. The first
    partition is the answer of the query ``initialize``, all others are that of ``update``; both read the ``layers`` by
    name, whose rows have the keys of their maps as columns (no query looks at the number). So the cost is that of the
    touched partitions, and where one comes out as it was, nothing follows from it.

    Where it ``rolls``, the query ``update`` makes all partitions from one layer, and has triggers for changes of that
    layer which read nothing else: a runtime may keep its maps and move them from one partition to the next.

    ``outputs`` and ``condition`` are over the keys of ``kept``.
    """

    every: int
    feeds: tuple[InputMap, ...]
    layers: tuple[PartitionSlice, ...]
    numbers: str
    kept: str
    initialize: Program
    update: Program
    outputs: tuple[Named, ...]
    condition: Scalar | None = None
    rolls: bool = False

    @property
    def bodies(self) -> tuple[Program, ...]:
        """The queries that make partitions, each once."""
        return (self.update,) if self.initialize == self.update else (self.initialize, self.update)

    def map_of(self, layer: PartitionSlice) -> str:
        """The map that has the rows of a layer: that of its feed, or what was made of the relation itself."""
        return next((feed.map for feed in self.feeds if feed.name == layer.feed), self.kept)
