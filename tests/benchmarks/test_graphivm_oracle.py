"""Answers are compared before figures are reported, and any wrong answer is found."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.graphivm.data import SMALL, social
from benchmarks.graphivm.oracle import Oracle
from benchmarks.graphivm.workload import Workload, followers, modifications
from tidemill.model.schema import WEIGHT

DATA = social(SMALL.scaled(0.05))


@pytest.fixture(scope="module")
def workload() -> Workload:
    return followers(2, DATA, 20)


@pytest.fixture(scope="module")
def rows(workload: Workload) -> pa.Table:
    """The view after ten events."""
    return _answer(workload, 10)


def test_the_right_rows_pass_in_any_order(workload: Workload, rows: pa.Table) -> None:
    with Oracle(workload) as oracle:
        oracle.check(10, rows, "it")
        oracle.check(10, rows.take(pa.array(np.random.default_rng(1).permutation(rows.num_rows))), "it")


def test_a_missing_row_is_found(workload: Workload, rows: pa.Table) -> None:
    with Oracle(workload) as oracle, pytest.raises(WrongAnswer, match="rows instead of"):
        oracle.check(10, rows.slice(1), "it")


def test_another_row_is_found(workload: Workload, rows: pa.Table) -> None:
    twice = pa.concat_tables([rows.slice(1), rows.slice(1, 1)])
    with Oracle(workload) as oracle, pytest.raises(WrongAnswer, match="other rows"):
        oracle.check(10, twice, "it")


def test_changes_are_the_difference_of_two_answers(workload: Workload, rows: pa.Table) -> None:
    before = _answer(workload, 0)
    changes = pa.concat_tables([_weighing(rows, 1), _weighing(before, -1)])
    with Oracle(workload) as oracle:
        half = oracle.add([changes.slice(0, 100)])
        oracle.check_changes(10, oracle.add([changes.slice(100)], half), "it")
        with pytest.raises(WrongAnswer, match="its changes by 10 events"):
            oracle.check_changes(10, half, "it")


def test_what_came_and_went_is_gone() -> None:
    workload = modifications("q2", DATA, 5)
    with Oracle(workload) as oracle:
        start, half, end = oracle.answer(0), oracle.answer(10), oracle.answer(20)
    assert start == end and half[0] == start[0] + 10


def _answer(workload: Workload, events: int) -> pa.Table:
    connection = duckdb.connect()
    happened = workload.events.cut(0, events).tables
    for name, table in workload.base.items():
        parts = [table, *(part.drop_columns([WEIGHT]) for relation, part in happened.items() if relation == name)]
        connection.register(f"{name}_rows", pa.concat_tables(parts))
        connection.execute(f"CREATE TABLE {name} AS FROM {name}_rows")
    return connection.sql(workload.query).to_arrow_table()


def _weighing(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column(WEIGHT, pa.array(np.full(table.num_rows, weight)))
