"""A view over sources, cut into its remote subplans and the rest, means what it meant before."""

from __future__ import annotations

import pytest

from tests.sources.oracle import answer
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.model.types import BIGINT, STRING, Field
from tidemill.protocols.remote_subplans import extract_remote_subplans

TABLES = {
    "shop.orders": (Field("id", BIGINT), Field("customer", BIGINT), Field("amount", BIGINT)),
    "shop.items": (Field("order_id", BIGINT), Field("part", STRING)),
    "customers": (Field("id", BIGINT), Field("name", STRING)),
}
ROWS = {
    "shop.orders": ZSet({(1, 7, 10): 1, (2, 7, 20): 1, (3, 8, None): 1, (4, None, 5): 2}),
    "shop.items": ZSet({(1, "nut"): 2, (1, "bolt"): 1, (3, "nut"): 1, (None, "cog"): 1}),
    "customers": ZSet({(7, "ann"): 1, (9, "bob"): 1}),
}
REMOTE = {"shop.orders", "shop.items"}

QUERIES = {
    "one table": ("SELECT id, amount FROM shop.orders WHERE amount > 5", 1),
    "a join": ("SELECT o.id, i.part FROM shop.orders o JOIN shop.items i ON i.order_id = o.id WHERE o.amount >= 10", 1),
    "a self join": ("SELECT a.id, b.id AS other FROM shop.orders a JOIN shop.orders b ON a.customer = b.customer", 1),
    "groups": ("SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM shop.orders GROUP BY customer", 1),
    "with a table": ("SELECT c.name, o.amount FROM shop.orders o JOIN customers c ON c.id = o.customer", 1),
    "an outer join": ("SELECT o.id, i.part FROM shop.orders o LEFT JOIN shop.items i ON i.order_id = o.id", 2),
    "a union": ("SELECT id FROM shop.orders UNION SELECT order_id FROM shop.items", 2),
    "a subquery": ("SELECT id FROM shop.orders o WHERE EXISTS (SELECT 1 FROM shop.items i WHERE i.order_id = o.id)", 2),
    "two of a name": ("SELECT o.id, p.id FROM shop.orders o CROSS JOIN shop.orders p WHERE o.amount < p.amount", 1),
    "no source": ("SELECT name FROM customers", 0),
}


@pytest.mark.parametrize("name", QUERIES)
def test_subplans_and_rest_mean_the_view(name: str) -> None:
    query, count = QUERIES[name]
    relation = translate(query, TABLES, name="v").relation
    rest, subplans = extract_remote_subplans("v", relation, REMOTE)
    assert len(subplans) == count
    rows = ROWS | {subplan.name: answer(subplan.product.query, ROWS) for subplan in subplans}
    assert evaluate(rest, rows) == evaluate(relation, ROWS)
    assert [f.name for f in rest.fields] == [f.name for f in relation.fields]
    assert all(set(subplan.product.relations) <= REMOTE for subplan in subplans)


def test_only_columns_that_are_needed_travel() -> None:
    query = (
        "SELECT o.customer, SUM(i.order_id) AS s FROM shop.orders o JOIN shop.items i ON i.order_id = o.id GROUP BY 1"
    )
    _, (subplan,) = extract_remote_subplans("v", translate(query, TABLES, name="v").relation, REMOTE)
    assert [f.name for f in subplan.fields] == ["customer", "order_id"]


def test_tables_alone_where_they_are_copied() -> None:
    query = "SELECT o.id FROM shop.orders o JOIN shop.items i ON i.order_id = o.id WHERE o.amount > 5"
    relation = translate(query, TABLES, name="v").relation
    rest, subplans = extract_remote_subplans("v", relation, REMOTE, single=True)
    assert [subplan.product.relations for subplan in subplans] == [("shop.orders",), ("shop.items",)]
    assert evaluate(rest, {subplan.name: answer(subplan.product.query, ROWS) for subplan in subplans}) == evaluate(
        relation, ROWS
    )
