"""Tables of other databases: our names for them and their columns, and their names there.

Names are lower case here, as everywhere in Tidemill; there they may have any spelling. A column says which comparisons
the source can evaluate: two databases that agree on ``=`` need not agree on ``<``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidemill.model.errors import UnknownName, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import Field

__all__ = ["RemoteColumn", "RemoteTable", "offered_tables", "table_named", "tables_by_name"]


@dataclass(frozen=True, slots=True)
class RemoteColumn:
    """A column of the source: its name there, our type for it, and its SQL type.

    ``sql`` is its type there; ``widened`` the type as which it is read, if its own would lose digits on the way.
    ``equal`` is true if equality has the same meaning there as here, ``ordered`` if the order does.
    """

    name: str
    field: Field
    sql: str
    equal: bool = True
    ordered: bool = True
    widened: str = ""


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """A table of the source, with ``notes`` on what was left out and why.

    ``filter`` is the source's own text of a condition that rows must meet to be part of the table; ``partitioned`` is
    true if the rows are in its partitions.
    """

    schema: str
    name: str
    columns: tuple[RemoteColumn, ...]
    key: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    filter: str = ""
    partitioned: bool = False

    @property
    def table(self) -> Table:
        """The table as Tidemill declares it. A key with a column that was left out is no key."""
        fields = tuple(column.field for column in self.columns)
        names = {column.name: column.field.name for column in self.columns}
        usable = all(part in names for part in self.key)
        return Table(self.name.lower(), fields, tuple(names[part] for part in self.key) if usable else ())

    def only(self, names: Collection[str]) -> RemoteTable:
        """The table without the columns that are not among ``names``."""
        return replace(self, columns=tuple(column for column in self.columns if column.field.name in names))

    def column(self, name: str) -> RemoteColumn:
        """The column that we call ``name``."""
        return next(column for column in self.columns if column.field.name == name)


def tables_by_name(tables: Iterable[RemoteTable]) -> dict[str, RemoteTable]:
    """The tables by our names; if two differ only in case, the first."""
    found: dict[str, RemoteTable] = {}
    for table in tables:
        found.setdefault(table.name.lower(), table)
    return found


def offered_tables(tables: Mapping[str, RemoteTable]) -> dict[str, Table]:
    """The tables that have readable columns."""
    return {name: remote.table for name, remote in tables.items() if remote.columns}


def table_named(tables: Mapping[str, RemoteTable], name: str, source: str) -> RemoteTable:
    """The table ``name``, refused if it does not exist or none of its columns can be read."""
    if name not in tables:
        known = ", ".join(sorted(tables)) or "none"
        raise UnknownName(f'source "{source}" has no table "{name}"', hint=f"Tables: {known}.")
    if not tables[name].columns:
        raise Unsupported(
            f'table "{name}" of source "{source}" has no column that can be read', detail=" ".join(tables[name].notes)
        )
    return tables[name]
