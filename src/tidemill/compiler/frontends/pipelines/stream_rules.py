"""Rules for queries over a stream that give new rows for new rows alone, so that appended rows stay right.

Selections, projections, UNION ALL, generators and joins of the stream with tables do. What needs rows that came before,
such as aggregates, DISTINCT, windows or a join of two streams, is refused, as Spark refuses it without a watermark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidemill.algebra.expressions.scalars import Exists, Quantified, Scalar, Subquery
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.walk import children, expressions, walk
from tidemill.model.errors import Unsupported

__all__ = ["require_row_by_row"]


def require_row_by_row(relation: Relation, streams: Collection[str]) -> None:
    """Refuse a query whose rows do not come from one row of ``streams`` each."""
    for node in walk(relation):
        for expression in expressions(node):
            _require_outside(expression, streams)
    _reads_stream(relation, streams)


def _require_outside(expression: Scalar, streams: Collection[str]) -> None:
    if isinstance(expression, Subquery | Exists | Quantified):
        for node in walk(expression.relation):
            if isinstance(node, r.Scan) and node.relation in streams:
                raise _refused("a stream in a subquery of an expression")
    for below in children(expression):
        _require_outside(below, streams)


def _reads_stream(node: Relation, streams: Collection[str]) -> bool:
    """True if a relation has rows of a stream, each of them from one row."""
    match node:
        case r.Scan():
            return node.relation in streams
        case r.Filter() | r.Project() | r.Unnest():
            return _reads_stream(node.input, streams)
        case r.Join() | r.OuterJoin():
            left, right = _reads_stream(node.left, streams), _reads_stream(node.right, streams)
            if left and right:
                raise _refused("a join of two streams")
            if isinstance(node, r.OuterJoin) and ((left and node.keeps_right) or (right and node.keeps_left)):
                raise _refused("an outer join that keeps rows for which the stream has no partner yet")
            return left or right
        case r.UnionAll():
            return _any_reads_stream(node.inputs, streams)
        case r.With():
            for name, definition in node.definitions:
                streams = {*streams, name} if _reads_stream(definition, streams) else streams
            return _reads_stream(node.body, streams)
    if _any_reads_stream(children(node), streams):
        raise _refused(_SAID.get(type(node).__name__, type(node).__name__))
    return False


def _any_reads_stream(nodes: Iterable[Relation], streams: Collection[str]) -> bool:
    """True if one of several relations has rows of a stream; all of them are checked."""
    found = [_reads_stream(node, streams) for node in nodes]
    return True in found


_SAID = {
    "Aggregate": "an aggregate",
    "Distinct": "DISTINCT, or UNION without ALL",
    "Window": "a window function",
    "TopK": "LIMIT or a rank",
    "Intersect": "INTERSECT",
    "Except": "EXCEPT",
    "Recursive": "a recursion",
    "Match": "MATCH_RECOGNIZE",
}
"""Relations that need more than one row, as people call them."""


def _refused(what: str) -> Unsupported:
    return Unsupported(
        f"a streaming table cannot have {what}",
        detail="It depends on rows that came before or are still to come, and rows once appended stay.",
        hint="Let the streaming table take the rows as they are, and define a materialized view over it.",
    )
