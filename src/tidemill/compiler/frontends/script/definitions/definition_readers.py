"""CREATE VIEW, FUNCTION and VARIABLE without rows of their own, and their DROP, DECLARE and SET."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.compiler.frontends.sql.named_definitions import NamedQuery, Parameter, SqlFunction
from tidemill.compiler.frontends.sql.registered_functions import check_function_name, read_type
from tidemill.model.errors import NameTaken, ParseError, TextLocation, Unsupported
from tidemill.model.types import Field, Type

OPENING, CLOSING = ("(", "<", "["), (")", ">", "]")

CHARACTERISTICS = (
    ("LANGUAGE", "SQL"),
    ("NOT", "DETERMINISTIC"),
    ("DETERMINISTIC",),
    ("CONTAINS", "SQL"),
    ("READS", "SQL", "DATA"),
    ("SQL", "SECURITY", "DEFINER"),
    ("SQL", "SECURITY", "INVOKER"),
)
"""Clauses between the head and the body of a function that do not change its value."""


def read_named_query(cursor: StatementCursor, place: TextLocation) -> st.CreateNamedQuery:
    """``CREATE [OR REPLACE] [[GLOBAL] TEMPORARY] VIEW [IF NOT EXISTS] name [(columns)] AS query``."""
    head = [token.text.upper() for token in cursor.tokens[: cursor.position]]
    temporary = "TEMPORARY" in head or "TEMP" in head
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("view")
    columns = _column_names(cursor) if cursor.accept("(") else ()
    _skip_remarks(cursor)
    if cursor.sees("USING"):
        raise Unsupported(
            "a view over files is not supported",
            where=cursor.place,
            hint="Declare a table, and load the files: tidemill load, or CREATE FEED.",
        )
    cursor.expect("AS")
    text = cursor.text(cursor.position) if cursor.rest else ""
    cursor.parse()
    name = f"global_temp.{name}" if "GLOBAL" in head else name
    return st.CreateNamedQuery(place, NamedQuery(name, text, columns), temporary, if_not_exists, "OR" in head)


def _column_names(cursor: StatementCursor) -> tuple[str, ...]:
    """``(a, b COMMENT 'text')``: the names of columns."""

    def read() -> str:
        name = cursor.column_name()
        if cursor.accept("COMMENT"):
            cursor.next("a comment")
        return name

    names = tuple(cursor.separated(read))
    cursor.expect(")")
    return names


def _skip_remarks(cursor: StatementCursor) -> None:
    """COMMENT and TBLPROPERTIES, which mean nothing, and WITH SCHEMA: columns are always found by name."""
    while True:
        if cursor.accept("COMMENT"):
            cursor.next("a comment")
        elif cursor.accept("TBLPROPERTIES"):
            _between(cursor, ())
        elif cursor.accept("WITH", "SCHEMA"):
            if not cursor.accept("TYPE", "EVOLUTION"):
                cursor.next("BINDING, COMPENSATION or EVOLUTION")
        else:
            return


def read_create_function(cursor: StatementCursor, place: TextLocation) -> st.CreateFunction:
    """``CREATE [OR REPLACE] [TEMPORARY] FUNCTION name (parameters) [RETURNS type | TABLE (columns)] RETURN body``."""
    head = [token.text.upper() for token in cursor.tokens[: cursor.position]]
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = check_function_name(cursor.name("function"))
    if cursor.sees("AS"):
        raise Unsupported(
            "functions of Java classes are not supported",
            where=cursor.place,
            hint="Write RETURN with an expression, or register one in Python: register_function.",
        )
    cursor.expect("(")
    parameters = () if cursor.accept(")") else tuple(_parameters(cursor))
    returns, columns = _returned(cursor) if cursor.accept("RETURNS") else (None, None)
    while any(cursor.accept(*words) for words in CHARACTERISTICS) or _is_comment(cursor):
        pass
    cursor.expect("RETURN")
    if cursor.token is None:
        raise cursor.expected("an expression or a query")
    body = cursor.text(cursor.position)
    cursor.parse()
    function = SqlFunction(name, parameters, body, returns, columns)
    return st.CreateFunction(place, function, bool({"TEMPORARY", "TEMP"} & {*head}), if_not_exists, "OR" in head)


def _is_comment(cursor: StatementCursor) -> bool:
    found = cursor.accept("COMMENT")
    if found:
        cursor.next("a comment")
    return found


def _parameters(cursor: StatementCursor) -> list[Parameter]:
    found: list[Parameter] = []
    for name, of, default, where in cursor.separated(lambda: _declared(cursor)):
        if any(before.name == name for before in found):
            raise NameTaken(f'parameter "{name}" is declared twice', where=where)
        if default is None and found and found[-1].default is not None:
            raise ParseError(
                f'parameter "{name}" needs a default, as the one before it has one',
                where=where,
                hint="Put parameters with defaults last.",
            )
        found.append(Parameter(name, of, default))
    cursor.expect(")")
    return found


def _declared(cursor: StatementCursor) -> tuple[str, Type, str | None, TextLocation]:
    """``name type [NOT NULL] [DEFAULT expression] [COMMENT 'text']``."""
    where = cursor.place
    name = cursor.column_name()
    of = _type(cursor, ("DEFAULT", "COMMENT", "NOT", "GENERATED"))
    if cursor.sees("NOT") or cursor.sees("GENERATED"):
        raise Unsupported(
            "a parameter or column of a function takes a type, and a parameter a DEFAULT",
            where=cursor.place,
            hint="Leave this out; test for NULL in the body.",
        )
    default = _between(cursor, ("COMMENT",), closes=False) if cursor.accept("DEFAULT") else None
    _is_comment(cursor)
    return name, of, default, where


def _returned(cursor: StatementCursor) -> tuple[Type | None, tuple[Field, ...] | None]:
    """The type after RETURNS, or the columns of TABLE; without columns they are those of the query."""
    if not cursor.accept("TABLE"):
        words = ("RETURN", "LANGUAGE", "NOT", "DETERMINISTIC", "CONTAINS", "READS", "SQL", "COMMENT")
        return _type(cursor, words), None
    if not cursor.accept("("):
        return None, ()
    columns: dict[str, Field] = {}
    for name, of, default, where in cursor.separated(lambda: _declared(cursor)):
        if name in columns:
            raise NameTaken(f'column "{name}" is declared twice', where=where)
        if default is not None:
            raise ParseError("a column that a function returns has no DEFAULT", where=where)
        columns[name] = Field(name, of)
    cursor.expect(")")
    return None, tuple(columns.values())


def _type(cursor: StatementCursor, ends: Collection[str]) -> Type:
    where = cursor.place
    text = _between(cursor, ends, closes=False)
    if not text:
        raise ParseError("a type was expected here", where=where)
    if text.upper().startswith(("VARCHAR", "CHAR")):
        raise Unsupported(f"{text} is a type for columns of tables", where=where, hint="Use STRING.")
    return read_type(text)


def _between(cursor: StatementCursor, ends: Collection[str], closes: bool = True) -> str:
    """The text up to a word of ``ends``, or to a comma or the parenthesis that closes what is around.

    With ``closes`` the text is a list in parentheses, all of which is read.
    """
    begun, depth = cursor.position, 0
    while cursor.token is not None:
        sign = cursor.token.text if cursor.token.token_type != TokenType.STRING else ""
        if depth == 0 and not closes and (sign in (",", ")", "=") or sign.upper() in ends):
            break
        depth += (sign in OPENING) - (sign in CLOSING)
        cursor.next("more")
        if closes and depth == 0:
            break
    if cursor.position == begun:
        return ""
    return cursor.source.text[cursor.tokens[begun].start : cursor.end + 1]


def read_drop_function(cursor: StatementCursor, place: TextLocation) -> st.DropFunction:
    """``DROP [TEMPORARY] FUNCTION [IF EXISTS] name``."""
    if_exists = cursor.accept("IF", "EXISTS")
    return st.DropFunction(place, cursor.name("function"), if_exists)


def read_declare(cursor: StatementCursor, place: TextLocation) -> st.DeclareVariable:
    """``DECLARE [OR REPLACE] [VARIABLE] name [type] [DEFAULT | = expression]``."""
    or_replace = cursor.accept("OR", "REPLACE")
    if not any(cursor.sees(word, sign) for word in ("VAR", "VARIABLE") for sign in ("=", "DEFAULT")):
        cursor.accept("VARIABLE") or cursor.accept("VAR")  # else it is the name of the variable itself
    name = _variable_name(cursor)
    of = None if _at_default(cursor) else _type(cursor, ("DEFAULT",))
    default = None
    if cursor.accept("DEFAULT") or cursor.accept("="):
        default = ParsedText(cursor.parse(), cursor.source)
    return st.DeclareVariable(place, name, of, default, or_replace)


def _at_default(cursor: StatementCursor) -> bool:
    return cursor.sees("DEFAULT") or cursor.sees("=")


def _variable_name(cursor: StatementCursor) -> str:
    """The name of a variable, perhaps with ``session`` before it."""
    cursor.accept("SYSTEM", ".", "SESSION", ".") or cursor.accept("SESSION", ".")
    return cursor.column_name()


def read_set_variable(cursor: StatementCursor, place: TextLocation) -> st.SetVariables:
    """``SET VAR name = expression [, ...]``, or ``SET VAR (a, b) = (query)``."""
    if cursor.accept("("):
        names = tuple(cursor.separated(lambda: _variable_name(cursor)))
        cursor.expect(")")
        cursor.expect("=")
        return st.SetVariables(place, ((names, ParsedText(cursor.parse(), cursor.source)),))
    assignments = []
    for name, start, end in cursor.separated(lambda: _assignment(cursor)):
        tree = None
        if [token.text.upper() for token in cursor.tokens[start:end]] != ["DEFAULT"]:
            tree = ParsedText(cursor.source.parse(cursor.tokens[start:end]), cursor.source)
        assignments.append(((name,), tree))
    return st.SetVariables(place, tuple(assignments))


def _assignment(cursor: StatementCursor) -> tuple[str, int, int]:
    name = _variable_name(cursor)
    cursor.expect("=")
    begun = cursor.position
    if not _value_text(cursor):
        raise cursor.expected("a value")
    return name, begun, cursor.position


def _value_text(cursor: StatementCursor) -> bool:
    depth, begun = 0, cursor.position
    while cursor.token is not None and not (depth == 0 and cursor.sees(",")):
        sign = cursor.token.text if cursor.token.token_type != TokenType.STRING else ""
        depth += (sign == "(") - (sign == ")")
        cursor.next("more")
    return cursor.position > begun


def read_drop_variable(cursor: StatementCursor, place: TextLocation) -> st.DropVariable:
    """``DROP TEMPORARY VARIABLE [IF EXISTS] name``."""
    if_exists = cursor.accept("IF", "EXISTS")
    return st.DropVariable(place, _variable_name(cursor), if_exists)


def read_execute_immediate(cursor: StatementCursor, place: TextLocation) -> st.ExecuteImmediate:
    """``EXECUTE IMMEDIATE text [INTO variable, ...] [USING value [AS name], ...]``."""
    text = _expression_before(cursor, "INTO", "USING")
    into = tuple(cursor.separated(lambda: _variable_name(cursor))) if cursor.accept("INTO") else ()
    using: list[tuple[str | None, ParsedText]] = []
    if cursor.accept("USING"):
        wrapped = cursor.sees("(") and cursor.tokens[-1].text == ")"
        cursor.accept("(") if wrapped else None
        using += cursor.separated(lambda: _named_value(cursor))
        cursor.expect(")") if wrapped else None
    return st.ExecuteImmediate(place, text, into, tuple(using))


def _named_value(cursor: StatementCursor) -> tuple[str | None, ParsedText]:
    value = _expression_before(cursor, "AS", ",", ")")
    return cursor.column_name() if cursor.accept("AS") else None, value


def _expression_before(cursor: StatementCursor, *ends: str) -> ParsedText:
    """The expression up to one of these words, outside of parentheses, or to the end."""
    begun, depth = cursor.position, 0
    while cursor.token is not None and not (depth == 0 and any(map(cursor.sees, ends))):
        sign = cursor.token.text if cursor.token.token_type != TokenType.STRING else ""
        depth += (sign == "(") - (sign == ")")
        cursor.next("more")
    if cursor.position == begun:
        raise cursor.expected("an expression")
    return ParsedText(cursor.source.parse(cursor.tokens[begun : cursor.position]), cursor.source)


def refuse_set(cursor: StatementCursor, place: TextLocation) -> NoReturn:
    """``SET key = value``: there are no settings to change."""
    raise Unsupported(
        "settings cannot be changed by SET",
        where=place,
        detail="SQL means what it means in Spark 4 in ANSI mode, with UTC as the session's time zone.",
        hint="Leave the statement out; SET VAR name = value sets a variable.",
    )
