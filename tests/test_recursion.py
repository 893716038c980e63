"""Recursive views of random graphs: after any changes they equal the recursion over the final graph.

Asked of the evaluator after every epoch and of DuckDB at the end, in one process and with the warehouse opened again in
between.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidemill
from tests.answers import Answers, differ, inner
from tests.ways import opened
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.model.errors import ArithmeticFault
from tidemill.program.text import layout_text

NODES = 5

REACH = """WITH RECURSIVE reach (a, b) AS (
    SELECT a, b FROM edges UNION SELECT r.a, e.b FROM reach r JOIN edges e ON e.a = r.b)
  SELECT a, b FROM reach"""

FROM_STARTS = """WITH RECURSIVE reach (node, label) AS (
    SELECT node, label FROM starts
    UNION
    SELECT e.b, x.label FROM reach r, edges e, starts x WHERE e.a = r.node AND x.node = e.b)
  SELECT node, label FROM reach"""

LABELLED = """WITH RECURSIVE reach (node, label) AS (
    SELECT node, label FROM starts UNION SELECT e.b, r.label FROM reach r JOIN edges e ON e.a = r.node)
  SELECT label, COUNT(*) AS n FROM reach GROUP BY label"""

BOUNDED = """WITH RECURSIVE ways (node, depth) AS (
    SELECT node, 0 FROM starts
    UNION ALL
    (SELECT e.b, w.depth + 1 FROM ways w JOIN edges e ON e.a = w.node WHERE w.depth < 4
     UNION ALL
     SELECT e.a, w.depth + 2 FROM ways w JOIN edges e ON e.b = w.node WHERE w.depth < 2))
  SELECT node, depth FROM ways"""

WAYS = """WITH RECURSIVE ways (a, b) AS (
    SELECT a, b FROM edges WHERE a < b
    UNION ALL
    SELECT w.a, e.b FROM ways w JOIN edges e ON e.a = w.b AND e.a < e.b)
  SELECT a, b FROM ways"""

VIEWS = {"reach": REACH, "from_starts": FROM_STARTS, "labelled": LABELLED, "bounded": BOUNDED, "ways": WAYS}

TABLES = ("CREATE TABLE edges (a INT, b INT)", "CREATE TABLE starts (node INT, label STRING)")

nodes = st.one_of(st.none(), st.integers(0, NODES - 1))
rows = st.one_of(
    st.tuples(st.just("edges"), st.tuples(nodes, nodes)),
    st.tuples(st.just("starts"), st.tuples(nodes, st.sampled_from([None, "x", "y"]))),
)
epochs = st.lists(st.lists(st.tuples(rows, st.booleans()), min_size=1, max_size=5), min_size=1, max_size=8)
"""Rows of tables with whether they come; one that goes and is not there comes instead."""


class Graph:
    """The tables as they are, and a warehouse whose views must follow them."""

    def __init__(self, warehouse: tidemill.Warehouse, strategy: str) -> None:
        self.warehouse = warehouse
        self.answers = Answers()
        for text in TABLES:
            (statement,) = parse(text)
            assert isinstance(statement, CreateTable)
            self.answers.declare(statement.table)
            warehouse.sql(text)
        for name, query in VIEWS.items():
            warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query}")
            self.answers.define(name, query)

    def apply(self, drawn: list[tuple[tuple[str, tuple[object, ...]], bool]]) -> None:
        """One epoch of rows that come and go."""
        changes: dict[str, list[tuple[int, tuple[object, ...]]]] = {}
        for (table, row), comes in drawn:
            held = self.answers.rows[table]
            weight = 1 if comes or held.weight(row) < 1 else -1
            held.add(row, weight)
            changes.setdefault(table, []).append((weight, row))
        self.warehouse.apply(changes)

    def compare(self, who: str, said: Mapping[str, ZSet]) -> None:
        """Every view must be as somebody says."""
        for name, expected in said.items():
            fields = self.answers.fields(name)
            difference = differ(expected, ZSet.of(inner(self.warehouse.view(name).rows(), fields, name)), fields)
            assert not difference, f"{name} is not what {who} says:\n{difference}"


@pytest.mark.parametrize("strategy", ["delta", "recompute"])
@settings(max_examples=12, deadline=None)
@given(epochs)
def test_random_graphs(strategy: str, epochs: list[list[tuple[tuple[str, tuple[object, ...]], bool]]]) -> None:
    with opened("held") as warehouse:
        graph = Graph(warehouse, strategy)
        for drawn in epochs:
            graph.apply(drawn)
            graph.compare("the evaluator", graph.answers.evaluator())
        graph.compare("DuckDB", graph.answers.duckdb())


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(epochs)
def test_random_graphs_reopened(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[list[tuple[tuple[str, tuple[object, ...]], bool]]]
) -> None:
    """What counts in which round is stored, so a warehouse that is opened again goes on from it."""
    folder = tmp_path_factory.mktemp("graphs")
    with _reopening(folder) as graph:
        for drawn in epochs:
            graph.apply(drawn)
            graph.compare("the evaluator", graph.answers.evaluator())
            graph.warehouse.close()
            graph.warehouse = tidemill.open(folder, runtime="native")


@contextmanager
def _reopening(folder: Path) -> Iterator[Graph]:
    graph = Graph(tidemill.open(folder, runtime="native"), "delta")
    try:
        yield graph
    finally:
        graph.warehouse.close()


def test_an_epoch_without_end_changes_nothing() -> None:
    """Also what the rounds before had found is taken back."""
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE edges (a INT, b INT)")
        warehouse.sql(
            f"CREATE MATERIALIZED VIEW ways AS {WAYS.replace('AND e.a < e.b', '').replace('WHERE a < b', '')}"
        )
        warehouse.apply({"edges": [(1, (1, 2)), (1, (2, 3))]})
        with pytest.raises(ArithmeticFault, match="100 levels"):
            warehouse.apply({"edges": [(1, (3, 1))]})
        warehouse.apply({"edges": [(1, (3, 4)), (-1, (1, 2))]})
        assert sorted(warehouse.view("ways").rows()) == [(2, 3), (2, 4), (3, 4)]


def test_a_view_takes_no_more_rounds_than_the_evaluator() -> None:
    """A chain that is built edge by edge ends where one that is there at once would."""
    query = (
        "WITH RECURSIVE r (n) MAX RECURSION LEVEL 500 AS (SELECT 0 UNION SELECT e.b FROM r JOIN edges e ON e.a = r.n) "
        "SELECT COUNT(*) FROM r"
    )
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE edges (a INT, b INT)")
        warehouse.sql(f"CREATE MATERIALIZED VIEW depth AS {query}")
        warehouse.apply({"edges": [(1, (n, n + 1)) for n in range(499)]})
        assert warehouse.view("depth").rows() == [(500,)]
        with pytest.raises(ArithmeticFault, match="still finds rows"):
            warehouse.apply({"edges": [(1, (499, 500))]})
        assert warehouse.view("depth").rows() == [(500,)]


def test_a_reworded_text_does_not_rebuild_stored_state() -> None:
    """A view over a stream could not be rebuilt: the layout that is hashed keeps the wording of older warehouses."""
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE STREAM edges (a INT, b INT)")
        warehouse.sql(f"CREATE MATERIALIZED VIEW reach AS {REACH}")
        told = warehouse.view("reach").explain()
        assert "iterating to a fixpoint, reach/rows has a row in the first iteration that finds it:" in told
        program = warehouse._engine.catalog.views["reach"].program
        assert "round after round, reach/rows has a row in the first round in which it is found:" in layout_text(
            program
        )


def test_one_edge_costs_what_it_changes() -> None:
    """In a forest of many edges, one edge more or less touches the few rows of its own chain."""
    few, many = (_cost_of_an_edge(chains) for chains in (300, 10_000))
    assert many < 5 * few, f"{1e6 * few:.0f} us in a small forest, {1e6 * many:.0f} us in a large one"


def _cost_of_an_edge(chains: int, length: int = 3) -> float:
    """Seconds to add an edge to a chain of a forest and to take another one, at best."""
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE edges (a INT, b INT)")
        warehouse.apply({"edges": [(1, (9 * c + n, 9 * c + n + 1)) for c in range(chains) for n in range(length)]})
        warehouse.sql(f"CREATE MATERIALIZED VIEW reach AS {REACH}")
        seconds = []
        for first in range(0, 9 * 25, 9):
            start = time.perf_counter()
            warehouse.apply({"edges": [(1, (first + length, first + length + 1)), (-1, (first, first + 1))]})
            seconds.append(time.perf_counter() - start)
        return min(seconds)
