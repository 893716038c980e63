"""Files of the next epoch that processes of several machines write to an object store.

A file is put where it stays, as a run of its map, under a name that no other attempt uses. It counts once the writer of
the warehouse commits a manifest that names it; a vacuum deletes those that none does.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.schema import WEIGHT
from tidemill.storage.change_counts import marks_of
from tidemill.storage.filesystem.durable_files import checksum, make_folder, translate_os_errors
from tidemill.storage.filesystem.fetched_file import FetchedFile
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.file_system import system_of
from tidemill.storage.runs import RunEntry, adopt_run, write_tables

_HINT = "Nothing was committed. Give the change again once the store answers."


@dataclass(frozen=True)
class StagedRun:
    """A run that waits for its commit: ``came`` is the sum of its weights above zero, ``left`` that of the others."""

    entry: RunEntry
    came: int
    left: int

    @property
    def marks(self) -> pa.Table:
        """Weights and epochs that count as those of its rows do: all are of one epoch."""
        return marks_of(self.came, self.left, self.entry.last)


@dataclass(frozen=True)
class StagedFile(FetchedFile):
    """A run that waits for its commit, as any process opens it."""

    run: StagedRun | None = None


@dataclass(frozen=True)
class SharedStaging:
    """The place in an object store for files of one map of the next epoch, below the folder ``maps``.

    ``folder`` is that of the map, ``token`` that of the writer.
    """

    maps: FilePath
    folder: str
    token: int

    def write(self, tables: Iterable[pa.Table], schema: pa.Schema) -> StagedRun | None:
        """Put rows, with their weights and epochs, as one run; None if there are none."""
        with self._draft("run.parquet") as file:
            write_tables(tables, schema, file)
            adopted = adopt_run(file, 0, self.maps, self._new_name(".parquet"))
        if adopted is None:
            return None
        entry, marks = adopted
        return StagedRun(entry, *weights_came_and_left(marks))

    def file(self, run: StagedRun) -> StagedFile:
        """A run that this or another process has put."""
        entry = run.entry
        return StagedFile(self.maps / entry.file, entry.bytes, entry.checksum, entry.rows, run=run)

    def put_arrow(self, rows: pa.Table) -> FetchedFile:
        """Put rows as an Arrow file, for tasks to read. Whoever puts it deletes it."""
        with self._draft("rows.arrow") as file:
            write_arrow(rows, file)
            path = self.maps / self._new_name(".arrow")
            system_of(path).adopt(file, path)
            return FetchedFile(path, file.stat().st_size, checksum(file), rows.num_rows)

    def _new_name(self, suffix: str) -> str:
        """A name that no other attempt uses; it begins with the writer's token as those of all runs do."""
        return f"{self.folder}/{self.token:08}-{uuid4().hex}{suffix}"

    @contextmanager
    def _draft(self, name: str) -> Iterator[Path]:
        """A file on this machine, for the time of the block."""
        with translate_os_errors("write the rows of a change", self.maps / self.folder, _HINT):
            staging = system_of(self.maps).staging(self.maps)
            make_folder(staging)
            folder = Path(mkdtemp(dir=staging))
            try:
                yield folder / name
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def weights_came_and_left(rows: pa.Table) -> tuple[int, int]:
    """The sum of the weights above zero, and that of the others without its sign."""
    weights = rows.column(WEIGHT)
    net, both = (pc.sum(numbers).as_py() or 0 for numbers in (weights, pc.abs(weights)))
    return (both + net) // 2, (both - net) // 2


def write_arrow(rows: pa.Table, file: Path) -> None:
    """Write rows as they are, to be mapped."""
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_table(rows)
