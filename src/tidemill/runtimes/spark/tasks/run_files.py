"""The files of the store as tasks read them: whole, or by key from files that are mapped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidemill.model.types import Field
from tidemill.runtimes.spark.execution.errors import not_found_by_tasks
from tidemill.runtimes.spark.lookup.lookup_task import find_in_runs
from tidemill.storage.runs import read_table
from tidemill.storage.segments import stored_schema
from tidemill.storage.store import ColumnValues, RunFile


def require_files(files: Iterable[os.PathLike[str]]) -> None:
    """Refuse files that are not where the driver has listed them, as on a cluster without a common disk.

    Those that a task can fetch are fetched when it opens them.
    """
    for file in files:
        if isinstance(file, Path) and not file.exists():
            raise not_found_by_tasks(file)


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of relations and maps, as the driver has listed and verified them: a store to read from."""

    files: Mapping[str, Sequence[RunFile]]
    epoch: int

    def find(self, name: str, schema: pa.Schema, keys: pa.Table | None) -> pa.Table:
        """Columns of map ``name`` as of the last epoch: the rows with the keys, by columns of their names, and perhaps
        others; or all rows."""
        runs = self.files.get(name, ())
        require_files(run.file for run in runs)
        if keys is not None:
            return find_in_runs(runs, schema, keys)
        return pa.concat_tables([schema.empty_table(), *(read_table(Path(run.file), schema) for run in runs)])

    def read(
        self,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None = None,
        since: int | None = None,
        where: ColumnValues | None = None,
    ) -> pa.Table:
        """Rows of map ``name`` as of the last epoch, or those with the values of ``where``."""
        assert since is None and until in (None, self.epoch), "tasks read the last epoch"
        return self.find(name, stored_schema(fields), None if where is None else pa.table(dict(where)))

    def rows(self, name: str) -> int:
        """Number of stored rows of the map before summing."""
        return sum(run.rows for run in self.files.get(name, ()))
