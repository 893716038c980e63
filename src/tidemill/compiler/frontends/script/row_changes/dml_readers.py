"""SELECT, INSERT, UPDATE, DELETE and TRUNCATE, which sqlglot parses."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script.assignments import read_assignments
from tidemill.compiler.frontends.script.conflict_clause import read_conflict
from tidemill.compiler.frontends.script.definitions.create_table import table_name
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments
from tidemill.model.errors import ParseError, TextLocation, Unsupported

T = TypeVar("T", bound=exp.Expr)


def read_query(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """A SELECT, or the INSERT that follows a WITH."""
    cursor.position = 0
    tree = cursor.parse()
    if isinstance(tree, exp.Insert):
        return _insert(tree, cursor.source, place)
    return st.Select(place, ParsedText(tree, cursor.source))


def read_insert(cursor: StatementCursor, place: TextLocation) -> st.Insert:
    """``INSERT INTO | OVERWRITE [TABLE] name [(columns)] query [ON CONFLICT ...]``."""
    if not cursor.accept("OVERWRITE"):
        cursor.expect("INTO")
    return _insert(_parsed(cursor, exp.Insert), cursor.source, place)


def _insert(tree: exp.Insert, source: SqlText, place: TextLocation) -> st.Insert:
    refuse_unsupported_arguments(
        tree,
        source,
        hint="Write INSERT INTO table (columns) SELECT ..., or INSERT OVERWRITE for all of its rows.",
    )
    target, query = tree.this, tree.expression or tree.args.get("source")
    if isinstance(query, exp.Table):
        query = exp.select("*").from_(query)  # INSERT INTO t TABLE u
    if not isinstance(query, exp.Expr):
        raise ParseError("INSERT takes VALUES or a query", where=place, hint="Write INSERT INTO table VALUES (...).")
    if tree.args.get("with_") and query.args.get("with_"):
        raise Unsupported("an INSERT has one WITH", where=source.place(query), hint="Put both lists into one.")
    if tree.args.get("with_"):
        query.set("with_", tree.args["with_"])
    table = target.this if isinstance(target, exp.Schema) else target
    by_name, columns = bool(tree.args.get("by_name")), _columns(target, source)
    if by_name and columns is not None:
        raise ParseError("INSERT has a list of columns, or BY NAME", where=place)
    overwrite, conflict = bool(tree.args.get("overwrite")), read_conflict(tree.args.get("conflict"), source)
    if overwrite and conflict is not None:
        raise ParseError("INSERT OVERWRITE removes all rows, so none conflicts", where=place, hint="Use INSERT INTO.")
    name = changed_table(table, source, aliased=conflict is not None)
    alias = table.alias_or_name.lower() if isinstance(table, exp.Table) else name
    return st.Insert(
        place, name, columns, ParsedText(query, source), by_name, overwrite, conflict and conflict.called(alias)
    )


def _columns(target: exp.Expr, source: SqlText) -> tuple[str, ...] | None:
    """The columns that an INSERT names; None where it names none."""
    if not isinstance(target, exp.Schema):
        return None
    for column in target.expressions:
        if not isinstance(column, exp.Identifier):
            raise ParseError("the name of a column was expected here", where=source.place(column))
    return tuple(column.name.lower() for column in target.expressions)


def _parsed(cursor: StatementCursor, kind: type[T]) -> T:
    """The whole statement as the parser reads it."""
    cursor.position = 0
    tree = cursor.parse()
    if not isinstance(tree, kind):
        raise ParseError("this cannot be read as a statement", where=cursor.source.place(tree))
    return tree


def changed_table(table: exp.Expr, source: SqlText, aliased: bool = False) -> str:
    """The name of the table that a statement changes; only an alias may follow it."""
    if isinstance(table, exp.Table):
        bare = table.copy()
        alias = table.args.get("alias")
        if aliased and alias is not None and not alias.columns:
            bare.set("alias", None)
        refuse_unsupported_arguments(bare, source, reads=("this", "db", "catalog"))
    return table_name(table, source)


def read_update(cursor: StatementCursor, place: TextLocation) -> st.Update:
    """``UPDATE name SET column = value, ... [WHERE condition]``."""
    tree, source = _parsed(cursor, exp.Update), cursor.source
    refuse_unsupported_arguments(tree, source, hint="UPDATE takes SET and WHERE.")
    name, alias = changed_table(tree.this, source, aliased=True), tree.this.alias_or_name.lower()
    if not tree.expressions:
        raise ParseError("SET was expected in an UPDATE", where=place)
    return st.Update(place, name, read_assignments(tree.expressions, source), _where(tree, source), alias)


def read_delete(cursor: StatementCursor, place: TextLocation) -> st.Delete:
    """``DELETE FROM name [WHERE condition]``."""
    cursor.expect("FROM")
    tree, source = _parsed(cursor, exp.Delete), cursor.source
    refuse_unsupported_arguments(tree, source, hint="DELETE takes WHERE.")
    name = changed_table(tree.this, source, aliased=True)
    return st.Delete(place, name, _where(tree, source), tree.this.alias_or_name.lower())


def read_truncate(cursor: StatementCursor, place: TextLocation) -> st.Delete:
    """``TRUNCATE TABLE name``: a DELETE of every row."""
    name = cursor.name("table")
    return st.Delete(place, name, None, name)


def _where(tree: exp.Expr, source: SqlText) -> ParsedText | None:
    where = tree.args.get("where")
    return ParsedText(where.this, source) if where else None
