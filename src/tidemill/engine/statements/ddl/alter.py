"""ALTER TABLE and RENAME: columns, constraints, bounds and names of what is there."""

from __future__ import annotations

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.script.table_changes import AddColumns, TableChange
from tidemill.engine.catalog.altered.change import altered_table
from tidemill.engine.catalog.altered.table import AlteredTable
from tidemill.engine.catalog.entries.constraints import missing_parents
from tidemill.engine.catalog.refresh_mode import sync_interval
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result
from tidemill.model.errors import UnknownName, Unsupported

__all__ = ["alter_table", "rename"]


def alter_table(engine: Engine, statement: sql.AlterTable) -> Result:
    """Change a table; its rows stay as they are stored."""
    if statement.if_exists and statement.name not in engine.catalog:
        return Result(message=f"there is no {statement.name}")
    with engine.settled():
        table = engine.catalog.table(statement.name)
        _require_kind(engine, statement, table.name)
        if table.name in engine.catalog.lakes:
            raise engine.catalog.lakes[table.name].not_altered_here()
        engine.altering.tables.require_alterable(table.name)
        altered = altered_table(table, statement.change, is_empty=not engine.store.rows(table.name))
        engine.catalog.require_not_followed(table.name, "altered", _unchanged(altered))
        if altered.table == table:
            return Result(message=f"{table.name} is so already")
        dropped, rebuilt = engine.altering.tables.alter(altered, cascade=statement.cascade)
    for view in dropped:
        engine.publications.drop(view)
    told = [f"altered {statement.kind} {table.name}"]
    told += _told_of_readers(engine, altered, statement.change)
    told += [f"dropped {', '.join(dropped)}"] if dropped else []
    told += [f"rebuilt {', '.join(rebuilt)}"] if rebuilt else []
    return Result(message="; ".join(told))


def _unchanged(altered: AlteredTable) -> set[str]:
    """The columns that have the names and types that they had."""
    before = {(f.name, f.type) for f in altered.before.fields}
    return {f.name for f in altered.table.fields if (f.name, f.type) in before}


def _require_kind(engine: Engine, statement: sql.AlterTable | sql.Rename, name: str) -> None:
    """Refuse ALTER STREAM of a table; ALTER TABLE takes both."""
    if statement.kind == "stream" and not engine.catalog.is_stream(name):
        raise UnknownName(f'"{name}" is a table', where=statement.place, hint="Use ALTER TABLE.")


def _told_of_readers(engine: Engine, altered: AlteredTable, change: TableChange) -> list[str]:
    """Notes on a change for readers and users."""
    absent = missing_parents(altered.table, engine.catalog.tables)
    absent = [name for name in absent if name not in missing_parents(altered.before, engine.catalog.tables)]
    told = [f"it refers to {', '.join(absent)}, which is not there yet"] if absent else []
    if isinstance(change, AddColumns) and altered.alterations:
        readers = engine.catalog.readers(altered.table.name)
        names = [view.name for view in readers if "*" in view.query]
        if names:
            told.append(f"{_listed(names)} keep{'' if len(names) > 1 else 's'} the columns that SELECT * had")
    return told


def _listed(names: list[str]) -> str:
    """Names in a sentence.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def alter_sync(engine: Engine, statement: sql.AlterSync) -> Result:
    """Sync the views over a source, or ingest the files of a feed, at other times."""
    other = [option for option in statement.options if option != "sync"]
    if other or not statement.options:
        raise Unsupported(
            f'option "{other[0]}" of {statement.kind} "{statement.name}" cannot be altered' if other else "no option",
            where=statement.place,
            detail=f"What a {statement.kind} is connected to, and how it is read, stays as it is.",
            hint=f"ALTER {statement.kind.upper()} takes SET (sync = ...). For others DROP it, and CREATE it again.",
        )
    sync_interval(statement.options)
    alter = engine.sources.sync_source if statement.kind == "source" else engine.sources.sync_feed
    alter(statement.name, statement.options["sync"])
    return Result(message=f"altered {statement.kind} {statement.name}")


def rename(engine: Engine, statement: sql.Rename) -> Result:
    """Give a table or view another name; the definitions of its readers follow."""
    engine.flush()
    name, named = statement.name, engine.catalog.named
    if statement.if_exists and name not in engine.catalog and name not in named.queries:
        return Result(message=f"there is no {name}")
    if statement.kind == "view" and name in named.queries:
        engine.altering.names.rename_query(name, statement.to)
        return Result(message=f"renamed {name} to {statement.to}")
    entry = engine.catalog.view(name) if statement.kind == "view" else engine.catalog.table(name)
    _require_kind(engine, statement, entry.name)
    if statement.kind == "view" and name in engine.session.definitions.queries:
        raise UnknownName(f'"{name}" is a temporary view', where=statement.place, hint="Create another one.")
    engine.catalog.require_not_followed(entry.name, "renamed")
    engine.altering.names.rename(entry.name, statement.to)
    return Result(message=f"renamed {name} to {statement.to}")
