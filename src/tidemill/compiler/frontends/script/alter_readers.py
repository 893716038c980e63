"""``ALTER TABLE`` and ``ALTER VIEW``: the changes of columns and names, as plain data."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script.create_table import read_table
from tidemill.compiler.frontends.script.options import read_options
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.compiler.frontends.viewdf.parse import is_definition, read_definition
from tidemill.model.errors import ParseError, TextLocation, Unsupported
from tidemill.model.schema import Table

__all__ = ["read_alter_table", "read_alter_view", "read_cascade", "take_cascade"]


def read_alter_view(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """``ALTER [MATERIALIZED] VIEW name SET (options)``, ``… RENAME TO name`` or ``… AS query [CASCADE]``."""
    cursor.accept("MATERIALIZED")
    cursor.expect("VIEW")
    name = cursor.name("view")
    if cursor.accept("RENAME"):
        cursor.expect("TO")
        return st.Rename(place, "view", name, cursor.name("view"))
    if cursor.accept("AS"):
        cascade = take_cascade(cursor)
        query = cursor.text(cursor.position) if cursor.rest else ""
        tree = read_definition(cursor, name) if is_definition(cursor) else ParsedText(cursor.parse(), cursor.source)
        return st.CreateView(place, name, query, {}, cursor.text(), tree, False, True, cascade, alters=True)
    cursor.expect("SET")
    return st.AlterView(place, name, read_options(cursor))


def take_cascade(cursor: StatementCursor) -> bool:
    """Take ``CASCADE`` from the end of a query; a column of that name has AS, a comma or a point before it."""
    *_, before, last = cursor.tokens
    if not cursor.is_word(last, "CASCADE") or before.text.upper() in ("AS", ",", ".", "SELECT", "DISTINCT", "BY"):
        return False
    cursor.tokens = cursor.tokens[:-1]
    return True


def read_alter_table(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """``ALTER TABLE name``: ``RENAME TO``, ``ADD``, ``DROP``, ``RENAME`` and ``ALTER COLUMN``, and the primary key."""
    name = cursor.name("table")
    if cursor.accept("RENAME", "TO"):
        return st.Rename(place, "table", name, cursor.name("table"))
    if cursor.accept("RENAME", "COLUMN"):
        column = cursor.column_name()
        cursor.expect("TO")
        return st.AlterTable(place, name, st.RenameColumn(column, cursor.column_name()))
    if cursor.accept("ADD", "PRIMARY KEY"):
        cursor.expect("(")
        key = _column_names(cursor)
        cursor.expect(")")
        return st.AlterTable(place, name, st.SetPrimaryKey(key))
    if cursor.accept("DROP", "PRIMARY KEY"):
        return st.AlterTable(place, name, st.SetPrimaryKey())
    if cursor.accept("ADD"):
        return st.AlterTable(place, name, _added_columns(cursor))
    if cursor.accept("DROP"):
        return _drop_columns(cursor, place, name)
    if cursor.accept("ALTER") or cursor.accept("CHANGE"):
        cursor.accept("COLUMN")
        return st.AlterTable(place, name, _altered_column(cursor))
    raise Unsupported(
        "this change of a table is not supported",
        where=cursor.place,
        hint="ALTER TABLE takes RENAME TO, ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, and ADD and "
        "DROP PRIMARY KEY.",
    )


def _added_columns(cursor: StatementCursor) -> st.AddColumns:
    """``ADD COLUMN c TYPE [NOT NULL] [DEFAULT literal]``, or ``ADD COLUMNS (…, …)``."""
    if not cursor.accept("COLUMNS"):
        cursor.expect("COLUMN")
    if not cursor.rest:
        raise cursor.expected("a column and its type")
    declared = list(cursor.rest)
    if declared[0].token_type == TokenType.L_PAREN and declared[-1].token_type == TokenType.R_PAREN:
        declared = declared[1:-1]
    place = cursor.place
    table = _declared(cursor, declared)
    if table.primary_key or table.references or table.checks:
        raise Unsupported(
            "a column is added with NOT NULL and DEFAULT only",
            where=place,
            detail="Keys and checks belong to the declaration of the table.",
        )
    return st.AddColumns(table.fields, dict(table.defaults))


def _declared(cursor: StatementCursor, columns: Sequence[Token]) -> Table:
    """The columns as those of a table; what is declared so has its places in the text."""
    first = cursor.tokens[0]

    def word(kind: TokenType, text: str) -> Token:
        return Token(kind, text, first.line, first.col, first.start, first.end)

    head = (word(TokenType.CREATE, "CREATE"), word(TokenType.TABLE, "TABLE"), word(TokenType.VAR, "altered"))
    tree = cursor.source.parse((*head, word(TokenType.L_PAREN, "("), *columns, word(TokenType.R_PAREN, ")")))
    cursor.position = len(cursor.tokens)
    return read_table(tree, cursor.source, kept=True)


def _drop_columns(cursor: StatementCursor, place: TextLocation, name: str) -> st.AlterTable:
    """``DROP COLUMN [IF EXISTS] c [CASCADE]``, or ``DROP COLUMNS (a, b)``."""
    if not cursor.accept("COLUMNS"):
        cursor.expect("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    bracketed = cursor.accept("(")
    columns = _column_names(cursor)
    if bracketed:
        cursor.expect(")")
    cascade = read_cascade(cursor)
    return st.AlterTable(place, name, st.DropColumns(columns, if_exists), cascade)


def _column_names(cursor: StatementCursor) -> tuple[str, ...]:
    """``a, b``."""
    columns = [cursor.column_name()]
    while cursor.accept(","):
        columns.append(cursor.column_name())
    return tuple(columns)


def _altered_column(cursor: StatementCursor) -> st.ColumnChange:
    """``c TYPE type``, ``c SET | DROP NOT NULL``, ``c SET DEFAULT value`` or ``c DROP DEFAULT``."""
    name_token, column = cursor.token, cursor.column_name()
    assert name_token is not None
    if cursor.accept("SET", "NOT", "NULL"):
        return st.SetNullable(column, nullable=False)
    if cursor.accept("DROP", "NOT", "NULL"):
        return st.SetNullable(column, nullable=True)
    if cursor.accept("DROP", "DEFAULT"):
        return st.SetDefault(column, None)
    if cursor.accept("SET", "DEFAULT"):
        if cursor.token is None:
            raise cursor.expected("a constant")
        text = cursor.text(cursor.position)
        cursor.position = len(cursor.tokens)
        return st.SetDefault(column, text)
    if cursor.accept("TYPE"):
        if cursor.token is None:
            raise cursor.expected("a type")
        place = cursor.place
        table = _declared(cursor, [name_token, *cursor.rest])
        (field,) = table.fields
        if table.primary_key or table.references or table.checks or table.defaults or not field.nullable:
            raise ParseError("TYPE is followed by a type only", where=place)
        return st.SetType(column, field)
    raise cursor.expected("TYPE, SET NOT NULL, DROP NOT NULL, SET DEFAULT or DROP DEFAULT")


def read_cascade(cursor: StatementCursor) -> bool:
    """``CASCADE``, or ``RESTRICT``, which is the default."""
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    return cascade
