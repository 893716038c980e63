"""Where the rows of published files are, by their keys: columns and indexes that are derived from a data file once.

A data file never changes, so what is derived from it holds for as long as a table has it. It is kept as mapped files in
a folder of this machine, and made again where it is gone. A lookup costs what it finds, not what the file has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidemill.changes.sorted_hashes import sought_hashes
from tidemill.sources.lake.marked_rows import Positions
from tidemill.sources.lake.publication.key_positions import key_positions, live_positions
from tidemill.storage.mapped.mapped_run import IndexedColumns, MappedRun

__all__ = ["KeyIndex"]

INDEXED_ROWS = 8192
"""Number of rows from which on a file has an index; smaller ones are read."""

ReadKeys = Callable[[str], pa.Table]
"""Reads the key columns of a data file."""


class KeyIndex:
    """Finds rows of the data files of one table; what is derived from them is in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def positions(
        self, files: Mapping[str, int], keys: pa.Table, read: ReadKeys, deleted: Mapping[str, Positions]
    ) -> dict[str, Positions]:
        """The places of the rows with these keys in each of ``files``, which have so many rows, but deleted ones.

        If they are not as many as the keys, files are read, and what is found there is the answer.
        """
        self._forget_others(files)
        found = {path: self._found(path, rows, keys, read) for path, rows in files.items()}
        live = {path: _without(places, deleted.get(path)) for path, places in found.items()}
        if sum(map(len, live.values())) == keys.num_rows:
            return live
        return {path: live_positions(read(path), keys, deleted.get(path)) for path in files}

    def _found(self, path: str, rows: int, keys: pa.Table, read: ReadKeys) -> Positions:
        """The places of the rows of a file with these keys, deleted ones too."""
        if rows < INDEXED_ROWS:
            return key_positions(read(path), keys)
        by, run = IndexedColumns(keys.schema), MappedRun(rows, self._folder / _name(path))
        sought = sought_hashes(keys.columns)
        places = run.positions(by, sought)
        if places is None:
            content = read(path).cast(keys.schema)
            if not run.make(by, keys.schema, lambda field: content.column(field.name)):
                return key_positions(content, keys)
            places = run.positions(by, sought)
        rows_there = run.find(by, sought, keys.schema)
        if places is None or rows_there is None:
            return key_positions(read(path), keys)
        return places[key_positions(rows_there, keys)]

    def _forget_others(self, files: Collection[str]) -> None:
        """Delete what was derived from other files."""
        names = {_name(path) for path in files}
        with suppress(OSError):
            for file in [one for one in self._folder.iterdir() if one.name.partition(".")[0] not in names]:
                file.unlink()


def _name(path: str) -> str:
    return blake2b(path.encode(), digest_size=16).hexdigest()


def _without(places: Positions, deleted: Positions | None) -> Positions:
    return places if deleted is None else places[~np.isin(places, deleted, assume_unique=True)]
