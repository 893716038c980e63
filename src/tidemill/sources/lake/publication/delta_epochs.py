"""The table of epochs as a Delta table: the last epoch of each publication is an application transaction."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.model.errors import NameTaken
from tidemill.sources.lake.publication.delta_writer import DeltaWriter
from tidemill.sources.lake.publication.epochs_table import COMPACTED_FILES, EpochRow, epoch_rows

__all__ = ["DeltaEpochs"]

EPOCHS = "tidemill epochs"
"""The application whose transaction tells that a Delta table is one of epochs."""


class DeltaEpochs:
    """The Delta table of epochs at a location."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._writer = DeltaWriter(location)

    def recorded(self, publications: Sequence[str]) -> dict[str, int]:
        """The last epoch of each of these publications that has a row here."""
        table = self._writer.table()
        if table is None:
            return {}
        if table.transaction_version(EPOCHS) is None:
            raise NameTaken("another Delta table is in the place of the table of epochs", where=self._location)
        last = {one: table.transaction_version(one) for one in publications}
        return {one: epoch for one, epoch in last.items() if epoch is not None}

    def record(self, rows: Sequence[EpochRow]) -> int:
        """Add rows in one commit, one for each publication; returns the bytes that were written."""
        said = {EPOCHS: 1, **{row.publication: row.epoch for row in rows}}
        written = self._writer.append(epoch_rows(rows), said)
        return written.then(self._writer.compact(COMPACTED_FILES)).bytes
