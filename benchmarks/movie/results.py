"""What was measured as figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.movie.case import Asked, Propagated
from benchmarks.movie.selfmaintained import Entry
from tidemill.compiler.lineage.self_maintenance import DeltaMethod
from tidemill.serving.cli.bench_runner import Figure

BENCH = "movie"
SPEEDUP, OF_EPOCH, OF_DEFINE, PER_QUERY = "speedup", "speedup_epoch", "speedup_define", "updates_per_query"
INCREMENTAL, REMATERIALIZED, EPOCH = "incremental_ms", "rematerialization_ms", "epoch_ms"
MATERIALIZED, VIRTUAL, DUCKDB = "materialized_ms", "virtual_ms", "duckdb_ms"
DEFINED, READS, CELLS, SPARK = "define_ms", "base_reads", "cells", "spark_ms"


def query_name(asked: Asked) -> str:
    """The case of a query, as figures call it."""
    return f"query/{asked.case.view}/{asked.case.size}"


def of_query(asked: Asked) -> Iterator[Figure]:
    """How much faster it is to ask the materialized view."""
    name, rows = query_name(asked), f"{asked.rows:,} rows"
    for metric, seconds in ((MATERIALIZED, asked.materialized), (VIRTUAL, asked.virtual), (DUCKDB, asked.duckdb)):
        yield Figure(BENCH, name, metric, seconds * 1e3, "ms", rows)
    about = f"virtual {asked.virtual * 1e3:.3g} ms, materialized {asked.materialized * 1e3:.3g} ms, {rows}"
    yield Figure(BENCH, name, SPEEDUP, asked.virtual / asked.materialized, "x", about)


def of_update(found: Propagated, asked: Asked) -> Iterator[Figure]:
    """How much faster it is to propagate an update than to recompute the view, or to ask the virtual one."""
    name = found.case.name(found.update)
    about = f"{found.count} updates, {asked.rows:,} rows"
    yield Figure(BENCH, name, INCREMENTAL, found.incremental * 1e3, "ms", about)
    yield Figure(BENCH, name, REMATERIALIZED, found.rematerialization * 1e3, "ms", about)
    yield Figure(BENCH, name, DEFINED, found.defined * 1e3, "ms", "the view defined again, compiled and filled")
    epochs = f"without the view {found.without * 1e3:.3g} ms, with the view recomputed {found.recomputed * 1e3:.3g} ms"
    yield Figure(BENCH, name, EPOCH, found.kept * 1e3, "ms", epochs)
    both = f"recomputed {found.rematerialization * 1e3:.3g} ms, incremental {found.incremental * 1e3:.3g} ms"
    yield Figure(BENCH, name, SPEEDUP, found.speedup, "x", both)
    yield Figure(BENCH, name, OF_EPOCH, found.speedup_of_epoch, "x", "the update itself included")
    yield Figure(BENCH, name, OF_DEFINE, found.defined / found.incremental, "x", "the view defined again")
    yield Figure(BENCH, name, PER_QUERY, asked.virtual / found.incremental, "updates", about)
    yield Figure(BENCH, name, READS, found.reads, "rows", about)


def of_entries(found: Sequence[Entry]) -> Iterator[Figure]:
    """Of the entries of Figure 11, those for which no base data was read."""
    for entry in found:
        yield Figure(BENCH, f"selfmaintainable/{entry.name}", READS, entry.reads, "rows", str(entry))
    free = [entry for entry in found if not entry.reads]
    joined = [entry for entry in found if entry.move is not DeltaMethod.PLANT_NEW]
    about = (
        f"of {len(found)} entries; of the {len(joined)} that join a delta with the lineage"
        f" {sum(not entry.reads for entry in joined)}; the paper's text: 19 of 29"
    )
    yield Figure(BENCH, "selfmaintainable", CELLS, len(free), "entries", about)


def of_spark(view: str, size: str, seconds: float, rows: int) -> Figure:
    """The costs of recomputing a view by Spark."""
    return Figure(BENCH, f"query/{view}/{size}", SPARK, seconds * 1e3, "ms", f"{rows:,} rows, Parquet to Parquet")
