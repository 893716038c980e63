"""``SHOW``: what there is, as rows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import NoReturn

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script.definitions.build_statements import ShowBuilds
from tidemill.compiler.frontends.script.listings.show_refreshes import (
    read_show_clocks,
    read_show_costs,
    read_show_refreshes,
    read_show_state,
)
from tidemill.compiler.frontends.sql.grammar.statement_cursor import ONE_SCHEMA, SCHEMA_NAMES, StatementCursor
from tidemill.model.errors import ParseError, TextLocation, UnknownName

__all__ = ["SHOW_READERS", "read_view_name"]

ShowReader = Callable[[StatementCursor, TextLocation], st.Statement]


def read_show_tables(cursor: StatementCursor, place: TextLocation) -> st.ShowTables:
    """``SHOW TABLES [FROM | IN default] [[LIKE] 'pattern']``."""
    return st.ShowTables(place, _pattern(cursor))


def read_show_views(cursor: StatementCursor, place: TextLocation) -> st.ShowViews:
    """``SHOW [MATERIALIZED] VIEWS [FROM | IN default] [[LIKE] 'pattern']``."""
    return st.ShowViews(place, _pattern(cursor))


def _pattern(cursor: StatementCursor) -> str | None:
    """The pattern of names, in which ``*`` is anything and ``|`` separates several; None for all."""
    if cursor.accept("FROM") or cursor.accept("IN"):
        place, words = cursor.place, tuple(cursor.next("the name of a schema").text.lower().split("."))
        while cursor.accept("."):
            words = (*words, cursor.next("the name of a schema").text.lower())
        if words not in SCHEMA_NAMES:
            raise UnknownName(f'there is no schema "{".".join(words)}"', where=place, hint=ONE_SCHEMA)
    cursor.accept("LIKE")
    return cursor.next("a pattern").text if cursor.token is not None else None


def read_show_partitions(cursor: StatementCursor, place: TextLocation) -> st.ShowPartitions:
    """``SHOW PARTITIONS name``."""
    return st.ShowPartitions(place, cursor.name("table or view"))


def read_view_name(cursor: StatementCursor) -> str:
    """``[MATERIALIZED] VIEW name``."""
    cursor.accept("MATERIALIZED")
    cursor.expect("VIEW")
    return cursor.name("view")


def read_show_create(cursor: StatementCursor, place: TextLocation) -> st.ShowCreate:
    """``SHOW CREATE TABLE name`` and ``SHOW CREATE [MATERIALIZED] VIEW name``."""
    if cursor.accept("TABLE"):
        return st.ShowCreate(place, "table", cursor.name("table"))
    return st.ShowCreate(place, "view", read_view_name(cursor))


def read_show_plans(cursor: StatementCursor, place: TextLocation) -> st.ShowPlans:
    """``SHOW PLANS [FOR view]``."""
    return st.ShowPlans(place, cursor.name("view") if cursor.accept("FOR") else None)


def read_show_statistics(cursor: StatementCursor, place: TextLocation) -> st.ShowStatistics:
    """``SHOW STATISTICS [FOR name]``."""
    return st.ShowStatistics(place, cursor.name("table or view") if cursor.accept("FOR") else None)


def read_show_functions(cursor: StatementCursor, place: TextLocation) -> st.ShowFunctions:
    """``SHOW [USER | SYSTEM | ALL] FUNCTIONS [LIKE 'pattern']``."""
    kind = cursor.tokens[1].text.lower()
    cursor.accept("LIKE")
    pattern = cursor.next("a pattern").text if cursor.token is not None else None
    return st.ShowFunctions(place, "all" if kind == "functions" else kind, pattern)


def read_show_columns(cursor: StatementCursor, place: TextLocation) -> st.DescribeTable:
    """``SHOW COLUMNS IN name``."""
    if not cursor.accept("FROM"):
        cursor.expect("IN")
    return st.DescribeTable(place, cursor.name("table or view"), names_only=True)


def without_operands(statement: type[st.Statement]) -> ShowReader:
    """The reader of a statement that is its first words alone."""
    return lambda cursor, place: statement(place)


KNOWN = (
    "TABLES, VIEWS, COLUMNS IN, CREATE TABLE, CREATE VIEW, SCHEMAS, FUNCTIONS, GRANTS, SOURCES, FEEDS, BUILDS, "
    "PARTITIONS, STATISTICS, PLANS, REFRESHES, COSTS, STATE"
)


def refuse_show(cursor: StatementCursor, place: TextLocation) -> NoReturn:
    """``SHOW`` of something that there is not."""
    if cursor.token is None:
        raise ParseError("SHOW is followed by what to show", where=place, hint=f"SHOW takes {KNOWN}.")
    word = cursor.token.text.upper()
    close = difflib.get_close_matches(word, re.findall(r"\w+", KNOWN), n=1)
    hint = f'Did you mean "{close[0]}"?' if close else f"SHOW takes {KNOWN}."
    raise ParseError(f"there is no SHOW {word}", where=cursor.place, hint=hint)


SHOW_READERS: dict[tuple[str, ...], ShowReader] = {
    ("SHOW", "FUNCTIONS"): read_show_functions,
    **{("SHOW", kind, "FUNCTIONS"): read_show_functions for kind in ("USER", "SYSTEM", "ALL")},
    ("SHOW", "COLUMNS"): read_show_columns,
    ("SHOW", "SCHEMAS"): without_operands(st.ShowSchemas),
    ("SHOW", "DATABASES"): without_operands(st.ShowSchemas),
    ("SHOW", "PARTITIONS"): read_show_partitions,
    ("SHOW", "CREATE"): read_show_create,
    ("SHOW", "BUILDS"): without_operands(ShowBuilds),
    ("SHOW", "FEEDS"): without_operands(st.ShowFeeds),
    ("SHOW", "PLANS"): read_show_plans,
    ("SHOW", "REFRESHES"): read_show_refreshes,
    ("SHOW", "COSTS"): read_show_costs,
    ("SHOW", "STATE"): read_show_state,
    ("SHOW", "CLOCKS"): read_show_clocks,
    ("SHOW", "SOURCES"): without_operands(st.ShowSources),
    ("SHOW", "STATISTICS"): read_show_statistics,
    ("SHOW", "TABLES"): read_show_tables,
    ("SHOW", "VIEWS"): read_show_views,
    ("SHOW", "MATERIALIZED", "VIEWS"): read_show_views,
    ("SHOW",): refuse_show,
}
"""Readers by first words, longer beginnings before shorter ones."""
