"""Subqueries in expressions as joins: equivalent, and as cheap as possible."""

from __future__ import annotations

import pytest

from tests.compiler.nested import NESTED
from tests.compiler.shop import program_of, relation_of
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Distinct, Filter, Scan, UnionAll
from tidemill.algebra.relational.walk import expressions, subqueries, walk
from tidemill.algebra.text import text_of_query
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.compiler.rewrites.subqueries.decorrelate import decorrelate
from tidemill.compiler.statistics.costs import cost_of_trigger


def joined(sql: str) -> Relation:
    return push_down_filters(decorrelate(push_down_filters(relation_of(sql))))


def has(relation: Relation, kind: type[Relation]) -> bool:
    return any(isinstance(node, kind) for node in walk(relation))


def costs(sql: str) -> set[str]:
    program = program_of(sql)
    return {
        str(cost_of_trigger(trigger, program)).partition(":")[0]
        for stage in program.stages
        for trigger in stage.triggers
    }


@pytest.mark.parametrize("view", NESTED)
def test_none_is_left(view: str) -> None:
    for relation in (relation_of(NESTED[view]), push_down_filters(relation_of(NESTED[view]))):
        assert not any(subqueries(scalar) for node in walk(decorrelate(relation)) for scalar in expressions(node))


def test_equalities_need_no_domain() -> None:
    relation = joined("SELECT x.a FROM edges x WHERE 1 > (SELECT COUNT(*) FROM edges y WHERE y.a = x.b)")
    assert not has(relation, Distinct)


def test_a_comparison_that_rejects_null_needs_no_padding() -> None:
    rejecting = "SELECT x.a FROM edges x WHERE x.a > (SELECT {} FROM edges y WHERE y.a = x.b)"
    assert not has(joined(rejecting.format("SUM(y.b)")), UnionAll)
    assert has(joined(rejecting.format("COALESCE(SUM(y.b), 0)")), UnionAll)
    assert has(joined(rejecting.replace(" > ", " <=> ").format("SUM(y.b)")), UnionAll)


def test_correlation_by_equality_costs_what_it_finds() -> None:
    assert costs(
        """SELECT c.id, (SELECT COUNT(*) FROM orders o WHERE o.customer = c.id) AS n FROM customers c
           WHERE 5 > (SELECT COALESCE(SUM(i.price), 0) FROM items i WHERE i.part = c.id)"""
    ) == {"O(1)", "O(matches)"}


def test_a_key_that_can_be_null_is_looked_up_all_the_same() -> None:
    assert "O(data)" not in costs("SELECT x.a, (SELECT COUNT(*) FROM edges y WHERE y.a = x.b) AS n FROM edges x")


def test_equal_subqueries_are_one_stage() -> None:
    one = "(SELECT COUNT(*) FROM items i WHERE i.part = {}.id)"
    sql = f"SELECT c.id FROM customers c JOIN customers d ON c.name = d.name AND {one.format('c')} < {one.format('d')}"
    assert [stage.name for stage in program_of(sql).stages] == ["v/1", "v"]


def test_a_condition_with_a_subquery_goes_where_its_columns_are() -> None:
    sql = """SELECT c.name, o.day FROM customers c, orders o WHERE c.id = o.customer
             AND o.day > (SELECT COUNT(*) FROM edges e WHERE e.a = o.day)"""
    relation = push_down_filters(relation_of(sql))
    filters = [node for node in walk(relation) if isinstance(node, Filter) and subqueries(node.condition)]
    assert [node.input.alias for node in filters if isinstance(node.input, Scan)] == ["o"]


def test_conditions_inside_go_down_past_outer_columns() -> None:
    sql = """SELECT c.id FROM customers c WHERE 1 < (SELECT COUNT(*) FROM orders o, items i
             WHERE i.orders = o.id AND o.customer = c.id AND i.part = 1)"""
    (condition,) = [scalar for node in walk(push_down_filters(relation_of(sql))) for scalar in expressions(node)][1:]
    (subquery,) = subqueries(condition)
    filters = [node for node in walk(subquery.relation) if isinstance(node, Filter)]
    assert [node.input.alias for node in filters if isinstance(node.input, Scan)] == ["o", "i"]


def test_a_subquery_without_tables_is_an_expression() -> None:
    nested = (
        "SELECT x.a FROM edges x WHERE 1 <= (SELECT SUM(1) WHERE 2 < (SELECT SUM(y.b) FROM edges y WHERE y.a = x.a))"
    )
    plain = "SELECT x.a FROM edges x WHERE 2 < (SELECT SUM(y.b) FROM edges y WHERE y.a = x.a)"
    assert text_of_query(push_down_filters(relation_of(nested))) == text_of_query(push_down_filters(relation_of(plain)))


def test_a_subquery_is_computed_once_for_a_column_and_a_condition_on_it() -> None:
    sql = "SELECT * FROM (SELECT a, (SELECT COUNT(*) FROM items i WHERE i.part = x.a) AS n FROM edges x) t WHERE n > 1"
    relation = push_down_filters(relation_of(sql))
    assert sum(len(subqueries(scalar)) for node in walk(relation) for scalar in expressions(node)) == 1
