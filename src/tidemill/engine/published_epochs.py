"""The result of publishing views: the epochs that their tables show, and what was written for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["PublishedEpochs", "PublishedTable"]


@dataclass(frozen=True)
class PublishedTable:
    """The version of a lake table that shows an epoch of a view.

    ``rows`` changed since the version that it showed before, and ``bytes`` were written for them: data, metadata and
    compaction. Both are zero if it showed the epoch already.
    """

    epoch: int
    version: int
    rows: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        return f"epoch {self.epoch}, {self.rows:,} changed rows, {self.bytes:,} bytes written"


class PublishedEpochs(dict[str, int]):
    """The epochs that the tables of views show, by the name of the view.

    >>> published = PublishedEpochs({"spend": PublishedTable(3, 7, rows=2, bytes=1500)})
    >>> published, published.tables["spend"].version, published.rows, published.bytes
    ({'spend': 3}, 7, 2, 1500)
    """

    def __init__(self, tables: Mapping[str, PublishedTable], epochs_bytes: int = 0) -> None:
        super().__init__({view: table.epoch for view, table in tables.items()})
        self.tables = dict(tables)
        self._epochs_bytes = epochs_bytes

    @property
    def rows(self) -> int:
        """The number of rows that changed, in all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def bytes(self) -> int:
        """The number of bytes that were written, for all tables and the table of epochs."""
        return sum(table.bytes for table in self.tables.values()) + self._epochs_bytes

    def __str__(self) -> str:
        tables = "1 table" if len(self) == 1 else f"{len(self)} tables"
        return f"{tables}, {self.rows:,} changed rows, {self.bytes:,} bytes written"
