"""Window functions as machine code: rows are those of the Python back end, whatever comes, goes or is read again."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate

import pytest

import tidemill
from benchmarks.native_windows import FUNCTIONS, measure
from tests.runtimes.native.llvm.compiled import stage_of, started
from tests.runtimes.native.llvm.test_multisets import Stored, _opened
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, WeightedRow, ZSet
from tidemill.model.errors import ArithmeticFault, OutOfBudget
from tidemill.model.schema import Table
from tidemill.program.stages import Stage
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.stage.emit_stage import emit_stage
from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.storage.memory_store import MemoryStore

VISITS = """CREATE STREAM visits (who STRING, vip BOOLEAN, at TIMESTAMP, day DATE, pages INT, big BIGINT NOT NULL,
    spent DECIMAL(10,2), x DOUBLE)"""

ORDERS = {
    "up": "PARTITION BY who ORDER BY at",
    "down": "PARTITION BY who, vip ORDER BY pages DESC NULLS FIRST, day",
    "last": "ORDER BY spent NULLS LAST, pages DESC NULLS LAST",
    "by double": "PARTITION BY vip ORDER BY x DESC",
    "without": "PARTITION BY who",
}

NUMBERS = "ROW_NUMBER() OVER w AS n, pages, at"
RANK = "RANK() OVER w AS r, spent"
RANKS = """RANK() OVER w AS r, DENSE_RANK() OVER w AS d, PERCENT_RANK() OVER w AS p, CUME_DIST() OVER w AS c,
    NTILE(3) OVER w AS t, big"""
OFFSETS = """LAG(pages) OVER w AS a, LEAD(spent, 3, 0.50) OVER w AS b, LAG(x, 1, x) OVER w AS c,
    LAG(at, -2) OVER w AS d"""
PICKED = "FIRST_VALUE(pages) OVER w AS f, LAST_VALUE(big) OVER w AS l, NTH_VALUE(spent, 3) OVER w AS n"
RUNNING = "SUM(pages) OVER w AS s, COUNT(pages) OVER w AS c, AVG(spent) OVER w AS a, COUNT(*) OVER w AS n, big"
FILTERED = """SUM(CASE WHEN vip THEN pages ELSE 7 END) FILTER (WHERE day > DATE '2024-01-04') OVER w AS s,
    AVG(big) FILTER (WHERE x > 0.0) OVER w AS a, MAX(pages) FILTER (WHERE vip) OVER w AS m, day"""
EXTREMES = "MIN(spent) OVER w AS a, MAX(x) OVER w AS b, MIN(vip) OVER w AS c, MAX(at) OVER w AS d"

FRAMES = (
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 4 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
)

RANGES = {
    "at": (
        "INTERVAL 3 SECONDS PRECEDING AND INTERVAL 1 SECONDS FOLLOWING",
        "UNBOUNDED PRECEDING AND INTERVAL 2 SECONDS PRECEDING",
    ),
    "day DESC": (
        "INTERVAL 2 DAYS PRECEDING AND CURRENT ROW",
        "INTERVAL 1 DAYS FOLLOWING AND INTERVAL 3 DAYS FOLLOWING",
    ),
    "pages NULLS LAST": ("3 PRECEDING AND 2 FOLLOWING", "1 FOLLOWING AND UNBOUNDED FOLLOWING"),
    "spent DESC NULLS LAST": ("2.5 PRECEDING AND 1 FOLLOWING", "UNBOUNDED PRECEDING AND 3 FOLLOWING"),
    "big": ("1 PRECEDING AND 9223372036854775807 FOLLOWING", "7 PRECEDING AND 7 PRECEDING"),
}

FRAMED = "SUM(pages) OVER w AS s, COUNT(vip) OVER w AS c, FIRST_VALUE(pages) OVER w AS f, LAST_VALUE(spent) OVER w AS l"


def _views() -> dict[str, str]:
    found = {}
    for order, functions in {
        "up": (NUMBERS, RANK, OFFSETS, PICKED, RUNNING),
        "down": (RANKS, FILTERED),
        "last": (RANK, OFFSETS, EXTREMES),
        "by double": (NUMBERS, PICKED, RUNNING),
        "without": (RUNNING, EXTREMES),
    }.items():
        for shown in functions:
            found[f"{order}: {shown[:20]}"] = f"SELECT vip, {shown} FROM visits WINDOW w AS ({ORDERS[order]})"
    for number, frame in enumerate(FRAMES):
        order = list(ORDERS.values())[number % 4]
        shown = f"{FRAMED}, MAX(big) OVER w AS m, NTH_VALUE(big, 2) OVER w AS n"
        found[frame] = f"SELECT day, {shown} FROM visits WINDOW w AS ({order} {frame})"
    for number, (order, frames) in enumerate(RANGES.items()):
        partition = ("PARTITION BY who", "")[number % 2]
        for frame, shown in zip(frames, (f"{FRAMED}, {EXTREMES}", FRAMED), strict=True):
            text = f"{partition} ORDER BY {order} RANGE BETWEEN {frame}"
            found[f"{order} {frame}"] = f"SELECT vip, {shown} FROM visits WINDOW w AS ({text})"
    texts = "UPPER(who) AS u, LAG(who, 1, 'none') OVER w AS l, FIRST_VALUE(who) OVER w AS f"
    found["texts"] = f"SELECT {texts} FROM visits WINDOW w AS ({ORDERS['up']}) QUALIFY ROW_NUMBER() OVER w > 1"
    return found


VIEWS = _views()


def _visit(chance: random.Random) -> Row:
    row = (
        chance.choice(("ann", "bob")),
        chance.random() < 0.5,
        datetime.datetime(2024, 1, 1, 0, 0, chance.randint(0, 30)),
        chance.choice((datetime.date.min, datetime.date.max, *(datetime.date(2024, 1, 1 + day) for day in range(15)))),
        chance.choice((-(2**31), 2**31 - 1, *range(-9, 9))),
        chance.choice((-(2**63), 2**63 - 1, *range(20))),
        Decimal(chance.randint(-99, 99)).scaleb(-1),
        chance.choice((0.5, 0.0, -1e300, float("inf"), math.nan, 0.25)),
    )
    shown = [None if chance.random() < 0.1 else value for value in row]
    shown[5] = row[5]
    return tuple(shown)


def _change(pairs: Sequence[WeightedRow], table: Table, *, columns: bool) -> ChangeSet:
    change = ChangeSet.of(pairs, table.fields)
    return ChangeSet.of_arrow(change.arrow(), table.fields) if columns else change


class _Python:
    """The stage on the Python back end."""

    def __init__(self, stage: Stage, table: Table) -> None:
        self._stage, self._runtime, self._epoch = stage, _runtime(table), 0
        self._runtime.install(stage)

    def change(self, change: ChangeSet) -> ZSet:
        self._epoch += 1
        self._runtime.begin(self._epoch)
        self._runtime.fire(self._stage, "visits", change)
        with decimal.localcontext(EXACT):
            found = self._runtime.emit(self._stage).zset()
        self._runtime.commit()
        return found


def _runtime(table: Table) -> NativeRuntime:
    return NativeRuntime(MemoryStore(), lambda name: table.fields, backend="python")


@pytest.mark.parametrize("view", VIEWS)
def test_rows_are_those_of_the_python_back_end(view: str) -> None:
    stage, tables = stage_of(VISITS, VIEWS[view], "delta")
    table = tables["visits"]
    python, held, stored = _Python(stage, table), started(stage, tables), Stored(tables)
    chance, there = random.Random(view), list[Row]()
    for epoch in range(8):
        came = [_visit(chance) for _ in range(chance.choice((1, 2, 40)))]
        gone = [there.pop() for _ in range(min(len(there), chance.choice((0, 1, 2, 30))))]
        # Some leave before they have come.
        early = [_visit(chance) for _ in range(chance.choice((0, 0, 2)))]
        pairs = [*((row, chance.choice((1, 1, 3))) for row in came), *((row, -1) for row in [*gone, *early])]
        there += [*came, *early]
        chance.shuffle(there)
        chance.shuffle(pairs)
        wanted = python.change(ChangeSet.of(pairs, table.fields))
        held.fire("visits", _change([(_visit(chance), 1) for _ in range(9)], table, columns=True))
        if epoch % 2:
            held.emit()
        held.rollback()
        held.fire("visits", _change(pairs, table, columns=bool(epoch % 3)))
        assert held.emit().zset() == wanted
        assert held.emit().zset() == wanted  # asking changes nothing
        stored.take(held)
        held.settle()
        back = ChangeSet.of([(row, 2) for row in early], table.fields)
        wanted = python.change(back)
        held.fire("visits", back)
        assert held.emit().zset() == wanted
        stored.take(held)
        held.settle()
        if epoch % 5 == 3:
            held = _opened(stage, tables, stored)


LONG = """SELECT k, v, ROW_NUMBER() OVER w AS n, LAG(v, 20) OVER w AS l, SUM(v) OVER w AS s,
    SUM(v) OVER (PARTITION BY k ORDER BY v ROWS 90 PRECEDING) AS f, FIRST_VALUE(v) OVER w AS a,
    COUNT(*) OVER (PARTITION BY k ORDER BY v RANGE BETWEEN 40 PRECEDING AND 5 FOLLOWING) AS c
  FROM t WINDOW w AS (PARTITION BY k ORDER BY v)"""


def test_long_partitions_are_trees() -> None:
    """Values far from a change are looked up, and those of each row are what a list of all rows says."""
    stage, tables = stage_of("CREATE STREAM t (k INT, v INT NOT NULL)", LONG, "delta")
    held, table = started(stage, tables), tables["t"]
    chance, rows, shown = random.Random(1), list[int](), ZSet()
    for _ in range(20):
        came = [chance.randint(0, 900) for _ in range(chance.choice((1, 1, 300)))]
        gone = chance.sample(rows, min(len(rows), chance.choice((0, 1, 3, 100))))
        pairs = [*(((7, v), 1) for v in came), *(((7, v), -1) for v in gone)]
        rows += came
        for v in gone:
            rows.remove(v)
        rows.sort()
        held.fire("t", _change(pairs, table, columns=True))
        shown = shown + held.emit().zset()
        held.settle()
        assert shown == ZSet.of(_by_hand(rows))


def _by_hand(rows: list[int]) -> list[Row]:
    sums = list(accumulate(rows, initial=0))
    found = []
    for n, v in enumerate(rows):
        near = bisect_right(rows, v + 5) - bisect_left(rows, v - 40)
        framed = sums[n + 1] - sums[max(n - 90, 0)]
        lag = rows[n - 20] if n >= 20 else None
        found.append((7, v, n + 1, lag, sums[bisect_right(rows, v)], framed, rows[0], near))
    return found


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SUM(x) OVER w", "a sum of DOUBLE over a frame"),
        ("LAG(pages) IGNORE NULLS OVER w", "LAG that ignores NULLs"),
        ("SUM(pages) OVER w, LAG(100 / pages) OVER w", "arguments of a window function that may be an error"),
        ("COLLECT_LIST(pages) OVER w", "the window function ARRAY_AGG"),
    ],
)
def test_what_has_no_native_form_leaves_the_stage_to_python(sql: str, why: str) -> None:
    query = f"SELECT pages, {sql} FROM visits WINDOW w AS (PARTITION BY vip ORDER BY at)"
    stage, tables = stage_of(VISITS, query, "delta")
    with pytest.raises(NotCompiled, match=why):
        emit_stage(stage, lambda name: tables[name].fields)


def test_the_benchmark_compares_both_back_ends() -> None:
    for kind in ("appended", "changed"):
        assert min(measure(list(FUNCTIONS)[3], 3, kind, 80, 2, rows=300)) > 0


def test_explain_says_what_leaves_a_stage_to_python() -> None:
    with tidemill.open(":memory:", runtime="native", backend="llvm") as warehouse:
        warehouse.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, x DOUBLE)")
        for name, shown in (("far", "SUM(x)"), ("near", "LAG(x)")):
            text = f"SELECT k, {shown} OVER (PARTITION BY g ORDER BY k) AS w FROM t"
            warehouse.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        warehouse.apply({"t": [(1, (1, 1, 0.5)), (1, (2, 1, 0.25))]})
        said = {name: warehouse.sql(f"EXPLAIN VIEW {name}")[0][0] for name in ("far", "near")}
        assert "no native form of a sum of DOUBLE over a frame" in said["far"]
        assert "compiled with LLVM" in said["near"]


def test_what_does_not_fit_is_refused_and_undone() -> None:
    """Memory may be short in the map, in its order, in the changes, and when rows are laid out."""
    stage, tables = stage_of("CREATE STREAM t (k INT, v INT NOT NULL)", LONG, "delta")
    held, table = started(stage, tables), tables["t"]
    held.fire("t", _change([((k % 2, k), 1) for k in range(600)], table, columns=True))
    held.emit()
    held.settle()
    one = _change([((1, 600), 1)], table, columns=True)
    held.fire("t", one)
    wanted = held.emit().zset()
    held.rollback()
    refused = 0
    for room in range(0, 900_000, 20_000):
        held.memory.allow(room)
        try:
            held.fire("t", _change([((k % 4, k), 1) for k in range(1200)], table, columns=True))
            held.emit()
        except OutOfBudget:
            refused += 1
        held.rollback()
        held.memory.allow(None)
        held.fire("t", one)
        assert held.emit().zset() == wanted
        held.rollback()
    assert 10 < refused < 45


def test_a_sum_that_overflows_is_refused_and_undone() -> None:
    query = (
        "SELECT big, SUM(big) OVER (ORDER BY at) AS s, 10 / (pages - LAG(pages) OVER (ORDER BY at)) AS d FROM visits"
    )
    stage, tables = stage_of(VISITS, query, "delta")
    held, table = started(stage, tables), tables["visits"]

    def visit(second: int, pages: int, big: int) -> Row:
        return ("ann", True, datetime.datetime(2024, 1, 1, 0, 0, second), None, pages, big, None, None)

    def fire(runner: LlvmStage, row: Row) -> ZSet:
        runner.fire("visits", _change([(row, 1)], table, columns=False))
        return runner.emit().zset()

    assert fire(held, visit(1, 5, 2**63 - 1)) == ZSet({(2**63 - 1, 2**63 - 1, None): 1})
    held.settle()
    for wrong, what in ((visit(2, 4, 1), "does not fit BIGINT"), (visit(2, 5, -1), "zero")):
        with pytest.raises(ArithmeticFault, match=what):
            fire(held, wrong)
        held.rollback()
    assert fire(held, visit(2, 3, -1)) == ZSet({(-1, 2**63 - 2, -5.0): 1})
