"""Predictions of EXPLAIN for viewlets and join graphs."""

from __future__ import annotations

import tidemill
from tests.compiler.shop import TABLES, relation_of
from tests.compiler.social import SOCIAL, chain, social, social_program
from tidemill.compiler.compare_strategies import compare_strategies
from tidemill.compiler.statistics.predictions import Prediction, predict
from tidemill.compiler.statistics.sizes import RelationSize, Statistics

MANY_FOLLOWERS = {
    "follower": RelationSize(50_000, {"userid": 500, "followerid": 50_000}),
    "tweet": RelationSize(1_000, {"likes": 1_000}),
}
"""Every user has a hundred followers, and hardly anybody follows two."""

SINGLE = "SELECT f.followerid, COUNT(t.likes) AS n FROM follower f JOIN tweet t ON t.likes = f.userid GROUP BY 1"

THREE = """SELECT c.region, SUM(i.price) AS total FROM customers c
           JOIN orders o ON o.customer = c.id JOIN items i ON i.orders = o.id GROUP BY c.region"""


def predicted(sql: str, tables: dict[str, RelationSize]) -> dict[str, Prediction]:
    return {strategy: predict(social_program(sql, strategy), tables) for strategy in ("viewlet", "joingraph")}


def test_many_joins_with_many_partners_are_for_the_graph() -> None:
    five = predicted(f"{chain(4)} JOIN tweet t ON t.likes = f4.followerid", MANY_FOLLOWERS)
    assert five["joingraph"].entries == 50_000 + 1_000
    assert five["joingraph"].bytes * 5 < five["viewlet"].bytes
    few = predicted(chain(1), MANY_FOLLOWERS)
    assert few["viewlet"].bytes == few["joingraph"].bytes


def test_a_single_join_with_sums_is_for_viewlets_at_least_as_much() -> None:
    tables = {"follower": RelationSize(10_000, {"userid": 100}), "tweet": RelationSize(1_000, {"likes": 100})}
    found = predicted(SINGLE, tables)
    assert found["viewlet"].bytes <= found["joingraph"].bytes
    assert sum(found["viewlet"].work.values()) <= sum(found["joingraph"].work.values())


def test_a_graph_that_is_only_read_costs_its_own_upkeep() -> None:
    tables = {"follower": RelationSize(10_000, {"userid": 10}), "tweet": RelationSize(1_000, {"likes": 10})}
    found = predicted(SINGLE, tables)["joingraph"]
    assert found.unread == {"follower": 4.0, "tweet": 4.0}
    assert found.work["tweet"] > 1_000


def test_the_comparison_says_what_it_rests_on_and_which_is_better() -> None:
    sizes = Statistics({"customers": 100, "orders": 1_000, "items": 20_000})
    lines = compare_strategies("v", relation_of(THREE), TABLES, sizes)
    basis = "100 rows of customers, 1,000 rows of orders, 20,000 rows of items"
    assert lines[0] == f"delta, viewlet or joingraph, as predicted from {basis}:"
    assert [line.split()[0] for line in lines[1:]] == ["delta", "viewlet", "joingraph", "better"]
    assert lines[3].endswith("4.0 if served to read")


def test_counted_values_count() -> None:
    sizes = {"follower": 10_000}

    def values(found: int) -> list[str]:
        statistics = Statistics(sizes, lambda relation, column: found)
        return compare_strategies("v", social(chain(2)), SOCIAL, statistics)

    few, many = values(10), values(10_000)
    assert "joingraph  100 entries" in few[3]
    assert "joingraph  10,000 entries" in many[3]
    assert many[4].endswith("better for memory: joingraph, 2.0 times; for work: delta, 1.1 times")


def test_nothing_is_compared_where_there_is_no_choice() -> None:
    sql = "SELECT userid, COUNT(*) AS n FROM follower GROUP BY userid"
    assert compare_strategies("v", social(sql), SOCIAL, Statistics()) == []


def test_a_change_passes_through_the_stages() -> None:
    """A nested aggregate has one row, and when it changes deltas visit the whole table."""
    sql = "SELECT SUM(f.userid) AS n FROM follower f WHERE f.userid > (SELECT AVG(g.userid) FROM follower g)"
    tables = {"follower": RelationSize(10_000, {"userid": 1_000})}
    delta = predict(social_program(sql, "delta"), tables)
    viewlet = predict(social_program(sql, "viewlet"), tables)
    assert delta.work["follower"] > 20_000 > 10 * viewlet.work["follower"]
    assert delta.entries > 10_000 > 9 * viewlet.entries


def test_explain_counts_what_is_stored() -> None:
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql("CREATE TABLE follower (userid INT, followerid INT)")
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {chain(2)}")
        warehouse.sql(f"CREATE MATERIALIZED VIEW plain WITH (strategy = 'recompute') AS {chain(2)}")
        warehouse.apply({"follower": [(1, (i % 10, i)) for i in range(200)]})
        text = warehouse.view("v").explain()
        assert "delta, viewlet or joingraph, as predicted from 200 rows of follower:" in text
        assert "joingraph  200 entries" in text
        assert "as predicted" not in warehouse.view("plain").explain()
