"""A small relation, a ring map and shorthands to commit and read them."""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from tidemill.changes.arrow import from_arrow
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.types import BIGINT, DOUBLE, STRING, Field
from tidemill.program.maps import Map, RingField, map_fields
from tidemill.storage.segments import ArrowChange
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


def older_record(
    magic: bytes,
    number: int,
    changes: Mapping[str, ArrowChange],
    positions: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """The record of an epoch in format 1 (``TdMl``), or the first of a log in format 2: each change is a stream."""
    streams = {name: _stream(rows.arrow()) for name, rows in changes.items() if len(rows)}
    lengths = {name: len(stream) for name, stream in streams.items()}
    line = json.dumps({"epoch": number, "positions": dict(positions), "maps": lengths}).encode()
    payload = b"".join([line, b"\n", *streams.values()])
    plain = magic == b"TdMl"
    size = len(payload)
    header = struct.pack("<4sB3xQ", magic, 1, size) if plain else struct.pack("<4sIQQQ", magic, 0, size, 0, 0)
    return header + struct.pack("<I", zlib.crc32(payload, zlib.crc32(header))) + payload


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
