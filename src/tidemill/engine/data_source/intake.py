"""Rows that Spark writes, as one epoch of a table, once for each batch of a query.

The warehouse is opened for writing when all tasks of a batch have ended, and closed when it is committed. So it is for
warehouses that no other process has open: one that does is named in the error, and its own ``apply`` and ``stream``
are the way then.
"""

from __future__ import annotations

import json

import pyarrow as pa

from tidemill.engine.data_source.opened import opened_engine
from tidemill.engine.streams.intake import StreamIntake
from tidemill.engine.streams.options import StreamOptions
from tidemill.model.errors import InvalidArgument
from tidemill.runtimes.spark.data_source.options import SourceOptions
from tidemill.sources.ingest.frames import changes_of

__all__ = ["commit_rows"]


def commit_rows(options: SourceOptions, rows: pa.Table, query: str | None, batch: int | None) -> None:
    """Commit the rows of a batch with its position, unless the warehouse has that batch of the query or a later one."""
    if (query is None) != (batch is None):
        raise InvalidArgument('"query" and "batch" go together', hint="Both say which write this is, or neither.")
    with opened_engine(options.warehouse, read_only=False) as engine:
        table = engine.committed.table(options.relation)
        intake = StreamOptions(options.intake, sequence_by=options.sequence_by)
        intake.require_fit(table)
        # Each query has a position of its own, so queries that write to one table do not forget each other's batches.
        source = f"spark:{table.name}:{query}"
        known = json.loads(engine.store.positions.get(source, "{}"))
        if batch is not None and known.get("batch", -1) >= batch:
            return
        positions = {} if batch is None else {source: json.dumps({"query": query, "batch": batch})}
        if intake.upserts:
            taken = StreamIntake(engine, source, {table.name: lambda frame: frame}, intake, dict)
            taken.take_rows({table.name: rows}, positions)
        else:
            engine.apply({table.name: changes_of(rows, table)}, positions)
