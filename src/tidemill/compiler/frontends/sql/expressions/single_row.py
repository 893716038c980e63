"""Queries used as values: those with at most one row for any data, and others, whose rows are counted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_field
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Call, Case, Literal, Named, Scalar, Subquery, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Filter, Join, Project, TopK, Values
from tidemill.algebra.relational.walk import columns_in, subqueries, walk
from tidemill.compiler.frontends.sql.aggregation.aggregates import aggregate_call
from tidemill.compiler.frontends.sql.aggregation.arguments import AggregateArguments
from tidemill.model.types import BIGINT, BOOLEAN, STRING


def is_single_row(relation: Relation) -> bool:
    """True if ``relation`` never has more than one row for one outer row. Errs towards false.

    >>> is_single_row(Aggregate(Values((), ()), (), ())), is_single_row(Values(((1,), (2,)), ()))
    (True, False)
    """
    match relation:
        case Aggregate(input=input_, keys=keys):
            return all(_is_fixed(key.scalar, input_) for key in keys) or is_single_row(input_)
        case Distinct(input=Project(input=input_, outputs=outputs)):
            return all(_is_fixed(output.scalar, input_) for output in outputs) or is_single_row(input_)
        case Filter(input=input_) | Project(input=input_) | Distinct(input=input_):
            return is_single_row(input_)
        case Join(left=left, right=right):
            return is_single_row(left) and is_single_row(right)
        case Values(rows=rows):
            return len(rows) <= 1
        case TopK(input=input_, partition=partition, limit=limit, ties=ties):
            return (limit in (0, 1) and not partition and not ties) or is_single_row(input_)
    return False


TOO_MANY_ROWS = "SCALAR_SUBQUERY_TOO_MANY_ROWS: a subquery in place of a value has more than one row"


def at_most_one_row(relation: Relation) -> Relation:
    """The one value of ``relation``, NULL if it has no row; more rows are an error where the value is used.

    It is computed from two aggregates, so that an error lasts as long as there are two rows.
    """
    (value,) = map(column, relation.fields)
    found = replace(aggregate_call(AggregateArguments("any_value", (value,))), name=f"{value.name}_value")
    count = AggregateCall(f"{value.name}_rows", "count", None, BIGINT)
    many = Call("gt", (column(aggregate_field(count)), Literal(1, BIGINT)), BOOLEAN)
    error = convert(call("raise_error", Literal(TOO_MANY_ROWS, STRING)), value.type)
    checked = Case(((many, error),), column(aggregate_field(found)), value.type)
    return Project(Aggregate(relation, (), (found, count)), (Named(value.name, checked),))


def with_checks(scalar: Scalar) -> Scalar:
    """``scalar``, and an error if any subquery in it has more than one row, also where its value is not used.

    So it is in Spark, which joins rows with the subqueries of an expression before it computes that.
    """
    values = [found for found in subqueries(scalar) if isinstance(found, Subquery) and _is_checked(found)]
    if not values or scalar in values:
        return scalar
    # Both sides of this comparison are always computed, and what comes of it makes no difference.
    computed = reduce(partial(call, "null_safe_eq"), (call("is_null", value) for value in dict.fromkeys(values)))
    return Case(((computed, scalar),), scalar, scalar.type)


def _is_checked(value: Subquery) -> bool:
    match value.relation:
        case Project(outputs=(Named(scalar=Case(branches=((_, error), *_))),)):
            return any(isinstance(node, Call) and node.function == "raise_error" for node in walk(error))
    return False


def condition_with_checks(condition: Scalar) -> Scalar:
    """As ``with_checks`` for each part of a condition; a part without subqueries excludes rows before."""
    return reduce(partial(call, "and"), map(with_checks, conjuncts(condition))) if conjuncts(condition) else condition


def _is_fixed(scalar: Scalar, relation: Relation) -> bool:
    """True if ``scalar`` is the same in all rows of ``relation``: it reads no column, or equals such a scalar.

    That is the case of ``GROUP BY t.k`` below ``WHERE t.k = o.k``, which Spark's users write.
    """
    own = {field.name for field in relation.fields}
    if columns_in(scalar).isdisjoint(own):
        return True
    for condition in conjuncts(relation.condition) if isinstance(relation, Filter) else ():
        match condition:
            case Call("eq", sides) if scalar in sides:
                other = sides[1] if sides[0] == scalar else sides[0]
                if columns_in(other).isdisjoint(own):
                    return True
    return False
