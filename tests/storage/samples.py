"""A small relation, a ring map and shorthands to commit and read them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidemill.changes.arrow import from_arrow
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.types import BIGINT, DOUBLE, STRING, Field
from tidemill.program.maps import Map, RingField, map_fields
from tidemill.storage.snapshot import StoreSnapshot
from tidemill.storage.store import Store

FIELDS = (Field("id", BIGINT), Field("name", STRING))
PEOPLE = Map("people", FIELDS)
TOTALS = Map("totals", (Field("name", STRING),), (RingField("n", BIGINT), RingField("x", DOUBLE)))
TOTAL_FIELDS = map_fields(TOTALS)

ANY_TIME = "2026-01-01T00:00:00.000+00:00"

Pairs = Iterable[tuple[tuple[Any, ...], int]]


def change(pairs: Pairs) -> ChangeSet:
    """Weighted rows of ``people``."""
    return ChangeSet.of(pairs, FIELDS)


def totals(*entries: tuple[str, int, int, float]) -> ChangeSet:
    """Weighted entries of ``totals``: name, weight, n, x."""
    return ChangeSet.of([((name, n, x, 0.0, 0, 0, 0), weight) for name, weight, n, x in entries], TOTAL_FIELDS)


def commit(store: Store, number: int, pairs: Pairs, name: str = "people", **more: Any) -> None:
    """Commit an epoch that changes one map."""
    store.commit(Epoch(number, {name: change(pairs)}, **more))


def contents(store: Store | StoreSnapshot, name: str = "people", **bounds: Any) -> ZSet:
    """The rows of a map, summed."""
    return ZSet.summed(from_arrow(store.read(name, FIELDS, **bounds), FIELDS))


def feed(store: Store, since: int, name: str = "people") -> Mapping[int, ZSet]:
    """What changed after ``since``, by epoch."""
    result: dict[int, ZSet] = {}
    marked = (*FIELDS, Field("_epoch", BIGINT))
    for row, weight in from_arrow(store.read(name, FIELDS, since=since), marked):
        result.setdefault(row[-1], ZSet()).add(row[:-1], weight)
    return {epoch: change for epoch, change in sorted(result.items()) if change}


def files(folder: Path, suffix: str = ".parquet") -> list[Path]:
    """The files below a folder with that suffix."""
    return sorted(file for file in folder.rglob(f"*{suffix}"))


def child_environment(**more: str) -> dict[str, str]:
    """The environment of a child process that imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}
