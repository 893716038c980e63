"""Parameter markers: ``:name``, and ``?`` by its number in the text."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.model.errors import TextLocation

__all__ = ["marker_of", "markers_in"]


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
