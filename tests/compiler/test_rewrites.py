"""Rewrites keep the meaning of every relation, and do what they are for."""

from __future__ import annotations

import pytest

from tests.compiler.shop import History, relation_of
from tests.compiler.test_maintenance import VIEWS
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Scan
from tidemill.algebra.relational.walk import walk
from tidemill.algebra.text import text_of
from tidemill.changes.zset import ZSet
from tidemill.compiler.analysis.canonical import canonical
from tidemill.compiler.rewrites.expand_outer_joins import expand_outer_joins
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.compiler.rewrites.subqueries.decorrelate import decorrelate
from tidemill.compiler.rewrites.unique_aliases import unique_aliases

REWRITES = {
    "normalize": push_down_filters,
    "apart": unique_aliases,
    "outer": expand_outer_joins,
    "decorrelate": decorrelate,
}


@pytest.fixture(scope="module")
def history(random_seed: int) -> History:
    return History(random_seed, moves=20)


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_meaning_stays(view: str, rewrite: str, history: History) -> None:
    relation = relation_of(VIEWS[view])
    rewritten = REWRITES[rewrite](relation)
    for epoch, contents in enumerate(history.after):
        assert evaluate(rewritten, contents) == history.evaluated(view, relation, epoch)


def filters_on_scans(relation: Relation) -> list[str]:
    nodes = [node for node in walk(relation) if isinstance(node, Filter) and isinstance(node.input, Scan)]
    return [text_of(node.condition) for node in nodes]


def test_condition_goes_through_joins_and_projections() -> None:
    sql = """SELECT * FROM (SELECT c.id AS k, o.day FROM customers c JOIN orders o ON o.customer = c.id) t
             WHERE t.k > 1 AND t.day = 2"""
    assert filters_on_scans(push_down_filters(relation_of(sql))) == ["c.id > 1", "o.day = 2"]


def test_condition_on_grouping_columns_goes_below_the_grouping() -> None:
    sql = "SELECT day, COUNT(*) AS n FROM orders GROUP BY day HAVING day > 1 AND COUNT(*) > 2"
    assert filters_on_scans(push_down_filters(relation_of(sql))) == ["orders.day > 1"]


def test_condition_goes_into_each_part_of_a_union() -> None:
    sql = "SELECT * FROM (SELECT a FROM edges UNION ALL SELECT b FROM edges) u WHERE u.a = 1"
    conditions = filters_on_scans(push_down_filters(relation_of(sql)))
    assert [condition.partition(".")[2] for condition in conditions] == ["a = 1", "b = 1"]


def test_condition_that_can_fail_stays_above_the_one_that_protects_it() -> None:
    sql = "SELECT id FROM (SELECT id, day FROM orders WHERE day <> 0) t WHERE 6 / t.day > 1"
    assert filters_on_scans(push_down_filters(relation_of(sql))) == ["orders.day <> 0"]


def test_nothing_goes_below_a_global_aggregate() -> None:
    sql = "SELECT * FROM (SELECT COUNT(*) AS n FROM orders) t WHERE 1 = 0"
    relation = push_down_filters(relation_of(sql))
    assert evaluate(relation, {"orders": ZSet()}) == ZSet()
    assert filters_on_scans(relation) == []


def test_same_shape_under_other_names_has_one_canonical_form() -> None:
    one = relation_of("SELECT x.a AS k, COUNT(*) AS n FROM edges x GROUP BY x.a")
    same = relation_of("SELECT y.a AS l, COUNT(*) AS m FROM edges y GROUP BY y.a")
    other = relation_of("SELECT y.b AS l, COUNT(*) AS m FROM edges y GROUP BY y.b")
    assert canonical(one) == canonical(same) != canonical(other)
