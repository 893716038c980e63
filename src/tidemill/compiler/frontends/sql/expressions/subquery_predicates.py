"""Predicates over subqueries: EXISTS, IN, and comparisons with ANY, SOME or ALL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.characters import with_spaces
from tidemill.algebra.expressions.scalars import Exists, Literal, Quantified, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar import refusals
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import BOOLEAN


def from_exists(expressions: ExpressionTranslator, node: exp.Exists) -> Scalar:
    """EXISTS (query). The SELECT list makes no difference and is not computed."""
    relation = subquery_relation(expressions, node.this)
    return Exists(relation.input if isinstance(relation, Project) else relation)


def from_in_subquery(expressions: ExpressionTranslator, node: exp.In) -> Scalar:
    """``value IN (query)``: equal to some row; ``(a, b) IN (query)`` compares column by column."""
    items = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    mark_translated(node.this)
    query = node.args.get("query") or node.expressions[0]
    found = quantified_comparison(
        subquery_relation(expressions, query), "eq", [expressions.scalar(item) for item in items], every=False
    )
    return known(found) if is_value(node) else found


def known(truth: Scalar) -> Scalar:
    """``truth``, and false where that is NULL: so Spark has IN and NOT IN of a query where they are no condition."""
    return call("coalesce", truth, Literal(False, BOOLEAN))


def is_value(node: exp.Expr) -> bool:
    """True for a predicate that is used as a value, as in a SELECT list: neither as a condition nor below NOT."""
    parent = node.parent
    while isinstance(parent, exp.And | exp.Or | exp.Paren):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.If):
        return node.arg_key != "this" or bool(parent.parent and parent.parent.this)
    return not isinstance(parent, exp.Not | exp.Where | exp.Having | exp.Qualify | exp.Join)


def from_quantified_comparison(expressions: ExpressionTranslator, name: str, node: exp.Binary) -> Scalar:
    """``value < ANY (query)``, or SOME, which is the same, or ALL."""
    quantifier = node.expression
    mark_translated(quantifier)
    relation = subquery_relation(expressions, quantifier.this)
    return quantified_comparison(relation, name, [expressions.scalar(node.this)], every=isinstance(quantifier, exp.All))


def is_quantified(node: exp.Expr) -> bool:
    """True for ANY or ALL of the rows of a query."""
    return isinstance(node, exp.Any | exp.All) and isinstance(node.this.unnest(), exp.Query)


def is_in_subquery(node: exp.In) -> bool:
    """True for IN over the rows of a query, and not a list."""
    return bool(node.args.get("query")) or any(isinstance(item, exp.Values) for item in node.expressions)


def subquery_relation(expressions: ExpressionTranslator, node: exp.Expr) -> Relation:
    """The rows of a subquery in an expression."""
    if expressions.subquery is None:
        raise refusals.SUBQUERY.at(expressions.source.keyword(node, "SELECT"))
    return expressions.subquery(node, expressions.scope)


def quantified_comparison(relation: Relation, name: str, values: Sequence[Scalar], every: bool) -> Quantified:
    """The comparison ``name`` of ``values`` with the columns of ``relation``, for some row or for every one."""
    if len(values) != len(relation.fields):
        raise TypeMismatch(f"{len(values)} values are compared with {len(relation.fields)} columns of a query")
    pairs = zip(values, map(column, relation.fields), strict=True)
    comparisons = (call(name, with_spaces(value), with_spaces(other)) for value, other in pairs)
    condition = reduce(partial(call, "and"), comparisons)
    return Quantified(relation, condition, every)
