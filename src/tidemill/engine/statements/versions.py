"""``FROM orders VERSION AS OF 12``: tables and views of a SELECT as of earlier epochs, each at its own.

A table with a version gets a name that no other has, ``orders@12``, under which the query is translated and its rows
are read from the store. Materialized views cannot have versions: they follow the present.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import SCHEMA_NAMES
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.reader import require_epoch
from tidemill.model.errors import EpochGone, ParseError, Unsupported

Versions = Mapping[str, tuple[str, int]]
"""Tables and views with their epochs, by the names that the query has for them."""


def take_versions(engine: Engine, query: ParsedText) -> Versions:
    """Replace each table with a version in ``query`` by the name of that version."""
    found: dict[str, tuple[str, int]] = {}
    for table in list(query.node.find_all(exp.Table)):
        version = table.args.get("version")
        if version is None:
            continue
        name, epoch = _table_name(table), _epoch(version, query.source)
        _require_readable(engine, name, epoch, table, query.source)
        found[f"{name}@{epoch}"] = name, epoch
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
        for part in ("version", "db", "catalog"):
            table.set(part, None)
        table.this.set("this", f"{name}@{epoch}")
    return found


def _table_name(table: exp.Table) -> str:
    schema = tuple(part.lower() for part in (table.catalog, table.db) if part)
    return table.name.lower() if schema in SCHEMA_NAMES else ".".join((*schema, table.name.lower()))


def _epoch(version: exp.Version, source: SqlText) -> int:
    number = version.expression
    if version.this != "VERSION":
        raise Unsupported(
            "TIMESTAMP AS OF is not supported",
            where=source.place(number),
            detail="Epochs have numbers; when each was committed is not stored.",
            hint="Write VERSION AS OF with the number of an epoch; Warehouse.epoch is the last one.",
        )
    if not isinstance(number, exp.Literal) or not number.name.isdecimal():
        raise ParseError("VERSION AS OF takes the number of an epoch", where=source.place(number))
    return int(number.name)


def _require_readable(engine: Engine, name: str, epoch: int, table: exp.Table, source: SqlText) -> None:
    """Refuse what has no rows of that epoch: names for queries, streams, and views that did not exist."""
    if name not in engine.catalog:
        raise Unsupported(
            f'"{name}" has no versions',
            where=source.place(table),
            detail="Tables and materialized views of this warehouse have them.",
            hint="Write VERSION AS OF behind the tables of the query that it stands for.",
        )
    require_epoch(engine.store, epoch)
    view = engine.catalog.views.get(name)
    if view is not None and view.created > epoch:
        raise EpochGone(f'view "{name}" did not exist at epoch {epoch}', hint=f"It begins at {view.created}.")
