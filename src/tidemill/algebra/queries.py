"""Relations as people read them: a query in the manner of SQL, for EXPLAIN, errors and whoever debugs a rewrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.aggregates import AggregateCall
from tidemill.algebra.relational.ordering import SortOrder
from tidemill.algebra.relational.relations import Relation
from tidemill.algebra.relational.walk import children, conjunction, substitute
from tidemill.algebra.text import function_text, text_of


def text_of_query(relation: Relation) -> str:
    """``relation`` as a query. Columns go by their full names, so it says which table each one is of.

    >>> from tidemill.model.types import INT, Field
    >>> orders = r.Scan("orders", "o", (Field("n", INT),))
    >>> text_of_query(r.Aggregate(orders, (), (AggregateCall("n", "count", None, INT),)))
    'SELECT COUNT(*) FROM orders o'
    >>> text_of_query(r.Unnest(orders, Column("o.list", INT), (Field("x", INT),)))
    'SELECT * FROM orders o LATERAL VIEW EXPLODE(o.list)'
    """
    match relation:
        case r.UnionAll(inputs=inputs):
            return " UNION ALL ".join(map(text_of_query, inputs))
        case r.Values(rows=rows, columns=columns) if columns:
            return f"VALUES {_listed([f'({_row(row, relation)})' for row in rows])}"
        case r.Distinct(input=input_):
            return text_of_query(input_).replace("SELECT", "SELECT DISTINCT", 1)
    outputs = relation.outputs if isinstance(relation, r.Project) else None
    having, node = _conditions(relation.input if isinstance(relation, r.Project) else relation)
    if not isinstance(node, r.Aggregate):
        return f"SELECT {_outputs(outputs, {})}{_from(node, having)}"
    values = _aggregates(node)
    shown = outputs or [Named(f.name, column(f)) for f in node.fields]
    keys = f" GROUP BY {_listed([text_of(key.scalar) for key in node.keys])}" if node.keys else ""
    below, source = _conditions(node.input)
    tail = f" HAVING {text_of(substitute(having, values))}" if having is not None else ""
    return f"SELECT {_outputs(shown, values)}{_from(source, below)}{keys}{tail}"


def _conditions(node: Relation) -> tuple[Scalar | None, Relation]:
    """The filters at the top of ``node`` as one condition, and what is below them."""
    found = []
    while isinstance(node, r.Filter):
        found.append(node.condition)
        node = node.input
    return conjunction(found[::-1]), node


def _from(node: Relation, condition: Scalar | None) -> str:
    source = "" if isinstance(node, r.Values) and not node.columns else f" FROM {_item(node)}"
    return source if condition is None else f"{source} WHERE {text_of(condition)}"


def _item(node: Relation) -> str:
    match node:
        case r.Scan(relation=name, alias=alias):
            return name if name == alias else f"{name} {alias}"
        case r.Change(relation=name, alias=alias):
            return f"change of {name} {alias}"
        case r.Join(left=left, right=right, condition=None):
            return f"{_item(left)}, {_item(right)}"
        case r.Join(left=left, right=right, condition=condition) if condition is not None:
            return f"{_item(left)} JOIN {_item(right)} ON {text_of(condition)}"
        case r.OuterJoin(left=left, right=right, condition=condition):
            manner = {(True, False): "LEFT", (False, True): "RIGHT"}.get((node.keeps_left, node.keeps_right), "FULL")
            tested = "TRUE" if condition is None else text_of(condition)
            return f"{_item(left)} {manner} JOIN {_item(right)} ON {tested}"
        case r.Unnest(input=input_, array=array, outer=outer):
            return f"{_item(input_)} LATERAL VIEW {'OUTER ' if outer else ''}EXPLODE({text_of(array)})"
        case r.Project() | r.Filter() | r.Aggregate() | r.Distinct() | r.UnionAll() | r.Values():
            return f"({text_of_query(node)})"
    # Other nodes have no short text: what they are is said, and what they read.
    return f"{type(node).__name__.upper()}({', '.join(map(_item, children(node)))})"


def _aggregates(node: r.Aggregate) -> Mapping[str, Scalar]:
    """What a column of the groups stands for; an aggregate is a column that is called by its own text."""
    calls = {call.name: Column(text_of_call(call), call.of) for call in node.aggregates}
    return {key.name: key.scalar for key in node.keys} | calls


def text_of_call(call: AggregateCall) -> str:
    """An aggregate as people read it."""
    arguments = () if call.argument is None else (call.argument, *call.others)
    listed = [*map(text_of, arguments), *map(repr, call.parameters)] or ["*"]
    ordered = f" WITHIN GROUP (ORDER BY {_listed([_term(term) for term in call.order])})" if call.order else ""
    restricted = "" if call.filter is None else f" FILTER (WHERE {text_of(call.filter)})"
    return (
        f"{function_text(call.function)}({'DISTINCT ' if call.distinct else ''}{_listed(listed)}){ordered}{restricted}"
    )


def _term(term: SortOrder) -> str:
    return f"{text_of(term.scalar)}{' DESC' if term.descending else ''}"


def _outputs(outputs: Sequence[Named] | None, values: Mapping[str, Scalar]) -> str:
    return "*" if outputs is None else _listed([text_of(substitute(output.scalar, values)) for output in outputs])


def _row(row: tuple[object, ...], values: r.Values) -> str:
    return _listed([text_of(Literal(value, f.type)) for value, f in zip(row, values.columns, strict=True)])


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts)
