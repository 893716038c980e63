"""ViewDF: Figures 5.1 to 5.8 of the thesis, its methods beside each other and beside asking the query anew."""

from benchmarks.viewdf.run import run
from benchmarks.viewdf.table import as_table

__all__ = ["as_table", "run"]
