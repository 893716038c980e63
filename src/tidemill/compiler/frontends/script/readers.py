"""From a script's tokens to statements: those that sqlglot does not support are read token by token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NoReturn, get_args

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script.definitions.alter_readers import (
    read_alter_stream,
    read_alter_table,
    read_cascade,
)
from tidemill.compiler.frontends.script.definitions.alter_view_reader import read_alter_view, take_cascade
from tidemill.compiler.frontends.script.definitions.build_statements import read_change_build
from tidemill.compiler.frontends.script.definitions.create_table import read_table, refuse_table_clauses, table_name
from tidemill.compiler.frontends.script.definitions.definition_readers import (
    read_create_function,
    read_declare,
    read_drop_function,
    read_drop_variable,
    read_execute_immediate,
    read_named_query,
    read_set_variable,
    refuse_set,
)
from tidemill.compiler.frontends.script.definitions.lake_tables import is_lake_table, read_lake_table
from tidemill.compiler.frontends.script.definitions.options import read_options
from tidemill.compiler.frontends.script.definitions.stage_statements import (
    ShowStages,
    read_drop_stage,
    read_promote_stage,
)
from tidemill.compiler.frontends.script.grants import GRANT_READERS
from tidemill.compiler.frontends.script.listings.show_readers import SHOW_READERS, read_view_name
from tidemill.compiler.frontends.script.row_changes.dml_readers import (
    read_delete,
    read_insert,
    read_query,
    read_truncate,
    read_update,
)
from tidemill.compiler.frontends.script.row_changes.merge_reader import read_merge
from tidemill.compiler.frontends.script.row_changes.release_reader import read_release_errors
from tidemill.compiler.frontends.script.statements import ObjectKind
from tidemill.compiler.frontends.script.transactions import TRANSACTION_READERS
from tidemill.compiler.frontends.sql.grammar.nesting import nesting_levels
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import (
    ONE_SCHEMA,
    SCHEMA_NAMES,
    StatementCursor,
    split_statements,
)
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments
from tidemill.compiler.frontends.viewdf.parse import is_definition, read_definition
from tidemill.compiler.frontends.viewdf.partition_by import (
    PARTITION_OPTION,
    at_partition_by,
    at_partitioning,
    read_partitioning,
    read_view_partitions,
)
from tidemill.model.errors import ParseError, TextLocation, UnknownName, Unsupported

KNOWN_STATEMENTS = (
    "CREATE, ALTER, DEFINE, DROP, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, SELECT, EXPLAIN, "
    "BEGIN, COMMIT, ROLLBACK, REFRESH, REPLAY LATE, RELEASE ERRORS, DECLARE, SET VAR, EXECUTE IMMEDIATE, "
    "DESCRIBE FUNCTION, USE, GRANT, REVOKE, SHOW"
)

APPEND_ONLY = ("APPEND", "ONLY")


StatementReader = Callable[[StatementCursor, TextLocation], st.Statement]


def read_script(source: SqlText) -> list[st.Statement]:
    """Every statement of a script, in order."""
    return [read_statement(StatementCursor(source, tokens)) for tokens in split_statements(source.tokens)]


def read_statement(cursor: StatementCursor) -> st.Statement:
    """One statement, by its first words."""
    place = cursor.place
    for words, read in STATEMENT_READERS.items():
        if cursor.accept(*words):
            statement = read(cursor, place)
            cursor.expect_end("statement")
            return statement
    raise ParseError(
        f'a statement cannot begin with "{cursor.tokens[0].text}"',
        where=place,
        hint=f"Statements are {KNOWN_STATEMENTS}.",
    )


def read_create_table(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """``CREATE TABLE [IF NOT EXISTS] name (columns, keys) [APPEND ONLY] [PARTITION BY ...]``, and STREAM alike.

    Or ``CREATE TABLE name AS query``, or ``CREATE TABLE name USING format LOCATION '...'``.
    """
    kept = cursor.tokens[1].text.upper() == "TABLE"
    if kept and any(depth == 0 and token.token_type in QUERY_WORDS for depth, token in nesting_levels(cursor.tokens)):
        return read_create_table_as(cursor, place)
    if kept and is_lake_table(cursor):
        return read_lake_table(cursor, place)
    while cursor.rest and not at_partitioning(cursor) and not cursor.sees(*APPEND_ONLY):
        cursor.next("PARTITION BY")
    tree = cursor.source.parse(_as_table(cursor.tokens[: cursor.position]))
    refuse_unsupported_arguments(tree, cursor.source)
    table = replace(read_table(tree, cursor.source, kept), append_only=cursor.accept(*APPEND_ONLY))
    if at_partitioning(cursor):
        table = replace(table, partitioning=read_partitioning(cursor, table.fields, kept))
    return st.CreateTable(place, table, bool(tree.args.get("exists")))


QUERY_WORDS = (TokenType.ALIAS, TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.FROM)
"""Words with which a query begins; the declaration of a table has none of them outside of parentheses."""


def read_create_table_as(cursor: StatementCursor, place: TextLocation) -> st.CreateTableAs:
    """``CREATE TABLE [IF NOT EXISTS] name [USING format] [TBLPROPERTIES (...)] [AS] query``."""
    tree = cursor.source.parse(cursor.tokens)
    cursor.position = len(cursor.tokens)
    if not isinstance(tree, exp.Create) or not isinstance(tree.expression, exp.Expr):
        raise ParseError("this cannot be read as a declaration", where=place)
    refuse_unsupported_arguments(tree, cursor.source)
    refuse_table_clauses(tree, cursor.source)
    if isinstance(tree.this, exp.Schema):
        raise ParseError(
            "a table that is made of a query has its columns",
            where=cursor.source.place(tree.this),
            hint="Name them in the SELECT list, with AS.",
        )
    query = ParsedText(tree.expression, cursor.source)
    return st.CreateTableAs(place, table_name(tree.this, cursor.source), query, bool(tree.args.get("exists")))


def _as_table(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """``CREATE STREAM`` with TABLE in the place of STREAM: to sqlglot they are declared alike."""
    create, stream, *rest = tokens
    table = Token(TokenType.TABLE, "TABLE", stream.line, stream.col, stream.start, stream.end)
    return (create, table, *rest)


def read_create_view(cursor: StatementCursor, place: TextLocation) -> st.CreateView:
    """``CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [clauses] AS query``, or by partitions.

    The clauses are ``PARTITION BY column EVERY length`` and ``WITH (options)``. A replacement may end with ``CASCADE``.
    """
    or_replace = cursor.tokens[1].text.upper() == "OR"
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("view")
    if cursor.rest and cursor.rest[0].token_type == TokenType.L_PAREN:
        raise Unsupported(
            "a view cannot have a list of column names",
            where=cursor.place,
            hint="Name them in the SELECT list, with AS.",
        )
    options = read_view_clauses(cursor)
    cursor.expect("AS")
    cascade = or_replace and take_cascade(cursor)
    query = cursor.text(cursor.position) if cursor.rest else ""
    tree = read_definition(cursor, name) if is_definition(cursor) else ParsedText(cursor.parse(), cursor.source)
    return st.CreateView(place, name, query, options, cursor.text(), tree, if_not_exists, or_replace, cascade)


def read_view_clauses(cursor: StatementCursor) -> dict[str, str]:
    """``[PARTITION BY column EVERY length] [WITH (options)]``, in any order, as options."""
    options: dict[str, str] = {}
    while at_partition_by(cursor) or cursor.sees("WITH"):
        place = cursor.place
        given = read_options(cursor) if cursor.accept("WITH") else {PARTITION_OPTION: read_view_partitions(cursor)}
        for name in options.keys() & given.keys():
            raise ParseError(f'option "{name}" is given twice', where=place)
        options |= given
    return options


def read_define(cursor: StatementCursor, place: TextLocation) -> st.CreateView:
    """``DEFINE name[()] [clauses] AS query``: a view whose query is in OQL, over objects."""
    name = cursor.name("view")
    if cursor.accept("("):
        cursor.expect(")")
    begun = cursor.position
    options = read_view_clauses(cursor)
    head = cursor.tokens[begun - 1].end + 1
    cursor.expect("AS")
    cursor.next("a query")
    text = cursor.text()
    start, body = cursor.tokens[0].start, cursor.tokens[cursor.position - 2].start
    script = cursor.source.text
    # Everything that is not OQL becomes blanks, so that places stay the same.
    shown = _blank(script[:start]) + script[start:head] + _blank(script[head:body]) + script[body : start + len(text)]
    query = script[start:head] + " " + script[body : start + len(text)]
    cursor.position = len(cursor.tokens)
    return st.CreateView(
        place, name, query, {"strategy": "lineage"} | options, text, st.OqlText(shown, cursor.source.name)
    )


def read_oql(cursor: StatementCursor, place: TextLocation) -> st.SelectOql:
    """``OQL query``: answered once."""
    cursor.next("a query")
    start = cursor.tokens[1].start
    text = _blank(cursor.source.text[:start]) + cursor.text(1)
    cursor.position = len(cursor.tokens)
    return st.SelectOql(place, st.OqlText(text, cursor.source.name))


def _blank(text: str) -> str:
    """As many lines and columns as ``text``, with nothing in them."""
    return "".join("\n" if letter == "\n" else " " for letter in text)


def read_create_source(cursor: StatementCursor, place: TextLocation) -> st.CreateSource:
    """``CREATE SOURCE [IF NOT EXISTS] name TYPE kind OPTIONS (options)``."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("source")
    cursor.expect("TYPE")
    kind = cursor.next("the type of the source").text.lower()
    options = read_options(cursor) if cursor.accept("OPTIONS") else {}
    return st.CreateSource(place, name, kind, options, if_not_exists)


def read_create_feed(cursor: StatementCursor, place: TextLocation) -> st.CreateFeed:
    """``CREATE FEED [IF NOT EXISTS] name INTO table FROM 'folder' [OPTIONS (options)]``."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("feed")
    cursor.expect("INTO")
    table = cursor.name("table or stream")
    cursor.expect("FROM")
    where = cursor.place
    folder = cursor.next("a folder")
    if folder.token_type != TokenType.STRING:
        raise ParseError("a folder was expected here", where=where, hint="Write it in quotes: FROM 'inbox'.")
    options = read_options(cursor) if cursor.accept("OPTIONS") else {}
    return st.CreateFeed(place, name, table, folder.text, options, if_not_exists)


def read_alter_sync(cursor: StatementCursor, place: TextLocation) -> st.AlterSync:
    """``ALTER SOURCE | FEED name SET (sync = ...)``."""
    kind: Literal["source", "feed"] = "source" if cursor.tokens[1].text.upper() == "SOURCE" else "feed"
    name = cursor.name(kind)
    cursor.expect("SET")
    return st.AlterSync(place, kind, name, read_options(cursor))


def read_plain_view(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """``CREATE VIEW``: a query that is read under a name; one that has partitions is maintained."""
    if _defines_partitions(cursor):
        return read_create_view(cursor, place)
    return read_named_query(cursor, place)


def _defines_partitions(cursor: StatementCursor) -> bool:
    """True if PARTITION BY comes before the first AS, or a definition by partitions after it."""
    words = [token.token_type for token in cursor.tokens]
    if TokenType.ALIAS not in words:
        return False
    begin = words.index(TokenType.ALIAS)
    ahead = StatementCursor(cursor.source, cursor.tokens, begin + 1)
    return TokenType.PARTITION_BY in words[:begin] or is_definition(ahead)


def read_drop(cursor: StatementCursor, place: TextLocation) -> st.Drop:
    """``DROP TABLE | STREAM | SOURCE | FEED | [MATERIALIZED] VIEW [IF EXISTS] name [CASCADE]``."""
    kinds: tuple[ObjectKind, ...] = ("view",) if cursor.accept("MATERIALIZED") else get_args(ObjectKind)
    for kind in kinds:
        if cursor.accept(kind.upper()):
            if_exists = cursor.accept("IF", "EXISTS")
            return st.Drop(place, kind, cursor.name(kind), if_exists, read_cascade(cursor))
    *others, last = (kind.upper() for kind in kinds)
    wanted = f"{', '.join(others)} or {last}" if others else last
    raise cursor.expected(wanted)


def read_explain(
    cursor: StatementCursor, place: TextLocation
) -> st.ExplainView | st.ExplainDefinition | st.ExplainQuery:
    """``EXPLAIN [MATERIALIZED] VIEW name``, ``EXPLAIN CREATE | ALTER VIEW ...``, or ``EXPLAIN query``.

    Of Spark's EXTENDED, CODEGEN, COST and FORMATTED there is one form.
    """
    if cursor.sees("VIEW") or cursor.sees("MATERIALIZED"):
        return st.ExplainView(place, read_view_name(cursor))
    any(cursor.accept(word) for word in ("EXTENDED", "CODEGEN", "COST", "FORMATTED"))
    if cursor.token is None:
        raise cursor.expected("a query, VIEW, CREATE or ALTER VIEW")
    inner = StatementCursor(cursor.source, cursor.tokens[cursor.position :])
    where = inner.place
    statement = read_statement(inner)
    cursor.position = len(cursor.tokens)
    if isinstance(statement, st.Select):
        return st.ExplainQuery(place, statement.query)
    if isinstance(statement, st.CreateView | st.AlterView) or inner.tokens[0].text.upper() == "CREATE":
        return st.ExplainDefinition(place, statement)
    raise Unsupported(
        "this statement cannot be explained",
        where=where,
        hint="EXPLAIN takes a query, VIEW name, CREATE ... and ALTER VIEW ... SET or AS.",
    )


def read_refresh(cursor: StatementCursor, place: TextLocation) -> st.RefreshView | st.RefreshTable:
    """``REFRESH [MATERIALIZED] VIEW name``, or ``REFRESH TABLE name [REBUILD]``."""
    if cursor.accept("TABLE"):
        return st.RefreshTable(place, cursor.name("table"), cursor.accept("REBUILD"))
    return st.RefreshView(place, read_view_name(cursor))


def read_replay_late(cursor: StatementCursor, place: TextLocation) -> st.ReplayLate:
    """``REPLAY LATE name [AHEAD] [WHERE condition]``."""
    name = cursor.name("table or stream")
    ahead = cursor.accept("AHEAD")
    where = ParsedText(cursor.parse(), cursor.source) if cursor.accept("WHERE") else None
    return st.ReplayLate(place, name, where, ahead)


def read_analyze(cursor: StatementCursor, place: TextLocation) -> st.Analyze:
    """``ANALYZE``, or ``ANALYZE [TABLE | VIEW] name [, …] [COMPUTE STATISTICS [FOR ALL COLUMNS]]``, as Spark has it."""
    if cursor.token is None:
        return st.Analyze(place, ())
    if not cursor.accept("TABLE"):
        cursor.accept("VIEW")
    names = [cursor.name("table or view")]
    while cursor.accept(","):
        names.append(cursor.name("table or view"))
    if cursor.accept("COMPUTE"):
        cursor.expect("STATISTICS")
        cursor.accept("FOR", "ALL", "COLUMNS")
    return st.Analyze(place, tuple(names))


def read_describe_function(cursor: StatementCursor, place: TextLocation) -> st.DescribeFunction:
    """``DESCRIBE FUNCTION [EXTENDED] name``."""
    cursor.accept("EXTENDED")
    return st.DescribeFunction(place, cursor.name("function"))


def read_describe_table(cursor: StatementCursor, place: TextLocation) -> st.DescribeTable | st.DescribeHistory:
    """``DESCRIBE [TABLE] [EXTENDED] name``, or ``DESCRIBE HISTORY name``."""
    if len(cursor.rest) > 1 and cursor.accept("HISTORY"):
        return st.DescribeHistory(place, cursor.name("lake table"))
    cursor.accept("TABLE")
    extended = cursor.accept("EXTENDED") or cursor.accept("FORMATTED")
    return st.DescribeTable(place, cursor.name("table or view"), extended=extended)


_ONE_SCHEMA = "A warehouse is one schema, called default: use a warehouse for each."
_NOTHING_CACHED = "Leave it out: tables are kept as columns, and views are maintained."
_FOLDER_RIGHTS = "Whoever can read the folder of a warehouse can read all of it."

REFUSED_STATEMENTS: dict[tuple[str, ...], str] = {
    ("ADD",): "Register Python functions with register_function.",
    ("CACHE",): _NOTHING_CACHED,
    ("COMMENT",): "Leave it out: comments mean nothing.",
    ("CREATE", "DATABASE"): _ONE_SCHEMA,
    ("CREATE", "INDEX"): "Leave it out: lookups make the indexes that they need.",
    ("CREATE", "OR", "REPLACE", "TABLE"): "DROP the table, and CREATE it again.",
    ("CREATE", "SCHEMA"): _ONE_SCHEMA,
    ("DROP", "DATABASE"): _ONE_SCHEMA,
    ("DROP", "SCHEMA"): _ONE_SCHEMA,
    ("GRANT",): _FOLDER_RIGHTS,
    ("LOAD",): "Use tidemill load, or wh.load(table, path).",
    ("MSCK",): "Leave it out: a table knows its rows.",
    ("REPAIR",): "Leave it out: a table knows its rows.",
    ("REPLACE",): "DROP the table, and CREATE it again.",
    ("RESET",): "Leave it out: there are no settings to reset.",
    ("REVOKE",): _FOLDER_RIGHTS,
    ("UNCACHE",): _NOTHING_CACHED,
}
"""Statements of Spark that are refused, by their first words, with what to do instead."""


def refuse_with_hint(cursor: StatementCursor, place: TextLocation) -> NoReturn:
    """Refuse a statement of Spark that has no meaning here."""
    words = tuple(token.text.upper() for token in cursor.tokens[: cursor.position])
    raise Unsupported(f"{' '.join(words)} is not supported", where=place, hint=REFUSED_STATEMENTS[words])


def read_use(cursor: StatementCursor, place: TextLocation) -> st.UseSchema:
    """``USE [SCHEMA | DATABASE] default``."""
    cursor.accept("SCHEMA") or cursor.accept("DATABASE") or cursor.accept("NAMESPACE")
    words = [cursor.next("the name of a schema").text.lower()]
    while cursor.accept("."):
        words.append(cursor.next("the name of a schema").text.lower())
    if (*words,) not in (*SCHEMA_NAMES, ("spark_catalog",)):
        raise UnknownName(f'there is no schema "{".".join(words)}"', where=place, hint=ONE_SCHEMA)
    return st.UseSchema(place)


STATEMENT_READERS: dict[tuple[str, ...], StatementReader] = {
    **dict.fromkeys(REFUSED_STATEMENTS, refuse_with_hint),
    ("CREATE", "TABLE"): read_create_table,
    ("CREATE", "STREAM"): read_create_table,
    ("CREATE", "SOURCE"): read_create_source,
    ("CREATE", "FEED"): read_create_feed,
    ("CREATE", "MATERIALIZED", "VIEW"): read_create_view,
    ("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"): read_create_view,
    ("CREATE", "VIEW"): read_plain_view,
    ("CREATE", "OR", "REPLACE", "VIEW"): read_plain_view,
    **{
        ("CREATE", *replacing, *shared, temporary, "VIEW"): read_named_query
        for replacing in ((), ("OR", "REPLACE"))
        for shared in ((), ("GLOBAL",))
        for temporary in ("TEMPORARY", "TEMP")
    },
    **{
        ("CREATE", *replacing, *temporary, "FUNCTION"): read_create_function
        for replacing in ((), ("OR", "REPLACE"))
        for temporary in ((), ("TEMPORARY",), ("TEMP",))
    },
    ("DROP", "FUNCTION"): read_drop_function,
    ("DROP", "TEMPORARY", "FUNCTION"): read_drop_function,
    ("DROP", "TEMPORARY", "VARIABLE"): read_drop_variable,
    ("DROP", "TEMPORARY", "VAR"): read_drop_variable,
    ("DECLARE",): read_declare,
    ("EXECUTE", "IMMEDIATE"): read_execute_immediate,
    ("SET", "VAR"): read_set_variable,
    ("SET", "VARIABLE"): read_set_variable,
    ("SET",): refuse_set,
    ("DESCRIBE", "FUNCTION"): read_describe_function,
    ("DESC", "FUNCTION"): read_describe_function,
    ("DESCRIBE",): read_describe_table,
    ("DESC",): read_describe_table,
    ("USE",): read_use,
    ("ALTER", "TABLE"): read_alter_table,
    ("ALTER", "STREAM"): read_alter_stream,
    ("ALTER", "SOURCE"): read_alter_sync,
    ("ALTER", "FEED"): read_alter_sync,
    ("ALTER",): read_alter_view,
    ("ANALYZE",): read_analyze,
    ("DEFINE",): read_define,
    ("OQL",): read_oql,
    ("DROP", "STAGE"): read_drop_stage,
    ("DROP",): read_drop,
    ("EXPLAIN",): read_explain,
    ("REFRESH",): read_refresh,
    ("REPLAY", "LATE"): read_replay_late,
    ("RELEASE", "ERRORS"): read_release_errors,
    **GRANT_READERS,
    ("PAUSE", "BUILD"): read_change_build,
    ("RESUME", "BUILD"): read_change_build,
    ("CANCEL", "BUILD"): read_change_build,
    ("SHOW", "STAGES"): lambda cursor, place: ShowStages(place),
    ("PROMOTE", "STAGE"): read_promote_stage,
    **SHOW_READERS,
    ("INSERT",): read_insert,
    ("UPDATE",): read_update,
    ("DELETE",): read_delete,
    ("MERGE",): read_merge,
    **TRANSACTION_READERS,
    ("TRUNCATE", "TABLE"): read_truncate,
    ("TRUNCATE",): read_truncate,
    ("SELECT",): read_query,
    ("WITH",): read_query,
    ("VALUES",): read_query,
    ("FROM",): read_query,
    ("TABLE",): read_query,
    ("(",): read_query,
}
"""Readers by first words, longer beginnings before shorter ones."""
