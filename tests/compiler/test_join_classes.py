"""Classes of joins, and the lines in which EXPLAIN holds a plan against their bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

import tidemill
from tests.compiler.shop import TABLES, program_of, relation_of
from tidemill.compiler.analysis.join_classes import Hypergraph, classify, is_acyclic
from tidemill.compiler.explain import explain
from tidemill.compiler.passes import compile_view, known_keys
from tidemill.program.joins import ClassifiedJoin, JoinClass

TWO = "edges e JOIN edges f ON e.b = f.a"
THREE = f"{TWO} JOIN edges g ON f.b = g.a"
SHOP = "items i, orders o, customers c WHERE i.orders = o.id AND o.customer = c.id"

CLASSES = {
    # All columns come out, or those that the relations share, or none.
    f"SELECT e.a, e.b, f.b AS c FROM {TWO}": "q-hierarchical",
    f"SELECT e.a, e.b FROM {TWO}": "q-hierarchical",
    f"SELECT e.b, SUM(e.a * f.b) AS s FROM {TWO} GROUP BY e.b": "q-hierarchical",
    f"SELECT COUNT(*) AS n FROM {TWO}": "q-hierarchical",
    "SELECT e.a, f.b FROM edges e CROSS JOIN edges f": "q-hierarchical",
    # The column in the middle is left out: a product of matrices. Where it is a constant it is no variable.
    f"SELECT e.a, f.b FROM {TWO}": "acyclic",
    f"SELECT e.a, f.b FROM {TWO} WHERE e.b = 5": "q-hierarchical",
    # One end comes out and what both share does not: e.a is in one relation and e.b in both.
    f"SELECT e.a FROM {TWO}": "free-connex",
    # A column that a shared one determines is as good as that one.
    "SELECT f.b FROM edges e JOIN edges f ON e.a % 10 = f.a": "free-connex",
    "SELECT e.b % 10 AS x, COUNT(*) AS n FROM edges e JOIN edges f ON e.b = f.a GROUP BY e.b % 10": "q-hierarchical",
    # Chains: neither of the two shared columns is in all relations that have the other.
    f"SELECT e.a, e.b, f.b AS c, g.b AS d FROM {THREE}": "free-connex",
    f"SELECT COUNT(*) AS n FROM {THREE}": "free-connex",
    f"SELECT e.a, g.b FROM {THREE}": "acyclic",
    "SELECT COUNT(*) AS n FROM edges e, edges f, edges g WHERE e.a = f.a AND f.a = g.a": "q-hierarchical",
    # Cycles. The keys of orders and customers make everything follow from an item.
    f"SELECT COUNT(*) AS n FROM {THREE} WHERE g.b = e.a": "cyclic, triangle",
    f"SELECT COUNT(*) AS n FROM {THREE} JOIN edges h ON g.b = h.a WHERE h.b = e.a": "cyclic",
    f"SELECT c.region, SUM(i.price) AS s FROM {SHOP} GROUP BY c.region": "q-hierarchical, by keys",
    f"SELECT i.part, o.day, COUNT(*) AS n FROM {SHOP} GROUP BY i.part, o.day": "free-connex, by keys",
    # Conditions and results that are neither equalities nor sums of products.
    "SELECT o.id FROM orders o JOIN items i ON i.price > o.amount": "q-hierarchical, further",
    f"SELECT SUM(CASE WHEN e.a > f.b THEN 1 ELSE f.b END) AS s FROM {TWO}": "q-hierarchical, further",
}


def text_of(join: ClassifiedJoin) -> str:
    marks = {"by keys": join.by_keys, "triangle": join.triangle, "further": join.further}
    return ", ".join([join.kind.value, *(mark for mark, is_set in marks.items() if is_set)])


@pytest.mark.parametrize(("sql", "kind"), CLASSES.items())
def test_class(sql: str, kind: str) -> None:
    for strategy in ("delta", "viewlet", "joingraph"):
        (join,) = program_of(sql, strategy).stages[-1].joins
        assert text_of(join) == kind


def test_without_its_keys_the_same_join_is_free_connex() -> None:
    sql = f"SELECT c.region, SUM(i.price) AS s FROM {SHOP} GROUP BY c.region"
    bare = {name: replace(table, primary_key=()) for name, table in TABLES.items()}
    (join,) = compile_view("v", relation_of(sql), bare).stages[-1].joins
    assert text_of(join) == "free-connex"
    assert join.bounded_below


def test_lower_bounds_are_for_joins_without_keys_that_read_nothing_twice() -> None:
    assert not program_of(f"SELECT COUNT(*) AS n FROM {THREE}").stages[-1].joins[0].bounded_below
    assert (
        not program_of("SELECT i.part, o.day FROM items i, orders o WHERE i.orders = o.id")
        .stages[-1]
        .joins[0]
        .bounded_below
    )


def test_a_stage_without_a_join_has_no_class() -> None:
    assert program_of("SELECT a, COUNT(*) AS n FROM edges GROUP BY a").stages[-1].joins == ()


def test_each_class_contains_the_one_before() -> None:
    """Over random hypergraphs: q-hierarchical ones are free-connex, these are acyclic; a full head changes nothing."""
    random = Random(7)
    seen = set()
    for _ in range(3000):
        variables = "abcde"[: random.randint(2, 5)]
        edges = {
            str(i): frozenset(random.sample(variables, random.randint(1, 3) % len(variables) + 1))
            for i in range(random.randint(2, 4))
        }
        everything = frozenset[object]().union(*edges.values())
        head = frozenset(v for v in everything if random.random() < 0.5)
        kind = classify(Hypergraph(edges, head))
        seen.add(kind)
        acyclic = is_acyclic(list(edges.values()))
        assert (kind is JoinClass.CYCLIC) == (not acyclic)
        connex = acyclic and is_acyclic([*edges.values(), head])
        assert kind is not JoinClass.Q_HIERARCHICAL or connex
        assert (kind is JoinClass.ACYCLIC) == (acyclic and not connex)
        assert (classify(Hypergraph(edges, everything)) in (JoinClass.Q_HIERARCHICAL, JoinClass.FREE_CONNEX)) == acyclic
        assert acyclic == _has_join_tree(edges)
    assert seen == set(JoinClass)


def _has_join_tree(edges: dict[str, frozenset[object]]) -> bool:
    """Another definition of acyclic: in a maximum spanning tree by shared variables, each variable is connected."""
    aliases = list(edges)
    by_shared = sorted(combinations(aliases, 2), key=lambda pair: -len(edges[pair[0]] & edges[pair[1]]))
    part = {alias: alias for alias in aliases}
    shared = 0
    for one, other in by_shared:
        if part[one] != part[other]:
            merged, into = part[other], part[one]
            part = {alias: into if root == merged else root for alias, root in part.items()}
            shared += len(edges[one] & edges[other])
    variables = frozenset[object]().union(*edges.values())
    return shared == sum(sum(v in edge for edge in edges.values()) - 1 for v in variables)


def explained(sql: str, **options: str) -> list[str]:
    """The lines of EXPLAIN about joins, over five rows of r(a, b) and of s(b, c)."""
    with tidemill.open() as warehouse:
        warehouse.sql("CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT)")
        warehouse.sql("INSERT INTO r VALUES (1, 1), (2, 1), (3, 1), (4, 2), (5, 2)")
        warehouse.sql("INSERT INTO s VALUES (1, 1), (1, 2), (2, 3), (2, 4), (3, 5)")
        given = ", ".join(f"{name} = '{value}'" for name, value in options.items())
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH ({given}) AS {sql}")
        lines = [line.lstrip("│ ") for line in warehouse.view("v").explain().splitlines()]
    return [line for line in lines if line.startswith(("join of", "this plan"))]


SUMS = "SELECT r.b, SUM(r.a * s.c) AS t FROM r JOIN s ON r.b = s.b GROUP BY r.b"


def test_explain_says_which_plan_meets_the_bounds() -> None:
    bound = "join of r, s: q-hierarchical; O(1) for a change and O(1) for each row read are possible"
    missed = "this plan: O(matches) for a change of r and s, O(1) for each row read: does not meet them"
    assert explained(SUMS, strategy="delta") == [bound, missed]
    assert explained(SUMS, strategy="viewlet") == [
        bound,
        "this plan: O(1) for a change, O(1) for each row read: meets them",
    ]


def test_explain_holds_predicted_visits_against_n() -> None:
    first, second = explained("SELECT r.a, s.c FROM r JOIN s ON r.b = s.b", strategy="delta")
    assert first == (
        "join of r, s: acyclic; O(N) for a change and O(N) for each row read are possible, "
        "less than O(sqrt N) for both is not"
    )
    assert second == "this plan: 9.5 predicted visits for a change, N = 10, O(1) for each row read: meets them"


def test_rows_that_are_found_by_a_key_are_one() -> None:
    """A customer and the group of a customer have one row each under their keys: the plan is O(1)."""
    program = program_of(
        "SELECT c.name, t.total FROM customers c"
        " JOIN (SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer) t ON t.customer = c.id"
    )
    keys = known_keys(TABLES, ())
    assert "this plan: O(1) for a change, O(1) for each row read: meets them" in explain(program, keys=keys)
    assert "O(matches) for a change of v/1" in explain(program)


def test_rows_that_are_computed_when_read_have_no_constant_delay() -> None:
    _, second = explained(SUMS, strategy="joingraph", serve="read")
    assert second.endswith("rows are computed when read, all at once: does not meet them")


def test_the_page_shows_what_explain_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "design" / "joins.md").read_text(encoding="utf-8")
    assert [line for line in explained(SUMS, strategy="delta") if line not in page] == []
    assert f"`{SUMS}`" in page
    assert explained(SUMS, strategy="viewlet")[1] in page
    assert all(f"| {kind.value} |" in page for kind in JoinClass)
