"""Parquet files between Spark and the store: what Spark writes is counted by Spark, and compared with what is found.

On a cluster whose machines do not share the disk of the warehouse, every task writes to its own, and the job succeeds.
This process would find fewer files, or none, and would commit them as all there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit

from tidemill.model.errors import SetupError, StorageError

__all__ = ["read_files", "write_files"]

PATTERN_CHARACTERS = "*?[]{}\\%"
"""Signs that mean something to Spark in a path."""

_ROWS = "rows"


def write_files(frame: DataFrame, folder: Path, name: str) -> dict[Path, int]:
    """Write the rows of ``name`` into a folder; returns the files that hold some, with how many, as footers say."""
    written = Observation()
    writer = frame.observe(written, count(lit(1)).alias(_ROWS)).write.mode("append")
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(_url(folder))
    files = {file: pq.read_metadata(file).num_rows for file in sorted(folder.glob("*.parquet"))}
    _compare(written.get[_ROWS], sum(files.values()), folder, name)
    return {file: rows for file, rows in files.items() if rows}


def _compare(written: int, found: int, folder: Path, name: str) -> None:
    if written != found:
        raise StorageError(
            f'Spark wrote {written:,} rows of "{name}", and {found:,} of them are here',
            where=str(folder),
            detail="Its tasks write where they run: they must see the warehouse folder under the same path as this "
            "process.",
            hint="Put the warehouse on a disk that all machines of the cluster share. Nothing was committed.",
        )


def read_files(spark: SparkSession, files: Iterable[Path], schema: str) -> DataFrame:
    """Parquet files with a schema that is given rather than looked up."""
    return spark.read.schema(schema).parquet(*map(_url, files))


def _url(path: Path) -> str:
    """A path of this machine, whatever Spark's default file system is; what it takes for a pattern is refused."""
    odd = [sign for sign in PATTERN_CHARACTERS if sign in str(path)]
    if odd:
        raise SetupError(
            f"Spark cannot use a warehouse folder with {' '.join(odd)} in its path",
            where=str(path),
            detail="It would take the path for a pattern, which may stand for other files.",
            hint='Rename the folder, or open it with runtime="native".',
        )
    return f"file://{path}"
