"""What each query means: the evaluator on our algebra against DuckDB on the transpiled SQL."""

from __future__ import annotations

import pytest

from tests.answers import differ
from tests.compiler.frontends.examples import QUERIES, SPARK_ONLY, answers
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Scan
from tidemill.algebra.relational.walk import columns_in, subqueries, walk, walk_all
from tidemill.compiler.frontends.translate import translate
from tidemill.model import types as t
from tidemill.model.types import Field

TABLES = {"t": (Field("a", t.INT), Field("b", t.STRING)), "u": (Field("a", t.BIGINT), Field("c", t.DATE))}


@pytest.mark.parametrize("name", QUERIES)
def test_answers_of_duckdb(name: str) -> None:
    known = answers({name: QUERIES[name]})
    assert differ(known.duckdb()[name], known.evaluator()[name], known.fields(name)) == ""


@pytest.mark.parametrize("name", [*QUERIES, *SPARK_ONLY])
def test_names_are_unique_at_every_node(name: str) -> None:
    relation = answers({name: {**QUERIES, **SPARK_ONLY}[name]}).relations[name]
    for node in walk(relation):
        names = [f.name for f in node.fields]
        assert len(set(names)) == len(names), node
    # Grouping sets read one scan several times.
    scans = {id(node): node.alias for node in walk_all(relation) if isinstance(node, Scan)}
    assert len(set(scans.values())) == len(scans)


def test_names_in_subqueries_are_none_of_those_around_them() -> None:
    relation = relation_of(
        """SELECT a % 2 AS odd, SUM(a) AS s FROM t GROUP BY a % 2
           HAVING SUM(a) > (SELECT SUM(a) FROM u WHERE u.a % 2 = t.a % 2 HAVING SUM(a) > 0)"""
    )
    (having,) = [node.condition for node in walk(relation) if isinstance(node, Filter)]
    (subquery,) = subqueries(having)
    outer = {f.name for node in walk(relation) for f in node.fields}
    inner = {f.name for node in walk(subquery.relation) for f in node.fields}
    assert outer.isdisjoint(inner)
    assert columns_in(subquery) == {"odd"}


def columns(query: str) -> list[str]:
    return [str(f) for f in relation_of(query).fields]


def relation_of(query: str) -> Relation:
    return translate(query, TABLES, name="v").relation


def test_a_repeated_name_is_made_unique() -> None:
    assert columns("SELECT t.a, u.a, t.a AS a_2 FROM t, u") == ["a: INT", "a_2: BIGINT", "a_2_2: INT"]


def test_names_are_lower_case() -> None:
    assert columns("SELECT A, T.B AS `Big` FROM T") == ["a: INT", "big: STRING"]


def test_aliases_of_scans_stay_readable() -> None:
    (scan,) = [node for node in walk(relation_of("SELECT x.a FROM t AS x")) if isinstance(node, Scan)]
    assert (scan.relation, scan.alias, [f.name for f in scan.fields]) == ("t", "x", ["x.a", "x.b"])


class TestOrder:
    def test_by_visible_columns(self) -> None:
        query = translate("SELECT a AS x, b FROM t ORDER BY 2 DESC, x, a NULLS LAST", TABLES)
        assert query.order == ((1, True, False), (0, False, True), (0, False, False))
        assert (query.visible, len(query.relation.fields)) == (2, 2)

    def test_by_hidden_columns(self) -> None:
        query = translate("SELECT b FROM t ORDER BY LENGTH(b) DESC NULLS FIRST, a", TABLES)
        assert query.order == ((1, True, True), (2, False, True))
        assert (query.visible, len(query.relation.fields)) == (1, 3)

    def test_by_an_aggregate_that_is_not_shown(self) -> None:
        query = translate("SELECT b FROM t GROUP BY b ORDER BY SUM(a)", TABLES)
        assert query.order == ((1, False, True),)
        assert query.relation.fields[1].type == t.BIGINT

    def test_of_a_union(self) -> None:
        query = translate("SELECT a FROM t UNION ALL SELECT a FROM u ORDER BY a DESC LIMIT 3 OFFSET 1", TABLES)
        assert (query.order, query.limit, query.offset) == (((0, True, False),), 3, 1)

    def test_a_limit_behind_parentheses_cuts_the_order_within(self) -> None:
        query = translate("(SELECT a FROM t ORDER BY b) LIMIT 2", TABLES)
        assert (query.order, query.limit, query.visible) == (((1, False, True),), 2, 1)

    def test_with_a_common_table_expression(self) -> None:
        query = translate("WITH w AS (SELECT a AS z FROM t) SELECT z FROM w ORDER BY z LIMIT 1", TABLES)
        assert (query.order, query.limit) == (((0, False, True),), 1)

    def test_limit_all_is_no_limit(self) -> None:
        assert translate("SELECT a FROM t LIMIT ALL", TABLES).limit is None


def test_tables_of_sources_have_two_parts() -> None:
    known = {"shop.orders": (Field("id", t.INT),), "orders": (Field("id", t.INT), Field("n", t.INT))}
    relation = translate("SELECT s.id FROM Shop.orders AS s JOIN orders ON orders.id = s.id", known).relation
    scans = {node.relation: node.alias for node in walk_all(relation) if isinstance(node, Scan)}
    assert scans == {"shop.orders": "s", "orders": "orders"}
