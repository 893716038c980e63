"""CREATE TABLE ... USING, REFRESH TABLE and DESCRIBE HISTORY: tables whose rows are those of a lake table."""

from __future__ import annotations

from dataclasses import replace

from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.catalog.ddl import ddl
from tidemill.engine.catalog.entries.lake_entry import LakeEntry
from tidemill.engine.engine import Engine
from tidemill.engine.remote.lake_versions import version_spans
from tidemill.engine.results import Result
from tidemill.model.errors import NameTaken, TypeMismatch, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, STRING, Field
from tidemill.sources.lake.columns import fields_of_schema
from tidemill.sources.lake.lake_table import LakeTable, version_shown
from tidemill.sources.lake.registry import checked_place, open_lake_table

__all__ = ["create_lake_table", "describe_history", "refresh_table"]


def create_lake_table(engine: Engine, statement: sql.CreateLakeTable) -> Result:
    """Add a table with the columns of a lake table, and take its newest version."""
    name = statement.name
    if name in engine.catalog:
        if statement.if_not_exists:
            return Result(message=f"{name} exists already")
        raise NameTaken(f'"{name}" exists already', hint="DROP it first, or add IF NOT EXISTS.")
    location, options = checked_place(statement.format, statement.location, statement.options)
    lake = LakeEntry(name, statement.format, location, options, declared=statement.table is not None)
    source = open_lake_table(lake.format, location, options)
    table = _table_of(statement, location, source)
    if not lake.keeps_rows:
        _require_no_rows_needed(table, lake, source)
        table = replace(table, kept=False)
    with engine.lakes.alone():
        engine.sources.create_lake_table(table, lake)
        try:
            came = engine.lakes.sync(name)
        except BaseException:
            engine.definitions.drop(name)
            raise
    engine.lakes.follow(lake)
    return Result(message=f"created table {name} at version {_version(engine, lake)}: {came}")


def _require_no_rows_needed(table: Table, lake: LakeEntry, source: LakeTable) -> None:
    """Refuse what cannot do without the rows of a table: keys, checks, and folders."""
    if not source.HAS_HISTORY:
        raise Unsupported(
            f"a table of {lake.format} files needs its rows",
            where=lake.location,
            detail="Of a file that is gone or has changed, the rows before are nowhere else.",
            hint="Leave out keep = 'none'.",
        )
    if table.primary_key or table.references or table.checks_rows or table.append_only or table.partitioning:
        raise Unsupported(
            f'lake table "{lake.name}" cannot have keys, checks or clauses without its rows',
            detail="They are compared with the rows that are kept, and none are.",
            hint="Leave them out, or leave out keep = 'none'.",
        )


def refresh_table(engine: Engine, statement: sql.RefreshTable) -> Result:
    """Take the newest version of a lake table."""
    lake = engine.lakes.find(statement.name)
    came = engine.lakes.sync(lake.name, rebuild=statement.rebuild)
    return Result(message=f"{lake.name} shows version {_version(engine, lake)} in epoch {engine.store.epoch}: {came}")


def describe_history(engine: Engine, statement: sql.DescribeHistory) -> Result:
    """List the versions of a lake table that were taken, and the epochs that show them, the newest first."""
    engine.flush()
    spans = version_spans(engine.store, engine.lakes.find(statement.name))
    rows = [(span.version, span.first, span.last) for span in reversed(spans)]
    return Result(rows, (Field("version", STRING), Field("first_epoch", BIGINT), Field("last_epoch", BIGINT)))


def _version(engine: Engine, lake: LakeEntry) -> str | None:
    return version_shown(engine.store.positions.get(lake.position, ""))


def _table_of(statement: sql.CreateLakeTable, location: str, source: LakeTable) -> Table:
    """The table that a statement declares, with the columns of the lake table."""
    declared = statement.table
    if declared is not None and not source.HAS_SCHEMA:
        return declared
    schema = source.schema()
    if declared is None:
        fields = fields_of_schema(schema, location)
        for column in statement.primary_key:
            if column not in {f.name for f in fields}:
                raise unknown_name("column", column, [f.name for f in fields], statement.place)
        key = statement.primary_key
        table = Table(statement.name, tuple(replace(f, nullable=f.nullable and f.name not in key) for f in fields), key)
        return _as_written(table)
    found = {f.name: f.type for f in fields_of_schema(schema, location, {f.name for f in declared.fields})}
    for field in declared.fields:
        if field.name not in found:
            raise unknown_name("column", field.name, map(str.lower, schema.names), statement.place)
        if found[field.name] != field.type:
            raise TypeMismatch(
                f'column "{field.name}" is {found[field.name]} in the lake table, not {field.declared}',
                where=statement.place,
                hint="Declare it so; convert it in the views that need another type.",
            )
    return declared


def _as_written(table: Table) -> Table:
    """The table as its declaration reads, so that a declaration that cannot be stored is refused here."""
    (statement,) = parse(ddl(table), name="lake table")
    assert isinstance(statement, sql.CreateTable)
    return statement.table
