"""From a script's tokens to statements: what sqlglot does not know is read word by word, the rest is its parser's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, get_args

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script.create_table import read_table, table_name
from tidemill.compiler.frontends.script.statements import ObjectKind
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor, split_statements
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments
from tidemill.compiler.frontends.viewdf.definition import PartitionedView
from tidemill.compiler.frontends.viewdf.parse import is_definition, read_definition
from tidemill.compiler.frontends.viewdf.partition_by import at_partition_by, read_partitioning
from tidemill.model.errors import ParseError, TextLocation, Unsupported

KNOWN_STATEMENTS = (
    "CREATE, DEFINE, DROP, INSERT, UPDATE, DELETE, TRUNCATE, SELECT, EXPLAIN VIEW, REFRESH VIEW, REPLAY LATE, SHOW"
)


T = TypeVar("T", bound=exp.Expr)


def read_script(source: SqlText) -> list[st.Statement]:
    """Every statement of a script, in order."""
    return [read_statement(StatementCursor(source, tokens)) for tokens in split_statements(source.tokens)]


def read_statement(cursor: StatementCursor) -> st.Statement:
    """One statement, by its first words."""
    place = cursor.place
    for words, read in STATEMENT_READERS.items():
        if cursor.accept(*words):
            return read(cursor, place)
    raise ParseError(
        f'a statement cannot begin with "{cursor.tokens[0].text}"',
        where=place,
        hint=f"Statements are {KNOWN_STATEMENTS}.",
    )


def read_create_table(cursor: StatementCursor, place: TextLocation) -> st.CreateTable:
    """``CREATE TABLE [IF NOT EXISTS] name (columns, keys) [PARTITION BY ...]``, and STREAM alike."""
    kept = cursor.tokens[1].text.upper() == "TABLE"
    while cursor.rest and not at_partition_by(cursor):
        cursor.next("PARTITION BY")
    tree = cursor.source.parse(_as_table(cursor.tokens[: cursor.position]))
    refuse_unsupported_arguments(tree, cursor.source)
    table = read_table(tree, cursor.source, kept)
    if cursor.rest:
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
            "a view's columns cannot be named in front",
            where=cursor.place,
            hint="Name them in the SELECT list, with AS.",
        )
    options = read_options(cursor) if cursor.accept("WITH") else {}
    cursor.expect("AS")
    query = cursor.text(cursor.position) if cursor.rest else ""
    tree = read_definition(cursor, name) if is_definition(cursor) else ParsedText(cursor.parse(), cursor.source)
    return st.CreateView(place, name, query, options, cursor.text(), tree, if_not_exists, or_replace)


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
    # What OQL does not know is blank: all else keeps its place.
    shown = _blank(script[:start]) + script[start:head] + _blank(script[head:body]) + script[body : start + len(text)]
    query = script[start:head] + " " + script[body : start + len(text)]
    return st.CreateView(
        place, name, query, {"strategy": "lineage"} | options, text, st.OqlText(shown, cursor.source.name)
    )


def read_oql(cursor: StatementCursor, place: TextLocation) -> st.SelectOql:
    """``OQL query``: asked once."""
    cursor.next("a query")
    start = cursor.tokens[1].start
    text = _blank(cursor.source.text[:start]) + cursor.text(1)
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
    cursor.expect_end("statement")
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
    cursor.expect_end("statement")
    return st.CreateFeed(place, name, table, folder.text, options, if_not_exists)


def read_plain_view(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """``CREATE VIEW``: one that is made by partitions is always kept, another is refused, with the way out."""
    view = read_create_view(cursor, place)
    if isinstance(view.tree, PartitionedView):
        return view
    raise Unsupported(
        "views that are not materialized are not kept",
        where=place,
        detail="Every view of a warehouse is stored and kept fresh.",
        hint="Say CREATE MATERIALIZED VIEW.",
    )


def read_drop(cursor: StatementCursor, place: TextLocation) -> st.Drop:
    """``DROP TABLE | STREAM | SOURCE | FEED | [MATERIALIZED] VIEW [IF EXISTS] name``."""
    kinds: tuple[ObjectKind, ...] = ("view",) if cursor.accept("MATERIALIZED") else get_args(ObjectKind)
    for kind in kinds:
        if cursor.accept(kind.upper()):
            if_exists = cursor.accept("IF", "EXISTS")
            name = cursor.name(kind)
            cursor.expect_end("statement")
            return st.Drop(place, kind, name, if_exists)
    *others, last = (kind.upper() for kind in kinds)
    wanted = f"{', '.join(others)} or {last}" if others else last
    raise ParseError(f"{wanted} was expected here", where=cursor.place)


def read_explain(cursor: StatementCursor, place: TextLocation) -> st.ExplainView:
    """``EXPLAIN [MATERIALIZED] VIEW name``."""
    return st.ExplainView(place, _view_name(cursor))


def read_refresh(cursor: StatementCursor, place: TextLocation) -> st.RefreshView:
    """``REFRESH [MATERIALIZED] VIEW name``."""
    return st.RefreshView(place, _view_name(cursor))


def _view_name(cursor: StatementCursor) -> str:
    cursor.accept("MATERIALIZED")
    cursor.expect("VIEW")
    name = cursor.name("view")
    cursor.expect_end("statement")
    return name


def read_replay_late(cursor: StatementCursor, place: TextLocation) -> st.ReplayLate:
    """``REPLAY LATE name [WHERE condition]``."""
    name = cursor.name("table or stream")
    where = ParsedText(cursor.parse(), cursor.source) if cursor.accept("WHERE") else None
    cursor.expect_end("statement")
    return st.ReplayLate(place, name, where)


def read_show_partitions(cursor: StatementCursor, place: TextLocation) -> st.ShowPartitions:
    """``SHOW PARTITIONS name``."""
    name = cursor.name("table or view")
    cursor.expect_end("statement")
    return st.ShowPartitions(place, name)


def read_show_create_table(cursor: StatementCursor, place: TextLocation) -> st.ShowCreateTable:
    """``SHOW CREATE TABLE name``."""
    name = cursor.name("table")
    cursor.expect_end("statement")
    return st.ShowCreateTable(place, name)


def read_show_feeds(cursor: StatementCursor, place: TextLocation) -> st.ShowFeeds:
    """``SHOW FEEDS``."""
    cursor.expect_end("statement")
    return st.ShowFeeds(place)


def read_show_sources(cursor: StatementCursor, place: TextLocation) -> st.ShowSources:
    """``SHOW SOURCES``."""
    cursor.expect_end("statement")
    return st.ShowSources(place)


def read_show_tables(cursor: StatementCursor, place: TextLocation) -> st.ShowTables:
    """``SHOW TABLES``."""
    cursor.expect_end("statement")
    return st.ShowTables(place)


def read_show_views(cursor: StatementCursor, place: TextLocation) -> st.ShowViews:
    """``SHOW [MATERIALIZED] VIEWS``."""
    cursor.expect_end("statement")
    return st.ShowViews(place)


def read_query(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """A SELECT, or the INSERT that follows a WITH."""
    cursor.position = 0
    tree = cursor.parse()
    if isinstance(tree, exp.Insert):
        return _insert(tree, cursor.source, place)
    return st.Select(place, ParsedText(tree, cursor.source))


def read_insert(cursor: StatementCursor, place: TextLocation) -> st.Insert:
    """``INSERT INTO [TABLE] name [(columns)] query``."""
    if not cursor.accept("OVERWRITE"):
        cursor.expect("INTO")
    return _insert(_parsed(cursor, exp.Insert), cursor.source, place)


def _insert(tree: exp.Insert, source: SqlText, place: TextLocation) -> st.Insert:
    refuse_unsupported_arguments(
        tree,
        source,
        hint="Write INSERT INTO table (columns) SELECT ..., with a DELETE before it where rows must go.",
    )
    target, query = tree.this, tree.expression
    if not isinstance(query, exp.Expr):
        raise ParseError("INSERT takes VALUES or a query", where=place, hint="Write INSERT INTO table VALUES (...).")
    if tree.args.get("with_") and query.args.get("with_"):
        raise Unsupported("an INSERT has one WITH", where=source.place(query), hint="Put both lists into one.")
    if tree.args.get("with_"):
        query.set("with_", tree.args["with_"])
    table = target.this if isinstance(target, exp.Schema) else target
    return st.Insert(place, _target(table, source), _columns(target, source), ParsedText(query, source))


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


def _target(table: exp.Expr, source: SqlText, aliased: bool = False) -> str:
    """The name of the table that a statement changes, which stands there with nothing but perhaps an alias."""
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
    name, alias = _target(tree.this, source, aliased=True), tree.this.alias_or_name.lower()
    if not tree.expressions:
        raise ParseError("SET was expected in an UPDATE", where=place)
    assignments = [
        (_assigned(assignment.this, alias, source), ParsedText(assignment.expression, source))
        for assignment in tree.expressions
    ]
    return st.Update(place, name, tuple(assignments), _where(tree, source), alias)


def _assigned(column: exp.Expr, alias: str, source: SqlText) -> str:
    """The column to the left of ``=`` in SET, perhaps with the table before it."""
    parts = [part.name.lower() for part in column.parts] if isinstance(column, exp.Column) else []
    if len(parts) == 1 or (len(parts) == 2 and parts[0] == alias):
        return parts[-1]
    raise ParseError("SET takes a column of the table = value", where=source.place(column))


def read_delete(cursor: StatementCursor, place: TextLocation) -> st.Delete:
    """``DELETE FROM name [WHERE condition]``."""
    cursor.expect("FROM")
    tree, source = _parsed(cursor, exp.Delete), cursor.source
    refuse_unsupported_arguments(tree, source, hint="DELETE takes WHERE.")
    name = _target(tree.this, source, aliased=True)
    return st.Delete(place, name, _where(tree, source), tree.this.alias_or_name.lower())


def read_truncate(cursor: StatementCursor, place: TextLocation) -> st.Delete:
    """``TRUNCATE TABLE name``: a DELETE of every row."""
    name = cursor.name("table")
    cursor.expect_end("statement")
    return st.Delete(place, name, None, name)


def _where(tree: exp.Expr, source: SqlText) -> ParsedText | None:
    where = tree.args.get("where")
    return ParsedText(where.this, source) if where else None


StatementReader = Callable[[StatementCursor, TextLocation], st.Statement]

STATEMENT_READERS: dict[tuple[str, ...], StatementReader] = {
    ("CREATE", "TABLE"): read_create_table,
    ("CREATE", "STREAM"): read_create_table,
    ("CREATE", "SOURCE"): read_create_source,
    ("CREATE", "FEED"): read_create_feed,
    ("CREATE", "MATERIALIZED", "VIEW"): read_create_view,
    ("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"): read_create_view,
    ("CREATE", "VIEW"): read_plain_view,
    ("CREATE", "OR", "REPLACE", "VIEW"): read_plain_view,
    ("DEFINE",): read_define,
    ("OQL",): read_oql,
    ("DROP",): read_drop,
    ("EXPLAIN",): read_explain,
    ("REFRESH",): read_refresh,
    ("REPLAY", "LATE"): read_replay_late,
    ("SHOW", "PARTITIONS"): read_show_partitions,
    ("SHOW", "CREATE", "TABLE"): read_show_create_table,
    ("SHOW", "FEEDS"): read_show_feeds,
    ("SHOW", "SOURCES"): read_show_sources,
    ("SHOW", "TABLES"): read_show_tables,
    ("SHOW", "VIEWS"): read_show_views,
    ("SHOW", "MATERIALIZED", "VIEWS"): read_show_views,
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
"""By first words; a longer beginning stands before the shorter one that it contains."""
