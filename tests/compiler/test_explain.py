"""The text of EXPLAIN."""

from __future__ import annotations

import pytest

from tests.compiler.shop import program_of
from tests.program import examples
from tidemill.compiler.explain import explain, require_incremental
from tidemill.compiler.statistics.costs import cost_of_trigger
from tidemill.model.errors import Unsupported
from tidemill.program.stages import Program
from tidemill.program.text import text_of_program

SQL = """
WITH t AS (SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer)
SELECT c.name, t.total FROM customers c JOIN t ON t.customer = c.id
"""

TREE = """\
view v
  runtime      native (asked for)
  shows epoch  7

v: incremental, delta, O(matches)
│ why: LINEAR, select, project and join are linear, so the cost follows the change
│ a change of customers costs O(1): single rows and entries, by their keys
│ a change of v/1 costs O(matches): index lookups only
│ join of c, s1: q-hierarchical, by declared keys; O(1) for a change and O(1) for each row read are possible
│   this plan: O(matches) for a change of v/1, O(1) for each row read: does not meet them
│ keeps its rows: 1,234 stored
├─ customers
└─ v/1: incremental, delta, O(1)
   │ why: SUMS, every aggregate is a sum that deletions take back, so the cost follows the change
   │ a change of orders costs O(1): the changed row is enough
   │ keeps map v/1/groups[orders.customer]: 56 stored
   │ keeps its rows
   └─ orders

"""


def test_explain() -> None:
    program = program_of(SQL)
    facts = {"runtime": "native (asked for)", "shows epoch": "7"}
    text = explain(program, facts=facts, sizes={"v": 1234, "v/1/groups": 56})
    assert text == TREE + text_of_program(program)


def cost(program: Program, relation: str) -> str:
    stage = program.stages[-1]
    return str(cost_of_trigger(next(trigger for trigger in stage.triggers if trigger.relation == relation), program))


def test_a_scan_is_named() -> None:
    program = program_of("SELECT o.id FROM orders o JOIN items i ON i.price > o.amount")
    assert cost(program, "orders") == "O(data): it visits all of items"


def test_a_global_aggregate_is_one_row_and_no_scan() -> None:
    program = program_of("SELECT o.id, t.n FROM orders o CROSS JOIN (SELECT COUNT(*) AS n FROM items) t")
    assert cost(program, "orders") == "O(matches): index lookups only"
    assert cost(program, "v/1") == "O(data): it visits all of orders, when its one row changes"


def test_recomputation_costs_the_data() -> None:
    assert cost(program_of("SELECT id FROM orders", "recompute"), "orders").startswith("O(data)")


def test_a_shared_stage_is_drawn_once() -> None:
    program = program_of(
        """WITH t AS (SELECT a, COUNT(*) AS n FROM edges GROUP BY a),
                u AS (SELECT n, COUNT(*) AS m FROM t GROUP BY n)
           SELECT t.a, u.m FROM t JOIN u ON t.n = u.n"""
    )
    assert explain(program).count("(as above)") == 1


def test_maps_are_read_at_a_key_over_a_range_or_through() -> None:
    assert cost(examples.example_2().program, "orders") == "O(1): single entries of maps, by their keys"
    assert cost(examples.axf().program, "bids") == "O(log n): sums over ranges of ordered keys"
    assert cost(examples.figure_4().program, "li") == "O(matches): index lookups only"


def test_a_view_that_must_be_incremental_may_visit_tables_but_not_be_computed_again() -> None:
    require_incremental(program_of(SQL))
    require_incremental(program_of("SELECT o.id FROM orders o JOIN items i ON i.price > o.amount"))
    with pytest.raises(Unsupported) as refusal:
        require_incremental(program_of(SQL, "recompute"))
    assert refusal.value.where == "v/1"
    assert "v/1: recomputed, recompute, O(data)" in str(refusal.value)


def test_a_hint_says_what_would_help() -> None:
    text = explain(program_of("SELECT o.id FROM orders o JOIN items i ON i.price > o.amount"))
    assert "hint: An equality between the tables would make it a lookup." in text
