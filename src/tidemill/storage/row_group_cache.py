"""Columns of row groups that lookups have read: under a memory budget the same files are looked up again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

import pyarrow as pa

from tidemill.storage.filesystem.file_path import FilePath

RowGroup = tuple[FilePath, int, int]
"""A row group: the file and its checksum, and the number of the row group in it."""


class RowGroupCache:
    """The most recently used columns of row groups, of up to ``limit`` bytes together.

    Runs are never changed, so what is here stays right; the checksum tells two files of one name apart.

    >>> from pathlib import Path
    >>> cache, group = RowGroupCache(1000), (Path("run"), 0, 0)
    >>> cache.read(lambda names: pa.table({name: [1, 2] for name in names}), group, ["a", "b"]).to_pydict()
    {'a': [1, 2], 'b': [1, 2]}
    >>> cache.read(lambda names: pa.table({name: [3, 4] for name in names}), group, ["b", "c"]).to_pydict()
    {'b': [1, 2], 'c': [3, 4]}
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._columns: OrderedDict[tuple[RowGroup, str], pa.ChunkedArray] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0
        """The bytes of all columns here."""

    def read(self, read: Callable[[Sequence[str]], pa.Table], group: RowGroup, names: Sequence[str]) -> pa.Table:
        """Some columns of a row group, by ``read`` if they are not here."""
        found = {name: self._find((group, name)) for name in names}
        absent = [name for name, column in found.items() if column is None]
        if absent:
            fresh = read(absent)
            for name in absent:
                found[name] = fresh.column(name)
                self._keep((group, name), fresh.column(name))
        return pa.table(list(found.values()), names=list(names))

    def _find(self, key: tuple[RowGroup, str]) -> pa.ChunkedArray | None:
        with self._lock:
            column = self._columns.get(key)
            if column is not None:
                self._columns.move_to_end(key)
            return column

    def _keep(self, key: tuple[RowGroup, str], column: pa.ChunkedArray) -> None:
        with self._lock:
            if key not in self._columns and column.nbytes <= self.limit:
                self._columns[key] = column
                self.bytes += column.nbytes
            while self.bytes > self.limit:
                self.bytes -= self._columns.popitem(last=False)[1].nbytes
