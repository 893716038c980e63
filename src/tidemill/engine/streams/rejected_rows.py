"""Bad rows of files in a table of their own: those that their table cannot take, with file, line and reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.streams.options import ERROR_FIELDS, ON_ERROR, errors_table
from tidemill.model.choices import require_choice
from tidemill.model.errors import InvalidArgument, UnknownName
from tidemill.model.schema import Table
from tidemill.sources.ingest.files import Reject

__all__ = ["rejected", "rejects_of", "table_of_rejects"]


def rejects_of(on_error: str, mode: str = "append") -> list[Reject] | None:
    """A list for bad rows, if they are to be set aside; None if the first one refuses everything."""
    require_choice("on_error", on_error, ON_ERROR)
    if on_error == "quarantine" and mode != "append":
        raise InvalidArgument(
            f'on_error="quarantine" is not for mode="{mode}"', hint="Give reject=, a file for bad rows."
        )
    return [] if on_error == "quarantine" else None


def table_of_rejects(catalog: Catalog, table: Table) -> Table | None:
    """The table to be made for the bad rows of ``table``; None if it is there."""
    existing = catalog.tables.get(f"{table.name}_errors")
    made = errors_table(table, existing)
    return made if existing is None else None


def rejected(catalog: Catalog, table: Table, source: str, rejects: Sequence[Reject]) -> dict[str, ChangeSet]:
    """The change that brings bad rows to their table: ``source`` or the file, the line, the reason and the text."""
    if not rejects:
        return {}
    name = f"{table.name}_errors"
    if name not in catalog.tables:
        raise UnknownName(f'there is no table "{name}" for bad rows of "{table.name}"', hint="Make the feed again.")
    return {name: ChangeSet.of(_rows(source, rejects), ERROR_FIELDS)}


def _rows(source: str, rejects: Iterable[Reject]) -> Iterable[tuple[tuple[object, ...], int]]:
    for one in rejects:
        yield (source or one.file, one.line, one.reason, one.text), 1
