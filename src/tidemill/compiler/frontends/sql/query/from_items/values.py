"""VALUES: rows of constants, computed once when the statement is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.algebra.values.casts import cast_value
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import STRING, VOID, Type


def constant_rows(
    expressions: ExpressionTranslator, node: exp.Values
) -> tuple[tuple[tuple[Any, ...], ...], list[Type]]:
    """The rows of ``node`` and the types of their columns, each the common type of its values."""
    # The rows are computed at once, when no table can be read.
    expressions = replace(expressions, subquery=None)
    table = [_scalars(expressions, row) for row in node.expressions]
    for row, scalars in zip(node.expressions, table, strict=True):
        if any(map(columns_in, scalars)):
            raise TypeMismatch("VALUES takes constants", where=expressions.source.place(row), hint="Use SELECT.")
        if len(scalars) != len(table[0]):
            raise TypeMismatch(
                f"this row has {len(scalars)} values, and the first has {len(table[0])}",
                where=expressions.source.place(row),
            )
    with expressions.source.locating(node):
        for i in range(len(table[0])):
            _refuse_strings_among_others([scalars[i].type for scalars in table])
        types = [common_type([scalars[i].type for scalars in table]) for i in range(len(table[0]))]
        rows = tuple(tuple(map(_value, scalars, types)) for scalars in table)
    return rows, types


def _scalars(expressions: ExpressionTranslator, row: exp.Expr) -> list[Scalar]:
    if isinstance(row, exp.Tuple):
        mark_translated(row)
        while len(row.expressions) == 1 and isinstance(row.expressions[0].unnest(), exp.Tuple):
            mark_translated(*row.expressions[0].walk(prune=lambda node: isinstance(node, exp.Tuple)))
            row = row.expressions[0].unnest()  # ((1, 2)) is a row of two values
    items = row.expressions if isinstance(row, exp.Tuple) else [row]
    if len(items) == 1 and isinstance(items[0], exp.Anonymous) and items[0].name.lower() == "struct":
        mark_translated(items[0])  # as in Spark, a struct alone is a row
        items = items[0].expressions
    mark_translated(*(part for item in items if isinstance(item, exp.Alias) for part in (item, item.args["alias"])))
    return [expressions.scalar(item.unalias()) for item in items]


def _refuse_strings_among_others(types: Sequence[Type]) -> None:
    """Refuse a column of strings and other values: in VALUES these are not converted."""
    if STRING in types and any(of not in (STRING, VOID) for of in types):
        raise TypeMismatch("a column of VALUES is either of strings or of other values", hint="Use CAST.")


def _value(scalar: Scalar, of: Type) -> Any:
    return cast_value(evaluate_scalar(scalar, {}), scalar.type, of)
