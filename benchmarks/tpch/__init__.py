"""TPC-H: a pipeline of eight views refreshed by Tidemill, beside Spark and DuckDB computing it anew."""

from benchmarks.tpch.run import run

__all__ = ["run"]
