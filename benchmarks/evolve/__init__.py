"""Replacing a view in the middle of a chain, beside dropping and rebuilding it."""

from benchmarks.evolve.run import as_table, run

__all__ = ["as_table", "run"]
