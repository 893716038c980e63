"""Delta tables that views are published as, written by the package ``deltalake``.

Each commit has the epoch that the table shows as the version of an application transaction. It is read before anything
is written, so an epoch is published once, also if the process ends between its own commit and that of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pyarrow as pa

from tidemill.model.errors import NameTaken
from tidemill.sources.lake.delta_package import (
    CommitProperties,
    DeltaTable,
    Transaction,
    translated,
    write_deltalake,
)
from tidemill.sources.lake.lake_publication import GONE

__all__ = ["DeltaPublication"]

PUBLISHED = "tidemill"
"""The application whose transaction tells which view is published at a location: its version is that of ``_mark``."""


class DeltaPublication:
    """The Delta table that the view ``name`` is published as; ``owner`` tells its transactions from those of others."""

    def __init__(self, location: str, name: str, owner: str) -> None:
        self._location, self._name, self._owner = location, name, owner

    def epoch(self) -> int | None:
        """The epoch that the table shows; None if the view was never published there."""
        with translated(self._location, "written"):
            if not DeltaTable.is_deltatable(self._location):
                return None
            table = DeltaTable(self._location)
            seen: int | None = table.transaction_version(self._owner)
            mark: int | None = table.transaction_version(PUBLISHED)
        if mark is None:
            raise NameTaken(
                f'view "{self._name}" cannot be published here',
                where=self._location,
                detail="There is a Delta table that was not published by Tidemill, and it would be overwritten.",
                hint="Give another location, or remove that table.",
            )
        if seen is not None and mark != _mark(self._owner):
            raise NameTaken(
                f'another view than "{self._name}" is published here now',
                where=self._location,
                hint="CREATE OR REPLACE one of them, with another location.",
            )
        return seen

    def replace(self, rows: pa.Table, epoch: int) -> None:
        """Replace all rows, and the columns."""
        with translated(self._location, "written"):
            write_deltalake(
                self._location,
                rows,
                mode="overwrite",
                schema_mode="overwrite",
                commit_properties=self._at(epoch),
            )

    def append(self, rows: pa.Table, epoch: int) -> None:
        """Add rows."""
        with translated(self._location, "written"):
            write_deltalake(self._location, rows, mode="append", commit_properties=self._at(epoch))

    def merge(self, rows: pa.Table, key: Sequence[str], epoch: int) -> None:
        """Update, insert and delete rows by their key, of which each is in ``rows`` once, with the column ``GONE``."""
        same = " AND ".join(f"(t.{_quoted(name)} IS NOT DISTINCT FROM s.{_quoted(name)})" for name in key)
        columns = {_quoted(name): f"s.{_quoted(name)}" for name in rows.column_names if name != GONE}
        with translated(self._location, "written"):
            table = DeltaTable(self._location)
            merging = table.merge(rows, same, source_alias="s", target_alias="t", commit_properties=self._at(epoch))
            merging.when_matched_delete(f"s.{GONE}").when_matched_update(columns).when_not_matched_insert(
                columns, f"NOT s.{GONE}"
            ).execute()

    def _at(self, epoch: int) -> Any:
        both = [Transaction(self._owner, epoch), Transaction(PUBLISHED, _mark(self._owner))]
        return CommitProperties(app_transactions=both)


def _mark(owner: str) -> int:
    """A number for an owner, different from those of others."""
    return int.from_bytes(sha256(owner.encode()).digest()[:7])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
