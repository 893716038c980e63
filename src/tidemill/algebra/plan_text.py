"""A relation as a tree of lines, one for each node, as EXPLAIN shows a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Named, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.walk import children
from tidemill.algebra.text import text_of, text_of_call

__all__ = ["plan_text"]

STEP = "  "


def plan_text(relation: Relation) -> str:
    """``relation``, with what it is made of below it.

    >>> from tidemill.model.types import INT, Field
    >>> orders = r.Scan("orders", "o", (Field("id", INT), Field("n", INT)))
    >>> print(plan_text(r.Aggregate(orders, (Named("n", Column("o.n", INT)),), ())))
    group by o.n
      read orders as o
    """
    return "\n".join(_lines(relation, ""))


def _lines(node: Relation, indent: str) -> Iterator[str]:
    yield indent + _head(node)
    for below in children(node):
        yield from _lines(below, indent + STEP)


def _head(node: Relation) -> str:
    """One node, without its inputs."""
    match node:
        case r.Scan(relation=name, alias=alias):
            return f"read {name}" + (f" as {alias}" if alias not in ("", name) else "")
        case r.Values(rows=rows):
            return f"{len(rows)} constant row{'' if len(rows) == 1 else 's'}"
        case r.Filter(condition=condition):
            return f"where {text_of(condition)}"
        case r.Project(outputs=outputs):
            return f"select {', '.join(map(_output, outputs))}"
        case r.Join(condition=condition):
            return "cross join" if condition is None else f"join on {text_of(condition)}"
        case r.OuterJoin(condition=condition):
            side = {(True, False): "left", (False, True): "right"}.get((node.keeps_left, node.keeps_right), "full")
            return f"{side} outer join on {'true' if condition is None else text_of(condition)}"
        case r.Aggregate(keys=keys, aggregates=aggregates):
            by = f"group by {_listed([key.scalar for key in keys])}" if keys else "all rows"
            return by + (f": {', '.join(map(text_of_call, aggregates))}" if aggregates else "")
        case r.TopK(partition=partition, order=order, limit=limit, offset=offset):
            return _first(partition, order, limit, offset)
        case r.Window(partition=partition, order=order, calls=calls):
            called = ", ".join(f"{call.function.upper()}({_listed(call.arguments)})" for call in calls)
            return f"window {called}{_over(partition, order)}"
        case r.Unnest(array=array, outer=outer):
            return f"explode {text_of(array)}{', rows without elements too' if outer else ''}"
        case r.Intersect(all=every) | r.Except(all=every):
            return type(node).__name__.lower() + (" all" if every else "")
        case r.With(definitions=definitions):
            return f"with {', '.join(name for name, _ in definitions)}"
    return {"UnionAll": "union all"}.get(type(node).__name__, type(node).__name__.lower())


def _first(partition: Sequence[Scalar], order: Sequence[SortOrder], limit: int | None, offset: int) -> str:
    count = "all rows" if limit is None else f"first {limit}"
    return f"{count}{f' after {offset}' if offset else ''}{_over(partition, order)}"


def _over(partition: Sequence[Scalar], order: Sequence[SortOrder]) -> str:
    terms = ", ".join(f"{text_of(term.scalar)}{' desc' if term.descending else ''}" for term in order)
    return (f" of each {_listed(partition)}" if partition else "") + (f" by {terms}" if terms else "")


def _output(output: Named) -> str:
    text = text_of(output.scalar)
    own = isinstance(output.scalar, Column) and output.scalar.name.rpartition(".")[2] == output.name
    return text if own or text == output.name else f"{text} AS {output.name}"


def _listed(scalars: Sequence[Scalar]) -> str:
    return ", ".join(map(text_of, scalars))
