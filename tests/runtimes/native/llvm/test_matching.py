"""Patterns as machine code: rows are those of the Python back end, whatever comes, goes or is read again."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Sequence
from decimal import Decimal

import pytest

import tidemill
from tests.runtimes.native.llvm.compiled import stage_of, started
from tests.runtimes.native.llvm.test_multisets import Stored, _opened
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, WeightedRow, ZSet
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.program.stages import Stage
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.stage.emit_stage import emit_stage
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.storage.memory_store import MemoryStore

READINGS = "CREATE STREAM readings (who STRING, at TIMESTAMP, x INT, big BIGINT, spent DECIMAL(10,2), hot BOOLEAN)"

HIGH = "a.x > 1 AND b.x > 1 AND c.x > 1 AND d.x > 1"

VIEWS = {
    "thesis": f"""SELECT at, who, COUNT(*) AS n, SUM(x) AS total FROM readings PATTERN (a, b, c, d+)
        WHERE {HIGH} GROUP BY who""",
    "measures": """SELECT at, who, FIRST(a.x) AS f, LAST(b.spent) AS l, MIN(x) AS least, MAX(b.spent) AS most,
            AVG(x) AS mean, COUNT(b.x) AS n, COUNT(b.*) AS bs, FIRST(b.hot) AS hot, SUM(spent) AS spent, a.at AS since
        FROM readings PATTERN (a, b+) WHERE a.x < 4 AND b.x >= 2 GROUP BY who""",
    "falls": """SELECT at, COUNT(*) AS n, strt.x AS top, MIN(down.x) AS bottom, up.x AS now
        FROM readings PATTERN (strt, down+, up+) ORDER BY at
        WHERE down.x < PREV(down.x) AND up.x > PREV(up.x) GROUP BY who""",
    "choice": """SELECT at, who, COUNT(a.*) AS one, COUNT(b.*) AS other, LAST(c.x) AS c
        FROM readings PATTERN ((a | b){2} c+?) WHERE a.x > 2 AND b.hot AND c.x < 5 GROUP BY who""",
    "rises": """SELECT at, who, COUNT(*) AS n, b[1].x AS since, LAST(b.x) AS x FROM readings PATTERN (a, b+)
        WHERE a.x < 5 AND b[i].x >= b[i-1].x AND b[1].x > a.x GROUP BY who""",
    "once": """SELECT * FROM readings MATCH_RECOGNIZE (PARTITION BY who ORDER BY at
        MEASURES FIRST(a.at) AS since, LAST(b.at) AS until, COUNT(*) AS n, SUM(x) AS total, MAX(b.x) AS top
        PATTERN (a b+) DEFINE a AS a.x < 5, b AS b.x >= 2) AS m""",
    "v_shape": """SELECT * FROM readings MATCH_RECOGNIZE (PARTITION BY who ORDER BY at
        MEASURES strt.at AS since, LAST(down.at) AS bottom, LAST(up.at) AS until, AVG(x) AS mean
        PATTERN (strt down+ up+) DEFINE down AS down.x < PREV(down.x), up AS up.x > PREV(up.x)) AS m""",
    "soonest": """SELECT who, n, x FROM readings MATCH_RECOGNIZE (PARTITION BY who ORDER BY at
        MEASURES COUNT(*) AS n, LAST(x) AS x PATTERN (a{2} | b c+?) DEFINE a AS a.x > 4, c AS c.hot) AS m""",
    "single": "SELECT at, who, x FROM readings PATTERN (a) WHERE a.x = 4 GROUP BY who",
    "everyone": "SELECT at, COUNT(*) AS n, x FROM readings PATTERN (a, b) ORDER BY at DESC WHERE b.x > 3",
    "any row": "SELECT at, who, COUNT(*) AS n FROM readings PATTERN (a, b*) WHERE b.x > 1 GROUP BY who, hot",
    "counted": """SELECT at, who, MAX(hot) AS h, UPPER(who) AS u, COUNT(*) * 2 AS n
        FROM readings PATTERN (a{3,5}) WHERE a.x IS NOT NULL GROUP BY who""",
}
"""Views that have a native form."""


def _reading(chance: random.Random) -> Row:
    row = (
        chance.choice(("ann", "bob")),
        datetime.datetime(2024, 1, 1, 0, 0, chance.randint(0, 40)),
        chance.randint(0, 7),
        chance.randint(-(2**63), 2**63 - 1),
        Decimal(chance.randint(-99, 99)).scaleb(-1),
        chance.random() < 0.6,
    )
    return tuple(None if chance.random() < 0.06 else value for value in row)


def _change(pairs: Sequence[WeightedRow], table: Table, *, columns: bool) -> ChangeSet:
    change = ChangeSet.of(pairs, table.fields)
    return ChangeSet.of_arrow(change.arrow(), table.fields) if columns else change


class _Python:
    """The stage on the Python back end."""

    def __init__(self, stage: Stage, table: Table) -> None:
        self._stage, self._epoch = stage, 0
        self._runtime = NativeRuntime(MemoryStore(), lambda name: table.fields, backend="python")
        self._runtime.install(stage)

    def change(self, change: ChangeSet) -> ZSet:
        self._epoch += 1
        self._runtime.begin(self._epoch)
        self._runtime.fire(self._stage, "readings", change)
        with decimal.localcontext(EXACT):
            found = self._runtime.emit(self._stage).zset()
        self._runtime.commit()
        return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("view", VIEWS)
def test_rows_are_those_of_the_python_back_end(view: str, seed: int) -> None:
    stage, tables = stage_of(READINGS, VIEWS[view], "delta")
    table = tables["readings"]
    python, held, stored = _Python(stage, table), started(stage, tables), Stored(tables)
    chance, there, shown = random.Random(f"{view} {seed}"), list[Row](), 0
    for epoch in range(12):
        came = [_reading(chance) for _ in range(chance.choice((1, 2, 9)))]
        gone = [there.pop() for _ in range(min(len(there), chance.choice((0, 0, 1, 2, 6))))]
        # Some leave before they have come.
        early = [_reading(chance) for _ in range(chance.choice((0, 0, 1)))]
        pairs = [*((row, chance.choice((1, 1, 1, 3))) for row in came), *((row, -1) for row in [*gone, *early])]
        there += [*came, *early]
        chance.shuffle(there)
        chance.shuffle(pairs)
        wanted = python.change(ChangeSet.of(pairs, table.fields))
        held.fire("readings", _change([(_reading(chance), 1) for _ in range(9)], table, columns=True))
        if epoch % 2:
            held.emit()
        held.rollback()
        half = len(pairs) // 2
        held.fire("readings", _change(pairs[:half], table, columns=bool(epoch % 3)))
        if epoch % 3:
            held.emit()  # asking changes nothing
        held.fire("readings", _change(pairs[half:], table, columns=True))
        assert held.emit().zset() == wanted, epoch
        assert held.emit().zset() == wanted
        shown += sum(abs(weight) for _, weight in wanted.items())
        stored.take(held)
        held.settle()
        back = ChangeSet.of([(row, 2) for row in early], table.fields)
        wanted = python.change(back)
        held.fire("readings", back)
        assert held.emit().zset() == wanted
        stored.take(held)
        held.settle()
        if epoch % 5 == 3:
            held = _opened(stage, tables, stored)
    assert shown > 2


LONG = """SELECT v, COUNT(*) AS n, SUM(b.v) AS total, MIN(b.v) AS least FROM t PATTERN (a, b+) ORDER BY v
  WHERE {} GROUP BY k"""


@pytest.mark.parametrize("condition", ["b.rest <> 3", "b.v IS NOT NULL"])
def test_long_partitions_are_trees(condition: str) -> None:
    """Also where a run never ends, so that every row belongs to it."""
    stage, tables = stage_of("CREATE STREAM t (k INT, v INT NOT NULL, rest INT)", LONG.format(condition), "delta")
    held, table = started(stage, tables), tables["t"]
    chance, rows, shown = random.Random(1), list[int](), ZSet()
    for epoch in range(24):
        count = chance.choice((1, 1, 300))
        came = [2_000 + epoch * 10 if chance.random() < 0.4 else chance.randint(0, 2_000) for _ in range(count)]
        gone = chance.sample(rows, min(len(rows), chance.choice((0, 1, 3, 100))))
        pairs = [((7, v, v % 7), weight) for rows_, weight in ((came, 1), (gone, -1)) for v in rows_]
        rows += came
        for v in gone:
            rows.remove(v)
        rows.sort()
        held.fire("t", _change(pairs, table, columns=True))
        shown = shown + held.emit().zset()
        held.settle()
        assert shown == ZSet.of(_by_hand(rows, endless="NULL" in condition)), epoch


def _by_hand(rows: list[int], *, endless: bool) -> list[Row]:
    """The matches of (a, b+), where a is any row and b one that is not 3 modulo 7, or any."""
    found: list[Row] = []
    run: list[int] = []
    for v in rows:
        if run and not endless and v % 7 == 3:
            run = []
        run.append(v)
        if len(run) > 1:
            found.append((v, len(run), sum(run[1:]), min(run[1:])))
    return found


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("COUNT(*) AS n FROM t PATTERN (a, b+) ORDER BY at WHERE b.x > a.x", "read other rows of a match"),
        ("COUNT(*) AS n FROM t PATTERN (a, b+) ORDER BY at WHERE b[i].x > AVG(b[..i-1].x)", "read other rows of a"),
        ("COUNT(*) AS n FROM t PATTERN (a, (b, c)+) ORDER BY at WHERE b[i].x > b[i-1].x", "read other rows of a match"),
        (
            "COUNT(*) AS n FROM t PATTERN (a, b+) ORDER BY at WHERE b.x > 100 / b.big",
            "conditions of a pattern",
        ),
        ("CLASSIFIER() AS c FROM t PATTERN (a, b+) ORDER BY at", "the measure CLASSIFIER of a pattern"),
        ("SUM(d) AS c FROM t PATTERN (a, b+) ORDER BY at", "a sum of DOUBLE over the rows of a match"),
        ("COUNT(*) AS n FROM t PATTERN (a, b+) ORDER BY at SKIP TILL NEXT MATCH", "SKIP TILL NEXT MATCH"),
        ("LAST(b.x, 2) AS n FROM t PATTERN (a, b+) ORDER BY at", "rows around the first or the last one"),
    ],
)
def test_what_has_no_native_form_leaves_the_stage_to_python(sql: str, why: str) -> None:
    stage, tables = stage_of("CREATE STREAM t (at INT, x INT, big BIGINT, d DOUBLE)", f"SELECT at, {sql}", "delta")
    with pytest.raises(NotCompiled, match=why):
        emit_stage(stage, lambda name: tables[name].fields)


def test_a_measure_that_does_not_fit_is_refused_and_undone() -> None:
    with tidemill.open(":memory:", runtime="native", backend="llvm") as warehouse:
        warehouse.sql("""CREATE TABLE t (at INT, x BIGINT);
            CREATE MATERIALIZED VIEW v AS SELECT at, SUM(x) AS s FROM t PATTERN (a, b+) ORDER BY at WHERE b.x > 0""")
        warehouse.apply({"t": [(1, (1, 1)), (1, (2, 2))]})
        with pytest.raises(ArithmeticFault):
            warehouse.apply({"t": [(1, (3, 2**63 - 1))]})
        warehouse.apply({"t": [(1, (4, 3))]})
        assert warehouse.view("v").rows() == [(2, 3), (4, 6)]
        assert "compiled with LLVM" in warehouse.sql("EXPLAIN VIEW v")[0][0]
