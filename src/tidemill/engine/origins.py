"""Sources as the catalog knows them: how each is reached, and which tables it offers to views.

The tables are written down when the source is created. So a warehouse opens and compiles its views without asking
anybody, and a source that has changed its tables is noticed and not followed blindly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.compiler.frontends.sql import parse
from tidemill.compiler.frontends.statements import CreateTable
from tidemill.engine.ddl import ddl
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.sources.autonomous import open_source
from tidemill.sources.source import Source


@dataclass(frozen=True)
class Origin:
    """A source by name. Its ``options`` are text that may be stored and shown; secrets are not among them."""

    name: str
    kind: str
    options: Mapping[str, str]
    tables: Mapping[str, Table]

    @classmethod
    def found(cls, name: str, kind: str, options: Mapping[str, str]) -> Origin:
        """The source as it is now; raises where it cannot be reached, or its options are wrong."""
        source = open_source(name, kind, options)
        try:
            return cls(name, kind, dict(options), dict(source.tables))
        finally:
            source.close()

    @property
    def relations(self) -> dict[str, tuple[Field, ...]]:
        """The fields of its tables, by the names that queries have for them."""
        return {f"{self.name}.{table.name}": table.fields for table in self.tables.values()}

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """The primary keys of its tables, by the names that queries have for them."""
        return {f"{self.name}.{t.name}": t.primary_key for t in self.tables.values() if t.primary_key}

    def open(self, reader: str) -> Source:
        """A connection that follows the source for ``reader``, who is somebody else for each view."""
        mine = f"{self.options.get('reader', self.name)}_{reader}"
        return open_source(self.name, self.kind, {**self.options, "reader": mine})

    def to_json(self) -> dict[str, Any]:
        """The source as it stands in the catalog."""
        tables = [ddl(table) for table in self.tables.values()]
        return {"name": self.name, "kind": self.kind, "options": dict(self.options), "tables": tables}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Origin:
        """The source that the catalog has."""
        return cls(item["name"], item["kind"], item["options"], {t.name: t for t in map(_table, item["tables"])})


def _table(text: str) -> Table:
    (statement,) = parse(text, name="catalog")
    if not isinstance(statement, CreateTable):
        raise ValueError(text)
    return statement.table
