"""Statistics of the maps of a view: entries, bytes, and the entries that a lookup finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.compiler.statistics.column_values import ColumnStatistics
from tidemill.compiler.statistics.sizes import TOGETHER
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.count_values import count_values
from tidemill.engine.definitions.stored_statistics import MAX_COUNTED_ROWS, has_plain_values
from tidemill.model.schema import WEIGHT, names_of
from tidemill.program.maps import Map
from tidemill.program.reads import reads_old, relation_of, steps_of
from tidemill.program.stages import Stage
from tidemill.storage.store import Store

__all__ = ["MapStatistics", "map_statistics"]


@dataclass(frozen=True)
class MapStatistics:
    """A map: its stored ``entries`` and ``bytes``, and for the columns that triggers look entries up by their values.

    The entries that a lookup finds are the ``matches`` of these columns, in the mean. A map with more than a million
    stored changes, or with arrays and structs as keys, is not counted: ``entries`` are its stored changes then.
    """

    name: str
    entries: int
    bytes: int
    lookups: Mapping[str, ColumnStatistics] = field(default_factory=dict)


def map_statistics(store: Store, view: View) -> Iterator[MapStatistics]:
    """The statistics of all maps that a view keeps itself, counted from what is stored."""
    for stage in view.program.stages:
        for map_ in stage.maps:
            yield _statistics_of(store, stage, map_)


def _statistics_of(store: Store, stage: Stage, map_: Map) -> MapStatistics:
    stored = store.rows(map_.name)
    if not map_.keys:
        return MapStatistics(map_.name, min(stored, 1), store.bytes(map_.name))
    if stored > MAX_COUNTED_ROWS or not all(map(has_plain_values, map_.keys)):
        return MapStatistics(map_.name, stored, store.bytes(map_.name))
    entries = _entries(store, map_)
    lookups = {
        TOGETHER.join(columns): count_values(entries.select([*columns, WEIGHT]))
        for columns in dict.fromkeys(_looked_up(stage, map_))
    }
    return MapStatistics(map_.name, entries.num_rows, store.bytes(map_.name), lookups)


def _looked_up(stage: Stage, map_: Map) -> Iterator[tuple[str, ...]]:
    """The columns by which lookups can find several entries."""
    for step in filter(reads_old, steps_of(stage)):
        found = {name for name, _ in step.lookup}
        if relation_of(step) == map_.name and 0 < len(found) < len(map_.keys):
            yield tuple(name for name in names_of(map_.keys) if name in found)


def _entries(store: Store, map_: Map) -> pa.Table:
    """The keys of the entries of a map, each with weight 1."""
    names = list(names_of(map_.keys))
    stored = store.read(map_.name, map_.keys).select([*names, WEIGHT])
    summed = stored.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    there = summed.filter(pc.not_equal(summed.column(f"{WEIGHT}_sum"), 0)).select(names)
    return there.append_column(WEIGHT, pa.array([1] * there.num_rows, pa.int64()))
