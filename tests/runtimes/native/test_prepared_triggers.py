"""Triggers prepared for maps in memory: the same rows, whatever was refused, released or opened again in between."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from random import Random

import pytest

import tidemill
from tests.answers import Answers, differ, inner
from tests.lineage.test_random import QUERIES, TABLES, Epochs
from tidemill.changes.split import ChangeSplitter, SplitColumns
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native.python.decimal_use import may_compute_decimals
from tidemill.runtimes.native.runtime import NativeRuntime

FAILS_FOR_A_HUNDRED = "SELECT oid, 10 / (id - 100) AS share FROM d"
"""Defined last, so that all other views have run their triggers when it refuses an epoch."""


def _opened(folder: Path) -> tidemill.Warehouse:
    return tidemill.open(str(folder), runtime="native", backend="python")


@pytest.mark.parametrize(("strategy", "seed"), [("lineage", 1), ("lineage", 2), ("delta", 3)])
def test_rows_are_those_of_the_evaluator_after_changes_of_single_rows(strategy: str, seed: int, tmp_path: Path) -> None:
    answers, random, changes = Answers(), Random(seed), Epochs(seed)
    for statement in parse(TABLES):
        assert isinstance(statement, CreateTable)
        answers.declare(statement.table)
    warehouse = _opened(tmp_path)
    warehouse.sql(TABLES)
    for name, query in QUERIES.items():
        answers.define(name, query)
        warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query}")
    warehouse.sql(f"CREATE MATERIALIZED VIEW shares AS {FAILS_FOR_A_HUNDRED}")
    refused = 0
    for number in range(30):
        for table, pairs in changes.next().items():
            fields = answers.fields(table)
            keys = list(dict.fromkeys(row[:2] if table == "k" else row[0] for _, row in pairs))
            for key in keys:
                mine = [pair for pair in pairs if key == (pair[1][:2] if table == "k" else pair[1][0])]
                if random.random() < 0.2:
                    refused += 1
                    with pytest.raises(ArithmeticFault, match='view "shares"'):
                        warehouse.apply(
                            {table: mine, "d": [(1, (50 + number, 100, "never"))]}
                            if table != "d"
                            else {table: [*mine, (1, (50 + number, 100, "never"))]}
                        )
                warehouse.apply({table: mine})
                answers.rows[table].update_by(ZSet.summed((inner([r], fields, table)[0], w) for w, r in mine))
        if number % 10 == 9:
            warehouse.close()
            warehouse = _opened(tmp_path)
        for name, rows in answers.evaluator().items():
            shown = ZSet.of(inner(warehouse.view(name).rows(), answers.fields(name), name))
            assert not differ(rows, shown, answers.fields(name)), name
    warehouse.close()
    assert refused > 5


def test_a_change_of_two_rows_is_split_like_one_of_many() -> None:
    random = Random(5)
    values = (None, 1, 2)
    for _ in range(2_000):
        rows = [tuple(random.choice(values) for _ in range(4)) for _ in range(random.randint(1, 2))]
        pairs = [(row, random.choice((-1, 1, 2))) for row in rows]
        if random.random() < 0.5 and len(rows) == 2:
            pairs = [(rows[0], -1), ((rows[0][0], *rows[1][1:]), 1)]
        splitter = ChangeSplitter(SplitColumns((0,), random.choice(((), (1,), (1, 2))), (0, 1, 2)))
        quick, thorough = (tuple(map(ZSet.summed, split(pairs))) for split in (splitter.split, splitter._split_many))
        assert quick == thorough, pairs


@pytest.fixture
def joined() -> tidemill.Warehouse:
    """A view with a lineage over two composites and a document."""
    warehouse = tidemill.open(":memory:", runtime="native", backend="python")
    warehouse.sql(TABLES)
    warehouse.sql(f"CREATE MATERIALIZED VIEW joined WITH (strategy = 'lineage') AS {QUERIES['joined']}")
    warehouse.apply({"c": [(1, (1, 1, "x", 1, [], [])), (1, (2, 2, "y", 1, [], []))], "d": [(1, (1, 7, "p"))]})
    return warehouse


def _runtime(warehouse: tidemill.Warehouse) -> NativeRuntime:
    runtime = warehouse._engine.state.pipeline["joined"].runtime
    assert isinstance(runtime, NativeRuntime)
    return runtime


def test_only_what_leaves_makes_an_index_of_the_lineage(joined: tidemill.Warehouse) -> None:
    lineage = _runtime(joined)._state.held_maps["joined"]["joined:lineage"]
    joined.apply({"c": [(1, (3, 3, "z", 1, [], []))]})
    assert not lineage.has_index((0,))
    joined.apply({"c": [(-1, (3, 3, "z", 1, [], []))]})
    assert lineage.has_index((0,))


def test_released_maps_are_gone_at_once(joined: tidemill.Warehouse) -> None:
    joined.apply({"c": [(-1, (1, 1, "x", 1, [], [])), (1, (1, 1, "z", 1, [], []))]})
    lineage = weakref.ref(_runtime(joined)._state.held_maps["joined"]["joined:lineage"])
    gc.disable()
    try:
        _runtime(joined).free()
        assert lineage() is None, "the prepared trigger keeps the maps that it reads alive"
    finally:
        gc.enable()
    joined.apply({"c": [(-1, (2, 2, "y", 1, [], []))]})
    assert joined.view("joined").rows() == [(1, "z", 7)]


def test_stages_that_compute_decimals_are_told_from_others() -> None:
    warehouse = tidemill.open(":memory:", runtime="native", backend="python")
    warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, n BIGINT, p DECIMAL(30, 10))")
    plain = {
        "copied": "SELECT id, p FROM t WHERE n > 3",
        "counted": "SELECT n, COUNT(*) AS times FROM t GROUP BY n",
    }
    exact = {
        "summed": "SELECT n, SUM(p) AS total FROM t GROUP BY n",
        "halved": "SELECT id, p / 2 AS half FROM t",
        "compared": "SELECT id FROM t WHERE p > 3",
        "greatest": "SELECT n, MAX(p) AS most FROM t GROUP BY n",
    }
    found = {}
    for name, query in (plain | exact).items():
        warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'delta') AS {query}")
        program = warehouse._engine.state.pipeline[name].program
        found[name] = any(map(may_compute_decimals, program.stages))
    assert {name for name, computes in found.items() if computes} == exact.keys()
