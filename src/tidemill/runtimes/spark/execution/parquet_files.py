"""Parquet files between Spark and the store: the row count that Spark reports is compared with the files found.

On a cluster whose machines do not share the disk of the warehouse, every task writes to its own, and the job succeeds.
This process would find fewer files, or none, and would commit them as complete. Where the warehouse is in an object
store, tasks on other machines write to that (``remote_files``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit

from tidemill.model.errors import StorageError
from tidemill.model.types import Field
from tidemill.runtimes.spark.execution.remote_files import shared_staging, write_shared
from tidemill.storage.store import Store

__all__ = ["read_files", "require_written", "url_of", "write_files"]

READING = {"parquet.page.verify-checksum.enabled": "true"}
"""Verifies page checksums: a file is verified before Spark reads it, and this detects damage after that."""

WRITING = {
    "parquet.page.write-checksum.enabled": "true",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
"""Set for each written file, whatever a given session has: later reads depend on the checksums."""

_ESCAPES = {ord(sign): f"\\{sign}" for sign in "*?[]{}\\"}

_ROWS = "rows"


def write_files(frame: DataFrame, store: Store, name: str, fields: Sequence[Field]) -> Mapping[os.PathLike[str], int]:
    """Write weighted rows of ``name`` with their epochs to staged files; returns the nonempty ones with their row
    counts."""
    shared = shared_staging(frame.sparkSession, store, name)
    return _write_to(frame, store.staging(name), name) if shared is None else write_shared(frame, store, shared, fields)


def _write_to(frame: DataFrame, folder: Path, name: str) -> dict[os.PathLike[str], int]:
    """Write rows by Spark itself; their counts are those of the footers."""
    written = Observation()
    writer = frame.observe(written, count(lit(1)).alias(_ROWS)).write.mode("append")
    writer.options(**WRITING).parquet(url_of(folder))
    files: dict[os.PathLike[str], int]
    files = {file: pq.read_metadata(file).num_rows for file in sorted(folder.glob("*.parquet"))}
    require_written(written.get[_ROWS], sum(files.values()), folder, name)
    return {file: rows for file, rows in files.items() if rows}


def require_written(written: int, found: int, folder: Path, name: str) -> None:
    """Refuse rows that tasks have written and that this process does not find."""
    if written != found:
        raise StorageError(
            f'Spark wrote {written:,} rows of "{name}", and {found:,} of them are here',
            where=str(folder),
            detail="Its tasks write where they run: they must see the warehouse folder under the same path as this "
            "process.",
            hint="Put the warehouse on a disk that all machines of the cluster share. Nothing was committed.",
        )


def read_files(spark: SparkSession, files: Iterable[os.PathLike[str]], schema: str) -> DataFrame:
    """Parquet files with an explicit schema; pages are compared with their checksums."""
    return spark.read.options(**READING).schema(schema).parquet(*[_pattern(Path(file)) for file in files])


def url_of(path: Path) -> str:
    """A path of this machine, whatever Spark's default file system is."""
    return f"file://{path}"


def _pattern(path: Path) -> str:
    """The same for Spark's readers, which take a path for a glob pattern: the pattern that matches only this path.

    Spark's option to disable globbing (``__globPaths__``) reads too much: for each path that looks like a pattern it
    takes all paths that it was given, so each of three files is read three times.

    >>> _pattern(Path("/data/w[1] %41/a.parquet"))
    'file:///data/w\\\\[1\\\\] %41/a.parquet'
    """
    return url_of(path).translate(_ESCAPES)
