"""Epochs: what a long life of one-row epochs writes to the disk, and that it stays the same."""

from benchmarks.epochs.run import run

__all__ = ["run"]
