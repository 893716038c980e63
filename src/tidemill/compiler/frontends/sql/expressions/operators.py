"""Operators: arithmetic, comparison, logic, CASE, and predicates such as BETWEEN, IN and LIKE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.collations import unified
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Case, Literal, Scalar
from tidemill.algebra.functions.text.regexp import check_escapes
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.sql.expressions.literals import from_literal
from tidemill.compiler.frontends.sql.expressions.stars import expand_stars
from tidemill.compiler.frontends.sql.expressions.subquery_predicates import (
    from_exists,
    from_in_subquery,
    from_quantified_comparison,
    is_in_subquery,
    is_quantified,
    is_value,
    known,
)
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported
from tidemill.model.types import BOOLEAN, STRING, VOID, Integral, Struct

BINARY: dict[type[exp.Expr], str] = {
    exp.Sub: "subtract",
    exp.Add: "add",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "remainder",
    exp.IntDiv: "div",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "null_safe_eq",
    exp.And: "and",
    exp.Or: "or",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "shiftleft",
    exp.BitwiseRightShift: "shiftright",
    exp.DPipe: "concat",
    exp.ILike: "ilike",
    exp.Like: "like",
    exp.RegexpLike: "rlike",
}
UNARY: dict[type[exp.Expr], str] = {exp.Not: "not", exp.Neg: "negate", exp.BitwiseNot: "~"}

LONG_CHAIN = 32
"""Number of operands above which a chain of AND or OR becomes a balanced tree."""


def from_binary(expressions: ExpressionTranslator, node: exp.Binary) -> Scalar:
    """An operator between two operands; the second may be any, or all, of the rows of a query."""
    if is_quantified(node.expression):
        return from_quantified_comparison(expressions, BINARY[type(node)], node)
    return call(BINARY[type(node)], expressions.scalar(node.this), expressions.scalar(node.expression))


def from_connector(expressions: ExpressionTranslator, node: exp.Connector) -> Scalar:
    """AND and OR, a whole chain of them at once."""
    return chain_operands(BINARY[type(node)], [expressions.scalar(operand) for operand in _operands(node)])


def _operands(node: exp.Connector) -> Iterator[exp.Expr]:
    """The operands of a chain of one connector, from left to right."""
    rest: list[exp.Expr] = [node]
    while rest:
        operand = rest.pop()
        if type(operand) is type(node):
            mark_translated(operand)
            rest += [operand.expression, operand.this]
        else:
            yield operand


def chain_operands(name: str, operands: Sequence[Scalar]) -> Scalar:
    """``a AND b AND c``, from left to right; a long chain becomes a balanced tree, to stay within Python's stack."""
    if len(operands) <= LONG_CHAIN:
        return reduce(partial(call, name), operands)
    half = len(operands) // 2
    return call(name, chain_operands(name, operands[:half]), chain_operands(name, operands[half:]))


def from_unary(expressions: ExpressionTranslator, node: exp.Unary) -> Scalar:
    """An operator before its operand; a minus before a number is part of the number."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        mark_translated(node.this)
        return from_literal(node.this, negative=True)
    if isinstance(node, exp.Not) and isinstance(node.this.unnest(), exp.In) and is_in_subquery(node.this.unnest()):
        missing = call("not", expressions.scalar(node.this))
        return known(missing) if is_value(node) else missing
    return call(UNARY[type(node)], expressions.scalar(node.this))


def from_is(expressions: ExpressionTranslator, node: exp.Is) -> Scalar:
    """IS NULL, IS TRUE, IS FALSE, IS UNKNOWN; the parser gives IS NOT as NOT (IS)."""
    value, tested = expressions.scalar(node.this), node.expression
    mark_translated(tested)
    if isinstance(tested, exp.Null):
        return call("is_null", value)
    if isinstance(tested, exp.Column) and tested.sql().upper() == "UNKNOWN" and _can_be_unknown(value):
        return call("is_null", value)
    if not isinstance(tested, exp.Boolean):
        raise ParseError("NULL, TRUE, FALSE or UNKNOWN was expected after IS", where=expressions.source.place(tested))
    return call("null_safe_eq", value, expressions.scalar(tested))


def _can_be_unknown(value: Scalar) -> bool:
    """True for what IS UNKNOWN takes: truth values, and integers that are no constants, which Spark converts."""
    of = value.type
    return of in (BOOLEAN, VOID) or (isinstance(of, Integral) and not isinstance(value, Literal))


def from_between(expressions: ExpressionTranslator, node: exp.Between) -> Scalar:
    """``low <= value AND value <= high``."""
    return call("between", *(expressions.scalar(part) for part in (node.this, node.args["low"], node.args["high"])))


def from_in(expressions: ExpressionTranslator, node: exp.In) -> Scalar:
    """Membership in a list of values, or among the rows of a query."""
    if is_in_subquery(node):
        return from_in_subquery(expressions, node)
    node = expand_stars(expressions, node)
    value, *items = map(expressions.scalar, (node.this, *node.expressions))
    _check_members(value, items)
    return call("in", value, *items)


def _check_members(value: Scalar, items: Sequence[Scalar]) -> None:
    """Refuse a list of structs whose members are not of the types that those of the value are."""
    if isinstance(value.type, Struct):
        wanted = [field.type for field in value.type.fields]
        for item in items:
            if not isinstance(item.type, Struct) or [field.type for field in item.type.fields] != wanted:
                raise TypeMismatch(f"{value.type} and {item.type} are not compared", hint="Convert members with CAST.")


def from_like(expressions: ExpressionTranslator, node: exp.Like | exp.ILike, pattern: Scalar | None = None) -> Scalar:
    """LIKE and ILIKE; the parser keeps their NOT as a flag on the node itself."""
    listed = node.expression
    if not isinstance(listed, exp.Any | exp.All):
        return _like(node, expressions.scalar(node.this), pattern or expressions.scalar(listed))
    # ANY or ALL of a list of patterns: NOT applies to each pattern.
    items = listed.this.expressions if isinstance(listed.this, exp.Tuple) else [listed.this.unnest()]
    mark_translated(listed, listed.this)
    if not items:
        raise ParseError("LIKE ANY and LIKE ALL take at least one pattern", where=expressions.source.place(node))
    value = expressions.scalar(node.this)
    matches = [_like(node, value, expressions.scalar(item)) for item in items]
    return chain_operands("and" if isinstance(listed, exp.All) else "or", matches)


def _like(node: exp.Like | exp.ILike, value: Scalar, pattern: Scalar) -> Scalar:
    matches = call(BINARY[type(node)], value, pattern)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        check_escapes(pattern.value, "\\")
    return call("not", matches) if node.args.get("negate") else matches


def from_distinct_from(expressions: ExpressionTranslator, node: exp.NullSafeNEQ) -> Scalar:
    """IS DISTINCT FROM: unequal, where NULL is a value like any other."""
    return call("not", call("null_safe_eq", expressions.scalar(node.this), expressions.scalar(node.expression)))


def from_escape(expressions: ExpressionTranslator, node: exp.Escape) -> Scalar:
    """LIKE with an ESCAPE character, rewritten to the default backslash."""
    pattern, mark = expressions.scalar(node.this.expression), expressions.scalar(node.expression)
    mark_translated(node.this)
    match pattern, mark:
        case Literal(str(text)), Literal(str(character)) if len(character) == 1:
            check_escapes(text, character)
            return from_like(expressions, node.this, Literal(escape_with_backslash(text, character), STRING))
    raise Unsupported("ESCAPE takes a constant pattern and one character")


def escape_with_backslash(pattern: str, mark: str) -> str:
    """A LIKE pattern escaped by ``mark``, escaped by a backslash instead.

    >>> print(escape_with_backslash("50!%_!!", mark="!"))
    50\\%_!
    """
    characters, escaped = iter(pattern), []
    for character in characters:
        if character == mark:
            character = next(characters, mark)
            escaped.append("\\" + character if character in "%_\\" else character)
        else:
            escaped.append("\\\\" if character == "\\" else character)
    return "".join(escaped)


def from_case(expressions: ExpressionTranslator, node: exp.Case) -> Scalar:
    """CASE in both forms, all branches brought to one type."""
    branches = [
        (_when(expressions, node.this, branch.this), expressions.scalar(branch.args["true"]))
        for branch in node.args["ifs"]
    ]
    default = expressions.scalar(node.args["default"]) if node.args.get("default") else Literal(None, VOID)
    *values, default = unified([*(value for _, value in branches), default])
    of = common_type([value.type for value in (*values, default)])
    chosen = ((when, convert(value, of)) for (when, _), value in zip(branches, values, strict=True))
    return Case(tuple(chosen), convert(default, of), of)


def _when(expressions: ExpressionTranslator, subject: exp.Expr | None, node: exp.Expr) -> Scalar:
    if subject is None:
        return expressions.condition(node)
    return call("eq", expressions.scalar(subject), expressions.scalar(node))


OPERATORS: dict[type[exp.Expr], Callable[[ExpressionTranslator, Any], Scalar]] = {
    **dict.fromkeys(BINARY, from_binary),
    **dict.fromkeys(UNARY, from_unary),
    exp.And: from_connector,
    exp.Between: from_between,
    exp.Case: from_case,
    exp.Escape: from_escape,
    exp.Exists: from_exists,
    exp.ILike: from_like,
    exp.In: from_in,
    exp.Is: from_is,
    exp.Like: from_like,
    exp.NullSafeNEQ: from_distinct_from,
    exp.Or: from_connector,
}
