"""Expressions as people read them: for EXPLAIN, for the text form of programs, and for errors."""

from __future__ import annotations

from decimal import Decimal

from tidemill.algebra.expressions.scalars import (
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Lambda,
    Literal,
    Quantified,
    Scalar,
    Subquery,
)
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

USER_FUNCTION_MARK = "#"
"""Stands between the name of a function that a user brought and its number in this process (see ``registry``)."""


def function_text(function: str) -> str:
    """A function as people know it.

    >>> function_text("add"), function_text("shout#3")
    ('ADD', 'SHOUT')
    """
    return function.partition(USER_FUNCTION_MARK)[0].upper()


def text_of(scalar: Scalar) -> str:
    """``scalar`` in the manner of SQL, with no more parentheses than it needs.

    >>> from tidemill.algebra.functions import call
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
    from tidemill.algebra.queries import text_of_query  # a query is made of expressions in turn

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
            # All operators associate to the left: the right operand needs parentheses at equal strength, but where
            # nothing is rounded or overflows it makes no difference.
            exact = name in ("ring_sum", "ring_product") and getattr(arguments[1], "function", "") == name
            right = _within(arguments[1], strength if exact else strength + 1)
            return f"{_within(arguments[0], strength)} {symbol} {right}", strength
    return f"{function_text(node.function)}({', '.join(map(text_of, arguments))})", ATOM


def _opposite(scalar: Scalar) -> Scalar | None:
    """What a summand is minus of, where it is a multiple of -1 or a negative constant."""
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
        case t.Date() | t.Timestamp():
            return f"{node.of} '{text}'"
    return text


def _bare(scalar: Scalar) -> str:
    return str(scalar.value) if isinstance(scalar, Literal) else text_of(scalar)
