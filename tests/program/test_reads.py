"""What a program says that it reads."""

from __future__ import annotations

from tests.compiler.shop import program_of
from tidemill.program.reads import indexes, reads_state

STREAMED = "SELECT c.name, k.page FROM clicks k JOIN customers c ON c.id = k.customer"


def test_one_table_alone_need_not_be_kept() -> None:
    assert reads_state(program_of("SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")) == set()


def test_joined_tables_must_be_kept() -> None:
    assert reads_state(program_of("SELECT o.id FROM orders o JOIN items i ON i.orders = o.id")) == {"orders", "items"}


def test_a_stream_is_held_by_a_map_and_not_kept() -> None:
    assert reads_state(program_of(STREAMED)) == {"customers"}


def test_recomputation_reads_everything() -> None:
    assert reads_state(program_of("SELECT id FROM orders", "recompute")) == {"orders"}


def test_an_inner_stage_is_kept_only_where_it_is_looked_up() -> None:
    inner = "(SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t"
    assert reads_state(program_of(f"SELECT n, COUNT(*) AS m FROM {inner} GROUP BY n")) == set()
    joined = program_of(f"SELECT c.name FROM customers c JOIN {inner} ON t.customer = c.id")
    assert reads_state(joined) == {"customers", "v/1"}


def test_indexes() -> None:
    assert indexes(program_of(STREAMED)) == {"customers": {("id",)}, "v:k": {("customer",)}}
    assert indexes(program_of("SELECT x.a FROM edges x JOIN edges y ON x.b = y.a")) == {"edges": {("a",), ("b",)}}
