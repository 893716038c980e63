"""The DBToaster paper's benchmark: its twelve queries on its two streams, each event refreshing the view."""

from benchmarks.dbtoaster.run import run
from benchmarks.dbtoaster.table import as_table

__all__ = ["as_table", "run"]
