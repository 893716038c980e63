"""The table of epochs as an Iceberg table: the last epoch of each publication is a property of its snapshots."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tidemill.model.errors import NameTaken
from tidemill.sources.lake.publication.epochs_table import COMPACTED_FILES, EpochRow, epoch_rows
from tidemill.sources.lake.publication.iceberg_writer import OURS, IcebergWriter
from tidemill.sources.lake.publication.lake_publication import CatalogPlace

__all__ = ["IcebergEpochs"]

EPOCHS = f"{OURS}epochs"
"""The property with the last epochs of all publications."""


KEPT_SNAPSHOTS = 10
"""Number of snapshots that stay when old ones are removed."""


class IcebergEpochs:
    """The Iceberg table of epochs of a name in a catalog."""

    def __init__(self, location: str, catalog: CatalogPlace) -> None:
        self._location = location
        self._writer = IcebergWriter(location, catalog)

    def recorded(self, publications: Sequence[str]) -> dict[str, int]:
        """The last epoch of each of these publications that has a row here."""
        return {one: epoch for one, epoch in self._last().items() if one in publications}

    def _last(self) -> dict[str, int]:
        found = self._writer.said()
        if found is None:
            return {}
        last = next((said[EPOCHS] for said in found[0] if EPOCHS in said), None)
        if last is None:
            raise NameTaken("another Iceberg table is in the place of the table of epochs", where=self._location)
        known: dict[str, int] = json.loads(last)
        return known

    def record(self, rows: Sequence[EpochRow]) -> int:
        """Add rows in one commit, one for each publication; returns the bytes that were written."""
        last = self._last()
        said = {EPOCHS: json.dumps(last | {row.publication: row.epoch for row in rows}, separators=(",", ":"))}
        added = self._writer.append if last else self._writer.replace
        written = added(epoch_rows(rows), said)
        compacted = self._writer.compact(COMPACTED_FILES)
        if compacted is not None:  # each snapshot has all rows of those before it, and nobody reads old ones
            self._writer.vacuum(0, KEPT_SNAPSHOTS)
        return written.then(compacted).bytes
