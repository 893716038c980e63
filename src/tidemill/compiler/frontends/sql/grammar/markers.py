"""Parameter markers: ``:name``, and ``?`` by its number in the text."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.model.errors import TextLocation

__all__ = ["limit_markers", "marker_of", "markers_in", "selected_values"]

MOST_SELECTED_ROWS = 20
"""Rows of VALUES up to which each becomes a SELECT of its own."""


def marker_of(node: exp.Placeholder, source: SqlText) -> str:
    """The name of a marker: ``:name`` in lower case, or ``?1`` for the first ``?`` of the text."""
    if node.this:
        return f":{node.name.lower()}"
    starts = [token.start for token in source.tokens if token.token_type == TokenType.PLACEHOLDER]
    return f"?{starts.index(node.meta['start']) + 1}"


def markers_in(tree: ParsedText) -> dict[str, TextLocation]:
    """The markers of a query or expression with their places.

    >>> source = SqlText.of("SELECT :a FROM t WHERE b = ? AND c = ?", "sql")
    >>> sorted(markers_in(ParsedText(source.parse(), source)))
    [':a', '?1', '?2']
    """
    nodes = tree.node.find_all(exp.Placeholder)
    return {marker_of(node, tree.source): tree.source.place(node) for node in nodes}


def limit_markers(tree: ParsedText) -> set[str]:
    """The markers in LIMIT and OFFSET, which have to be known to read the query.

    >>> source = SqlText.of("SELECT a FROM t WHERE b = :b LIMIT :n", "sql")
    >>> limit_markers(ParsedText(source.parse(), source))
    {':n'}
    """
    nodes = tree.node.find_all(exp.Placeholder)
    return {marker_of(node, tree.source) for node in nodes if node.find_ancestor(exp.Limit, exp.Offset) is not None}


def selected_values(tree: ParsedText) -> ParsedText:
    """VALUES with markers as a SELECT for each row, which unlike VALUES may hold what is not known yet.

    Other queries, and VALUES of many rows, stay as they are.

    >>> source = SqlText.of("VALUES (:a, 1), (:b, 2)", "sql")
    >>> print(selected_values(ParsedText(source.parse(), source)))
    SELECT :a, 1 UNION ALL SELECT :b, 2
    """
    values = tree.node
    rows = values.expressions if isinstance(values, exp.Values) else []
    plain = all(isinstance(row, exp.Tuple) for row in rows) and 0 < len(rows) <= MOST_SELECTED_ROWS
    if not plain or next(values.find_all(exp.Placeholder), None) is None:
        return tree
    selects: list[exp.Expr] = [exp.Select(expressions=[item.copy() for item in row.expressions]) for row in rows]
    found = selects[0]
    for select in selects[1:]:
        found = exp.Union(this=found, expression=select, distinct=False)
    return ParsedText(found, tree.source)
