"""ViewDF: Figures 5.1 to 5.8 of the thesis, its methods beside each other and beside running the query again."""

from benchmarks.viewdf.run import run
from benchmarks.viewdf.table import as_table

__all__ = ["as_table", "run"]
