"""The input of ``load`` as records: from paths, dicts, Arrow tables and Spark frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.engine.epochs.placement import Placement
from tidemill.model.errors import BadValue
from tidemill.sources.ingest.nested_records import LocatedRecord, read_records

__all__ = ["located_records"]


def located_records(
    placement: Placement,
    given: Sequence[Any],
    format: str | None,
    progress: Callable[[int, int], None] | None,
    *,
    spark: bool,
) -> Iterator[LocatedRecord]:
    """The records of all inputs, in order, each with its location."""
    paths = [one for one in given if isinstance(one, (str, Path))]
    if paths and len(paths) == len(given):
        yield from _of_paths(placement, paths, format, progress, spark=spark)
        return
    for one in given:
        yield from enumerate_records(_records(one))


def _of_paths(
    placement: Placement,
    paths: Sequence[str | Path],
    format: str | None,
    progress: Callable[[int, int], None] | None,
    *,
    spark: bool,
) -> Iterator[LocatedRecord]:
    if not (spark or placement.is_on_spark(0) or any("://" in str(path) for path in paths)):
        yield from read_records(paths, format, progress)
        return
    from tidemill.runtimes.spark.execution.nested_records import records_of_paths

    table = records_of_paths(placement.session, [str(path) for path in paths], format)
    yield from enumerate_records(table.to_pylist())
    if progress is not None:
        progress(table.nbytes, table.nbytes)


def enumerate_records(records: Iterable[Any]) -> Iterator[LocatedRecord]:
    """Records that are not from a file, located by their number."""
    for number, record in enumerate(records, start=1):
        if not isinstance(record, Mapping):
            raise BadValue(f"{record!r} is no record", where=f"record {number}", hint="Give dicts.")
        yield f"record {number}", record


def _records(given: Any) -> Iterable[Any]:
    if isinstance(given, Mapping):
        return [given]
    if isinstance(given, pa.Table):
        return list(given.to_pylist())
    if type(given).__module__.startswith("pyspark."):
        from tidemill.runtimes.spark.execution.nested_records import records_of_frame

        return list(records_of_frame(given).to_pylist())
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        return given
    raise BadValue(f"objects cannot come from a {type(given).__name__}", hint="Give paths, dicts or a table.")
