"""ECA: messages, bytes and page reads beside the formulas of the paper, and its protocols on PostgreSQL."""

from benchmarks.eca.run import run
from benchmarks.eca.table import as_table

__all__ = ["as_table", "run"]
