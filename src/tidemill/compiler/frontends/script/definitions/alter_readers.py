"""``ALTER TABLE`` and ``ALTER STREAM``: the changes of columns, constraints and names, as plain data.

PostgreSQL's spellings are read beside those of Spark, where both mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script import table_changes as change
from tidemill.compiler.frontends.script.definitions.constraints import declared_constraints, refuse_unenforced
from tidemill.compiler.frontends.script.definitions.create_table import declaration_of, read_table
from tidemill.compiler.frontends.sql.grammar.nesting import nesting_levels
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.compiler.frontends.viewdf.partition_by import read_duration
from tidemill.model.errors import ParseError, TextLocation, Unsupported
from tidemill.model.schema import Table

__all__ = ["read_alter_stream", "read_alter_table", "read_cascade"]

ChangeReader = Callable[[StatementCursor], change.TableChange]


def read_alter_table(
    cursor: StatementCursor, place: TextLocation, kind: Literal["table", "stream"] = "table"
) -> st.Statement:
    """``ALTER TABLE [IF EXISTS] name``, then ``RENAME TO name`` or a change of columns, constraints or bounds."""
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(kind)
    if cursor.accept("RENAME", "TO"):
        return st.Rename(place, kind, name, cursor.name(kind), if_exists)
    for words, read in CHANGE_READERS.items():
        if cursor.accept(*words):
            changed = read(cursor)
            cascade = isinstance(changed, change.DropColumns) and read_cascade(cursor)
            return st.AlterTable(place, name, changed, cascade, if_exists, kind)
    raise Unsupported(
        f"this change of a {kind} is not supported",
        where=cursor.place,
        hint=f"ALTER {kind.upper()} takes {KNOWN_CHANGES}.",
    )


def read_alter_stream(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """``ALTER STREAM name``, as ``ALTER TABLE``."""
    return read_alter_table(cursor, place, "stream")


def read_cascade(cursor: StatementCursor) -> bool:
    """``CASCADE``, or ``RESTRICT``, which is the default."""
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    return cascade


# -- columns -----------------------------------------------------------------------------------------------------------


def _added(cursor: StatementCursor) -> change.TableChange:
    """``ADD [CONSTRAINT name] CHECK | UNIQUE | PRIMARY KEY | FOREIGN KEY (…)``, or ``ADD [COLUMN | COLUMNS] …``."""
    if cursor.sees("CONSTRAINT") or cursor.sees("CHECK", "(") or cursor.sees("UNIQUE", "("):
        return _added_constraint(cursor)
    if cursor.token is not None and cursor.token.token_type in (TokenType.PRIMARY_KEY, TokenType.FOREIGN_KEY):
        return _added_constraint(cursor)
    cursor.accept("COLUMNS") or cursor.accept("COLUMN")
    return _added_columns(cursor)


def _added_columns(cursor: StatementCursor) -> change.AddColumns:
    """``[IF NOT EXISTS] c TYPE [NOT NULL] [DEFAULT literal] [FIRST | AFTER d]``, or several in parentheses."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if not cursor.rest:
        raise cursor.expected("a column and its type")
    declared = list(cursor.rest)
    if declared[0].token_type == TokenType.L_PAREN and declared[-1].token_type == TokenType.R_PAREN:
        declared = declared[1:-1]
    place, places = cursor.place, dict[str, change.ColumnPlace]()
    tokens: list[Token] = []
    for column in _separated(declared):
        bare, where = _without_place(cursor, column)
        tokens += [*([_sign(cursor, TokenType.COMMA, ",")] if tokens else []), *bare]
        if where is not None and bare:
            places[bare[0].text.lower()] = where
    table = _declared(cursor, tokens)
    if table.primary_key or table.references or table.checks or table.uniques:
        raise Unsupported(
            "a column is added with NOT NULL and DEFAULT only",
            where=place,
            detail="Keys and checks are constraints of the table.",
            hint="Add the column, and then the constraint: ALTER TABLE name ADD CHECK (...) or UNIQUE (...).",
        )
    return change.AddColumns(table.fields, dict(table.defaults), if_not_exists, places)


def _separated(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The declarations of columns, which commas outside of parentheses and types separate."""
    column: list[Token] = []
    for depth, token in nesting_levels(tokens):
        if depth == 0 and token.token_type == TokenType.COMMA:
            yield column
            column = []
        else:
            column.append(token)
    yield column


def _without_place(cursor: StatementCursor, column: list[Token]) -> tuple[list[Token], change.ColumnPlace | None]:
    """The declaration of a column without ``FIRST`` or ``AFTER c`` at its end, and what these say."""
    if len(column) > 2 and cursor.is_word(column[-1], "FIRST"):
        return column[:-1], change.ColumnPlace()
    if len(column) > 3 and cursor.is_word(column[-2], "AFTER"):
        return column[:-2], change.ColumnPlace(column[-1].text.lower())
    return column, None


def _sign(cursor: StatementCursor, kind: TokenType, text: str) -> Token:
    """A token that is not in the text, at the place of the statement."""
    first = cursor.tokens[0]
    return Token(kind, text, first.line, first.col, first.start, first.end)


def _parsed(cursor: StatementCursor, columns: Sequence[Token]) -> ParsedText:
    """The declaration of a table with these columns and constraints; what is declared so has its places in the text."""
    signs = ((TokenType.CREATE, "CREATE"), (TokenType.TABLE, "TABLE"), (TokenType.VAR, "altered"))
    head = [_sign(cursor, kind, text) for kind, text in (*signs, (TokenType.L_PAREN, "("))]
    tokens = (*head, *columns, _sign(cursor, TokenType.R_PAREN, ")"))
    cursor.position = len(cursor.tokens)
    return ParsedText(cursor.source.parse(tokens), cursor.source)


def _declared(cursor: StatementCursor, columns: Sequence[Token]) -> Table:
    """The columns as those of a table."""
    return read_table(_parsed(cursor, columns).node, cursor.source, kept=True)


def _dropped(cursor: StatementCursor) -> change.DropColumns:
    """``DROP [COLUMN] [IF EXISTS] c``, or ``DROP COLUMNS (a, b)``."""
    cursor.accept("COLUMNS") or cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    bracketed = cursor.accept("(")
    columns = tuple(cursor.separated(cursor.column_name))
    if bracketed:
        cursor.expect(")")
    return change.DropColumns(columns, if_exists)


def _renamed(cursor: StatementCursor) -> change.RenameColumn:
    """``RENAME [COLUMN] a TO b``."""
    column = cursor.column_name()
    cursor.expect("TO")
    return change.RenameColumn(column, cursor.column_name())


def _altered(cursor: StatementCursor) -> change.TableChange:
    """``ALTER | CHANGE [COLUMN] c`` and what becomes of it; Hive repeats the name, ``CHANGE c c type``."""
    hive = cursor.tokens[cursor.position - 1].text.upper() == "CHANGE"
    cursor.accept("COLUMN")
    name_token, column = cursor.token, cursor.column_name()
    assert name_token is not None
    for words, read in COLUMN_READERS.items():
        if cursor.accept(*words):
            return read(cursor, name_token, column)
    if hive and len(cursor.rest) > 1:
        place, again = cursor.place, cursor.column_name()
        if again != column:
            raise Unsupported(
                "CHANGE COLUMN gives a column another type, and no other name",
                where=place,
                hint=f"RENAME COLUMN {column} TO {again} first.",
            )
        return _typed(cursor, name_token, column)
    raise cursor.expected("TYPE, SET NOT NULL, DROP NOT NULL, SET DEFAULT, DROP DEFAULT, FIRST or AFTER")


def _typed(cursor: StatementCursor, name_token: Token, column: str) -> change.SetType:
    """``type``, of the column that was named before."""
    if cursor.token is None:
        raise cursor.expected("a type")
    place = cursor.place
    table = _declared(cursor, [name_token, *cursor.rest])
    (field,) = table.fields
    if table.primary_key or table.references or table.checks or table.uniques or table.defaults or not field.nullable:
        raise ParseError("TYPE is followed by a type only", where=place)
    return change.SetType(column, field)


def _default(cursor: StatementCursor, _: Token, column: str) -> change.SetDefault:
    if cursor.token is None:
        raise cursor.expected("a constant")
    text = cursor.text(cursor.position)
    cursor.position = len(cursor.tokens)
    return change.SetDefault(column, text)


COLUMN_READERS: dict[tuple[str, ...], Callable[[StatementCursor, Token, str], change.TableChange]] = {
    ("SET", "NOT", "NULL"): lambda cursor, _, column: change.SetNullable(column, nullable=False),
    ("DROP", "NOT", "NULL"): lambda cursor, _, column: change.SetNullable(column, nullable=True),
    ("DROP", "DEFAULT"): lambda cursor, _, column: change.SetDefault(column, None),
    ("SET", "DEFAULT"): _default,
    ("SET", "DATA", "TYPE"): _typed,
    ("TYPE",): _typed,
    ("FIRST",): lambda cursor, _, column: change.MoveColumn(column, change.ColumnPlace()),
    ("AFTER",): lambda cursor, _, column: change.MoveColumn(column, change.ColumnPlace(cursor.column_name())),
}
"""Readers of what becomes of a column, by first words."""


# -- constraints -------------------------------------------------------------------------------------------------------


def _added_constraint(cursor: StatementCursor) -> change.AddConstraint:
    """``[CONSTRAINT name] CHECK | UNIQUE | PRIMARY KEY | FOREIGN KEY (…)``, read beside a column that is not used."""
    place = cursor.place
    column = (_sign(cursor, TokenType.VAR, "altered"), _sign(cursor, TokenType.INT, "INT"))
    parsed = _parsed(cursor, (*column, _sign(cursor, TokenType.COMMA, ","), *cursor.rest))
    constraints = declared_constraints(declaration_of(parsed.node, cursor.source))
    refuse_unenforced(constraints, cursor.source)
    if len(constraints) != 1:
        raise ParseError("ALTER TABLE adds one constraint at a time", where=place)
    return change.AddConstraint(parsed)


def _dropped_constraint(cursor: StatementCursor) -> change.DropConstraint:
    """``[IF EXISTS] name``."""
    if_exists = cursor.accept("IF", "EXISTS")
    dropped = change.DropConstraint(cursor.column_name(), if_exists)
    cursor.accept("RESTRICT")
    return dropped


# -- bounds ------------------------------------------------------------------------------------------------------------


def _bound(word: Literal["LATENESS", "RETAIN"], cursor: StatementCursor) -> change.SetBound:
    return change.SetBound(word, read_duration(cursor))


CHANGE_READERS: dict[tuple[str, ...], ChangeReader] = {
    ("RENAME", "COLUMN"): _renamed,
    ("RENAME",): _renamed,
    ("ADD",): _added,
    ("DROP", "PRIMARY KEY"): lambda cursor: change.SetPrimaryKey(),
    ("DROP", "CONSTRAINT"): _dropped_constraint,
    ("DROP", "LATENESS"): lambda cursor: change.SetBound("LATENESS", None),
    ("DROP", "RETAIN"): lambda cursor: change.SetBound("RETAIN", None),
    ("DROP",): _dropped,
    ("SET", "LATENESS"): partial(_bound, "LATENESS"),
    ("SET", "RETAIN"): partial(_bound, "RETAIN"),
    ("ALTER",): _altered,
    ("CHANGE",): _altered,
}
"""Readers of the changes of a table by first words, longer beginnings before shorter ones."""

KNOWN_CHANGES = (
    "RENAME TO, ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, ADD and DROP PRIMARY KEY, ADD CHECK, ADD UNIQUE, "
    "ADD FOREIGN KEY, DROP CONSTRAINT, and SET and DROP of LATENESS and RETAIN"
)
