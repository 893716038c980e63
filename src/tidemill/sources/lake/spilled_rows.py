"""Rows of two sides in files, where they are too many to be held: parted by their hashes, so that equal rows meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import numpy as np
import pyarrow as pa

from tidemill.storage.compaction.cancelling import HashedRows, cancel

__all__ = ["SpilledRows"]

PARTITION_BITS = 6
"""High bits of a hash that number the partition of its row."""

_HASH = "\0hash"
"""The column of a file that has the hashes."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class SpilledRows:
    """Rows of two sides in temporary files. Rows with one hash are in one partition."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._writers: dict[Path, pa.ipc.RecordBatchStreamWriter] = {}

    def __enter__(self) -> SpilledRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, old: HashedRows, new: HashedRows) -> None:
        """Write rows of both sides."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="tidemill-")
        for side, rows in enumerate((old, new)):
            numbers = rows.hashes >> np.uint64(64 - PARTITION_BITS)
            for number in range(1 << PARTITION_BITS):
                self._write(self._path(number, side), rows.filter(numbers == number))

    def partitions(self) -> Iterator[tuple[HashedRows, HashedRows]]:
        """The rows of both sides that are left in each partition."""
        self._close()
        for number in range(1 << PARTITION_BITS if self._folder else 0):
            yield cancel(*(self._contents(self._path(number, side)) for side in range(2)))

    def _path(self, number: int, side: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{number}-{side}"

    def _write(self, path: Path, rows: HashedRows) -> None:
        table = rows.rows.append_column(_HASH, pa.array(rows.hashes))
        if path not in self._writers:
            self._writers[path] = pa.ipc.new_stream(str(path), table.schema, options=_OPTIONS)
        self._writers[path].write_table(table)

    def _contents(self, path: Path) -> HashedRows:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            table = stream.read_all()
        return HashedRows(table.drop_columns([_HASH]), table.column(_HASH).to_numpy())

    def _close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
