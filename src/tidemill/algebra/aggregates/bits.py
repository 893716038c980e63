"""BIT_AND, BIT_OR and BIT_XOR, over the multiset of the values of their group."""

from __future__ import annotations

from functools import partial, reduce
from operator import and_, or_, xor
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments, converted_argument
from tidemill.algebra.aggregates.parameters import whole_number
from tidemill.model.types import Integral, Type


def _all_bits(call: AggregateCall, members: WeightedArguments) -> Any:
    return reduce(and_, (row[0] for row, _ in members))


def _any_bits(call: AggregateCall, members: WeightedArguments) -> Any:
    return reduce(or_, (row[0] for row, _ in members))


def _odd_bits(call: AggregateCall, members: WeightedArguments) -> int:
    """A value that occurs an even number of times leaves no bit."""
    return reduce(xor, (row[0] for row, weight in members if weight % 2), 0)


def _whole_type(argument: Type | None) -> Type | None:
    return argument if isinstance(argument, Integral) else None


_declared = partial(
    AggregateFunction,
    infer=_whole_type,
    operands="whole numbers",
    parameters=(whole_number,),
    over_one_row=converted_argument,
)

BIT_AGGREGATES = (
    _declared("bit_and", kernel=_all_bits, idempotent=True, spark="bit_and({0}) {there}", spark_window="bit_and({0})"),
    _declared("bit_or", kernel=_any_bits, idempotent=True, spark="bit_or({0}) {there}", spark_window="bit_or({0})"),
    _declared("bit_xor", kernel=_odd_bits, spark_window="bit_xor({0})"),
)
