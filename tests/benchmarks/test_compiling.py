"""Views compile in time that grows with their text, and programs are no longer than that either."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

import tidemill
from benchmarks.compiling.cases import CASES
from benchmarks.compiling.run import measure
from tidemill.model.errors import ArithmeticFault

FLOOR = 0.25
"""Seconds of CPU below which a measurement says more about the machine than about the compiler."""

DOUBLED = 5
"""Twice the text may take so many times as long: squares are allowed, since wider rows pass through more stages."""

QUADRATIC = ("inner joins", "mixed joins")
"""An inner join of n tables has n triggers of n loops."""


@pytest.mark.parametrize("case", CASES)
def test_twice_the_text_takes_a_few_times_as_long(case: str) -> None:
    check_growth(case, *CASES[case][1][:2])


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_forty_joins_take_a_few_times_as_long_as_twenty(case: str) -> None:
    check_growth(case, *CASES[case][1][1:])


def check_growth(case: str, half: int, whole: int) -> None:
    sql = CASES[case][0]
    small, large = measure(sql(half)), measure(sql(whole))
    assert large.seconds < DOUBLED * max(small.seconds, FLOOR), (small, large)
    assert large.seconds < 20
    growth = whole / half
    assert large.stages <= 1.25 * growth * small.stages + 1
    assert large.steps <= (1.15 * growth**2 if case in QUADRATIC else 1.45 * growth) * small.steps


@pytest.mark.parametrize("strategy", ["viewlet", "joingraph", "lineage", "recompute"])
@pytest.mark.parametrize("case", ["inner joins", "full joins", "common tables joined", "not (in or in)"])
def test_no_strategy_hangs(case: str, strategy: str) -> None:
    sql, (few, _, _) = CASES[case]
    assert measure(sql(few), strategy).seconds < 10


SIZES = {"union all": 5, "queries in from": 4, "branches of case": 4, "literals of in": 4, "columns": 4}
"""How many parts a view has whose rows are compared; of the families that are not named here, six."""


WAYS = [
    ("auto", "python"),
    *(pytest.param(strategy, "python", marks=pytest.mark.long) for strategy in ("viewlet", "joingraph", "lineage")),
    pytest.param("auto", "llvm", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("strategy", "backend"), WAYS)
def test_rows_stay_right(strategy: str, backend: str) -> None:
    """Views of all families over the same changes, of rows that are often NULL, equal and partners of many."""
    dice = Random(17)
    with tidemill.open(":memory:", runtime="native", backend=backend) as wh:
        for i in range(8):
            wh.sql(f"CREATE TABLE t{i} (k INT, j INT, v INT)")
        for place, (case, (sql, _)) in enumerate(CASES.items()):
            query = sql(SIZES.get(case, 6 if backend == "python" else 3))
            wh.sql(f"CREATE MATERIALIZED VIEW v{place} WITH (strategy = '{strategy}') AS {query}")
        held: list[tuple[str, tuple[int | None, ...]]] = []
        for _ in range(6):
            gone = [held.pop(dice.randrange(len(held))) for _ in range(min(len(held), 5))]
            come = [(f"t{dice.randrange(8)}", tuple(dice.choice((None, 1, 2, 3)) for _ in "kjv")) for _ in range(9)]
            changes: dict[str, list[tuple[int, tuple[int | None, ...]]]] = defaultdict(list)
            for weight, rows in ((-1, gone), (1, come)):
                for table, row in rows:
                    changes[table].append((weight, row))
            held += come
            wh.apply(changes)
        for place, case in enumerate(CASES):
            assert wh.view(f"v{place}").verify(), case


@pytest.mark.parametrize("backend", ["python", pytest.param("llvm", marks=pytest.mark.long)])
def test_join_of_many_tables(backend: str) -> None:
    tables = 40 if backend == "python" else 22
    with tidemill.open(":memory:", runtime="native", backend=backend) as wh:
        for i in range(tables):
            wh.sql(f"CREATE TABLE t{i} (k INT, j INT, v INT)")
        wh.sql(f"CREATE MATERIALIZED VIEW joined AS {CASES['inner joins'][0](tables)}")
        wh.apply({f"t{i}": [(1, (1, 1, i)), (1, (2, 2, None))] for i in range(tables)})
        assert sorted(wh.view("joined").rows(), key=repr) == [(0, tables - 1), (None, None)]
        wh.apply({"t5": [(1, (1, 1, 50)), (-1, (2, 2, None))]})
        assert wh.view("joined").rows() == [(0, tables - 1), (0, tables - 1)]


def test_fault_in_the_innermost_loops_names_the_rows() -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        for i in range(20):
            wh.sql(f"CREATE TABLE t{i} (k INT, j INT, v INT)")
        joins = " ".join(f"JOIN t{i} ON t{i}.k = t{i - 1}.j" for i in range(1, 20))
        wh.sql(
            f"CREATE MATERIALIZED VIEW divided WITH (strategy = 'delta') AS SELECT t0.v / t19.v AS x FROM t0 {joins}"
        )
        with pytest.raises(ArithmeticFault) as caught:
            wh.apply({f"t{i}": [(1, (1, 1, 0))] for i in range(20)})
        assert "t0 (1, 1, 0)" in str(caught.value.where) and "t19 (1, 1, 0)" in str(caught.value.where)
