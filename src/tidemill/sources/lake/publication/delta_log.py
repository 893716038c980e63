"""The log of a Delta table in a folder of this machine: its files with their deletion vectors, and commits.

The package ``deltalake`` reads deletion vectors and keeps them, and does not write them. So commits that delete rows by
them are written here, as the Delta protocol says: a file of the log is made whole under another name, and then linked
to the name of the next version, which succeeds for one writer alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["DeltaLog", "removal"]

_STRING_BOUND = 32
"""Length of strings up to which their bounds are in the log."""

_DIFFERENCES = (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp)
_REPEATED_SHARE = 0.25
"""Share of different values up to which a dictionary of them is shorter."""


class DeltaLog:
    """The log of the table in ``folder`` up to ``version``."""

    def __init__(self, folder: str, version: int) -> None:
        self._folder, self.version = Path(folder), version
        self._written = 0

    @property
    def _log(self) -> Path:
        return self._folder / "_delta_log"

    def files(self) -> dict[str, dict[str, Any]] | None:
        """The ``add`` actions of the data files by path; None if the log has a form that is not known here."""
        found, start = {}, 0
        pointer = self._log / "_last_checkpoint"
        if pointer.exists():
            last = json.loads(pointer.read_text())
            checkpoint = self._log / f"{last['version']:020}.checkpoint.parquet"
            if last["version"] > self.version or not checkpoint.exists():
                return None
            adds = pq.read_table(checkpoint, columns=["add"]).column("add").combine_chunks()
            found = {add["path"]: _without_nulls(add) for add in adds.drop_null().to_pylist()}
            start = last["version"] + 1
        for version in range(start, self.version + 1):
            actions = list(self.actions(version))
            # A file whose vector changes is removed and added in one commit, in any order.
            for removed in (action["remove"] for action in actions if "remove" in action):
                found.pop(removed["path"], None)
            found |= {action["add"]["path"]: _known(action["add"]) for action in actions if "add" in action}
        return found

    def actions(self, version: int) -> Iterator[dict[str, Any]]:
        """The actions of a commit."""
        for line in (self._log / f"{version:020}.json").read_text().splitlines():
            if line:
                yield json.loads(line)

    def write_rows(self, rows: pa.Table) -> dict[str, Any]:
        """Write a data file; returns its ``add`` action."""
        name = f"part-00000-{uuid4()}-c000.zstd.parquet"
        _write_parquet(rows, self._folder / name)
        return {
            "path": name,
            "partitionValues": {},
            "size": self._count(self._folder / name),
            "modificationTime": _now(),
            "dataChange": True,
            "stats": json.dumps(_statistics(rows), separators=(",", ":")),
        }

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write another file beside the data files."""
        (self._folder / name).parent.mkdir(exist_ok=True)
        (self._folder / name).write_bytes(content)
        self._count(self._folder / name)

    def commit(self, operation: str, actions: Iterable[Mapping[str, Any]]) -> int:
        """Commit actions as the next version; returns the bytes of all that was written.

        ``FileExistsError`` if another came first.
        """
        about = {"timestamp": _now(), "operation": operation, "operationParameters": {}, "readVersion": self.version}
        lines = [{"commitInfo": about | {"engineInfo": "tidemill"}}, *actions]
        whole = self._log / f".{uuid4()}.json.tmp"
        whole.write_text("\n".join(json.dumps(line, separators=(",", ":")) for line in lines))
        self._count(whole)
        try:
            os.link(whole, self._log / f"{self.version + 1:020}.json")
        finally:
            whole.unlink()
        self.version += 1
        return self._written

    def _count(self, file: Path) -> int:
        """Have a file on disk, and count its bytes."""
        with file.open("rb") as written:
            os.fsync(written.fileno())
        size = file.stat().st_size
        self._written += size
        return size


def removal(add: Mapping[str, Any], *, changes: bool) -> dict[str, Any]:
    """The action that removes a file; ``changes`` if rows are gone with it."""
    kept = {name: add[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in add}
    return {"remove": kept | {"dataChange": changes, "deletionTimestamp": _now(), "extendedFileMetadata": True}}


def _known(add: Mapping[str, Any]) -> dict[str, Any]:
    """An action without the properties that are not there, which some writers note as null."""
    return {name: value for name, value in add.items() if value is not None}


def _write_parquet(rows: pa.Table, file: Path) -> None:
    encodings = _encodings(rows)
    others = [name for name in rows.column_names if name not in encodings]
    dictionary = others if encodings else True
    pq.write_table(rows, file, compression="zstd", use_dictionary=dictionary, column_encoding=encodings or None)


def _encodings(rows: pa.Table) -> dict[str, str]:
    """Numbers and times that are written as differences: a dictionary of values that hardly repeat is longer."""
    found: dict[str, str] = {}
    if any(pa.types.is_nested(field.type) for field in rows.schema):
        return found  # the package then wants the names of all leaves
    for field in rows.schema:
        if any(is_one(field.type) for is_one in _DIFFERENCES):
            distinct = pc.count_distinct(rows.column(field.name)).as_py()
            if distinct > _REPEATED_SHARE * rows.num_rows:
                found[field.name] = "DELTA_BINARY_PACKED"
    return found


def _now() -> int:
    return time.time_ns() // 1_000_000


def _without_nulls(found: Any) -> Any:
    """A row of a checkpoint as the log has it: what is not there is left out, and maps are objects."""
    if not isinstance(found, dict):
        return found
    known = {name: _without_nulls(value) for name, value in found.items() if value is not None}
    return known | ({"partitionValues": dict(known["partitionValues"])} if "partitionValues" in known else {})


def _statistics(rows: pa.Table) -> dict[str, Any]:
    """Statistics of a file for the log: its number of rows, and the bounds of numbers and short strings."""
    lowest, highest, nulls = {}, {}, {}
    for field in rows.schema:
        column = rows.column(field.name)
        if pa.types.is_integer(field.type) or pa.types.is_string(field.type):
            nulls[field.name] = column.null_count
            bounds = [pc.min_max(column)[side].as_py() for side in ("min", "max")]
            if all(b is not None and (isinstance(b, int) or len(b) <= _STRING_BOUND) for b in bounds):
                lowest[field.name], highest[field.name] = bounds
    return {"numRecords": rows.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}
