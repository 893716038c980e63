"""Rows of files and, in the same epoch, those that their table cannot take."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.engine import Engine
from tidemill.engine.streams.rejected_rows import rejected, table_of_rejects
from tidemill.model.schema import Table
from tidemill.sources.ingest.files import Reject

__all__ = ["apply_with_rejects"]


def apply_with_rejects(engine: Engine, table: Table, change: ChangeSet, rejects: Sequence[Reject]) -> int:
    """Commit rows of files and, with them, those that their table cannot take; returns the epoch."""
    made = table_of_rejects(engine.catalog, table)
    if made is not None:
        engine.definitions.create_table(made)
    return engine.apply({table.name: change, **rejected(engine.catalog, table, "", rejects)})
