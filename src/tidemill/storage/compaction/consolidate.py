"""Consolidation: several segments of a map become one; equal keys are summed and zero rows dropped.

Epochs that time travel still reaches keep their own rows; all earlier ones are combined. Sums of BIGINT, DECIMAL and of
weights are exact in any order. A DOUBLE is a double-double (high and low part), added without losing the low part.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.aggregates.partial_sums import LOW
from tidemill.changes.arrow import from_arrow
from tidemill.model import types as t
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import DOUBLE, Field, Type
from tidemill.program.maps import Map, map_fields
from tidemill.storage.compaction.cancelling import MANY_ROWS, without_pairs
from tidemill.storage.runs import RunEntry

MERGE_AT = 8
"""Number of runs of similar size that are merged while time travel still distinguishes their epochs."""

MERGE_OLD_AT = 2
"""Number of runs of similar size that are merged once it no longer does: equal keys are then combined."""

SIZE_RATIO = 2
"""Largest ratio of a run's size to that of all smaller runs together at which it joins a merge: each row is then
rewritten O(log n) times, and a handful of new rows never rewrites a large map."""

SAMPLE_ROWS = 2048
"""Number of consecutive rows, and of random ones, sampled to tell whether rows repeat."""

FloatArray = npt.NDArray[np.float64]
IntegerArray = npt.NDArray[np.int64]


def choose_runs(runs: Sequence[RunEntry], oldest: int, most: int | None = None) -> tuple[RunEntry, ...]:
    """The runs that are worth merging now; none if that would cost more than it saves.

    With ``most`` only the smallest runs are considered, up to that many rows together. The number of runs is bounded
    all the same: a run too large for that limit holds many rows.
    """
    live = sorted((run for run in runs if run.ended is None), key=lambda run: run.rows)
    if most is not None:
        live = [run for run, rows in zip(live, accumulate(run.rows for run in live), strict=True) if rows <= most]
    old = [run for run in live if _mostly_old(run, oldest)]
    # More than a quarter retractions: they cancel as many insertions, so a merge removes over half of the rows.
    if len(old) > 1 and 4 * sum(run.retracted for run in old) > sum(run.rows for run in old):
        return tuple(old)
    similar = _of_like_size(old, MERGE_OLD_AT)
    unsummed = tuple(run for run in old if run.first < run.last and run not in similar)
    return similar + unsummed or _of_like_size(live, MERGE_AT)


def _mostly_old(run: RunEntry, oldest: int) -> bool:
    """True if most epochs of a run are no longer distinguished. A rewrite then at least halves the remainder."""
    return run.first <= oldest and 2 * (min(run.last, oldest) - run.first) >= run.last - run.first


def _of_like_size(runs: Sequence[RunEntry], least: int) -> tuple[RunEntry, ...]:
    """The longest prefix of ``runs``, smallest first, whose last run is not much larger than all before it."""
    smaller = list(accumulate((run.rows for run in runs), initial=0))
    for length in range(len(runs), least - 1, -1):
        if runs[length - 1].rows <= SIZE_RATIO * smaller[length - 1]:
            return tuple(runs[:length])
    return ()


def consolidate(
    table: pa.Table, map_: Map, oldest: int, *, whole: bool, ordered: bool = True
) -> list[tuple[pa.Table, int, int]]:
    """Sum the rows of a map by key and epoch, with all epochs up to ``oldest`` combined; sorted by key if ``ordered``.

    Returns the rows up to ``oldest`` and those after it, each with its first and last epoch, so that a feed never opens
    the former. A key is dropped when its weight and all its values are zero; zero weight alone does not suffice,
    because an update changes a group's sums and not its weight. If ``table`` is the ``whole`` map, zero weight suffices
    for the rows up to ``oldest``: the group is empty.
    """
    epochs = pc.max_element_wise(table.column(EPOCH), pa.scalar(oldest, pa.int64()))
    table = table.set_column(table.schema.get_field_index(EPOCH), EPOCH, epochs)
    summed = table if _is_distinct(table, map_) else _sum_by_key(table, map_)
    old = pc.less_equal(summed.column(EPOCH), oldest)
    kept = _nonzero(summed, [f.name for f in map_fields(map_)[len(map_.keys) :]])
    if whole:
        kept = pc.and_(kept, pc.or_(pc.not_equal(summed.column(WEIGHT), 0), pc.invert(old)))
    halves = [summed.filter(pc.and_(kept, old)), summed.filter(pc.and_(kept, pc.invert(old)))]
    return [(_sorted(half, map_) if ordered else half, *_epochs_of(half)) for half in halves if half.num_rows]


def difference(old: pa.Table, new: pa.Table, map_: Map) -> pa.Table:
    """The change from the rows ``old`` of a relation or map to ``new``, summed; both may have rows several times."""
    values = [f.name for f in map_fields(map_)[len(map_.keys) :]]
    names = [*(f.name for f in map_.keys), *values, WEIGHT]
    gone = old.select(names)
    for name in (*values, WEIGHT):
        gone = gone.set_column(names.index(name), name, pc.negate(gone.column(name)))
    # Columns of a few Python values are not aligned as Arrow's own are, which it complains about when it groups them.
    both = pa.concat_tables([new.select(names), gone.cast(new.select(names).schema)]).combine_chunks()
    if not values and both.num_rows >= MANY_ROWS and pc.min(both.column(WEIGHT)).as_py() < 0:
        both = without_pairs(both)
    summed = _sum_by_key(both.append_column(EPOCH, pa.repeat(pa.scalar(0, pa.int64()), both.num_rows)), map_)
    return summed.filter(_nonzero(summed, values)).select(names)


def _is_distinct(table: pa.Table, map_: Map) -> bool:
    """True if summing would combine next to nothing: no row has negative weight, and no sampled row repeats."""
    if map_.values or not table.num_rows or pc.min(table.column(WEIGHT)).as_py() <= 0:
        return False
    # Consecutive rows as well as random ones: duplicates are often adjacent.
    anywhere = np.random.default_rng(0).integers(0, table.num_rows, SAMPLE_ROWS)
    sample = table.take(pa.array(np.union1d(np.arange(min(SAMPLE_ROWS, table.num_rows)), anywhere)))
    columns = [_groupable(sample, f) for f in map_.keys]
    names = [f"k{i}" for i in range(len(columns))]
    return bool(names) and pa.table(columns, names=names).group_by(names).aggregate([]).num_rows == sample.num_rows


def _epochs_of(table: pa.Table) -> tuple[int, int]:
    bounds = pc.min_max(table.column(EPOCH))
    return bounds["min"].as_py(), bounds["max"].as_py()


def _nonzero(table: pa.Table, values: Sequence[str]) -> pa.ChunkedArray:
    """Mask of the rows with a nonzero weight or value."""
    result = pc.not_equal(table.column(WEIGHT), 0)
    for name in values:
        column = table.column(name)
        result = pc.or_(result, pc.not_equal(column, pa.scalar(0).cast(column.type)))
    return result


def _sum_by_key(table: pa.Table, map_: Map) -> pa.Table:
    """One row for each key and epoch. Arrow groups the keys; nested keys are replaced by integer codes."""
    columns = [_groupable(table, f) for f in map_.keys] + [table.column(EPOCH)]
    keys = [f"k{i}" for i in range(len(columns))]
    exact = [f.name for f in map_fields(map_)[len(map_.keys) :] if f.type != DOUBLE] + [WEIGHT]
    sums = [f"s{i}" for i in range(len(exact))]
    rows = pa.array(np.arange(table.num_rows, dtype=np.int64))
    plain = pa.table([*columns, *(table.column(name) for name in exact), rows], names=[*keys, *sums, "row"])
    wanted = [*((name, "sum") for name in sums), ("row", "list")]
    groups = plain.group_by(keys, use_threads=False).aggregate(wanted)
    members = groups.column("row_list").combine_chunks()
    order, starts = _members(members)
    result = {name: groups.column(f"{s}_sum") for name, s in zip(exact, sums, strict=True)}
    for value in map_.values:
        if value.type == DOUBLE:
            result[value.name], result[value.name + LOW] = _sum_doubles(table, value.name, order, starts)
    representatives = table.take(pa.array(order[starts]))
    filled = [result.get(f.name, representatives.column(f.name)).cast(f.type) for f in table.schema]
    return pa.table(filled, schema=table.schema)


def _members(lists: pa.Array | pa.ChunkedArray) -> tuple[IntegerArray, IntegerArray]:
    """The row numbers of all groups, group by group, and the offset at which each group starts."""
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return lists.flatten().to_numpy(zero_copy_only=False), np.cumsum(lengths) - lengths


def _groupable(table: pa.Table, key: Field) -> pa.ChunkedArray | pa.Array:
    """A column that groups as ``key`` does: arrays and structs, which Arrow cannot group, are dictionary-coded."""
    if not _nested(key.type):
        return table.column(key.name)
    codes: dict[Any, int] = {}
    values = (row[0] for row, _ in from_arrow(table.select([key.name]), (key,)))
    return pa.array([codes.setdefault(value, len(codes)) for value in values], pa.int64())


def _nested(type_: Type) -> bool:
    return isinstance(type_, t.Array | t.Map | t.Struct)


def _sum_doubles(table: pa.Table, name: str, order: IntegerArray, starts: IntegerArray) -> tuple[pa.Array, pa.Array]:
    """The double-double sums of a value by group."""
    high = table.column(name).to_numpy()[order]
    low = table.column(name + LOW).to_numpy()[order]
    high, low = sum_pairs(high, low, starts)
    return pa.array(high), pa.array(low)


def sum_pairs(high: FloatArray, low: FloatArray, starts: IntegerArray) -> tuple[FloatArray, FloatArray]:
    """Sum double-doubles within groups: adjacent pairs are added until each group has one number left.

    Each pass halves every group, so the work is that of numpy on arrays of n, n/2, n/4 ... numbers.

    >>> sum_pairs(np.array([1e20, 1.0, -1e20, 5.0]), np.zeros(4), np.array([0, 3]))
    (array([1., 5.]), array([0., 0.]))
    """
    while len(starts) < len(high):
        lengths = np.diff(np.append(starts, len(high)))
        ranks = np.arange(len(high)) - np.repeat(starts, lengths)
        paired = (ranks % 2 == 0) & (ranks + 1 < np.repeat(lengths, lengths))
        first = np.flatnonzero(paired)
        high[first], low[first] = add_doubles(high[first], low[first], high[first + 1], low[first + 1])
        left = ranks % 2 == 0
        high, low = high[left], low[left]
        lengths = (lengths + 1) // 2
        starts = np.cumsum(lengths) - lengths
    return high, low


def add_doubles(
    high: FloatArray, low: FloatArray, other: FloatArray, other_low: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The renormalized sum of two double-doubles: an error-free sum of the high parts keeps their rounding error."""
    total = high + other
    part = total - high
    lost = (high - (total - part)) + (other - part) + low + other_low
    result = total + lost
    return result, lost - (result - total)


def _sorted(table: pa.Table, map_: Map) -> pa.Table:
    """The table sorted by the keys that Arrow can order, so that a file's statistics narrow down where a key can be."""
    places = [table.schema.get_field_index(f.name) for f in map_.keys if not _nested(f.type)]
    if not places:
        return table
    keys = pa.table([table.column(place) for place in places], names=[f"k{i}" for i in range(len(places))])
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))
