"""Run files that live as long as their reader: rows of the log and altered runs, for runtimes that read files."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa

from tidemill.storage.filesystem.durable_files import TemporaryFolder
from tidemill.storage.runs import RunSegment, write_table
from tidemill.storage.store import RunFile


class TemporaryRuns:
    """Run files outside the warehouse, which a reader may not write; ``cleanup`` deletes them."""

    def __init__(self) -> None:
        self._folder: TemporaryFolder | None = None
        self._copies: dict[tuple[str, int], RunFile] = {}

    def present(self, part: RunSegment) -> RunFile:
        """The run with its map's present columns: itself, or a copy if the map was altered after it was written."""
        if not part.alterations:
            return part.as_run()
        key = part.run.file, len(part.alterations) + part.run.altered
        if key not in self._copies:
            self._copies[key] = self.write(part.load(part.present_schema), part.first, part.last)
        return self._copies[key]

    def write(self, table: pa.Table, first: int, last: int) -> RunFile:
        """A new file with rows of the epochs from ``first`` to ``last``."""
        self._folder = self._folder or TemporaryFolder()
        file = Path(mkdtemp(dir=self._folder.path)) / "waiting.parquet"
        write_table(table, file)
        return RunFile(file, table.num_rows, file.stat().st_size, first, last, file.parent / "mapped" / file.stem)

    def cleanup(self) -> None:
        """Delete the files."""
        folder, self._folder, self._copies = self._folder, None, {}
        if folder is not None:
            folder.cleanup()
