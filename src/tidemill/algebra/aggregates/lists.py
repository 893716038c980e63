"""ARRAY_AGG, COLLECT_SET and STRING_AGG: all values of a group, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.aggregates.parameters import anything
from tidemill.algebra.expressions.ordering import SortOrder, sort_key
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.functions.comparison import order_key
from tidemill.model.array_tree import ArrayValue, as_array
from tidemill.model.types import BINARY, STRING, Array, Type


def _array(call: AggregateCall, members: WeightedArguments) -> tuple[Any, ...]:
    """The values in ascending order."""
    return tuple(_expanded(sorted(members, key=lambda member: order_key(member[0][0]))))


def _set(call: AggregateCall, members: WeightedArguments) -> tuple[Any, ...]:
    """The different values in ascending order."""
    return tuple(sorted({row[0] for row, _ in members}, key=order_key))


def _text(call: AggregateCall, members: WeightedArguments) -> Any:
    """The values in the order of WITHIN GROUP; ties, and all values without an order, ascending."""
    (separator,) = call.parameters
    ordered = sorted(members, key=lambda member: (sort_key(member[0][1:], call.order), order_key(member[0][0])))
    return separator.join(_expanded(ordered))


def _text_within(call: AggregateCall, members: WeightedArguments) -> Any:
    """The same over a window, where the order is in the parameters and its terms are arguments."""
    separator, directions = call.parameters
    order = tuple(SortOrder(term, *how) for term, how in zip(call.others, directions, strict=True))
    return _text(replace(call, parameters=(separator,), order=order), members)


def _expanded(members: WeightedArguments) -> Iterable[Any]:
    return (row[0] for row, weight in members for _ in range(weight))


def _array_type(argument: Type | None) -> Type | None:
    return None if argument is None else Array(argument)


def _union(call: AggregateCall, members: WeightedArguments) -> tuple[Any, ...]:
    """The different elements of all arrays in ascending order, without NULL."""
    found = {element for row, _ in members for element in row[0] if element is not None}
    return tuple(sorted(found, key=order_key))


def _same_array(argument: Type | None) -> Type | None:
    return argument if isinstance(argument, Array) else None


def _text_type(argument: Type | None) -> Type | None:
    return argument if argument in (STRING, BINARY) else None


def _ordered_array(call: AggregateCall, values: Sequence[Any]) -> ArrayValue:
    array: ArrayValue = as_array(values)
    return array


def _ordered_text(call: AggregateCall, values: Sequence[Any]) -> Any:
    return call.parameters[0].join(values) if values else None


def _nothing_required(arguments: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return ()


LISTS = (
    AggregateFunction(
        "array_agg_with_nulls",
        _array_type,
        _array,
        operands="values",
        required=_nothing_required,
        empty=(),
        depends_on_order=True,
        collects=True,
    ),
    AggregateFunction(
        "collect_set_with_nulls",
        _array_type,
        _set,
        operands="values",
        idempotent=True,
        required=_nothing_required,
        empty=(),
        depends_on_order=True,
        collects=True,
    ),
    AggregateFunction(
        "array_agg",
        _array_type,
        _array,
        operands="values",
        parameters=(anything,),
        synonyms=("collect_list",),
        empty=(),
        depends_on_order=True,
        collects=True,
        over_ordered=_ordered_array,
        spark="flatten(transform(sort_array(collect_list(named_struct('of', {0}, 'copies', {copies})) {there}), "
        "entry -> array_repeat(entry.of, entry.copies)))",
    ),
    AggregateFunction(
        "string_agg",
        _text_type,
        _text,
        operands="texts or bytes",
        depends_on_order=True,
        over_ordered=_ordered_text,
    ),
    AggregateFunction("string_agg_within", _text_type, _text_within, operands="texts or bytes"),
    AggregateFunction(
        "collect_union",
        _same_array,
        _union,
        operands="arrays",
        parameters=(anything,),
        idempotent=True,
        empty=(),
        depends_on_order=True,
    ),
    AggregateFunction(
        "collect_set",
        _array_type,
        _set,
        operands="values",
        parameters=(anything,),
        idempotent=True,
        empty=(),
        depends_on_order=True,
        collects=True,
        spark="sort_array(collect_set({0}) {there})",
    ),
)
