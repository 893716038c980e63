"""``CREATE TABLE`` and ``CREATE STREAM``: columns, keys and references, checked as they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp

from tidemill.compiler.frontends.kinds import from_declared, is_required
from tidemill.compiler.frontends.names import unknown
from tidemill.compiler.frontends.places import Source
from tidemill.model.errors import NameTaken, ParseError, Place, Unsupported
from tidemill.model.schema import EPOCH, WEIGHT, Reference, Table, names_of
from tidemill.model.types import Field

RESERVED = (WEIGHT, EPOCH)

HARMLESS = (exp.NotNullColumnConstraint, exp.CommentColumnConstraint, exp.PrimaryKeyColumnConstraint, exp.Reference)


def read_table(tree: exp.Expr, source: Source, kept: bool) -> Table:
    """The table that a parsed ``CREATE`` declares."""
    if not isinstance(tree, exp.Create):
        raise ParseError("this cannot be read as a declaration", where=source.place(tree))
    refuse_clauses(tree, source)
    schema = tree.this
    if not isinstance(schema, exp.Schema):
        raise ParseError("a table has columns", where=source.place(schema), hint="CREATE TABLE orders (id BIGINT, ...)")
    for item in schema.expressions:
        if isinstance(item, exp.Identifier):
            raise ParseError(f'column "{item.name.lower()}" has no type', where=source.place(item))
    columns = [item for item in schema.expressions if isinstance(item, exp.ColumnDef)]
    if not columns:
        raise ParseError("a table has at least one column", where=source.place(schema))
    keys = [item for item in flat_constraints(schema) if not isinstance(item, exp.ColumnDef)]
    fields = read_fields(columns, source)
    primary_key = read_primary_key(columns, keys, fields, source)
    fields = tuple(Field(f.name, f.type, f.nullable and f.name not in primary_key) for f in fields)
    references = tuple(read_references(columns, keys, fields, source))
    return Table(table_name(schema.this, source), fields, primary_key, references, kept)


def refuse_clauses(tree: exp.Create, source: Source) -> None:
    """Clauses that would promise what we do not keep: ``AS SELECT``, ``USING``, ``PARTITIONED BY``."""
    if tree.expression:
        raise Unsupported(
            "CREATE TABLE AS SELECT is not supported",
            where=source.place(tree.expression),
            hint="CREATE MATERIALIZED VIEW keeps a query; or declare the table, then INSERT.",
        )
    properties = tree.args.get("properties")
    for clause in properties.expressions if properties else ():
        if not isinstance(clause, exp.SchemaCommentProperty):
            raise Unsupported(
                "a table takes columns and keys only",
                where=source.place(clause),
                detail="A warehouse stores its tables in its own format.",
            )


def flat_constraints(schema: exp.Schema) -> Iterator[exp.Expr]:
    """The items of a declaration; a named constraint is the constraint that it names."""
    for item in schema.expressions:
        yield from item.expressions if isinstance(item, exp.Constraint) else (item,)


def read_fields(columns: Sequence[exp.ColumnDef], source: Source) -> tuple[Field, ...]:
    """The columns, in order; their names are unique and not ours."""
    fields: dict[str, Field] = {}
    for column in columns:
        name = column.name.lower()
        if name in fields:
            raise NameTaken(f'column "{name}" is declared twice', where=source.place(column.this))
        if name in RESERVED:
            raise NameTaken(
                f'a column cannot be called "{name}"',
                where=source.place(column.this),
                detail="Under that name the engine carries a fact about each row.",
            )
        if not isinstance(column.kind, exp.DataType):
            raise ParseError(f'column "{name}" has no type', where=source.place(column.this))
        refuse_constraints(column, source)
        fields[name] = Field(name, from_declared(column.kind, source), not is_required(column))
    return tuple(fields.values())


def refuse_constraints(column: exp.ColumnDef, source: Source) -> None:
    """DEFAULT, CHECK, UNIQUE and GENERATED columns: they are not enforced, so they are not accepted."""
    for constraint in column.constraints:
        if not isinstance(constraint.args["kind"], HARMLESS):
            raise Unsupported(
                f'column "{column.name.lower()}" can be declared NOT NULL, PRIMARY KEY or REFERENCES only',
                where=source.place(constraint),
            )


def read_primary_key(
    columns: Sequence[exp.ColumnDef], keys: Sequence[exp.Expr], fields: Sequence[Field], source: Source
) -> tuple[str, ...]:
    """The one primary key, declared beside its column or after all columns."""
    found: list[Sequence[exp.Expr]] = [[c.this] for c in columns if has_constraint(c, exp.PrimaryKeyColumnConstraint)]
    found += [key.expressions for key in keys if isinstance(key, exp.PrimaryKey)]
    if len(found) > 1:
        raise ParseError(
            "a table has one primary key",
            where=source.place(found[1][0]),
            hint="Name all of its columns at the end: PRIMARY KEY (a, b).",
        )
    return own_columns(found[0], fields, source) if found else ()


def has_constraint(column: exp.ColumnDef, kind: type[exp.Expr]) -> bool:
    """Whether a column carries a constraint of that kind."""
    return any(isinstance(constraint.args["kind"], kind) for constraint in column.constraints)


def read_references(
    columns: Sequence[exp.ColumnDef], keys: Sequence[exp.Expr], fields: Sequence[Field], source: Source
) -> Iterator[Reference]:
    """Foreign keys, declared beside their column or after all columns."""
    for column in columns:
        for constraint in column.constraints:
            if isinstance(constraint.args["kind"], exp.Reference):
                yield read_reference([column.this], constraint.args["kind"], fields, source)
    for key in keys:
        if isinstance(key, exp.ForeignKey):
            yield read_reference(key.expressions, key.args["reference"], fields, source)
        elif not isinstance(key, exp.PrimaryKey):
            raise Unsupported("this constraint is not supported", where=source.place(key))


def read_reference(
    columns: Sequence[exp.Expr], reference: exp.Reference, fields: Sequence[Field], source: Source
) -> Reference:
    """``columns REFERENCES table (referenced)``; without the last part it is the other table's primary key."""
    target = reference.this
    if isinstance(target, exp.Table):
        return Reference(own_columns(columns, fields, source), table_name(target, source), ())
    if not isinstance(target, exp.Schema) or len(target.expressions) != len(columns):
        raise ParseError(
            "REFERENCES names one column for each column that refers",
            where=source.place(target),
            hint=f"Write REFERENCES {target.name.lower()}(id), with the name of its key.",
        )
    referenced = tuple(column.name.lower() for column in target.expressions)
    return Reference(own_columns(columns, fields, source), table_name(target.this, source), referenced)


def own_columns(columns: Sequence[exp.Expr], fields: Sequence[Field], source: Source) -> tuple[str, ...]:
    """The names of columns of this very table."""
    names = names_of(fields)
    for column in columns:
        if column.name.lower() not in names:
            raise unknown("column", column.name.lower(), names, source.place(column))
    return tuple(column.name.lower() for column in columns)


def table_name(table: exp.Expr, source: Source) -> str:
    """A name of one part, in lower case."""
    if not isinstance(table, exp.Table) or table.args.get("db"):
        raise ParseError(
            "the name of a table has one part", where=source.place(table), detail="A warehouse is one schema."
        )
    return checked_name(table.name, source.place(table))


def checked_name(name: str, place: Place) -> str:
    """``name`` in lower case. It becomes part of file names and of the names of stages, so it is made of words only."""
    if not re.fullmatch(r"\w+", name):
        raise ParseError(
            f'"{name}" cannot be the name of a table or view',
            where=place,
            hint="Use letters, digits and underscores.",
        )
    return name.lower()
