"""Functions that take a function: ``filter(prices, x -> x > 1)``. The array's type gives that of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Lambda, Scalar
from tidemill.algebra.functions.nested.maps import as_map
from tidemill.algebra.functions.nested.structs import element_of
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import INT, Type

PARAMETER_PREFIX = "λ"
"""The prefix of the names of parameters, once for each lambda around them: no column has it."""


def from_parameter(expressions: ExpressionTranslator, node: exp.Identifier) -> Scalar:
    """A parameter of a lambda; the parser has told it from a column."""
    name = node.name.lower()
    if name not in expressions.parameters:
        raise unknown_name("parameter", name, expressions.parameters)
    return expressions.parameters[name]


def from_lambda(expressions: ExpressionTranslator, node: exp.Expr, *types: Type, optional: int = 0) -> Lambda:
    """``(x, y) -> body`` with parameters of these types, of which the last ``optional`` may be missing.

    An expression in the place of a lambda is one that does not use its parameters.
    """
    if not isinstance(node, exp.Lambda):
        return _constant_function(expressions, node, types[: len(types) - optional])
    mark_translated(node)
    names = [parameter.name.lower() for parameter in node.expressions]
    if not len(types) - optional <= len(names) <= len(types):
        wanted = f"{len(types) - optional} or {len(types)}" if optional else str(len(types))
        raise TypeMismatch(f"a lambda of {wanted} parameters was expected here", where=expressions.source.place(node))
    own = {name: Column(_marks(expressions) + name, of) for name, of in zip(names, types, strict=False)}
    # A query within would have to be evaluated for each element.
    body = replace(expressions, parameters={**expressions.parameters, **own}, subquery=None, windowing=None)
    return Lambda(tuple(own.values()), body.scalar(node.this))


def _constant_function(expressions: ExpressionTranslator, node: exp.Expr, types: Sequence[Type]) -> Lambda:
    marks = _marks(expressions)
    unused = (Column(f"{marks}unused{place}", of) for place, of in enumerate(types))
    body = replace(expressions, subquery=None, windowing=None)
    return Lambda(tuple(unused), body.scalar(node))


def _marks(expressions: ExpressionTranslator) -> str:
    return PARAMETER_PREFIX * (1 + max((_depth(column) for column in expressions.parameters.values()), default=0))


def _depth(column: Column) -> int:
    return len(column.name) - len(column.name.lstrip(PARAMETER_PREFIX))


def from_element_test(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """EXISTS and FORALL: a test of each element."""
    first, function = _arguments(node, 2)
    array = expressions.scalar(first)
    return call(node.name, array, from_lambda(expressions, function, element_of(array.type)))


def from_element_function(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """TRANSFORM and FILTER: of each element, or of each and its position."""
    first, function = _arguments(node, 2)
    array = expressions.scalar(first)
    given = from_lambda(expressions, function, element_of(array.type), INT, optional=1)
    return call(f"{node.name}_placed" if len(given.parameters) == 2 else node.name, array, given)


def from_entry_function(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """MAP_FILTER, TRANSFORM_KEYS and TRANSFORM_VALUES: of each key and its value."""
    first, function = _arguments(node, 2)
    map_ = expressions.scalar(first)
    of = as_map(map_.type)
    return call(node.name, map_, from_lambda(expressions, function, of.key, of.value))


def from_map_zip_with(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``MAP_ZIP_WITH(m, n, (key, x, y) -> ...)``."""
    first, second, function = _arguments(node, 3)
    one, other = expressions.scalar(first), expressions.scalar(second)
    left, right = as_map(one.type), as_map(other.type)
    key = common_type((left.key, right.key))
    return call(node.name, one, other, from_lambda(expressions, function, key, left.value, right.value))


def from_zip_with(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``ZIP_WITH(a, b, (x, y) -> ...)``."""
    first, second, function = _arguments(node, 3)
    one, other = expressions.scalar(first), expressions.scalar(second)
    return call(node.name, one, other, from_lambda(expressions, function, element_of(one.type), element_of(other.type)))


def from_reduce(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``AGGREGATE(array, start, (so_far, x) -> ..., so_far -> ...)``; without the last it gives what was merged."""
    first, second, merging, *finishing = _arguments(node, 3, 4)
    array, start = expressions.scalar(first), expressions.scalar(second)
    merge = from_lambda(expressions, merging, start.type, element_of(array.type))
    so_far = merge.parameters[0]
    finish = from_lambda(expressions, finishing[0], start.type) if finishing else Lambda((so_far,), so_far)
    return call("aggregate", array, start, merge, finish)


def from_sort(expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
    """``ARRAY_SORT(array)``, or by a comparison: ``ARRAY_SORT(array, (x, y) -> ...)``."""
    first, *comparing = _arguments(node, 1, 2)
    array = expressions.scalar(first)
    if not comparing:
        return call(node.name, array)
    element = element_of(array.type)
    return call("sort_by", array, from_lambda(expressions, comparing[0], element, element))


def _arguments(node: exp.Anonymous, least: int, most: int = 0) -> list[exp.Expr]:
    """The arguments, if they are as many as they should be."""
    if not least <= len(node.expressions) <= (most or least):
        raise TypeMismatch(f"{node.name.upper()} takes {least}{f' or {most}' if most else ''} arguments")
    return node.expressions


HIGHER_ORDER_FUNCTIONS: dict[str, Callable[[ExpressionTranslator, exp.Anonymous], Scalar]] = {
    "aggregate": from_reduce,
    "array_sort": from_sort,
    "exists": from_element_test,
    "filter": from_element_function,
    "forall": from_element_test,
    "map_filter": from_entry_function,
    "map_zip_with": from_map_zip_with,
    "reduce": from_reduce,
    "transform": from_element_function,
    "transform_keys": from_entry_function,
    "transform_values": from_entry_function,
    "zip_with": from_zip_with,
}
"""Functions that take a function, by name."""
