"""A view over sources, cut into its remote subplans and the rest, means what it meant before."""

from __future__ import annotations

import pytest

from tests.sources.oracle import answer
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
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


KEYS = {"shop.orders": ("id",)}
"""The primary keys of tables of the source; an item may be there twice."""

PARTNERS = "rows of it that have a partner now are shown once they have none"
ASKED: dict[str, tuple[str, list[str] | None]] = {
    "groups": ("SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM shop.orders GROUP BY customer", [""]),
    "of a join": (
        """SELECT i.part, AVG(o.amount) AS a, COUNT(o.customer) AS n, MIN(o.id) AS first, SUM(o.amount) FILTER (
        WHERE o.id > 1) AS some FROM shop.orders o JOIN shop.items i ON i.order_id = o.id GROUP BY i.part""",
        [""],
    ),
    "all rows": ("SELECT COUNT(*) AS n, SUM(amount) AS total, MAX(id) AS last FROM shop.orders", [""]),
    "no rows": ("SELECT COUNT(*) AS n, SUM(amount) AS total FROM shop.orders WHERE amount > 99", [""]),
    "no rows in no group": (
        "SELECT customer, COUNT(*) AS n, SUM(amount) AS t FROM shop.orders WHERE amount > 99 GROUP BY 1",
        [""],
    ),
    "having": ("SELECT customer, SUM(amount) AS t FROM shop.orders GROUP BY customer HAVING SUM(amount) > 10", [""]),
    "multiplicities matter": ("SELECT MEDIAN(amount) AS m, SUM(amount) AS t FROM shop.orders", [""]),
    "exists": (
        """SELECT o.amount FROM shop.orders o WHERE o.id > 0 AND EXISTS (
        SELECT 1 FROM shop.items i WHERE i.order_id = o.id AND i.part <> 'cog')""",
        [""],
    ),
    "exists by inequality": (
        "SELECT o.id FROM shop.orders o WHERE EXISTS (SELECT 1 FROM shop.orders p WHERE p.amount > o.amount)",
        [""],
    ),
    "in": ("SELECT id, customer FROM shop.orders WHERE id IN (SELECT order_id FROM shop.items)", [""]),
    "not exists": (
        "SELECT id FROM shop.orders o WHERE NOT EXISTS (SELECT 1 FROM shop.items i WHERE i.order_id = o.id)",
        ["", PARTNERS],
    ),
    "left": ("SELECT o.customer, i.part FROM shop.orders o LEFT JOIN shop.items i ON i.order_id = o.id", [""] * 2),
    "right": ("SELECT o.customer, i.part FROM shop.items i RIGHT JOIN shop.orders o ON i.order_id = o.id", [""] * 2),
    "full": (
        """SELECT o.id, p.id AS q, p.amount FROM shop.orders o FULL JOIN shop.orders p
        ON o.amount = p.amount AND p.id > 1""",
        [""] * 3,
    ),
    "left, grouped": (
        """SELECT o.customer, COUNT(i.part) AS n FROM shop.orders o LEFT JOIN shop.items i ON i.order_id = o.id
        GROUP BY o.customer""",
        [""] * 2,
    ),
    "no key": (
        "SELECT i.part, o.amount FROM shop.items i LEFT JOIN shop.orders o ON i.order_id = o.id",
        ["an outer join with it is evaluated here"] * 2,
    ),
    "a table": (
        "SELECT c.name, o.amount FROM shop.orders o JOIN customers c ON c.id = o.customer",
        ["a join with it is evaluated here"],
    ),
    "groups and a table": (
        """SELECT c.name, t.s FROM (SELECT customer, SUM(amount) AS s FROM shop.orders GROUP BY 1) t
        JOIN customers c ON c.id = t.customer""",
        [""],
    ),
    "two subqueries": (
        """SELECT id FROM shop.orders o WHERE EXISTS (SELECT 1 FROM shop.items i WHERE i.order_id = o.id)
        AND id NOT IN (SELECT customer FROM shop.orders)""",
        None,
    ),
}
"""What is asked of a source where keys are known: the query, and for each subplan why it is a copy; None: some are."""


@pytest.mark.parametrize("name", ASKED)
def test_groups_semi_joins_and_outer_joins_are_asked(name: str) -> None:
    query, copied = ASKED[name]
    keyed = ROWS | {"shop.orders": ZSet(dict.fromkeys(ROWS["shop.orders"], 1))}
    relation = translate(query, TABLES, name="v").relation
    rest, subplans = extract_remote_subplans("v", push_down_filters(relation), REMOTE, keys=KEYS)
    if copied is None:
        assert any(subplan.copied for subplan in subplans)
    else:
        assert [subplan.copied for subplan in subplans] == copied
    rows = keyed | {subplan.name: answer(subplan.product.query, keyed) for subplan in subplans}
    assert evaluate(rest, rows) == evaluate(relation, keyed)
    assert [f.name for f in rest.fields] == [f.name for f in relation.fields]
    assert [f.type for f in rest.fields] == [f.type for f in relation.fields]


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
