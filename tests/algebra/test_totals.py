"""Aggregates over multisets: values, weights and NULLs, also compared with DuckDB."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest
from duckdb import connect

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, same_type
from tidemill.algebra.aggregates.registry import (
    AGGREGATE_FUNCTIONS,
    aggregate_multiset,
    multiset_entries,
    needs_multiset,
)
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column
from tidemill.algebra.text import text_of
from tidemill.model import types as t
from tidemill.model.types import Type

X = Column("x", t.INT)
Y = Column("y", t.INT)


def over(function: str, of: Type = t.INT, **clauses: Any) -> AggregateCall:
    return AggregateCall("v", function, clauses.pop("argument", X), of, **clauses)


def rows(*values: Any) -> list[tuple[tuple[Any, ...], int]]:
    return [((value,), 1) for value in values]


def test_extremes_of_doubles() -> None:
    values = rows(1.0, math.nan, -math.inf, None)
    assert aggregate_multiset(over("min", t.DOUBLE), values) == -math.inf
    assert math.isnan(aggregate_multiset(over("max", t.DOUBLE), values))


@pytest.mark.parametrize(
    "function", ["min", "max", "min_by", "mode", "string_agg", "percentile_cont", "var_pop", "sum"]
)
def test_nothing_is_null(function: str) -> None:
    assert (
        aggregate_multiset(over(function, others=(Y,)), [((1, None), 1)] if function == "min_by" else [((None, 1), 1)])
        is None
    )


def test_an_array_of_nothing_is_empty() -> None:
    assert aggregate_multiset(over("array_agg", t.Array(t.INT)), rows(None)) == ()
    assert aggregate_multiset(over("count", t.BIGINT), rows(None)) == 0


def test_arrays_are_ascending() -> None:
    values = [((3,), 1), ((1,), 2), ((None,), 4)]
    assert aggregate_multiset(over("array_agg"), values) == (1, 1, 3)
    assert aggregate_multiset(over("array_agg", distinct=True), values) == (1, 3)


def test_by_another_argument() -> None:
    members = [((1, 5), 1), ((None, 9), 1), ((3, None), 1), ((2, 5), 1)]
    assert aggregate_multiset(over("max_by", others=(Y,)), members) is None
    assert aggregate_multiset(over("min_by", others=(Y,)), members) == 1
    assert aggregate_multiset(over("max_by", others=(Y,)), [*members[:1], *members[3:]]) == 2


def test_texts_in_order() -> None:
    name = Column("name", t.STRING)
    members = [(("b", 2), 1), (("a", 2), 2), (("c", 1), 1), (("d", None), 1)]
    falling = over("string_agg", argument=name, order=(SortOrder(Y, True, False),), parameters=(", ",))
    assert aggregate_multiset(falling, members) == "a, a, b, c, d"
    assert aggregate_multiset(over("string_agg", argument=name, parameters=("",)), rows("b", "a")) == "ab"


@pytest.mark.parametrize(
    ("share", "between", "at"), [(0.0, 10.0, 10), (0.25, 17.5, 10), (0.26, 17.8, 20), (0.5, 25.0, 20), (1.0, 40.0, 40)]
)
def test_shares(share: float, between: float, at: int) -> None:
    values = rows(40, 10, 30, None, 20)
    assert aggregate_multiset(over("percentile_cont", t.DOUBLE, parameters=(share, False)), values) == pytest.approx(
        between
    )
    assert aggregate_multiset(over("percentile_disc", t.INT, parameters=(share, False)), values) == at


def test_several_shares_from_the_greatest_on() -> None:
    falling = over("percentile_disc", t.Array(t.DOUBLE), parameters=((0.0, 0.5), True))
    assert aggregate_multiset(falling, rows(1, 2, 3, 4)) == (4.0, 3.0)


def test_the_mode_of_several_is_the_least() -> None:
    assert aggregate_multiset(over("mode", parameters=(False,)), rows(2, 1, 2, 1, None, None, None)) == 1
    assert aggregate_multiset(over("mode", parameters=(True,)), rows(2, 1, 2, 1)) == 2
    assert aggregate_multiset(over("mode", parameters=(False,)), [((1,), 1), ((2,), 2)]) == 2


def test_squares_out_of_range_have_no_spread() -> None:
    assert math.isnan(aggregate_multiset(over("var_pop", t.DOUBLE), rows(1e200)))


def test_bags_hold_what_is_looked_at() -> None:
    found, condition = multiset_entries(over("max_by", others=(Y,), filter=Column("z", t.BOOLEAN)))
    assert found == (X, Y)
    assert condition is not None
    assert text_of(condition) == "z AND y IS NOT NULL"
    assert multiset_entries(over("min")) == multiset_entries(over("max"))


def test_an_aggregate_that_is_registered_sees_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    function = AggregateFunction("how_many", same_type, lambda call, members: len(members), sees_nulls=True)
    monkeypatch.setitem(AGGREGATE_FUNCTIONS, "how_many", function)
    call = over("how_many")
    assert needs_multiset(call)
    assert multiset_entries(call) == ((X,), None)
    assert aggregate_multiset(call, rows(1, None)) == 2


def _groups(count: int) -> list[list[int | None]]:
    draw = random.Random(4)
    return [[draw.choice([None, draw.randint(-50, 50)]) for _ in range(draw.randrange(1, 12))] for _ in range(count)]


GROUPS = _groups(200)

DUCKDB: list[tuple[AggregateCall, str]] = [
    (over("min"), "min(x)"),
    (over("max"), "max(x)"),
    (over("count", t.BIGINT, distinct=True), "count(DISTINCT x)"),
    (over("sum", t.BIGINT, distinct=True), "sum(DISTINCT x)"),
    (over("avg", t.DOUBLE), "avg(x)"),
    (over("var_pop", t.DOUBLE), "var_pop(x)"),
    (over("var_samp", t.DOUBLE), "var_samp(x)"),
    (over("stddev_samp", t.DOUBLE, distinct=True), "stddev_samp(DISTINCT x)"),
    (over("percentile_cont", t.DOUBLE, parameters=(0.3, False)), "quantile_cont(x, 0.3)"),
    (over("percentile_disc", t.INT, parameters=(0.3, False)), "quantile_disc(x, 0.3)"),
    (over("array_agg", t.Array(t.INT)), "list_sort(coalesce(list(x) FILTER (WHERE x IS NOT NULL), []))"),
]


@pytest.mark.parametrize(("call", "query"), DUCKDB, ids=[query for _, query in DUCKDB])
def test_answers_of_duckdb(call: AggregateCall, query: str) -> None:
    table = pa.table({"g": [g for g, values in enumerate(GROUPS) for _ in values], "x": [x for v in GROUPS for x in v]})
    with connect() as connection:
        connection.register("t", table)
        answers = connection.execute(f"SELECT {query} FROM t GROUP BY g ORDER BY g").fetchall()
    for values, (answer,) in zip(GROUPS, answers, strict=True):
        found = aggregate_multiset(call, rows(*values))
        if isinstance(answer, list):
            assert found == tuple(answer)
        else:
            assert found == (None if answer is None else pytest.approx(float(answer)))
