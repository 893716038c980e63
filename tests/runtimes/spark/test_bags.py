"""Aggregates that look into multisets, and rows that come several times, kept fresh by the Spark runtime."""

from __future__ import annotations

import pytest

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named
from tidemill.algebra.relational.relations import Aggregate, Repeat, Scan
from tidemill.changes.arrow import NAN
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.stages import Program

pytestmark = pytest.mark.spark

BIDS = Table("bids", (Field("item", t.STRING), Field("price", t.INT), Field("who", t.STRING), Field("share", t.DOUBLE)))
SCAN = Scan("bids", "b", BIDS.fields)
ITEM, PRICE, WHO, SHARE = (Column(f"b.{f.name}", f.type) for f in BIDS.fields)
BY_ITEM = (Named("item", ITEM),)
COUNT = AggregateCall("n", "count", None, t.BIGINT)
LEAST = AggregateCall("low", "min", PRICE, t.INT)
GREATEST = AggregateCall("high", "max", SHARE, t.DOUBLE)
WINNER = AggregateCall("winner", "max_by", WHO, t.STRING, others=(PRICE,))
PRICES = AggregateCall("prices", "array_agg", PRICE, t.Array(t.INT))
NAMES = AggregateCall("names", "string_agg", WHO, t.STRING, parameters=("+",))
SUM = AggregateCall("s", "sum", PRICE, t.BIGINT)
MEAN = AggregateCall("mean", "avg", SHARE, t.DOUBLE)

EPOCHS = (
    [(("vase", 3, "ann", 0.5), 1), (("vase", 3, "bob", 0.25), 2), (("lamp", None, "cat", None), 1)],
    [(("vase", 3, "bob", 0.25), -1), (("vase", 7, None, NAN), 1), ((None, 1, "dan", 1.0), 1)],
    [(("vase", 7, None, NAN), -1), (("vase", 9, "eve", 2.0), 1), (("lamp", None, "cat", None), -1)],
    [(("vase", 9, "eve", 2.0), -1), (("vase", 3, "bob", 0.25), -1), (("vase", 3, "ann", 0.5), -1)],
    [(("vase", 1, "ann", 0.5), 1), (("vase", 1, "ann", 0.5), 1), ((None, 1, "dan", 1.0), -1)],
)


def follow(view):
    view.load()
    for epoch in EPOCHS:
        view.apply(bids=epoch)
    assert view.shown
    assert view.runtime.answer(Program("v", view.program.stages)).zset() == view.shown


@pytest.mark.turns("strategy")
@pytest.mark.parametrize("strategy", ["delta", "recompute"])
@pytest.mark.parametrize("keys", [(), BY_ITEM], ids=["global", "grouped"])
def test_aggregates_over_bags_beside_sums(drive, keys, strategy):
    calls = (COUNT, LEAST, GREATEST, WINNER, PRICES, NAMES, SUM, MEAN)
    follow(drive([BIDS], Aggregate(SCAN, keys, calls), strategy))


def test_a_bag_may_move_where_its_group_does_not(drive):
    view = drive([BIDS], Aggregate(SCAN, BY_ITEM, (LEAST,)))
    view.load()
    view.apply(bids=[(("vase", 3, "ann", None), 1)])
    change = view.apply(bids=[(("vase", 3, "ann", None), -1), (("vase", 2, "ann", None), 1)])
    assert change == ZSet({("vase", 3): -1, ("vase", 2): 1})


def test_large_changes_of_bags_are_written_by_spark(drive, bulk):
    bulk(1)
    follow(drive([BIDS], Aggregate(SCAN, BY_ITEM, (LEAST, NAMES, SUM, MEAN))))


@pytest.mark.parametrize("large", [False, True], ids=["collected", "written"])
def test_rows_that_come_several_times(drive, large, bulk):
    if large:
        bulk(1)
    groups = Aggregate(SCAN, BY_ITEM, (COUNT,))
    two_fewer = call("subtract", Column("n", t.BIGINT), Literal(2, t.BIGINT))
    view = drive([BIDS], Repeat(groups, two_fewer))
    view.load()
    bid = ("vase", 1, "ann", None)
    assert view.apply(bids=[(bid, 2)]) == ZSet()
    assert view.apply(bids=[(bid, 3)]) == ZSet({("vase", 5): 3})
    assert view.apply(bids=[(bid, -1)]) == ZSet({("vase", 5): -3, ("vase", 4): 2})


def test_a_fault_in_a_worker_is_a_fault_of_the_view(drive, monkeypatch):
    def refuse(call: AggregateCall, members: WeightedArguments) -> None:
        if members:
            raise ArithmeticFault("no such thing", hint="Do without.")

    odd = AggregateFunction("odd", lambda argument: t.INT, refuse, sees_nulls=True)
    monkeypatch.setitem(AGGREGATE_FUNCTIONS, "odd", odd)
    view = drive([BIDS], Aggregate(SCAN, BY_ITEM, (AggregateCall("o", "odd", PRICE, t.INT),)))
    view.load()
    with pytest.raises(ArithmeticFault, match="no such thing") as raised:
        view.apply(bids=[(("vase", 1, "ann", None), 1)])
    assert raised.value.hint == "Do without."
