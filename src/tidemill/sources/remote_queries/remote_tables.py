"""Tables of other databases: what we call them and their columns, and what they are called there.

Names are lower case here, as everywhere in Tidemill; there they are whatever their owner wrote. A column says what may
be asked of it there: two databases that agree on what ``=`` means need not agree on ``<``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidemill.model.errors import UnknownName, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import Field

__all__ = ["RemoteColumn", "RemoteTable", "offered_tables", "table_named", "tables_by_name"]


@dataclass(frozen=True, slots=True)
class RemoteColumn:
    """A column as it stands there: its name, its type of ours, and how SQL writes values of it.

    ``sql`` is its type there; ``widened`` the type that it is read as, where its own would lose digits on the way.
    ``equal`` says whether equality means there what it means here, ``ordered`` whether the order does.
    """

    name: str
    field: Field
    sql: str
    equal: bool = True
    ordered: bool = True
    widened: str = ""


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """A table as it stands there, with ``notes`` on what was left out and why."""

    schema: str
    name: str
    columns: tuple[RemoteColumn, ...]
    key: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def table(self) -> Table:
        """The table as Tidemill knows it. A key with a column that was left out is no key."""
        fields = tuple(column.field for column in self.columns)
        names = {column.name: column.field.name for column in self.columns}
        usable = all(part in names for part in self.key)
        return Table(self.name.lower(), fields, tuple(names[part] for part in self.key) if usable else ())

    def column(self, name: str) -> RemoteColumn:
        """The column that we call ``name``."""
        return next(column for column in self.columns if column.field.name == name)


def tables_by_name(tables: Iterable[RemoteTable]) -> dict[str, RemoteTable]:
    """The tables by our names; of two that differ in case only, the first."""
    found: dict[str, RemoteTable] = {}
    for table in tables:
        found.setdefault(table.name.lower(), table)
    return found


def offered_tables(tables: Mapping[str, RemoteTable]) -> dict[str, Table]:
    """Those that have columns which we can read."""
    return {name: remote.table for name, remote in tables.items() if remote.columns}


def table_named(tables: Mapping[str, RemoteTable], name: str, source: str) -> RemoteTable:
    """The table ``name``, refused where it is not there or none of its columns can be read."""
    if name not in tables:
        known = ", ".join(sorted(tables)) or "none"
        raise UnknownName(f'source "{source}" has no table "{name}"', hint=f"Tables: {known}.")
    if not tables[name].columns:
        raise Unsupported(
            f'table "{name}" of source "{source}" has no column that can be read', detail=" ".join(tables[name].notes)
        )
    return tables[name]
