"""Files of nested records, JSON lines or Parquet: each record with its location."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.model.errors import BadValue, SetupError, Unsupported
from tidemill.sources.ingest.file_listing import list_files
from tidemill.sources.ingest.files import format_of
from tidemill.sources.ingest.text_records import read_json

__all__ = ["LocatedRecord", "read_records"]

LocatedRecord = tuple[str, Mapping[str, Any]]
"""The location of a record, and its content."""

_BATCH = 20_000


def read_records(
    paths: Sequence[str | Path], format: str | None = None, progress: Callable[[int, int], None] | None = None
) -> Iterator[LocatedRecord]:
    """The records of files, or folders of them, in order. ``progress`` is called with the bytes read so far, and in
    all."""
    files = [one.file for one in list_files(paths, None).files]
    total = sum(file.stat().st_size for file in files)
    done = 0
    for file in files:
        try:
            for records, position in _read(file, format):
                yield from records
                if progress is not None:
                    progress(done + position, total)
        except OSError as error:
            raise SetupError("the file cannot be read", where=str(file), detail=error.strerror or str(error)) from error
        done += file.stat().st_size
        if progress is not None:
            progress(done, total)


def _read(file: Path, format: str | None) -> Iterator[tuple[list[LocatedRecord], int]]:
    """Some records at a time, with the bytes of the file read so far."""
    match format_of(file, format):
        case "json":
            return _read_json(file)
        case "parquet":
            return _read_parquet(file)
    raise Unsupported("CSV has no nested records", where=str(file), hint="Use JSON lines or Parquet.")


def _read_json(file: Path) -> Iterator[tuple[list[LocatedRecord], int]]:
    found: list[LocatedRecord] = []
    with file.open(encoding="utf-8-sig") as lines:
        position = 0
        for record in read_json(lines):
            if isinstance(record.values, BadValue):
                record.values.where = f"{file}:{record.line}"
                raise record.values
            found.append((f"{file}:{record.line}", record.values))
            position += len(record.text) + 1
            if len(found) == _BATCH:
                yield found, position
                found = []
    yield found, position


def _read_parquet(path: Path) -> Iterator[tuple[list[LocatedRecord], int]]:
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise BadValue("the file is not Parquet", where=str(path), detail=str(error)) from None
    with file:
        size, rows, first = path.stat().st_size, max(file.metadata.num_rows, 1), 1
        for part in file.iter_batches(_BATCH):
            yield (
                [(f"{path}:{line}", row) for line, row in enumerate(part.to_pylist(), start=first)],
                (size * (first - 1 + part.num_rows) // rows),
            )
            first += part.num_rows
