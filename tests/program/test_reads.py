"""The relations and maps that a program reads."""

from __future__ import annotations

import pytest

from tests.compiler.shop import program_of
from tests.program import examples
from tidemill.program.reads import guards, orders, read_maps, reads_state, row_wise

STREAMED = "SELECT c.name, k.page FROM clicks k JOIN customers c ON c.id = k.customer"


def test_one_table_alone_need_not_be_kept() -> None:
    assert reads_state(program_of("SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")) == set()


def test_joined_tables_must_be_kept() -> None:
    assert reads_state(program_of("SELECT o.id FROM orders o JOIN items i ON i.orders = o.id")) == {"orders", "items"}


def test_a_stream_is_held_by_a_map_and_not_kept() -> None:
    assert reads_state(program_of(STREAMED)) == {"customers"}


def test_recomputation_reads_everything_and_its_own_rows() -> None:
    assert reads_state(program_of("SELECT id FROM orders", "recompute")) == {"orders", "v"}


def test_an_inner_stage_is_kept_only_where_it_is_looked_up() -> None:
    inner = "(SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t"
    assert reads_state(program_of(f"SELECT n, COUNT(*) AS m FROM {inner} GROUP BY n")) == set()
    joined = program_of(f"SELECT c.name FROM customers c JOIN {inner} ON t.customer = c.id")
    assert reads_state(joined) == {"customers", "v/1"}


def test_orders_of_ranges_and_seeks() -> None:
    assert orders(examples.axf().program.stages[0]) == {
        "v:asks": {(("broker",), "price")},
        "v:bids": {(("broker",), "price")},
    }
    assert orders(examples.vwap().program.stages[0]) == {"v:bids": {((), "price")}}
    assert orders(examples.figure_4().program.stages[0]) == {}


def test_guards() -> None:
    assert guards(examples.vwap().program.stages[0]) == {"v:bids": {"volume"}}


def test_maps_that_their_own_stage_reads() -> None:
    assert read_maps(examples.example_2().program.stages[0]) == {"v:q_li", "v:q_o"}
    assert read_maps(program_of(STREAMED).stages[-1]) == {"v:k"}
    assert reads_state(examples.example_2().program) == set()


@pytest.mark.parametrize("sql", [STREAMED, "SELECT a, COUNT(*) AS n FROM edges GROUP BY a"])
@pytest.mark.parametrize("strategy", ["delta", "viewlet"])
def test_sums_and_joins_take_changes_of_any_size(sql: str, strategy: str) -> None:
    assert not row_wise(program_of(sql, strategy).stages[-1])


def test_what_reads_sums_goes_row_by_row() -> None:
    assert not row_wise(examples.example_2().program.stages[0])
    for make in (examples.figure_4, examples.vwap, examples.axf):
        assert row_wise(make().program.stages[0])
