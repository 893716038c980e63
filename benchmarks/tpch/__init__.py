"""TPC-H: a pipeline of eight views refreshed by Tidemill, beside Spark and DuckDB recomputing it."""

from benchmarks.tpch.run import run

__all__ = ["run"]
