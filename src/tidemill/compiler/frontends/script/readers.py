"""From a script's tokens to statements: those that sqlglot does not support are read token by token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script.create_table import read_table
from tidemill.compiler.frontends.script.dml_readers import (
    read_delete,
    read_insert,
    read_query,
    read_truncate,
    read_update,
)
from tidemill.compiler.frontends.script.statements import ObjectKind
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor, split_statements
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments
from tidemill.compiler.frontends.viewdf.definition import PartitionedView
from tidemill.compiler.frontends.viewdf.parse import is_definition, read_definition
from tidemill.compiler.frontends.viewdf.partition_by import at_partition_by, read_partitioning
from tidemill.model.errors import ParseError, TextLocation, Unsupported

KNOWN_STATEMENTS = (
    "CREATE, ALTER VIEW, DEFINE, DROP, INSERT, UPDATE, DELETE, TRUNCATE, SELECT, EXPLAIN VIEW, REFRESH VIEW, "
    "REPLAY LATE, SHOW"
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


def read_create_table(cursor: StatementCursor, place: TextLocation) -> st.CreateTable:
    """``CREATE TABLE [IF NOT EXISTS] name (columns, keys) [APPEND ONLY] [PARTITION BY ...]``, and STREAM alike."""
    kept = cursor.tokens[1].text.upper() == "TABLE"
    while cursor.rest and not at_partition_by(cursor) and not cursor.sees(*APPEND_ONLY):
        cursor.next("PARTITION BY")
    tree = cursor.source.parse(_as_table(cursor.tokens[: cursor.position]))
    refuse_unsupported_arguments(tree, cursor.source)
    table = replace(read_table(tree, cursor.source, kept), append_only=cursor.accept(*APPEND_ONLY))
    if at_partition_by(cursor):
        table = replace(table, partitioning=read_partitioning(cursor, table.fields, kept))
    return st.CreateTable(place, table, bool(tree.args.get("exists")))


def _as_table(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """``CREATE STREAM`` with TABLE in the place of STREAM: to sqlglot they are declared alike."""
    create, stream, *rest = tokens
    table = Token(TokenType.TABLE, "TABLE", stream.line, stream.col, stream.start, stream.end)
    return (create, table, *rest)


def read_create_view(cursor: StatementCursor, place: TextLocation) -> st.CreateView:
    """``CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [WITH (options)] AS query``, or by partitions."""
    or_replace = cursor.tokens[1].text.upper() == "OR"
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("view")
    if cursor.rest and cursor.rest[0].token_type == TokenType.L_PAREN:
        raise Unsupported(
            "a view cannot have a list of column names",
            where=cursor.place,
            hint="Name them in the SELECT list, with AS.",
        )
    options = read_options(cursor) if cursor.accept("WITH") else {}
    cursor.expect("AS")
    query = cursor.text(cursor.position) if cursor.rest else ""
    tree = read_definition(cursor, name) if is_definition(cursor) else ParsedText(cursor.parse(), cursor.source)
    return st.CreateView(place, name, query, options, cursor.text(), tree, if_not_exists, or_replace)


def read_alter_view(cursor: StatementCursor, place: TextLocation) -> st.AlterView:
    """``ALTER [MATERIALIZED] VIEW name SET (options)``."""
    name = _view_name(cursor)
    cursor.expect("SET")
    return st.AlterView(place, name, read_options(cursor))


def read_options(cursor: StatementCursor) -> dict[str, str]:
    """``(strategy = 'viewlet', runtime = native)``: values are strings, words or numbers."""
    options: dict[str, str] = {}
    cursor.expect("(")
    while not cursor.accept(")"):
        place = cursor.place
        key = cursor.next("an option").text.lower()
        if key in options:
            raise ParseError(f'option "{key}" is given twice', where=place)
        cursor.expect("=")
        sign = "-" if cursor.accept("-") else ""
        options[key] = sign + cursor.next(f'the value of "{key}"').text
        if not cursor.accept(","):
            cursor.expect(")")
            break
    return options


def read_define(cursor: StatementCursor, place: TextLocation) -> st.CreateView:
    """``DEFINE name[()] [WITH (options)] AS query``: a view whose query is in OQL, over objects."""
    name = cursor.name("view")
    if cursor.accept("("):
        cursor.expect(")")
    begun = cursor.position
    options = read_options(cursor) if cursor.accept("WITH") else {}
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


def read_plain_view(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """``CREATE VIEW``: supported for views defined by partitions, otherwise refused."""
    view = read_create_view(cursor, place)
    if isinstance(view.tree, PartitionedView):
        return view
    raise Unsupported(
        "views that are not materialized are not supported",
        where=place,
        detail="Every view of a warehouse is materialized and maintained.",
        hint="Write CREATE MATERIALIZED VIEW.",
    )


def read_drop(cursor: StatementCursor, place: TextLocation) -> st.Drop:
    """``DROP TABLE | STREAM | SOURCE | FEED | [MATERIALIZED] VIEW [IF EXISTS] name``."""
    kinds: tuple[ObjectKind, ...] = ("view",) if cursor.accept("MATERIALIZED") else get_args(ObjectKind)
    for kind in kinds:
        if cursor.accept(kind.upper()):
            if_exists = cursor.accept("IF", "EXISTS")
            return st.Drop(place, kind, cursor.name(kind), if_exists)
    *others, last = (kind.upper() for kind in kinds)
    wanted = f"{', '.join(others)} or {last}" if others else last
    raise cursor.expected(wanted)


def read_explain(cursor: StatementCursor, place: TextLocation) -> st.ExplainView:
    """``EXPLAIN [MATERIALIZED] VIEW name``."""
    return st.ExplainView(place, _view_name(cursor))


def read_refresh(cursor: StatementCursor, place: TextLocation) -> st.RefreshView:
    """``REFRESH [MATERIALIZED] VIEW name``."""
    return st.RefreshView(place, _view_name(cursor))


def _view_name(cursor: StatementCursor) -> str:
    cursor.accept("MATERIALIZED")
    cursor.expect("VIEW")
    return cursor.name("view")


def read_replay_late(cursor: StatementCursor, place: TextLocation) -> st.ReplayLate:
    """``REPLAY LATE name [WHERE condition]``."""
    name = cursor.name("table or stream")
    where = ParsedText(cursor.parse(), cursor.source) if cursor.accept("WHERE") else None
    return st.ReplayLate(place, name, where)


def read_show_partitions(cursor: StatementCursor, place: TextLocation) -> st.ShowPartitions:
    """``SHOW PARTITIONS name``."""
    return st.ShowPartitions(place, cursor.name("table or view"))


def read_show_create_table(cursor: StatementCursor, place: TextLocation) -> st.ShowCreateTable:
    """``SHOW CREATE TABLE name``."""
    return st.ShowCreateTable(place, cursor.name("table"))


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


def read_show_plans(cursor: StatementCursor, place: TextLocation) -> st.ShowPlans:
    """``SHOW PLANS [FOR view]``."""
    return st.ShowPlans(place, cursor.name("view") if cursor.accept("FOR") else None)


def read_show_statistics(cursor: StatementCursor, place: TextLocation) -> st.ShowStatistics:
    """``SHOW STATISTICS [FOR name]``."""
    return st.ShowStatistics(place, cursor.name("table or view") if cursor.accept("FOR") else None)


def without_operands(statement: type[st.Statement]) -> StatementReader:
    """The reader of a statement that is its first words alone."""
    return lambda cursor, place: statement(place)


STATEMENT_READERS: dict[tuple[str, ...], StatementReader] = {
    ("CREATE", "TABLE"): read_create_table,
    ("CREATE", "STREAM"): read_create_table,
    ("CREATE", "SOURCE"): read_create_source,
    ("CREATE", "FEED"): read_create_feed,
    ("CREATE", "MATERIALIZED", "VIEW"): read_create_view,
    ("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"): read_create_view,
    ("CREATE", "VIEW"): read_plain_view,
    ("CREATE", "OR", "REPLACE", "VIEW"): read_plain_view,
    ("ALTER",): read_alter_view,
    ("ANALYZE",): read_analyze,
    ("DEFINE",): read_define,
    ("OQL",): read_oql,
    ("DROP",): read_drop,
    ("EXPLAIN",): read_explain,
    ("REFRESH",): read_refresh,
    ("REPLAY", "LATE"): read_replay_late,
    ("SHOW", "PARTITIONS"): read_show_partitions,
    ("SHOW", "CREATE", "TABLE"): read_show_create_table,
    ("SHOW", "FEEDS"): without_operands(st.ShowFeeds),
    ("SHOW", "PLANS"): read_show_plans,
    ("SHOW", "SOURCES"): without_operands(st.ShowSources),
    ("SHOW", "STATISTICS"): read_show_statistics,
    ("SHOW", "TABLES"): without_operands(st.ShowTables),
    ("SHOW", "VIEWS"): without_operands(st.ShowViews),
    ("SHOW", "MATERIALIZED", "VIEWS"): without_operands(st.ShowViews),
    ("INSERT",): read_insert,
    ("UPDATE",): read_update,
    ("DELETE",): read_delete,
    ("TRUNCATE", "TABLE"): read_truncate,
    ("TRUNCATE",): read_truncate,
    ("SELECT",): read_query,
    ("WITH",): read_query,
    ("VALUES",): read_query,
    ("FROM",): read_query,
    ("(",): read_query,
}
"""Readers by first words, longer beginnings before shorter ones."""
