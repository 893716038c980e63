"""``tidemill bench cluster``: TPC-H on local Spark and on standalone clusters of one and two workers."""

from benchmarks.cluster.run import run
from benchmarks.cluster.table import as_table

__all__ = ["as_table", "run"]
