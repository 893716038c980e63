"""MOVIE: the views and updates of its evaluation on OO7 databases, and which entries of its Figure 11 read no base."""

from benchmarks.movie.run import run
from benchmarks.movie.table import as_table

__all__ = ["as_table", "run"]
