"""MIN, MAX, MIN_BY and MAX_BY: a value at an end of the multiset of their group."""

from __future__ import annotations

from functools import partial
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.folds import ExtremeFold
from tidemill.algebra.aggregates.function import (
    OTHER_ARGUMENTS,
    AggregateFunction,
    MultisetEnd,
    WeightedArguments,
    converted_argument,
    same_type,
)
from tidemill.algebra.aggregates.moving import MovingExtreme
from tidemill.algebra.aggregates.parameters import anything
from tidemill.algebra.functions.comparison import order_key
from tidemill.model.types import Array


def _extreme(greatest: bool, call: AggregateCall, members: WeightedArguments) -> Any:
    return (max if greatest else min)((row[0] for row, _ in members), key=order_key)


def _extreme_by(greatest: bool, call: AggregateCall, members: WeightedArguments) -> Any:
    """Of several rows with the least other argument, the one with the least argument, NULL before all; or greatest."""
    rows = (row for row, _ in members)
    return (max if greatest else min)(rows, key=lambda row: (order_key(row[1]), order_key(row[0])))[0]


def _extremes_by(greatest: bool, call: AggregateCall, members: WeightedArguments) -> tuple[Any, ...]:
    """The arguments of as many rows, from the least other argument on; or from the greatest."""
    (wanted,) = call.parameters
    ordered = sorted(members, key=lambda member: (order_key(member[0][1]), order_key(member[0][0])), reverse=greatest)
    found: list[Any] = []
    for row, weight in ordered:
        found += [row[0]] * min(weight, wanted - len(found))
    return tuple(found)


def _declared(name: str, greatest: bool) -> tuple[AggregateFunction, ...]:
    """The aggregate of that name, and those that pick a row, or several, by their second argument."""
    end = MultisetEnd.GREATEST if greatest else MultisetEnd.LEAST
    plain = AggregateFunction(
        name,
        same_type,
        partial(_extreme, greatest),
        parameters=(anything,),
        idempotent=True,
        end=end,
        merges=True,
        over_one_row=converted_argument,
        moving=lambda call: MovingExtreme(greatest),
        fold=lambda call: ExtremeFold(greatest),
        spark=f"{name}({{0}}) {{there}}",
        spark_window=f"{name}({{0}})",
    )
    by_other = AggregateFunction(
        f"{name}_by",
        same_type,
        partial(_extreme_by, greatest),
        parameters=(anything, anything),
        idempotent=True,
        required=OTHER_ARGUMENTS,
        depends_on_order=True,
        end=end,
        by_second=True,
        # Of several with the same other argument, the least (or greatest) counts: Spark's own MIN_BY takes any.
        spark=f"({name}(named_struct('by', {{1}}, 'of', {{0}})) {{there}}).of",
    )
    several = AggregateFunction(
        f"{name}_by_several",
        lambda argument: None if argument is None else Array(argument),
        partial(_extremes_by, greatest),
        required=OTHER_ARGUMENTS,
        depends_on_order=True,
    )
    return plain, by_other, several


EXTREMES = (*_declared("min", greatest=False), *_declared("max", greatest=True))
