"""ALTER TABLE and RENAME: columns and names of what is there."""

from __future__ import annotations

from tidemill.compiler.frontends.script import statements as sql
from tidemill.engine.catalog.altered_table import altered_table
from tidemill.engine.engine import Engine
from tidemill.engine.results import Result
from tidemill.model.errors import UnknownName

__all__ = ["alter_table", "rename"]


def alter_table(engine: Engine, statement: sql.AlterTable) -> Result:
    """Change the columns of a table; its rows stay as they are stored."""
    with engine.settled():
        table = engine.catalog.table(statement.name)
        if table.name in engine.catalog.lakes:
            raise engine.catalog.lakes[table.name].not_altered_here()
        altered = altered_table(table, statement.change, is_empty=not engine.store.rows(table.name))
        if altered.table == table:
            return Result(message=f"{table.name} is so already")
        kept = [view.name for view in engine.catalog.readers(table.name)] if altered.alterations else []
        dropped, rebuilt = engine.alterations.alter_columns(altered, cascade=statement.cascade)
    for view in dropped:
        engine.publications.drop(view)
    told = [f"altered table {table.name}"]
    if isinstance(statement.change, sql.AddColumns):
        names = [name for name in kept if "*" in engine.catalog.view(name).query]
        told += [f"{', '.join(names)} keeps the columns that SELECT * had"] if names else []
    told += [f"dropped {', '.join(dropped)}"] if dropped else []
    told += [f"rebuilt {', '.join(rebuilt)}"] if rebuilt else []
    return Result(message="; ".join(told))


def rename(engine: Engine, statement: sql.Rename) -> Result:
    """Give a table or view another name; the definitions of its readers follow."""
    engine.flush()
    name, named = statement.name, engine.catalog.named
    if statement.kind == "view" and name in named.queries:
        engine.alterations.rename_query(name, statement.to)
        return Result(message=f"renamed {name} to {statement.to}")
    entry = engine.catalog.view(name) if statement.kind == "view" else engine.catalog.table(name)
    if statement.kind == "view" and name in engine.session.definitions.queries:
        raise UnknownName(f'"{name}" is a temporary view', where=statement.place, hint="Create another one.")
    engine.alterations.rename(entry.name, statement.to)
    return Result(message=f"renamed {name} to {statement.to}")
