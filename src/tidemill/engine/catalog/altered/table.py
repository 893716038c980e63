"""``AlteredTable``: a table before and after a change, and what the change is to its stored rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidemill.changes.alterations import Alteration
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.model.schema import (
    CheckConstraint,
    ReferentialConstraint,
    Table,
    UniqueConstraint,
    late_table,
    names_of,
)
from tidemill.model.types import Field

__all__ = ["AlteredTable", "Constraint", "field_of", "with_field"]

Constraint = CheckConstraint | ReferentialConstraint | UniqueConstraint


@dataclass(frozen=True)
class AlteredTable:
    """A table after a change, and what the change is to its stored rows.

    ``renamed`` are new names of columns by the old ones, and ``dropped`` columns that are gone. Rows have to be looked
    at for columns that must not be NULL any more, which are ``required``, for a new primary ``key``, and for the
    ``constraints`` that are new.
    """

    before: Table
    table: Table
    alterations: tuple[Alteration, ...] = ()
    renamed: Mapping[str, str] | None = None
    dropped: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    def seen(self, names: Mapping[str, str] | None) -> dict[str, str] | None:
        """The columns that a view sees from now on, by the names that it knows; None if these are all, as they are."""
        known = {f.name: f.name for f in self.before.fields} if names is None else names
        renamed = self.renamed or {}
        left = {name: renamed.get(now, now) for name, now in known.items() if now not in self.dropped}
        return None if [*left.items()] == [(f.name, f.name) for f in self.table.fields] else left

    @property
    def is_stored_otherwise(self) -> bool:
        """True if rows to come are not stored as those that are there: with other columns, or in another order."""
        return bool(self.alterations) or names_of(self.before.fields) != names_of(self.table.fields)

    @property
    def late(self) -> AlteredTable | None:
        """The same change of the table of late changes, which has all columns; None if it has none before or after."""
        before, after = late_table(self.before), late_table(self.table)
        if before is None or after is None:
            return None
        return replace(self, before=before, table=after, key=(), constraints=())


def field_of(table: Table, column: str) -> Field:
    """A column of a table."""
    for field in table.fields:
        if field.name == column:
            return field
    raise unknown_name("column", column, names_of(table.fields))


def with_field(table: Table, column: str, field: Field) -> Table:
    """A table with another field in the place of a column."""
    return replace(table, fields=tuple(field if f.name == column else f for f in table.fields))
