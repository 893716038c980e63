"""MERGE INTO, which sqlglot parses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script.assignments import Assignments, assigned_path, read_assignments
from tidemill.compiler.frontends.script.row_changes.dml_readers import changed_table
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.model.errors import ParseError, TextLocation, Unsupported

UNNAMED_SOURCE = "source"
"""The name of a source that has none, for ``*``."""


def read_merge(cursor: StatementCursor, place: TextLocation) -> st.Merge:
    """``MERGE INTO table USING source ON condition WHEN [NOT] MATCHED [BY ...] [AND condition] THEN ...``."""
    if cursor.sees("WITH"):
        raise Unsupported(
            "MERGE WITH SCHEMA EVOLUTION is not supported", where=place, hint="ALTER TABLE first, then MERGE INTO."
        )
    cursor.expect("INTO")
    tree, source = _parsed(cursor), cursor.source
    using, condition, whens = tree.args["using"], tree.args.get("on"), tree.args["whens"].expressions
    if condition is None:
        raise ParseError("ON was expected in a MERGE", where=place)
    if not using.alias_or_name:
        using.set("alias", exp.TableAlias(this=exp.to_identifier(UNNAMED_SOURCE)))
    clauses = tuple(_clause(when, source) for when in whens)
    _require_last_unconditional(clauses, place)
    name, alias = changed_table(tree.this, source, aliased=True), tree.this.alias_or_name.lower()
    return st.Merge(place, name, alias, ParsedText(using, source), ParsedText(condition, source), clauses)


def _parsed(cursor: StatementCursor) -> exp.Merge:
    """The whole statement. The parser knows ``UPDATE SET *`` without SET."""
    following = zip_longest(cursor.tokens, cursor.tokens[1:])
    whole = [t for t, after in following if not (t.token_type == TokenType.SET and _is_star(after))]
    tree = cursor.source.parse(tuple(whole))
    cursor.position = len(cursor.tokens)
    if not isinstance(tree, exp.Merge):
        raise ParseError("this cannot be read as a statement", where=cursor.source.place(tree))
    return tree


def _is_star(token: Token | None) -> bool:
    return token is not None and token.token_type == TokenType.STAR


def _clause(when: exp.When, source: SqlText) -> st.MergeClause:
    rows: Literal["matched", "not matched", "not matched by source"] = (
        "matched" if when.args.get("matched") else "not matched by source" if when.args.get("source") else "not matched"
    )
    condition = when.args.get("condition")
    guard = ParsedText(condition, source) if condition else None
    match when.args["then"]:
        case exp.Update() as update if rows != "not matched":
            return st.MergeClause(rows, guard, "update", _assignments(update, source))
        case exp.Insert() as insert if rows == "not matched":
            return st.MergeClause(rows, guard, "insert", _values(insert, source))
        case exp.Var() as word if word.name.upper() == "DELETE" and rows != "not matched":
            return st.MergeClause(rows, guard, "delete", None)
    raise ParseError(
        f"WHEN {rows.upper()} cannot do this",
        where=source.place(when),
        hint="Rows that match, or that the source lacks, take UPDATE SET and DELETE, others INSERT.",
    )


def _assignments(update: exp.Update, source: SqlText) -> Assignments | None:
    """The assignments of UPDATE SET; None for ``*``."""
    if isinstance(update.args.get("expressions"), exp.Star):
        return None
    return read_assignments(update.expressions, source)


def _values(insert: exp.Insert, source: SqlText) -> Assignments | None:
    """The columns of INSERT with their values; None for ``*``."""
    if isinstance(insert.this, exp.Star):
        return None
    columns, values = _members(insert.this), _members(insert.expression)
    if not columns or len(columns) != len(values):
        raise ParseError(
            f"{len(values)} values are given for {len(columns)} columns",
            where=source.place(insert),
            hint="Write INSERT (columns) VALUES (values), or INSERT *.",
        )
    pairs = zip(columns, values, strict=True)
    return tuple((assigned_path(column, source), ParsedText(value, source)) for column, value in pairs)


def _members(node: exp.Expr | None) -> Sequence[exp.Expr]:
    if node is None:
        return ()
    return node.expressions if isinstance(node, exp.Tuple) else [node.this if isinstance(node, exp.Paren) else node]


def _require_last_unconditional(clauses: Sequence[st.MergeClause], place: TextLocation) -> None:
    """Refuse a clause that follows one for the same rows without a condition: it would never apply."""
    settled = set()
    for clause in clauses:
        if clause.rows in settled:
            raise ParseError(f"only the last WHEN {clause.rows.upper()} may be without a condition", where=place)
        if clause.condition is None:
            settled.add(clause.rows)
