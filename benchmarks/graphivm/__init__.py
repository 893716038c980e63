"""The GraphIVM thesis's benchmark: its nine queries on social data, for subscribers and for readers."""

from benchmarks.graphivm.run import run
from benchmarks.graphivm.table import as_table

__all__ = ["as_table", "run"]
