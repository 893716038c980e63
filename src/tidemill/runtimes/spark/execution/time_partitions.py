"""Time partitions on Spark: each that an epoch touches is a query over the partitions that it reads.

Reads are ranges of partition numbers, and files are sorted by them, so Spark skips the rest. The driver decides which
partitions are recomputed (``runtimes.time_partitions``), since it has the few partition numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tidemill.algebra.relational.time_partitions import PartitionSlice
from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model.schema import WEIGHT, names_of
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.stages import TimePartitionEmission
from tidemill.runtimes.spark.execution.ad_hoc_queries import AdHocQueries
from tidemill.runtimes.spark.lookup.key_check import read_columns
from tidemill.runtimes.spark.lowering.sql_text import aliased, comma_list, expression_sql, no_rows_sql, quote
from tidemill.runtimes.spark.lowering.stages import lower_linear
from tidemill.runtimes.time_partitions import TouchedPartitions, partitions_read

CollectRows = Callable[[str], tuple[str, int]]
"""Runs a query for a change of recomputed partitions: its rows, if any, as a FROM item, and their number."""


@dataclass(slots=True)
class PartitionedMap:
    """A map of rows: its stored log, if it has one, and what the epoch has added to it so far."""

    map: Map
    log: str | None
    changes: list[str] = field(default_factory=list)

    def rows(self, where: str = "true", changes: Sequence[str] | None = None) -> str:
        """The rows for which ``where`` is true, as a FROM item; only those ``changes`` have such rows."""
        columns = comma_list(quote(name) for name in (*names_of(self.map.keys), WEIGHT))
        views = [*([] if self.log is None else [self.log]), *(self.changes if changes is None else changes)]
        parts = [f"SELECT {columns} FROM {view} WHERE {where}" for view in views]
        return f"({' UNION ALL '.join(parts) or no_rows_sql(self.map.keys)})"

    @property
    def number(self) -> str:
        """The column with the partition number of a row."""
        return quote(self.map.keys[0].name)


class SparkTimePartitions:
    """Recomputes partitions of a stage; ``numbers`` are those that exist now, ``held`` are its maps."""

    def __init__(
        self,
        emission: TimePartitionEmission,
        held: Mapping[str, PartitionedMap],
        numbers: range,
        answers: AdHocQueries,
        land: CollectRows,
    ) -> None:
        self._emission = emission
        self._held = held
        self._kept = held[emission.kept]
        self._whole = {feed.map for feed in emission.feeds if not feed.every}
        self._numbers = numbers
        self._answers = answers
        self._land = land
        self._changed: dict[str, Sequence[int]] = {}

    def make(self, numbers: Sequence[int]) -> bool:
        """Recompute these partitions in one query; true if one of them has changed."""
        keys = self._kept.map.keys
        # A partition is recomputed once, so earlier changes of this epoch have no rows of these.
        there = self._kept.rows(
            f"{self._kept.number} IN ({comma_list(f'{number}L' for number in numbers)})", changes=()
        )
        columns = comma_list(quote(name) for name in names_of(keys))
        old = f"SELECT {columns}, -{quote(WEIGHT)} AS {quote(WEIGHT)} FROM {there}"
        new = [self._made(number, keys) for number in numbers if number in self._numbers]
        change, rows = self._land(lower_linear([*new, old], keys))
        if rows:
            self._kept.changes.append(change)
            self._changed[change] = numbers
        return bool(rows)

    def _made(self, number: int, keys: Sequence[Field]) -> str:
        """The rows of a partition, with its number."""
        body = self._emission.initialize if number == self._numbers[0] else self._emission.update
        views = {slice_.name: self._slice(slice_, number) for slice_ in self._emission.slices}
        for stage in body.stages:
            views[stage.name] = f"({self._answers.rows(stage, views)})"
        given = zip(keys[1:], body.stages[-1].output, strict=True)
        columns = [aliased(f"{number}L", keys[0].name), *(aliased(quote(f.name), to.name) for to, f in given)]
        return f"SELECT {comma_list([*columns, quote(WEIGHT)])} FROM {views[body.view]}"

    def _slice(self, slice_: PartitionSlice, number: int) -> str:
        """The rows that a slice reads around partition ``number``, as a FROM item."""
        held = self._held[self._emission.map_of(slice_)]
        if held.map.name in self._whole:
            return held.rows()
        wanted = partitions_read(self._emission, slice_, number, self._numbers)
        # Each recomputed partition is a change of its own: most plans need only one of them.
        made = [change for change, some in self._changed.items() if any(one in wanted for one in some)]
        where = f"{held.number} BETWEEN {wanted.start}L AND {wanted.stop - 1}L"
        return held.rows(where, made if held is self._kept else None)


def partition_range(counts: ZSet) -> range:
    """All partitions from the first to the last that has rows."""
    there = [number for (number,), rows in counts.items() if rows > 0]
    return range(min(there), max(there) + 1) if there else range(0)


def partition_ranges(map_: Map, log: pa.Table | None, change: ChangeSet | None) -> tuple[range, range]:
    """The partitions before and after an epoch, from the stored ``log`` of their numbers and its change."""
    before = ZSet()
    if log is not None:
        before = ChangeSet.of_arrow(log.select(arrow_schema(map_.keys).names), map_.keys).zset()
    return partition_range(before), partition_range(before if change is None else before + change.zset())


def touched_partitions(emission: TimePartitionEmission, changes: Mapping[str, ChangeSet]) -> TouchedPartitions:
    """The partitions of each feed in which its map has changed. The change is collected, so this needs no job."""
    found: dict[str, set[int]] = {}
    for feed in emission.feeds:
        change = changes.get(feed.map)
        if change is not None and len(change):
            number = change.fields[0].name
            found[feed.name] = (
                {*read_columns(change, [number]).column(number).unique().to_pylist()} if feed.every else {0}
            )
    return found


def lower_partition_rows(emission: TimePartitionEmission, change: str, fields: Sequence[Field]) -> str:
    """The output rows for a change of recomputed partitions."""
    where = "" if emission.condition is None else f" WHERE {expression_sql(emission.condition)}"
    outputs = [
        aliased(expression_sql(output.scalar), f.name) for output, f in zip(emission.outputs, fields, strict=True)
    ]
    return lower_linear([f"SELECT {comma_list([*outputs, quote(WEIGHT)])} FROM {change}{where}"], fields)
