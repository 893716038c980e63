"""VALUES: rows of constants, computed once when the statement is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.values.casts import cast_value
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type


def constant_rows(
    expressions: ExpressionTranslator, node: exp.Values
) -> tuple[tuple[tuple[Any, ...], ...], list[Type]]:
    """The rows of ``node`` and the types of their columns, each the common type of its values."""
    # The rows are computed at once, when no table can be read.
    expressions = replace(expressions, subquery=None)
    table = [_scalars(expressions, row) for row in node.expressions]
    for row, scalars in zip(node.expressions, table, strict=True):
        if len(scalars) != len(table[0]):
            raise TypeMismatch(
                f"this row has {len(scalars)} values, and the first has {len(table[0])}",
                where=expressions.source.place(row),
            )
    with expressions.source.locating(node):
        types = [common_type([scalars[i].type for scalars in table]) for i in range(len(table[0]))]
        rows = tuple(tuple(map(_value, scalars, types)) for scalars in table)
    return rows, types


def _scalars(expressions: ExpressionTranslator, row: exp.Expr) -> list[Scalar]:
    if isinstance(row, exp.Tuple):
        mark_translated(row)
    items = row.expressions if isinstance(row, exp.Tuple) else [row]
    return [expressions.scalar(item) for item in items]


def _value(scalar: Scalar, of: Type) -> Any:
    return cast_value(evaluate_scalar(scalar, {}), scalar.type, of)
