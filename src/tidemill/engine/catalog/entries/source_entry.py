"""Catalog entries of sources: how to connect to each, and the tables that it offers to views.

The tables are recorded when the source is created. So a warehouse opens and compiles its views without a connection,
and a schema change of a source is detected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.catalog.ddl import ddl
from tidemill.engine.catalog.refresh_mode import MANUAL, sync_interval
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.sources.registry import open_source
from tidemill.sources.secrets import Secrets
from tidemill.sources.source import Source


@dataclass(frozen=True)
class SourceEntry:
    """Catalog entry of a source. Its ``options`` may be stored and shown; they contain no secrets."""

    name: str
    kind: str
    options: Mapping[str, str]
    tables: Mapping[str, Table]

    @classmethod
    def found(cls, name: str, kind: str, options: Mapping[str, str], secrets: Secrets) -> SourceEntry:
        """The entry of a source from its present schema; raises if it cannot be reached or its options are wrong."""
        sync_interval(options)
        source = open_source(name, kind, _of_source(options), secrets)
        try:
            return cls(name, kind, dict(options), dict(source.tables))
        finally:
            source.close()

    @property
    def relations(self) -> dict[str, tuple[Field, ...]]:
        """The fields of its tables, by their names in queries."""
        return {f"{self.name}.{table.name}": table.fields for table in self.tables.values()}

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """The primary keys of its tables, by their names in queries."""
        return {f"{self.name}.{t.name}": t.primary_key for t in self.tables.values() if t.primary_key}

    @property
    def sync(self) -> str:
        """The option ``sync``: when views over it are synced."""
        return self.options.get("sync", MANUAL)

    def open(self, reader: str, secrets: Secrets, patience: float | None = None) -> Source:
        """A connection that follows the changes of the source for ``reader``, which is different for each view.

        ``patience``, if given, is the longest time in seconds for which a lost connection is retried.
        """
        return open_source(self.name, self.kind, self._given(reader, patience), secrets, self._columns)

    def look(self, reader: str, secrets: Secrets) -> Source:
        """A short-lived connection to describe the queries of ``reader``; it creates nothing in the source."""
        given = self._given(reader, 2.0) | {"setup": "exists"}
        return open_source(self.name, self.kind, given, secrets, self._columns)

    @property
    def _columns(self) -> dict[str, list[str]]:
        """The columns that views know: those that came later are of no concern to them."""
        return {name: [field.name for field in table.fields] for name, table in self.tables.items()}

    def _given(self, reader: str, patience: float | None) -> dict[str, str]:
        given = _of_source(self.options)
        given["reader"] = f"{given.get('reader', self.name)}_{reader}"
        if patience is not None:
            given["patience"] = str(min(patience, float(given.get("patience", patience))))
        return given

    def to_json(self) -> dict[str, Any]:
        """The source in the form that the catalog stores."""
        tables = [ddl(table) for table in self.tables.values()]
        return {"name": self.name, "kind": self.kind, "options": dict(self.options), "tables": tables}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> SourceEntry:
        """The source from its stored form."""
        return cls(item["name"], item["kind"], item["options"], {t.name: t for t in map(_table, item["tables"])})


def _of_source(options: Mapping[str, str]) -> dict[str, str]:
    """The options of the source itself, without ``sync``, which is for the warehouse."""
    return {name: text for name, text in options.items() if name != "sync"}


def _table(text: str) -> Table:
    (statement,) = parse(text, name="catalog")
    if not isinstance(statement, CreateTable):
        raise ValueError(text)
    return statement.table
