"""Expressions and relations as text in the manner of SQL: for EXPLAIN, the text form of programs, and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import (
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Lambda,
    Literal,
    Named,
    Quantified,
    Scalar,
    Subquery,
    column,
)
from tidemill.algebra.functions.function import USER_FUNCTION_MARK
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.walk import children, substitute
from tidemill.algebra.values.formats import write
from tidemill.model import types as t

OPERATORS = {
    "or": ("OR", 1), "and": ("AND", 2),
    "eq": ("=", 4), "ne": ("<>", 4), "lt": ("<", 4), "le": ("<=", 4), "gt": (">", 4), "ge": (">=", 4),
    "null_safe_eq": ("<=>", 4), "like": ("LIKE", 4), "rlike": ("RLIKE", 4),
    "add": ("+", 5), "subtract": ("-", 5),
    "ring_sum": ("+", 5), "ring_product": ("*", 6),
    "multiply": ("*", 6), "divide": ("/", 6), "remainder": ("%", 6), "div": ("DIV", 6),
}  # fmt: skip
"""Each binary operator and how strongly it binds."""

NOT, TEST, ATOM = 3, 4, 9


def function_text(function: str) -> str:
    """The name of a function as users see it.

    >>> function_text("add"), function_text("shout#3")
    ('ADD', 'SHOUT')
    """
    return function.partition(USER_FUNCTION_MARK)[0].upper()


def text_of(scalar: Scalar) -> str:
    """``scalar`` in the manner of SQL, with no more parentheses than it needs.

    >>> from tidemill.algebra.expressions.call import call
    >>> a, b = Column("o.a", t.INT), Column("o.b", t.INT)
    >>> text_of(call("multiply", call("add", a, b), Literal(2, t.INT)))
    '(o.a + o.b) * 2'
    """
    return _text(scalar)[0]


def _text(scalar: Scalar) -> tuple[str, int]:
    """The text, and how strongly its outermost operator binds."""
    match scalar:
        case Column(name=name):
            return name, ATOM
        case Literal():
            return _literal(scalar), ATOM
        case Cast(input=input_, of=of, lenient=lenient):
            return f"{'TRY_CAST' if lenient else 'CAST'}({text_of(input_)} AS {of})", ATOM
        case Case():
            return _case(scalar), ATOM
        case Call():
            return _call(scalar)
        case Lambda(parameters=parameters, body=body):
            names = ", ".join(parameter.name for parameter in parameters)
            return f"{names if len(parameters) == 1 else f'({names})'} -> {text_of(body)}", 0
        case Subquery() | Exists() | Quantified():
            return _nested(scalar)
    raise TypeError(f"no text for {scalar!r}")


def _nested(node: Subquery | Exists | Quantified) -> tuple[str, int]:
    rows = text_of_query(node.relation)
    match node:
        case Exists():
            return f"EXISTS ({rows})", ATOM
        case Quantified(condition=condition):
            return f"{text_of(condition)} FOR {'ALL' if node.all else 'ANY'} ({rows})", NOT
    return f"({rows})", ATOM


def _call(node: Call) -> tuple[str, int]:
    arguments = node.arguments
    match node.function:
        case "not":
            return f"NOT {_within(arguments[0], NOT)}", NOT
        case "negate":
            return f"-{_within(arguments[0], ATOM)}", ATOM
        case "ring_product" if (opposite := _opposite(node)) is not None:
            return f"-{_within(opposite, ATOM)}", ATOM
        case "ring_sum" | "add" if (opposite := _opposite(arguments[1])) is not None:
            minus, strength = OPERATORS["subtract"]
            return f"{_within(arguments[0], strength)} {minus} {_within(opposite, strength + 1)}", strength
        case "is_null":
            return f"{_within(arguments[0], TEST + 1)} IS NULL", TEST
        case "is_not_null":
            return f"{_within(arguments[0], TEST + 1)} IS NOT NULL", TEST
        case "in":
            options = ", ".join(map(text_of, arguments[1:]))
            return f"{_within(arguments[0], TEST + 1)} IN ({options})", TEST
        case "get_field":
            return f"{_within(arguments[0], ATOM)}.{_bare(arguments[1])}", ATOM
        case "get_item":
            return f"{_within(arguments[0], ATOM)}[{text_of(arguments[1])}]", ATOM
        case name if name in OPERATORS and len(arguments) == 2:
            symbol, strength = OPERATORS[name]
            # All operators are left-associative: the right operand needs parentheses at equal precedence, unless
            # nothing is rounded or overflows: then it makes no difference.
            exact = name in ("ring_sum", "ring_product") and getattr(arguments[1], "function", "") == name
            right = _within(arguments[1], strength if exact else strength + 1)
            return f"{_within(arguments[0], strength)} {symbol} {right}", strength
    return f"{function_text(node.function)}({', '.join(map(text_of, arguments))})", ATOM


def _opposite(scalar: Scalar) -> Scalar | None:
    """The opposite of a summand that is a multiple of -1 or a negative constant."""
    match scalar:
        case Call(function="ring_product", arguments=(Literal(value=-1), other)):
            return other
        case Literal(value=int() | Decimal() as value, of=of) if value < 0:
            return Literal(-value, of)
    return None


def _within(scalar: Scalar, strength: int) -> str:
    text, own = _text(scalar)
    return f"({text})" if own < strength else text


def _case(node: Case) -> str:
    branches = "".join(f" WHEN {text_of(condition)} THEN {text_of(value)}" for condition, value in node.branches)
    return f"CASE{branches} ELSE {text_of(node.default)} END"


def _literal(node: Literal) -> str:
    if node.value is None:
        return "NULL"
    text = write(node.value, node.of)
    match node.of:
        case t.String():
            return "'" + text.replace("'", "''") + "'"
        case t.Time():
            return f"TIME '{text}'"
        case t.Date() | t.Timestamp():
            return f"{node.of} '{text}'"
    return text


def _bare(scalar: Scalar) -> str:
    return str(scalar.value) if isinstance(scalar, Literal) else text_of(scalar)


def text_of_query(relation: Relation) -> str:
    """``relation`` as a query. Columns have their full names, which show their tables.

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
    # Other nodes have no short text: their kind and their inputs are shown.
    return f"{type(node).__name__.upper()}({', '.join(map(_item, children(node)))})"


def _aggregates(node: r.Aggregate) -> Mapping[str, Scalar]:
    """The expression of each column of the groups; an aggregate is a column that is called by its own text."""
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
