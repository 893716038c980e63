"""ARRAY_AGG and STRING_AGG: all values of a group, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.aggregates.parameters import anything
from tidemill.algebra.expressions.ordering import sort_key
from tidemill.algebra.functions.comparison import order_key
from tidemill.model.types import STRING, Array, Type


def _array(call: AggregateCall, members: WeightedArguments) -> tuple[Any, ...]:
    """The values in ascending order."""
    return tuple(_expanded(sorted(members, key=lambda member: order_key(member[0][0]))))


def _text(call: AggregateCall, members: WeightedArguments) -> str:
    """The values in the order of WITHIN GROUP; ties, and all values without an order, ascending."""
    (separator,) = call.parameters
    ordered = sorted(members, key=lambda member: (sort_key(member[0][1:], call.order), order_key(member[0][0])))
    return str(separator).join(_expanded(ordered))


def _expanded(members: WeightedArguments) -> Iterable[Any]:
    return (row[0] for row, weight in members for _ in range(weight))


def _array_type(argument: Type | None) -> Type | None:
    return None if argument is None else Array(argument)


def _text_type(argument: Type | None) -> Type | None:
    return STRING if argument == STRING else None


def _ordered_array(call: AggregateCall, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(values)


def _ordered_text(call: AggregateCall, values: Sequence[Any]) -> str | None:
    return str(call.parameters[0]).join(values) if values else None


LISTS = (
    AggregateFunction(
        "array_agg",
        _array_type,
        _array,
        operands="values",
        parameters=(anything,),
        synonyms=("collect_list",),
        empty=(),
        depends_on_order=True,
        over_ordered=_ordered_array,
        spark="flatten(transform(sort_array(collect_list(named_struct('of', {0}, 'copies', {copies})) {there}), "
        "entry -> array_repeat(entry.of, entry.copies)))",
    ),
    AggregateFunction(
        "string_agg",
        _text_type,
        _text,
        operands="texts",
        depends_on_order=True,
        over_ordered=_ordered_text,
    ),
)
