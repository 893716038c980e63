"""All aggregates by name, and what follows from their declarations for a call.

An aggregate computed from sums costs the same for a deleted row as for an inserted one. All others read the multiset of
values of their group, which is kept entry by entry. An aggregate with several names in SQL has one here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.algebra.aggregates.approximate.count_min import COUNT_MIN
from tidemill.algebra.aggregates.approximate.distinct_counts import DISTINCT_COUNTS
from tidemill.algebra.aggregates.approximate.histograms import HISTOGRAMS
from tidemill.algebra.aggregates.approximate.quantiles import QUANTILES
from tidemill.algebra.aggregates.approximate.sketches import SKETCH_AGGREGATES
from tidemill.algebra.aggregates.bitmaps import BITMAPS
from tidemill.algebra.aggregates.bits import BIT_AGGREGATES
from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.extremes import EXTREMES
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.aggregates.lists import LISTS
from tidemill.algebra.aggregates.moments import MOMENTS
from tidemill.algebra.aggregates.order_statistics import ORDER_STATISTICS
from tidemill.algebra.aggregates.partial_sums import PartialSum, count_where, equals, filters, not_null, unless
from tidemill.algebra.aggregates.regression import REGRESSIONS
from tidemill.algebra.aggregates.statistics import STATISTICS
from tidemill.algebra.aggregates.sums import SUMS
from tidemill.algebra.aggregates.variants import VARIANT_AGGREGATES
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.model.array_forms import array_form
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import BOOLEAN, Field, Type

AGGREGATE_FUNCTIONS: dict[str, AggregateFunction] = {
    function.name: function
    for theme in (
        *(SUMS, STATISTICS, REGRESSIONS, MOMENTS, EXTREMES, BIT_AGGREGATES, LISTS, ORDER_STATISTICS),
        VARIANT_AGGREGATES,
        *(BITMAPS, DISTINCT_COUNTS, HISTOGRAMS, QUANTILES, SKETCH_AGGREGATES, COUNT_MIN),
    )
    for function in theme
}
"""Every aggregate that an ``AggregateCall`` may name; those that users register are added by their keys."""


def function_of(call: AggregateCall) -> AggregateFunction:
    """The declaration of the function that ``call`` names."""
    return AGGREGATE_FUNCTIONS[call.function]


def aggregate_type(name: str, argument: Type | None) -> Type:
    """The type of an aggregate over an argument of that type, None for COUNT(*).

    >>> from tidemill.model.types import INT, Decimal
    >>> str(aggregate_type("sum", Decimal(12, 2))), str(aggregate_type("avg", INT))
    ('DECIMAL(22,2)', 'DOUBLE')
    """
    function = AGGREGATE_FUNCTIONS[name]
    of = function.infer(argument)
    if of is None:
        what = f"{name.upper()} takes {function.operands}, not {argument}"
        raise TypeMismatch(what, hint="Convert the argument with CAST.")
    return of


def aggregate_field(call: AggregateCall) -> Field:
    """The column that ``call`` makes."""
    return Field(call.name, call.of, function_of(call).nullable)


def required_arguments(call: AggregateCall) -> tuple[Scalar, ...]:
    """The arguments that must not be NULL in a row that ``call`` aggregates."""
    function = function_of(call)
    if call.argument is None or function.sees_nulls:
        return ()
    return function.required((call.argument, *call.others))


# ---------------------------------------------------------------------------------------------------------- from sums


def partial_sums(call: AggregateCall) -> tuple[PartialSum, ...]:
    """The sums that ``call`` needs. Equal sums of several aggregates are one: AVG(x) with SUM(x) is free.

    The last one counts the values that ``call`` sees; there is none where that is the weight itself.
    """
    rule = function_of(call).sums
    assert rule is not None, f"{call.function} needs a multiset"
    assert not call.distinct, "rewrites.expand_distinct_aggregates has made plain aggregates of those over DISTINCT"
    conditions = [*filters(call), *not_null(required_arguments(call))]
    return (*rule.parts(call), *([count_where(conditions)] if conditions else []))


def finalize(call: AggregateCall, sums: Sequence[Scalar], weight: Scalar) -> Scalar:
    """The value of ``call``, given expressions for its ``partial_sums`` and for the weight."""
    function = function_of(call)
    assert function.sums is not None, f"{call.function} needs a multiset"
    own = len(function.sums.parts(call))
    count = sums[own] if len(sums) > own else weight
    value = function.sums.value(call, sums[:own], count)
    return unless(equals(count, 0), value, call.of) if function.nullable else value


# ----------------------------------------------------------------------------------------------------- from multisets


def needs_multiset(call: AggregateCall) -> bool:
    """True if ``call`` cannot be computed from sums: when the maximum is deleted, the next one must be known."""
    return function_of(call).sums is None


def collects(call: AggregateCall) -> bool:
    """True if the value of ``call`` is an array of the values of its group, or of the different ones."""
    return function_of(call).collects and not call.distinct and not call.others


def multiset_entries(call: AggregateCall) -> tuple[tuple[Scalar, ...], Scalar | None]:
    """The columns of the multiset of ``call``, and the condition for a row to be in it: NULLs are left out."""
    seen = call.scalars if call.filter is None else call.scalars[:-1]
    known = [Call("is_not_null", (scalar,), BOOLEAN) for scalar in required_arguments(call)]
    return seen, conjunction([*filters(call), *known])


def aggregate_multiset(call: AggregateCall, members: WeightedArguments) -> Any:
    """The value of ``call`` over rows that pass its FILTER."""
    function = function_of(call)
    if call.argument is not None:
        members = _seen(call, members)
    if not members and not function.sees_nulls:
        return function.empty
    value, form = function.kernel(call, members), array_form(call.of)
    return value if form is None or value is None else form(value)


def _seen(call: AggregateCall, members: WeightedArguments) -> WeightedArguments:
    """The rows that ``call`` aggregates: without NULLs, and each once if it is DISTINCT."""
    arguments = (call.argument, *call.others)
    seen = members
    for place in [arguments.index(scalar) for scalar in required_arguments(call)]:
        seen = [member for member in seen if member[0][place] is not None]
    if call.distinct:
        once = {row[: len(arguments)]: row for row, _ in seen}
        seen = [(row, 1) for row in once.values()]
    return seen
