"""Compiling: how long views of growing text take to compile, and how large their programs become."""

from benchmarks.compiling.run import as_table, run

__all__ = ["as_table", "run"]
