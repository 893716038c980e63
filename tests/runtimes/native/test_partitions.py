"""Multisets and partitions on the native runtime: random epochs, compared with the evaluator."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest

from tests.compiler.shop import TABLES
from tests.runtimes.native.harness import Harness
from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_type
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Project, Repeat, Scan, TopK, Window
from tidemill.algebra.relational.windows import Frame, WindowCall
from tidemill.changes.arrow import NAN
from tidemill.changes.zset import ZSet
from tidemill.compiler.passes import compile_view
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, INT, Array
from tidemill.runtimes.native import runtime_state
from tidemill.runtimes.native.state import ordered_groups, ordered_sums

ITEMS = Scan("items", "i", TABLES["items"].fields)
ORDER, PART, PRICE, RATE = map(column, ITEMS.fields)


@pytest.fixture(autouse=True)
def small_piles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Piles are kept in order and their blocks cut at sizes that tests reach."""
    monkeypatch.setattr(ordered_groups, "LIST_LIMIT", 1)
    monkeypatch.setattr(ordered_sums, "MIN_BLOCK", 3)


def grouped(*calls: tuple[str, tuple[Scalar, ...]], keys: tuple[Column, ...] = (PART,)) -> Aggregate:
    aggregates = [
        AggregateCall(f"c{i}", name, first, aggregate_type(name, first.type), others=tuple(others))
        for i, (name, (first, *others)) in enumerate(calls)
    ]
    return Aggregate(ITEMS, tuple(Named(key.name, key) for key in keys), tuple(aggregates))


def top(*order: SortOrder, by: tuple[Scalar, ...] = (PART,), limit: int | None = 2, offset: int = 0) -> TopK:
    return TopK(ITEMS, by, order, limit, offset)


def percentile(name: str, argument: Column, share: Any, descending: bool = False) -> AggregateCall:
    of = argument.type if name == "percentile_disc" else DOUBLE
    of = Array(of) if isinstance(share, tuple) else of
    return AggregateCall(f"{name} {argument.name} {share}", name, argument, of, parameters=(share, descending))


PERCENTILES = (
    percentile("percentile_cont", PRICE, 0.5),
    percentile("percentile_cont", PRICE, (0.0, 0.3, 1.0), descending=True),
    percentile("percentile_disc", RATE, 0.25),
    percentile("percentile_disc", PRICE, (0.1, 0.9), descending=True),
)

VIEWS: dict[str, Relation] = {
    "percentiles": Aggregate(ITEMS, (Named("part", PART),), PERCENTILES),
    "min_max": grouped(("min", (PRICE,)), ("max", (PRICE,)), ("max", (RATE,)), ("sum", (PRICE,))),
    "min_by": grouped(("min_by", (PRICE, RATE)), ("max_by", (RATE, PRICE)), ("min", (RATE,))),
    "bags": grouped(("array_agg", (RATE,)), ("array_agg", (PRICE,)), ("max", (PRICE,))),
    "global": grouped(("min", (PRICE,)), ("max", (RATE,)), keys=()),
    "top": top(SortOrder(PRICE, descending=True, nulls_first=False), SortOrder(RATE)),
    "top_double": top(SortOrder(RATE, descending=True), by=(ORDER,), limit=3),
    "top_all": top(SortOrder(PRICE), by=(), limit=4, offset=1),
    "top_offset": top(SortOrder(PART, descending=True), SortOrder(PRICE), by=(ORDER,), limit=None, offset=2),
    "top_ties": TopK(ITEMS, (PART,), (SortOrder(PRICE),), 2, 1, ties=True),
    "top_none": top(SortOrder(PRICE), limit=0),
    "top_seen": Project(
        Filter(top(SortOrder(PRICE)), call("gt", PRICE, Literal(Decimal("0.00"), PRICE.type))),
        (Named("part", PART), Named("twice", call("add", RATE, RATE))),
    ),
}


BY_PRICE = (SortOrder(PRICE, descending=True, nulls_first=False), SortOrder(RATE))


def window(*calls: WindowCall, order: tuple[SortOrder, ...] = BY_PRICE, by: tuple[Scalar, ...] = (PART,)) -> Window:
    return Window(ITEMS, by, order, calls)


def ranking(name: str, *arguments: Scalar) -> WindowCall:
    return WindowCall(name, name, arguments, DOUBLE if name in ("percent_rank", "cume_dist") else INT)


def framed(name: str, argument: Scalar | None, rows: bool, start: Any, end: Any, **more: Any) -> WindowCall:
    """An aggregate, or the first or last value, of a frame."""
    of = argument.type if name.endswith("_value") and argument else aggregate_type(name, argument and argument.type)
    label = f"{name} {rows} {start} {end} {argument and argument.name}"
    return WindowCall(label, name, () if argument is None else (argument,), of, Frame(rows, start, end), **more)


def away(name: str, offset: int, **more: Any) -> WindowCall:
    default = Literal(Decimal("7.00"), PRICE.type)
    return WindowCall(f"{name} {offset}", name, (PRICE, Literal(offset, INT), default), PRICE.type, **more)


KNOWN = call("gt", RATE, Literal(0.0, DOUBLE))

WINDOWS: dict[str, Window] = {
    "row_number": window(ranking("row_number")),
    "ranks": window(ranking("row_number"), ranking("rank"), ranking("dense_rank")),
    "rank": window(ranking("rank"), order=(SortOrder(PRICE),)),
    "shares": window(ranking("percent_rank"), ranking("cume_dist"), ranking("ntile", Literal(2, INT))),
    "lag": window(away("lag", 1), away("lead", 2)),
    "lag_known": window(away("lag", 1, ignore_nulls=True)),
    "near": window(
        framed("sum", PRICE, True, -1, 1), framed("max", RATE, True, -2, 0), framed("count", None, True, 1, 2)
    ),
    "near_values": window(
        framed("first_value", RATE, True, -1, 1), framed("last_value", RATE, True, -1, 1, ignore_nulls=True)
    ),
    "running_rows": window(framed("sum", PRICE, True, None, 0), framed("avg", PART, True, None, 0)),
    "running_range": window(
        framed("sum", PRICE, False, None, 0),
        framed("count", RATE, False, None, 0),
        framed("count", None, False, None, 0),
        order=(SortOrder(RATE),),
    ),
    "running_double": window(framed("sum", RATE, True, None, 0), framed("avg", RATE, False, None, 0, filter=KNOWN)),
    "running_more": window(
        framed("avg", PRICE, False, None, 0), framed("avg", ORDER, True, None, 0), framed("sum", ORDER, True, -1, 0)
    ),
    "running_truth": window(
        WindowCall("some", "bool_or", (KNOWN,), BOOLEAN, Frame(True, None, 0)),
        WindowCall("every", "bool_and", (KNOWN,), BOOLEAN, Frame(False, 0, 0)),
    ),
    "running_values": window(framed("first_value", RATE, False, None, 0), framed("last_value", RATE, False, None, 0)),
    "running_rows_values": window(
        framed("first_value", RATE, True, None, 0), framed("last_value", RATE, True, None, 0)
    ),
    "peers": window(framed("sum", PRICE, False, 0, 0), order=(SortOrder(ORDER),)),
    "within": window(
        framed("sum", PRICE, False, -1, 0), framed("count", None, False, 0, 1), order=(SortOrder(PART),), by=()
    ),
    "within_down": window(
        framed("sum", PART, False, Decimal("-2.50"), Decimal("1.00")),
        order=(SortOrder(PRICE, descending=True, nulls_first=False),),
        by=(ORDER,),
    ),
    "whole": window(framed("sum", PRICE, True, None, None), framed("max", RATE, False, 0, None)),
    "mixed": window(
        ranking("row_number"), away("lag", 1), framed("sum", PRICE, True, None, 0), framed("min", RATE, True, -1, 1)
    ),
    "all_rows": window(ranking("row_number"), framed("sum", PRICE, False, None, 0), order=(), by=()),
}
VIEWS |= WINDOWS


def repeated() -> Relation:
    """How often each part comes, less one: as set operations count rows."""
    counted = Aggregate(ITEMS, (Named("part", PART),), (AggregateCall("n", "count", None, BIGINT),))
    one_less = call("subtract", Column("n", BIGINT, nullable=False), Literal(1, BIGINT))
    return Project(Repeat(counted, one_less), (Named("part", Column("part", PART.type)),))


VIEWS["repeated"] = repeated()


ROWS = [
    (order, part, price, rate)
    for order in (1, None)
    for part in (1, 2, None)
    for price in (Decimal("-1.25"), Decimal("0.50"), Decimal("2.00"), None)
    for rate in (0.1, -3.0, NAN, 1e15, None)
]


def fresh(relation: Relation, strategy: str = "delta") -> Harness:
    return Harness(compile_view("v", relation, TABLES, strategy), TABLES)


def a_change(chance: Random, rows: ZSet, most: int) -> ZSet:
    """Some rows come, and of those that are there some leave; many are equal, and some change in one column."""
    change = ZSet()
    for _ in range(chance.randint(1, most)):
        there = list((rows + change).expand())
        act = chance.choice(("come", "come", "leave", "update")) if there else "come"
        if act != "come":
            change.add(chance.choice(there), -1)
        if act != "leave":
            change.add(chance.choice(ROWS), chance.choice((1, 1, 1, 2)))
    return change


def check(relation: Relation, chance: Random, strategy: str = "delta") -> None:
    """Load and epochs give what the oracle says.

    What is tried and rolled back leaves no trace, and now and then all is forgotten and read from the store again.
    """
    harness = fresh(relation, strategy)
    rows = a_change(chance, ZSet(), 30)
    harness.seed({"items": rows})
    total = harness.load()
    assert total == evaluate(relation, {"items": rows})
    for number in range(20):
        change = a_change(chance, rows, 12 if number % 5 == 0 else 3)
        if chance.random() < 0.3:
            harness.run({"items": a_change(chance, rows, 4)})
            harness.runtime.rollback()
        if chance.random() < 0.2:
            harness = Harness(harness.program, TABLES, harness.store)
        rows = rows + change
        total = total + harness.apply({"items": change})
        assert total == evaluate(relation, {"items": rows})
    total = total + harness.apply({"items": -rows})
    assert total == evaluate(relation, {"items": ZSet()})


@pytest.mark.turns("seed")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("strategy", ["delta", "recompute"])
@pytest.mark.parametrize("view", VIEWS)
def test_view_is_kept_fresh(view: str, strategy: str, seed: int) -> None:
    check(VIEWS[view], Random(seed), strategy)


@pytest.mark.parametrize("seed", [7])
@pytest.mark.parametrize("view", VIEWS)
def test_view_is_kept_fresh_over_columns(view: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where every map counts as large and stays in columns."""
    monkeypatch.setattr(runtime_state, "RESIDENT_ROWS", -1)
    check(VIEWS[view], Random(seed))
