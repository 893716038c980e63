"""MIN, MAX and top-k over a join, from those of its relations: the same rows, and less that is kept."""

from __future__ import annotations

from random import Random

import pytest

import tidemill
from tests.compiler.shop import TABLES, VALUES, program_of, relation_of
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, TopK
from tidemill.algebra.relational.walk import walk
from tidemill.changes.zset import ZSet
from tidemill.compiler.rewrites.infer_top_k import infer_top_k
from tidemill.compiler.rewrites.push_down_extremes import push_down_extremes
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.compiler.rewrites.push_down_top_k import push_down_top_k

SHOP = "FROM customers c JOIN orders o ON o.customer = c.id JOIN items i ON i.orders = o.id"
EDGES = "FROM edges e JOIN edges f ON e.b = f.a JOIN edges g ON f.b = g.a"

CHANGED = {
    # Items by order, then orders with these by customer.
    f"SELECT c.region, MIN(i.price) AS p, MAX(i.part) AS q {SHOP} GROUP BY c.region": 3,
    f"SELECT c.region, MIN(o.day) AS d, MAX(i.price) AS q {SHOP} GROUP BY c.region": 3,
    f"SELECT MIN(i.price) AS p {SHOP}": 3,
    f"SELECT e.a, MAX(g.b) AS m {EDGES} GROUP BY e.a": 3,
    f"SELECT e.a, MAX(g.b) FILTER (WHERE g.b > 1) AS m, MIN(e.b) AS n {EDGES} WHERE g.a < 3 GROUP BY e.a": 3,
    # What stands in GROUP BY, or in a condition with others, stays a column.
    f"SELECT o.day, MIN(i.price) AS p {SHOP} GROUP BY o.day": 3,
    f"SELECT e.a, MAX(g.b) AS m {EDGES} AND g.b > e.a GROUP BY e.a": 1,
    "SELECT e.a, MAX(f.b) AS m FROM edges e JOIN edges f ON e.b >= f.a GROUP BY e.a": 2,
}

UNCHANGED = {
    "another aggregate asks how often a row occurs": f"SELECT MIN(i.price) AS p, COUNT(*) AS n {SHOP}",
    "a sum can overflow": f"SELECT MIN(i.part + 1) AS p {SHOP}",
    "a key has one row": "SELECT c.region, MIN(o.day) AS d FROM customers c JOIN orders o ON o.customer = c.id"
    " WHERE o.id > c.id GROUP BY c.region, o.id",
    "no column is needed elsewhere, and an empty table leaves no group": "SELECT c.region, MIN(i.price) AS p"
    " FROM customers c CROSS JOIN items i GROUP BY c.region",
    "rows of streams may have negative weights": "SELECT c.region, MIN(k.seconds) AS s"
    " FROM customers c JOIN clicks k ON k.customer = c.id GROUP BY c.region",
    "the two zeros of DOUBLE are one group": "SELECT i.rate, MIN(i.part) AS p"
    " FROM items i JOIN orders o ON i.orders = o.id GROUP BY i.rate",
}


def drawn(random: Random) -> dict[str, ZSet]:
    """Rows of the shop, some of them several times, keys once."""
    contents = {}
    for name, table in TABLES.items():
        rows = ZSet()
        for number in range(random.randrange(9)):
            row = [random.choice([*VALUES[type(f.type)], *([None] if f.nullable else [])]) for f in table.fields]
            if table.primary_key:
                row[0] = number
            rows.add(tuple(row), 1 if table.primary_key else random.randint(1, 2))
        contents[name] = rows
    return contents


def assert_same_rows(relation: Relation, pushed: Relation) -> None:
    """Over random rows; some of them must come out."""
    assert pushed.fields == relation.fields
    random = Random(3)
    seen = 0
    for _ in range(60):
        contents = drawn(random)
        expected = evaluate(relation, contents)
        assert evaluate(pushed, contents) == expected
        seen += len(expected)
    assert seen > 20


@pytest.mark.parametrize(("sql", "groupings"), CHANGED.items())
def test_extremes_are_those_of_relations(sql: str, groupings: int) -> None:
    relation = relation_of(sql)
    pushed = push_down_extremes(relation, TABLES)
    assert sum(isinstance(node, Aggregate) for node in walk(pushed)) == groupings
    assert_same_rows(relation, pushed)


RANKED = {
    f"SELECT c.region, i.part {SHOP} ORDER BY i.price LIMIT 3": 2,
    f"SELECT c.region, i.part, i.orders {SHOP} ORDER BY i.price DESC, i.part LIMIT 2 OFFSET 2": 2,
    # Ties are ordered by the columns of the view, and those of the relation are in another order.
    "SELECT f.b, e.a, f.a FROM edges e JOIN edges f ON e.a = f.a ORDER BY f.b LIMIT 3": 2,
    # Both are ordered by; and the order of one comes after that of the other.
    "SELECT e.a, e.b, g.b AS c FROM edges e JOIN edges g ON e.a = g.a ORDER BY g.b, e.b DESC LIMIT 4": 3,
    "SELECT e.a, e.b, g.b AS c FROM edges e JOIN edges g ON e.a >= g.a ORDER BY ABS(g.b - 2), e.b LIMIT 4": 1,
    # Each partition has first rows of its own, and so has each of its values in a relation.
    """SELECT r, p FROM (
       SELECT c.region AS r, i.part AS p, ROW_NUMBER() OVER (PARTITION BY c.region ORDER BY i.part) AS n
       FROM customers c JOIN orders o ON o.customer = c.id JOIN items i ON i.orders = o.id) x WHERE n <= 2""": 2,
    """SELECT a, b FROM (SELECT f.a, f.b, RANK() OVER (PARTITION BY e.b ORDER BY f.b DESC) AS n
       FROM edges e JOIN edges f ON e.a = f.a) x WHERE n <= 2""": 2,
    "SELECT e.a, f.b FROM edges e CROSS JOIN edges f ORDER BY f.b LIMIT 3": 2,
    # A key has one row; an order over two relations, or a result of one, is no order of theirs.
    "SELECT o.id, c.name FROM orders o JOIN customers c ON o.id = c.id ORDER BY o.day LIMIT 2": 1,
    "SELECT e.a, f.b FROM edges e JOIN edges f ON e.b = f.a ORDER BY e.a = f.b LIMIT 3": 1,
    "SELECT e.a, f.b > 1 AS x FROM edges e JOIN edges f ON e.b = f.a ORDER BY f.b LIMIT 3": 1,
}


@pytest.mark.parametrize(("sql", "cuts"), RANKED.items())
def test_first_rows_are_among_those_of_relations(sql: str, cuts: int) -> None:
    relation = infer_top_k(push_down_filters(relation_of(sql)))
    pushed = push_down_top_k(relation, TABLES)
    assert sum(isinstance(node, TopK) for node in walk(pushed)) == cuts
    assert_same_rows(relation, pushed)


@pytest.mark.parametrize("sql", UNCHANGED.values(), ids=UNCHANGED.keys())
def test_what_stays_as_it_is(sql: str) -> None:
    relation = relation_of(sql)
    assert push_down_extremes(relation, TABLES) == relation


def test_a_view_that_is_only_read_computes_nothing_before() -> None:
    sql = f"SELECT c.region, MIN(i.price) AS p {SHOP} GROUP BY c.region"
    assert len(program_of(sql, "joingraph").stages) > len(program_of(sql, "joingraph", serve="read").stages)


def test_entries_grow_with_the_data_and_not_with_the_join() -> None:
    """Each of 40 users has 50 tweets and 30 followers: the join has 60,000 rows."""
    sizes = {}
    for strategy in ("delta", "joingraph"):
        with tidemill.open() as warehouse:
            warehouse.sql("CREATE TABLE follower (userid INT, follower INT); CREATE TABLE tweet (userid INT, at INT)")
            warehouse.apply({"follower": [(1, (u, f)) for u in range(40) for f in range(u, u + 30)]})
            warehouse.apply({"tweet": [(1, (u, 1000 * u + t)) for u in range(40) for t in range(50)]})
            warehouse.sql(
                f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS SELECT f.follower, MAX(t.at) AS latest"
                " FROM follower f JOIN tweet t ON t.userid = f.userid GROUP BY f.follower"
            )
            sizes[strategy] = sum(size.entries for size in warehouse.view("v").sizes() if size.map != "v")
            assert max(warehouse.sql("SELECT * FROM v")) == (68, 39049)
    assert sizes["delta"] > 60_000 > 10 * sizes["joingraph"]
