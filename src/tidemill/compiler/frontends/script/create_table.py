"""``CREATE TABLE`` and ``CREATE STREAM``: columns and constraints, checked as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.compiler.frontends.script.constraints import (
    declared_constraints,
    read_constraints,
    read_primary_key,
    refuse_undeclared_arguments,
    refuse_unenforced,
)
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.names.data_types import from_type, is_required, max_length
from tidemill.compiler.frontends.text.names import RESERVED_COLUMNS, check_identifier
from tidemill.model.errors import NameTaken, ParseError, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import Field


def read_table(tree: exp.Expr, source: SqlText, kept: bool) -> Table:
    """The table that a parsed ``CREATE`` declares."""
    if not isinstance(tree, exp.Create):
        raise ParseError("this cannot be read as a declaration", where=source.place(tree))
    refuse_table_clauses(tree, source)
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        raise ParseError("a table has columns", where=source.place(schema), hint="CREATE TABLE orders (id BIGINT, ...)")
    for item in schema.expressions:
        if isinstance(item, exp.Identifier):
            raise ParseError(f'column "{item.name.lower()}" has no type', where=source.place(item))
    columns = [item for item in schema.expressions if isinstance(item, exp.ColumnDef)]
    if not columns:
        raise ParseError("a table has at least one column", where=source.place(schema))
    constraints = declared_constraints(schema)
    refuse_unenforced(constraints, source)
    fields = read_fields(columns, source)
    primary_key = read_primary_key(constraints, fields, source)
    fields = tuple(replace(f, nullable=f.nullable and f.name not in primary_key) for f in fields)
    table = Table(table_name(schema.this, source), fields, primary_key, kept=kept)
    return read_constraints(table, constraints, source, table_name)


def refuse_table_clauses(tree: exp.Create, source: SqlText) -> None:
    """Refuse clauses that are not supported: ``AS SELECT``, ``USING``, ``PARTITIONED BY``."""
    if tree.expression:
        raise Unsupported(
            "CREATE TABLE AS SELECT is not supported",
            where=source.place(tree.expression),
            hint="Use CREATE MATERIALIZED VIEW; or declare the table, then INSERT.",
        )
    properties = tree.args.get("properties")
    for clause in properties.expressions if properties else ():
        if not isinstance(clause, exp.SchemaCommentProperty):
            raise Unsupported(
                "a table takes columns and keys only",
                where=source.place(clause),
                detail="A warehouse stores its tables in its own format.",
            )


def read_fields(columns: Sequence[exp.ColumnDef], source: SqlText) -> tuple[Field, ...]:
    """The columns, in order; their names must be unique and not reserved."""
    fields: dict[str, Field] = {}
    for column in columns:
        name = column.name.lower()
        if name in fields:
            raise NameTaken(f'column "{name}" is declared twice', where=source.place(column.this))
        if name in RESERVED_COLUMNS:
            raise NameTaken(
                f'a column cannot be called "{name}"',
                where=source.place(column.this),
                detail="The name is reserved for a column of the engine.",
            )
        if not isinstance(column.kind, exp.DataType):
            raise ParseError(f'column "{name}" has no type', where=source.place(column.this))
        refuse_undeclared_arguments(column, source)
        type_, length = from_type(column.kind, source), max_length(column.kind, source)
        fields[name] = Field(name, type_, not is_required(column), length)
    return tuple(fields.values())


def table_name(table: exp.Expr, source: SqlText) -> str:
    """A name of one part, in lower case."""
    if not isinstance(table, exp.Table) or table.args.get("db"):
        raise ParseError(
            "the name of a table has one part", where=source.place(table), detail="A warehouse is one schema."
        )
    return check_identifier(table.name, source.place(table))
