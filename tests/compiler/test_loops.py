"""The order of loops, their lookups, and the place of conditions."""

from __future__ import annotations

from tests.compiler.shop import program_of
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, RelationLoop


def loops(stage: Stage, relation: str) -> list[list[RelationLoop]]:
    trigger = next(trigger for trigger in stage.triggers if trigger.relation == relation)
    return [list(statement.query.sources) for statement in trigger.statements if isinstance(statement, Add)]


def order(sql: str, relation: str) -> list[str]:
    (sources,) = loops(program_of(sql).stages[-1], relation)
    return [source.alias for source in sources]


def load_order(sql: str) -> list[str]:
    (statement,) = program_of(sql).stages[-1].load
    return [source.alias for source in statement.query.sources]


CHAIN = "SELECT c.name, i.part FROM customers c, orders o, items i WHERE c.id = o.customer AND o.id = i.orders"


def test_the_change_comes_first_and_lookups_follow() -> None:
    assert order(CHAIN, "customers") == ["c", "o", "i"]
    assert order(CHAIN, "orders") == ["o", "c", "i"]
    assert order(CHAIN, "items") == ["i", "o", "c"]


def test_a_load_starts_where_keys_lead_to_everything_else() -> None:
    assert load_order(CHAIN) == ["i", "o", "c"]


def test_a_change_takes_the_way_with_the_fewest_wide_lookups() -> None:
    # From a region over all its customers to their orders would be two wide steps, over the items only one.
    sql = """SELECT c.name FROM (SELECT region, id FROM customers) s, customers c, orders o, items i
             WHERE c.region = s.region AND o.customer = c.id AND i.orders = o.id AND i.part = s.id"""
    statements = loops(program_of(sql).stages[0], "customers")
    assert ["customers", "i", "o", "c"] in [[source.alias for source in sources] for sources in statements]


def test_a_cross_join_comes_last() -> None:
    sql = "SELECT x.a FROM edges x CROSS JOIN items i JOIN orders o ON o.id = x.b"
    assert order(sql, "edges") == ["x", "o", "i"]


def test_a_lookup_by_key_asks_for_the_key_alone() -> None:
    sql = "SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer AND c.region = CAST(o.day AS STRING)"
    ((_, customer),) = loops(program_of(sql).stages[0], "orders")
    assert [name for name, _ in customer.lookup] == ["id"]
    assert len(customer.filters) == 1


def test_columns_of_a_lookup_stand_in_the_order_of_the_relation() -> None:
    one = "SELECT x.a FROM edges x JOIN edges y ON x.b = y.b AND x.a = y.a"
    for sources in loops(program_of(one).stages[0], "edges"):
        assert [name for name, _ in sources[1].lookup] == ["a", "b"]


def test_integers_of_two_widths_are_looked_up() -> None:
    sql = "SELECT c.name FROM orders o JOIN customers c ON o.id = c.id"
    ((_, customer),) = loops(program_of(sql).stages[0], "orders")
    ((_, order_),) = loops(program_of(sql).stages[0], "customers")
    assert [name for name, _ in customer.lookup] == ["id"]
    assert [name for name, _ in order_.lookup] == ["id"]


def test_null_safe_equality_and_other_types_are_filters() -> None:
    for condition in ("x.b <=> y.a", "CAST(x.b AS STRING) = CAST(y.a AS STRING)", "x.b + 1 = y.a + 1"):
        for sources in loops(program_of(f"SELECT x.a FROM edges x JOIN edges y ON {condition}").stages[0], "edges"):
            assert sources[1].lookup == ()
            assert len(sources[1].filters) == 1


def test_a_lookup_by_an_expression_that_cannot_fail() -> None:
    sql = "SELECT c.id FROM clicks k JOIN customers c ON c.name = UPPER(k.page)"
    ((_, customer),) = [found for found in loops(program_of(sql).stages[0], "clicks") if len(found) == 2]
    assert [name for name, _ in customer.lookup] == ["name"]


def test_sources_read_only_the_columns_in_use() -> None:
    ((customer, order_),) = loops(
        program_of("SELECT c.name FROM customers c JOIN orders o ON o.customer = c.id").stages[0], "customers"
    )
    assert [f.name for f in customer.columns] == ["id", "name"]
    assert [f.name for f in order_.columns] == ["customer"]


def test_a_condition_that_can_fail_waits_for_the_join_below_it() -> None:
    sql = "SELECT o.id FROM orders o JOIN edges e ON e.a = o.day WHERE 6 / e.b > 2"
    ((edge, order_),) = loops(program_of(sql).stages[0], "edges")
    assert edge.filters == ()
    assert len(order_.filters) == 1
