"""``FROM orders VERSION AS OF 12``: tables and views of a SELECT as of earlier epochs, each at its own.

``VERSION AS OF 'delta:17'`` names the epoch that shows version 17 of a lake table. A table with a version gets a name
that no other has, ``orders@12``, under which the query is translated.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import SCHEMA_NAMES
from tidemill.model.errors import ParseError, TextLocation, Unsupported
from tidemill.model.whole_numbers import whole_number


@dataclass(frozen=True, slots=True)
class LakeVersion:
    """A version of a lake table, such as ``delta:17``."""

    format: str
    version: str

    def __str__(self) -> str:
        return f"{self.format}:{self.version}"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table or view as of an epoch, or of a version of its lake table, and where the query names it."""

    table: str
    asked: int | LakeVersion
    place: TextLocation

    @property
    def name(self) -> str:
        """The name of this version in the query."""
        return f"{self.table}@{self.asked}"


def take_versions(query: ParsedText) -> list[TableVersion]:
    """The versions that ``query`` names; each table that has one is replaced by the name of that version."""
    found = []
    for table in list(query.node.find_all(exp.Table)):
        version = table.args.get("version")
        if version is None:
            continue
        taken = TableVersion(_table_name(table), _asked(version, query.source), query.source.place(table))
        found.append(taken)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
        for part in ("version", "db", "catalog"):
            table.set(part, None)
        table.this.set("this", taken.name)
    return found


def _table_name(table: exp.Table) -> str:
    schema = tuple(part.lower() for part in (table.catalog, table.db) if part)
    return table.name.lower() if schema in SCHEMA_NAMES else ".".join((*schema, table.name.lower()))


def _asked(version: exp.Version, source: SqlText) -> int | LakeVersion:
    number = version.expression
    if version.this != "VERSION":
        raise Unsupported(
            "TIMESTAMP AS OF is not supported",
            where=source.place(number),
            detail="Epochs have numbers; when each was committed is not stored.",
            hint="Write VERSION AS OF with the number of an epoch; Warehouse.epoch is the last one.",
        )
    if isinstance(number, exp.Literal):
        if number.name.isdecimal():
            return whole_number(number.name)
        format, colon, name = number.name.partition(":")
        if number.is_string and format and colon and name:
            return LakeVersion(format.strip().lower(), name.strip())
    raise ParseError(
        "VERSION AS OF takes the number of an epoch, or the version of a lake table",
        where=source.place(number),
        hint="VERSION AS OF 12, or VERSION AS OF 'delta:17'",
    )
