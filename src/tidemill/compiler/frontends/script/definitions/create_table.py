"""``CREATE TABLE`` and ``CREATE STREAM``: columns and constraints, checked as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.compiler.frontends.script.definitions.constraints import (
    declared_constraints,
    read_constraints,
    read_primary_key,
    refuse_undeclared_arguments,
    refuse_unenforced,
)
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import ONE_SCHEMA, SCHEMA_NAMES
from tidemill.compiler.frontends.sql.names.data_types import from_type, is_required, max_length
from tidemill.compiler.frontends.text.names import RESERVED_COLUMNS, check_identifier
from tidemill.model.errors import NameTaken, ParseError, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import Field


def read_table(tree: exp.Expr, source: SqlText, kept: bool) -> Table:
    """The table that a parsed ``CREATE`` declares."""
    schema = declaration_of(tree, source)
    for item in schema.expressions:
        if isinstance(item, exp.Identifier):
            raise ParseError(f'column "{item.name.lower()}" has no type', where=source.place(item))
    columns = [item for item in schema.expressions if isinstance(item, exp.ColumnDef)]
    if not columns:
        raise ParseError("a table has at least one column", where=source.place(schema))
    collate_types(columns)
    constraints = declared_constraints(schema)
    refuse_unenforced(constraints, source)
    fields = read_fields(columns, source)
    primary_key = read_primary_key(constraints, fields, source)
    fields = tuple(replace(f, nullable=f.nullable and f.name not in primary_key) for f in fields)
    table = Table(table_name(schema.this, source), fields, primary_key, kept=kept)
    return read_constraints(table, constraints, source, table_name)


def declaration_of(tree: exp.Expr, source: SqlText) -> exp.Schema:
    """The columns and constraints of a parsed ``CREATE``."""
    if not isinstance(tree, exp.Create):
        raise ParseError("this cannot be read as a declaration", where=source.place(tree))
    refuse_table_clauses(tree, source)
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        raise ParseError("a table has columns", where=source.place(schema), hint="CREATE TABLE orders (id BIGINT, ...)")
    return schema


MEANINGLESS_CLAUSES = (exp.SchemaCommentProperty, exp.FileFormatProperty, exp.Property)
"""COMMENT, USING and TBLPROPERTIES, which mean nothing here: a warehouse stores its tables in its own format."""


def refuse_table_clauses(tree: exp.Create, source: SqlText) -> None:
    """Refuse clauses that are not supported, such as LOCATION and PARTITIONED BY."""
    properties = tree.args.get("properties")
    for clause in properties.expressions if properties else ():
        if type(clause) not in MEANINGLESS_CLAUSES:
            raise Unsupported(
                "a table takes columns and keys only",
                where=source.place(clause),
                detail="A warehouse stores its tables in its own format, where it is.",
                hint="Leave the clause out; a table of time partitions has PARTITION BY column EVERY length.",
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
        char = length if column.kind.this == exp.DType.CHAR else None
        fields[name] = Field(name, type_, not is_required(column), length, char)
    return tuple(fields.values())


def collate_types(columns: Sequence[exp.ColumnDef]) -> None:
    """Make ``COLLATE name``, which the parser takes for a constraint of a column, a part of its type."""
    for column in columns:
        for constraint in list(column.constraints):
            if isinstance(constraint.args["kind"], exp.CollateColumnConstraint) and column.kind:
                column.kind.set("collate", constraint.args["kind"].this)
                constraint.pop()


def table_name(table: exp.Expr, source: SqlText) -> str:
    """A name of one part, perhaps with the schema before it, in lower case."""
    schema = tuple(part.lower() for part in (table.catalog, table.db) if part) if isinstance(table, exp.Table) else None
    if schema not in SCHEMA_NAMES:
        raise ParseError("the name of a table has one part", where=source.place(table), detail=ONE_SCHEMA)
    return check_identifier(table.name, source.place(table))
