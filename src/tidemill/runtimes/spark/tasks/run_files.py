"""The files of the store as tasks read them: whole, or by key from files that are mapped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidemill.model.types import Field
from tidemill.runtimes.spark.execution.errors import not_found_by_tasks
from tidemill.runtimes.spark.lookup.lookup_task import find_in_runs
from tidemill.storage.runs import open_run, read_table
from tidemill.storage.segments import stored_schema
from tidemill.storage.store import ColumnValues, RunFile


def require_files(files: Iterable[Path]) -> None:
    """Refuse files that are not where the driver has listed them, as on a cluster without a common disk."""
    for file in files:
        if not file.exists():
            raise not_found_by_tasks(file)


def rows_between(files: Sequence[Path], schema: pa.Schema, first: int, last: int) -> pa.Table:
    """The rows of some files from one place to another, as if they were one; other row groups are not read."""
    found, begin = [schema.empty_table()], 0
    for file in files:
        with open_run(file) as parquet:
            for group in range(parquet.num_row_groups):
                end = begin + parquet.metadata.row_group(group).num_rows
                if begin < last and first < end:
                    rows = parquet.read_row_group(group, columns=schema.names).select(schema.names).cast(schema)
                    found.append(rows.slice(max(first - begin, 0), min(last, end) - max(first, begin)))
                begin = end
    return pa.concat_tables(found)


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
        return pa.concat_tables([schema.empty_table(), *(read_table(run.file, schema) for run in runs)])

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
