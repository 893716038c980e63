"""Sums of a part of a change: divided into shards, as bytes on their way to another task, and added up there.

The sums are those that generated code makes (``MapSums``): a weight for each key, or a list of the weight and the terms
of each value. Exact numbers of any size and all terms of DOUBLE sums are kept, so a sum does not depend on the parts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tidemill.changes.arrow import canonical_double, to_arrow
from tidemill.changes.hashing import hash_columns
from tidemill.changes.zset import Row
from tidemill.model.types import VOID, Array, Double, Field, Struct, Type
from tidemill.program.sharding import shard_widths
from tidemill.program.stages import Stage

TargetSums = dict[str, dict[Row, Any]]
"""Sums that triggers of a stage add, by map, or by the name of the stage for its own rows."""


def add_sums(sums: TargetSums, more: Mapping[str, dict[Row, Any]]) -> None:
    """Add sums of a stage to others, in place.

    >>> sums = {"m": {("a",): [1, 5, [0.5], []]}}
    >>> add_sums(sums, {"m": {("a",): [-1, 2, [], [(0.25, 2)]], ("b",): [1, 1, [], []]}}); sums
    {'m': {('a',): [0, 7, [0.5], [(0.25, 2)]], ('b',): [1, 1, [], []]}}
    """
    for target, added in more.items():
        held = sums.setdefault(target, added)
        if held is added:
            continue
        for key, addend in added.items():
            old = held.get(key)
            if old is None:
                held[key] = addend
            elif isinstance(addend, list):
                held[key] = [mine + other for mine, other in zip(old, addend, strict=True)]
            else:
                held[key] = old + addend


def divide(sums: TargetSums, stage: Stage, shards: int, alone: int) -> Iterator[tuple[int, TargetSums]]:
    """The sums of each shard that has any; entries that no key tells apart are all in the shard ``alone``."""
    widths, columns = shard_widths(stage), _columns(stage)
    divided: dict[int, TargetSums] = {}
    for target, added in sums.items():
        numbers = _shard_numbers(list(added), columns[target][: widths[target]], shards, alone)
        for shard, (key, addend) in zip(numbers, added.items(), strict=True):
            divided.setdefault(shard, {}).setdefault(target, {})[key] = addend
    yield from divided.items()


def _shard_numbers(keys: Sequence[Row], fields: Sequence[Field], shards: int, alone: int) -> Sequence[int]:
    table = to_arrow(((key[: len(fields)], 1) for key in keys), fields) if shards > 1 else None
    hashed = [] if table is None else [table.column(i) for i, f in enumerate(fields) if f.type != VOID]
    if not hashed:
        return [alone % shards] * len(keys)
    numbers: list[int] = (hash_columns(hashed) % shards).tolist()
    return numbers


def pack(sums: TargetSums) -> bytes:
    """Sums as bytes."""
    return pickle.dumps(sums, pickle.HIGHEST_PROTOCOL)


def unpack(content: bytes, stage: Stage) -> TargetSums:
    """The sums of ``pack``. Rows have the one NaN by which dictionaries find them."""
    sums: TargetSums = pickle.loads(content)
    for target, fields in _columns(stage).items():
        restore = _restoring([f.type for f in fields])
        if restore is not None and target in sums:
            sums[target] = {restore(key): addend for key, addend in sums[target].items()}
    return sums


def _columns(stage: Stage) -> dict[str, tuple[Field, ...]]:
    """The columns of the keys of each map, and of the rows of the stage."""
    return {map_.name: map_.keys for map_ in stage.maps} | {stage.name: stage.output}


def _restoring(types: Sequence[Type]) -> Callable[[Row], Row] | None:
    """The function that puts the one NaN object in place of others in rows of these types; None if they have none."""
    parts = [_restoring_value(type_) for type_ in types]
    if not any(parts):
        return None
    return lambda row: tuple(
        value if part is None or value is None else part(value) for part, value in zip(parts, row, strict=True)
    )


def _restoring_value(type_: Type) -> Callable[[Any], Any] | None:
    match type_:
        case Double():
            return canonical_double
        case Array(element) if (part := _restoring_value(element)) is not None:
            return lambda values: tuple(None if value is None else part(value) for value in values)
        case Struct(fields):
            return _restoring([f.type for f in fields])
    return None
