"""Files of a folder's maps that are written before the epoch that takes them in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.storage.change_counts import marks_of
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.file_system import system_of
from tidemill.storage.runs import RunEntry, describe_run, write_table
from tidemill.storage.shared_staging import weights_came_and_left


@dataclass(frozen=True)
class PreparedRun:
    """A file of one epoch's rows that was written before the epoch that takes it in, which has nothing left to read.

    ``came`` is the sum of its weights above zero, ``left`` that of the others.
    """

    file: Path
    entry: RunEntry
    came: int
    left: int

    @classmethod
    def write(cls, rows: pa.Table, file: Path) -> PreparedRun:
        """Write rows with their weights and one epoch."""
        write_table(rows, file)
        entry = describe_run(file, "", rows.num_rows, rows.select([WEIGHT, EPOCH]))
        return cls(file, entry, *weights_came_and_left(rows))

    def __fspath__(self) -> str:
        return str(self.file)

    @property
    def marks(self) -> pa.Table:
        """Weights and epochs that count as those of its rows do."""
        return marks_of(self.came, self.left, self.entry.last)

    def adopt(self, maps: FilePath, name: str) -> tuple[RunEntry, pa.Table]:
        """Make it the run ``name``, without copying it; returns its entry, and marks that count as its rows do."""
        system_of(maps).adopt(self.file, maps / name)
        return replace(self.entry, file=name), self.marks
