"""Projects of declarative pipelines in a folder of a test, their sources, and what they have written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.serving.pipelines.report import PipelineReport
from tidemill.serving.pipelines.run import plan_pipeline, run_pipeline

Row = tuple[Any, ...]

ORDERS = pa.schema([("id", pa.int32()), ("customer", pa.string()), ("amount", pa.int64())])


@dataclass
class PipelineProject:
    """A project in ``folder``, whose sources are in ``lake`` beside it."""

    folder: Path

    @property
    def lake(self) -> Path:
        return self.folder.parent / "lake"

    def write(self, settings: str = "", **files: str) -> PipelineProject:
        """Write the specification and files, ``a_sql`` as ``a.sql``; LAKE in them is the folder of the sources."""
        (self.folder / "transformations").mkdir(parents=True, exist_ok=True)
        spec = "name: shop\nstorage: storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
        (self.folder / "spark-pipeline.yml").write_text(spec + settings)
        for name, text in files.items():
            stem, _, suffix = name.rpartition("_")
            (self.folder / "transformations" / f"{stem}.{suffix}").write_text(text.replace("LAKE", str(self.lake)))
        return self

    def add(self, table: str, file: str, rows: Sequence[Row], schema: pa.Schema = ORDERS) -> None:
        """A Parquet file of a source."""
        (self.lake / table).mkdir(parents=True, exist_ok=True)
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in schema]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), self.lake / table / f"{file}.parquet")

    def run(self, **options: Any) -> PipelineReport:
        return run_pipeline(self.folder, **options)

    def plan(self) -> PipelineReport:
        return plan_pipeline(self.folder)

    def rows(self, table: str, columns: list[str] | None = None) -> list[Row]:
        """What a table has, as Spark would read it: all files whose names do not begin with a dot or underscore."""
        files = [one for one in (self.folder / "spark-warehouse" / table).iterdir() if one.name[0] not in "._"]
        tables = [pq.read_table(one) for one in files]
        # Files of several flows have their columns in other orders, and Spark takes them by name.
        return as_rows(pa.concat_tables([one.select(columns or tables[0].column_names) for one in tables]))


def as_rows(table: pa.Table) -> list[Row]:
    """Rows in an order that does not depend on where they were."""
    return in_order(tuple(row.values()) for row in table.to_pylist())


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted((tuple(row) for row in rows), key=repr)
