"""The table ``_tidemill_epochs``: which versions of the published tables beside it show the same epoch.

A row says that a version of a table shows an epoch of a view. Versions with the same epoch belong together: readers
that want several tables read those of one epoch that all of them have. The table remembers the last epoch of each
publication in its own log, so a row that is missing after a crash is found without reading any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Protocol

import pyarrow as pa

__all__ = ["COMPACTED_FILES", "EPOCHS_TABLE", "EpochRow", "EpochsTable", "epoch_rows"]

EPOCHS_TABLE = "_tidemill_epochs"
"""Name of the table in a folder or namespace of published tables."""

COMPACTED_FILES = 32
"""Number of small files of the table from which on they are compacted."""

SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("view", pa.string()),
        ("location", pa.string()),
        ("version", pa.int64()),
        ("publication", pa.string()),
    ]
)


@dataclass(frozen=True)
class EpochRow:
    """The version of the table at ``location`` that shows ``epoch`` of a view; ``publication`` is its owner."""

    epoch: int
    view: str
    location: str
    version: int
    publication: str


def epoch_rows(rows: Sequence[EpochRow]) -> pa.Table:
    """The rows as they are stored."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, astuple(row), strict=True)) for row in rows], SCHEMA)


class EpochsTable(Protocol):
    """A table of epochs and versions."""

    def recorded(self, publications: Sequence[str]) -> Mapping[str, int]:
        """The last epoch of each of these publications that has a row here."""

    def record(self, rows: Sequence[EpochRow]) -> int:
        """Add rows in one commit, one for each publication; returns the bytes that were written."""
