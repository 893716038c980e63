"""Triangles in heavy and light parts, as a warehouse keeps them: opened again, shared, verified and explained."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import tidemill

QUERY = "SELECT COUNT(*) AS n FROM edges e, edges f, edges g WHERE e.b = f.a AND f.b = g.a AND g.b = e.a"
VIEW = f"WITH (strategy = 'joingraph') AS {QUERY}"

Edge = tuple[int, int]


def moves(random: Random, present: list[Edge], count: int, leaving: float) -> list[tuple[int, Edge]]:
    """Edges that come, most of them at few nodes, and edges that leave."""
    found: list[tuple[int, Edge]] = []
    for _ in range(count):
        if present and random.random() < leaving:
            found.append((-1, present.pop(random.randrange(len(present)))))
        else:
            present.append((random.randrange(3), random.randrange(30)))
            if random.random() < 0.5:
                present[-1] = present[-1][::-1]
            found.append((1, present[-1]))
    return found


def count(warehouse: tidemill.Warehouse, view: str) -> None:
    assert warehouse.view(view).rows() == warehouse.sql(QUERY), view


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_views_that_are_made_at_different_times_keep_parts_of_their_own(tmp_path: Path, backend: str) -> None:
    """Alike views share no stages, since heavy values depend on the order of changes, and go on when opened again."""
    random, present = Random(3), list[Edge]()
    with tidemill.open(tmp_path / "w", runtime="native", backend=backend) as warehouse:
        warehouse.sql(f"CREATE TABLE edges (a INT, b INT); CREATE MATERIALIZED VIEW first {VIEW}")
        warehouse.apply({"edges": moves(random, present, 400, 0.1)})
        warehouse.apply({"edges": moves(random, present, 300, 0.9)})
        warehouse.sql(f"CREATE MATERIALIZED VIEW second {VIEW.replace('COUNT(*)', 'COUNT(*) + 0')}")
        warehouse.apply({"edges": moves(random, present, 40, 0.4)})
        count(warehouse, "first")
        count(warehouse, "second")
        assert "keeps map second/parts_e/heavy" in warehouse.view("second").explain()
    with tidemill.open(tmp_path / "w", runtime="native", backend=backend) as warehouse:
        warehouse.apply({"edges": moves(random, present, 100, 0.2)})
        count(warehouse, "first")
        warehouse.sql("DROP MATERIALIZED VIEW first")
        warehouse.apply({"edges": moves(random, present, 300, 0.9)})
        count(warehouse, "second")


def test_explain_says_that_the_plan_meets_the_bound() -> None:
    with tidemill.open() as warehouse:
        warehouse.sql(f"CREATE TABLE edges (a INT, b INT); CREATE MATERIALIZED VIEW v {VIEW}")
        warehouse.sql(f"CREATE MATERIALIZED VIEW d WITH (strategy = 'delta') AS {QUERY}")
        warehouse.apply({"edges": [(1, (i % 7, i)) for i in range(50)]})
        explained, by_deltas = (warehouse.view(name).explain() for name in "vd")
    met = "this plan: O(sqrt N) for a change, amortized, by heavy and light parts, O(1) for each row read: meets them"
    assert met in explained
    assert "HEAVY_LIGHT" in explained
    assert met not in by_deltas
    page = (Path(__file__).parents[2] / "docs" / "design" / "joins.md").read_text(encoding="utf-8")
    assert met in page
