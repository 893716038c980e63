"""MIN and MAX as machine code: rows are those of the Python back end, whatever comes, goes, fails or is read again."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidemill
from tests.runtimes.native.llvm.compiled import Nothing, stage_of, started, tables_of
from tests.runtimes.native.llvm.test_emit_rows import as_if
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, WeightedRow, ZSet
from tidemill.model.errors import ArithmeticFault, OutOfBudget
from tidemill.model.schema import Table
from tidemill.program.maps import Map
from tidemill.program.stages import Stage
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.stage.emit_stage import emit_stage
from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage
from tidemill.runtimes.native.python.compile import compile_stage
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.storage.memory_store import MemoryStore

SALES = """CREATE STREAM sales (name STRING, flag BOOLEAN, day DATE, at TIMESTAMP, price DECIMAL(10,2),
    wide DECIMAL(30,2), x DOUBLE, n INT, big BIGINT NOT NULL)"""

EVERYTHING = """SELECT name, flag, COUNT(*) AS c, SUM(n) AS s, MIN(n) AS n0, MAX(n) AS n1, MIN(x) AS x0, MAX(x) AS x1,
    MIN(day) AS d0, MAX(at) AS t1, MIN(price) AS p0, MAX(wide) AS w1, MAX(DISTINCT big) AS b1
  FROM sales GROUP BY name, flag"""

VIEWS = {
    "everything": EVERYTHING,
    "hidden keys": "SELECT MIN(n) AS a, MAX(n) AS b FROM sales GROUP BY name, flag",
    "filtered": """SELECT name, MIN(n) FILTER (WHERE flag) AS a, MAX(n) AS b, MAX(flag) AS f
      FROM sales GROUP BY name HAVING MAX(n) > 0 OR MIN(n) FILTER (WHERE flag) IS NULL""",
    "computed": "SELECT flag, MAX(CAST(n AS BIGINT) + 1) - MIN(n) AS spread, AVG(price) AS p FROM sales GROUP BY flag",
    "global": "SELECT COUNT(*) AS c, MIN(n) AS a, MAX(x) AS b FROM sales",
    "first": """SELECT name, n, x FROM (SELECT name, n, x, ROW_NUMBER() OVER (PARTITION BY name ORDER BY n DESC, x) AS r
      FROM sales) t WHERE r = 1""",
    "first three": """SELECT flag, n, price FROM (SELECT name, flag, n, price, wide, x, day, at, big,
      ROW_NUMBER() OVER (PARTITION BY name, flag ORDER BY x DESC NULLS LAST, price, day DESC) AS r
      FROM sales) t WHERE r <= 3 AND n + 1 IS NOT NULL""".replace("n + 1", "n"),
    "first ten": "SELECT n, at, wide, flag FROM sales ORDER BY wide DESC NULLS FIRST, flag LIMIT 10",
    "windows": """SELECT window.start AS since, window.end AS until, MAX(n) AS m, COUNT(*) AS c
      FROM sales GROUP BY window(at, '10 seconds')""",
    "windows that overlap": """SELECT flag, window AS w, MIN(x) AS x0, SUM(n) AS s
      FROM sales GROUP BY flag, window(at, '10 seconds', '4 seconds', '1 second')""",
    "by expression": "SELECT YEAR(day) AS y, MIN(at) AS a FROM sales WHERE n > -3 GROUP BY YEAR(day)",
}


def _sale(chance: random.Random) -> Row:
    row = (
        chance.choice(("ann", "bob", "")),
        chance.random() < 0.5,
        datetime.date(chance.choice((1969, 2024)), 1, chance.randint(1, 28)),
        datetime.datetime(chance.choice((1969, 2024)), 1, 1, 0, 0, chance.randint(0, 59), 1),
        Decimal(chance.randint(-999, 999)).scaleb(-2),
        Decimal(chance.choice((-1, 1)) * chance.randint(0, 10**29)).scaleb(-2),
        chance.choice((0.1, 0.0, -1e300, float("inf"), float("-inf"), math.nan, 0.25)),
        chance.choice((-(2**31), 2**31 - 1, *range(-5, 5))),
    )
    big = chance.choice((-(2**63), 2**63 - 1, 0, 7))
    return (*(None if chance.random() < 0.1 else value for value in row), big)


def _change(pairs: Sequence[WeightedRow], table: Table, *, columns: bool) -> ChangeSet:
    change = ChangeSet.of(pairs, table.fields)
    return ChangeSet.of_arrow(change.arrow(), table.fields) if columns else change


class Stored(Nothing):
    """The state that a stage has written down, epoch after epoch."""

    def __init__(self, tables: dict[str, Table]) -> None:
        super().__init__(tables)
        self._parts: dict[str, list[pa.Table]] = {}

    def take(self, runner: LlvmStage) -> None:
        for name, change in runner.changes():
            self._parts.setdefault(name, []).append(change.arrow())

    def stored(self, map_: Map) -> pa.Table:
        return pa.concat_tables([super().stored(map_), *self._parts.get(map_.name, ())])


def _opened(stage: Stage, tables: dict[str, Table], stored: Stored) -> LlvmStage:
    """A stage that has its state from the store."""
    memory = Memory()
    finish = compile_stage(stage, lambda name: tables[name].fields).finish
    code = emit_stage(stage, lambda name: tables[name].fields)
    runner = LlvmStage(code, finish, stored, memory, StringDictionary(memory))
    runner.prepare()
    runner.settle()
    return runner


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_the_python_back_end(view: str, seed: int) -> None:
    stage, tables = stage_of(SALES, VIEWS[view], "delta")
    table = tables["sales"]
    python = NativeRuntime(MemoryStore(), lambda name: tables[name].fields, backend="python")
    python.install(stage)
    many, few, stored = started(stage, tables), started(stage, tables), Stored(tables)
    assert (many.code.row_output is None) == (view == "global")
    chance, sold = random.Random(seed), list[Row]()
    for epoch in range(12):
        came = [_sale(chance) for _ in range(chance.choice((1, 40)))]
        gone = [sold.pop() for _ in range(min(len(sold), chance.choice((0, 1, 30, 200))))]
        # Some leave before they have come, and come in the next epoch.
        early = [_sale(chance) for _ in range(chance.choice((0, 0, 3)))]
        sold += [*came, *came[:5]]
        chance.shuffle(sold)
        pairs = [*((r, 1) for r in [*came, *came[:5]]), *((r, -1) for r in [*gone, *early])]
        chance.shuffle(pairs)
        python.begin(epoch)
        python.fire(stage, "sales", ChangeSet.of(pairs, table.fields))
        with decimal.localcontext(EXACT):
            wanted = python.emit(stage).zset()
        python.commit()
        for runner, is_many in ((many, True), (few, False)):
            with as_if(many=is_many):
                runner.fire("sales", _change([(_sale(chance), 1) for _ in range(9)], table, columns=True))
                runner.rollback()
                runner.fire("sales", _change(pairs, table, columns=is_many))
                assert runner.emit().zset() == wanted
                assert runner.emit().zset() == wanted  # asking changes nothing
        stored.take(many)
        many.settle()
        few.settle()
        if epoch % 4 == 3:
            few = _opened(stage, tables, stored)
        sold += early
        if early:
            back = ChangeSet.of([(row, 2) for row in early], table.fields)
            sold += early
            python.begin(epoch)
            python.fire(stage, "sales", back)
            with decimal.localcontext(EXACT):
                wanted = python.emit(stage).zset()
            python.commit()
            for runner, is_many in ((many, True), (few, False)):
                with as_if(many=is_many):
                    runner.fire("sales", back)
                    assert runner.emit().zset() == wanted
            stored.take(many)
            many.settle()
            few.settle()


@pytest.mark.parametrize("many", [True, False])
def test_groups_with_many_values_lose_and_gain_both_ends(many: bool) -> None:
    """Long groups are trees: their ends move in, and come back when an epoch is undone."""
    stage, tables = stage_of(
        "CREATE STREAM t (k INT, v BIGINT)", "SELECT k, MIN(v) AS a, MAX(v) AS b FROM t GROUP BY k"
    )
    runner, table = started(stage, tables), tables["t"]
    values = list(range(-600, 600))
    random.Random(1).shuffle(values)
    with as_if(many=many):
        runner.fire("t", _change([((k, v), 1) for v in values for k in (1, None)], table, columns=True))
        assert runner.emit().zset() == ZSet({(1, -600, 599): 1, (None, -600, 599): 1})
        runner.settle()
        inner = [((1, v), -1) for v in values if abs(v) > 300]
        for _ in range(2):
            runner.fire("t", _change(inner, table, columns=True))
            assert runner.emit().zset() == ZSet({(1, -600, 599): -1, (1, -300, 300): 1})
            runner.rollback()
        runner.fire("t", _change([((1, v), -1) for v in values], table, columns=True))
        assert runner.emit().zset() == ZSet({(1, -600, 599): -1})
        runner.settle()
        runner.fire("t", _change([((1, 5), 1), ((None, 600), 1)], table, columns=True))
        assert runner.emit().zset() == ZSet({(1, 5, 5): 1, (None, -600, 599): -1, (None, -600, 600): 1})


@pytest.mark.parametrize("many", [True, False])
def test_a_value_that_leaves_and_comes_again_changes_nothing(many: bool) -> None:
    stage, tables = stage_of("CREATE STREAM t (k INT, v BIGINT)", "SELECT k, MIN(v) AS a FROM t GROUP BY k")
    runner, table = started(stage, tables), tables["t"]
    with as_if(many=many):
        runner.fire("t", _change([((1, 3), 1), ((1, 5), 1)], table, columns=True))
        runner.emit()
        runner.settle()
        runner.fire("t", _change([((1, 3), -1), ((1, 5), -1), ((1, 4), 1)], table, columns=True))
        runner.fire("t", _change([((1, 3), 1), ((1, 5), 1), ((1, 4), -1)], table, columns=True))
        assert runner.emit().zset() == ZSet()


def test_the_order_of_texts_stays_in_python() -> None:
    stage, tables = stage_of(SALES, "SELECT flag, MIN(name) AS least FROM sales GROUP BY flag", "delta")
    with pytest.raises(NotCompiled, match="the order of a STRING"):
        emit_stage(stage, lambda name: tables[name].fields)
    stage, tables = stage_of(SALES, "SELECT flag, MAX_BY(n, x) AS n FROM sales GROUP BY flag", "delta")
    with pytest.raises(NotCompiled, match="the aggregate max_by"):
        emit_stage(stage, lambda name: tables[name].fields)


def test_a_row_that_is_not_valid_is_told_as_by_python() -> None:
    stage, tables = stage_of(
        "CREATE STREAM t (k INT, v BIGINT)", "SELECT k, 1 / MIN(v) AS a, MAX(v) AS b FROM t GROUP BY k"
    )
    runner, table = started(stage, tables), tables["t"]
    with as_if(many=True):
        runner.fire("t", _change([((1, 0), 1), ((2, 4), 1)], table, columns=True))
        with pytest.raises(ArithmeticFault, match="division by zero"):
            runner.emit()
        runner.rollback()
        runner.fire("t", _change([((1, 1), 1)], table, columns=True))
        assert len(runner.emit().zset()) == 1


STREAM = """
    CREATE STREAM s (k BIGINT NOT NULL, v BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW w AS SELECT k, MIN(v) AS a, MAX(v) AS b, COUNT(*) AS c FROM s GROUP BY k;
"""


def test_events_one_by_one_and_a_reopened_warehouse(tmp_path: Path) -> None:
    chance = random.Random(4)
    seen: dict[int, list[int]] = {}
    for _ in range(3):
        with tidemill.open(tmp_path / "w", runtime="native", backend="llvm") as wh:
            if not seen:
                wh.sql(STREAM)
            feed = wh.feed("s")
            for _ in range(500):
                k, v = chance.randint(0, 20), chance.randint(-99, 99)
                if seen.get(k) and chance.random() < 0.4:
                    feed(-1, k, seen[k].pop(chance.randrange(len(seen[k]))))
                else:
                    feed(1, k, v)
                    seen.setdefault(k, []).append(v)
                if chance.random() < 0.02:
                    wh.flush()
            wanted = {(k, min(vs), max(vs), len(vs)) for k, vs in seen.items() if vs}
            assert set(wh.view("w").rows()) == wanted
            assert "compiled with LLVM" in str(wh.sql("EXPLAIN VIEW w")[0])


def test_a_view_over_rows_that_are_there_already() -> None:
    keys = np.arange(3000) % 700
    for backend in ("llvm", "python"):
        with tidemill.open(":memory:", runtime="native", backend=backend) as wh:
            wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT, v BIGINT)")
            wh.apply({"t": pa.table({"id": np.arange(3000), "k": keys, "v": np.arange(3000) * 7919 % 1009})})
            wh.sql("CREATE MATERIALIZED VIEW w AS SELECT k, MIN(v) AS a, MAX(v) AS b FROM t GROUP BY k")
            wh.sql("CREATE MATERIALIZED VIEW e AS SELECT MIN(v) AS a, MAX(v) AS b, COUNT(*) AS c FROM t WHERE k < 0")
            values = np.arange(3000) * 7919 % 1009
            wanted = {(int(k), int(values[keys == k].min()), int(values[keys == k].max())) for k in range(700)}
            assert set(wh.view("w").rows()) == wanted
            assert list(wh.view("e").rows()) == [(None, None, 0)]


def test_maps_that_do_not_fit_are_refused_and_undone() -> None:
    tables = tables_of("CREATE STREAM t (k BIGINT, v BIGINT)")
    stage, _ = stage_of("CREATE STREAM t (k BIGINT, v BIGINT)", "SELECT k, MIN(v) AS a FROM t GROUP BY k")
    runner = started(stage, tables)
    table = tables["t"]
    with as_if(many=True):
        runner.fire("t", _change([((k, k), 1) for k in range(100)], table, columns=True))
        runner.emit()
        runner.settle()
        for room in range(0, 400_000, 9_000):
            runner.memory.allow(room)
            change = _change([((k % 3000, k), 1) for k in range(9000)], table, columns=True)
            with pytest.raises(OutOfBudget):
                runner.fire("t", change)
            runner.rollback()
            runner.memory.allow(None)
            runner.fire("t", _change([((5, 1), 1)], table, columns=True))
            assert runner.emit().zset() == ZSet({(5, 5): -1, (5, 1): 1})
            runner.rollback()
