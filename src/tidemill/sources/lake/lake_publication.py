"""Protocol of a lake table that a view is published as: its epoch, and commits with epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

__all__ = ["GONE", "LakePublication"]

GONE = "_gone"
"""The column of a merge that is true for keys whose row is gone."""


class LakePublication(Protocol):
    """A lake table that shows what a view shows at an epoch. Every method that writes is one commit."""

    def epoch(self) -> int | None:
        """The epoch that the table shows; None if the view was never published there."""

    def replace(self, rows: pa.Table, epoch: int) -> None:
        """Replace all rows, and the columns."""

    def append(self, rows: pa.Table, epoch: int) -> None:
        """Add rows."""

    def merge(self, rows: pa.Table, key: Sequence[str], epoch: int) -> None:
        """Update, insert and delete rows by their key, of which each is in ``rows`` once, with the column ``GONE``."""
