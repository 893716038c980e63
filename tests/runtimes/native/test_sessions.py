"""GROUP BY with sessions: both back ends say what the evaluator says, whatever comes, goes, fails or is read again."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidemill
from tests.runtimes.native.harness import Harness
from tests.runtimes.native.llvm.compiled import Nothing, stage_of, started, tables_of
from tests.runtimes.native.llvm.test_emit_rows import as_if
from tests.runtimes.native.llvm.test_multisets import Stored, _change, _opened
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, WeightedRow, ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.compiler.staging import cutting
from tidemill.model.errors import ArithmeticFault, DataError, OutOfBudget
from tidemill.program.stages import PartitionEmission, SessionEmission
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.stage.emit_stage import emit_stage
from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage
from tidemill.runtimes.native.python.compile import compile_stage

DDL = "CREATE TABLE visits (who STRING, room INT, at TIMESTAMP, pages BIGINT, price DECIMAL(10,2), spent DOUBLE)"
TABLES = tables_of(DDL)
FIELDS = TABLES["visits"].fields

EXACT_VIEWS = {
    "counts": """SELECT who, COUNT(*) AS n, session_window.start AS since, session_window.end AS until
      FROM visits GROUP BY who, session_window(at, '10 minutes')""",
    "sums": """SELECT session_window(at, '10 minutes') AS s, who, SUM(pages) AS p, COUNT(pages) AS c, AVG(price) AS a
      FROM visits GROUP BY 1, who""",
    "two keys": """SELECT room, who, session_window.end AS until, SUM(price) AS p
      FROM visits GROUP BY who, room, session_window(at, '7 minutes')""",
    "no key": "SELECT session_window(at, '2 minutes') AS s, SUM(pages) AS p FROM visits GROUP BY 1",
    "hidden": "SELECT COUNT(*) AS n FROM visits GROUP BY who, session_window(at, '10 minutes')",
    "condition": """SELECT room + 1 AS r, session_window AS s, COUNT(*) FILTER (WHERE pages > 2) AS few
      FROM visits WHERE pages IS NULL OR pages < 9 GROUP BY room + 1, session_window(at, '10 minutes')
      HAVING SUM(pages) > 3 AND session_window.start < TIMESTAMP '2024-01-01 04:00:00'""",
}

VIEWS = EXACT_VIEWS | {
    "doubles": """SELECT who, session_window AS s, SUM(spent) AS x, AVG(spent) AS a, VAR_POP(spent) AS v,
      SUM(pages) AS p FROM visits GROUP BY who, session_window(at, '10 minutes')""",
}


def relation_of(sql: str) -> Relation:
    return translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation


def expected(relation: Relation, rows: ZSet) -> ZSet:
    with decimal.localcontext(EXACT):
        return evaluate(relation, {"visits": rows})


def visit(chance: Random, minutes: int = 300) -> Row:
    at = datetime(2024, 1, 1) + timedelta(minutes=chance.randint(0, minutes))
    return (
        chance.choice(("ann", "bob", None)),
        chance.choice((1, 2, None)),
        None if chance.random() < 0.05 else at,
        chance.choice((None, 1, 2, 5, 9)),
        None if chance.random() < 0.1 else Decimal(chance.randint(-999, 999)).scaleb(-2),
        chance.choice((0.1, 0.25, -3.5, 1e6, None)),
    )


def changes(chance: Random, rows: ZSet, most: int, minutes: int = 300) -> ZSet:
    """Some rows come, some of them twice, and some of those that are there go."""
    change = ZSet()
    for _ in range(chance.randint(0, most)):
        change.add(visit(chance, minutes), chance.choice((1, 1, 2)))
    held = sorted(rows.expand(), key=repr)
    for row in chance.sample(held, min(len(held), chance.choice((0, 1, most, 2 * most)))):
        change.add(row, -1)
    return change


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("view", VIEWS)
def test_sessions_in_python_are_those_of_the_evaluator(view: str, seed: int, elsewhere: bool) -> None:
    chance, relation = Random(seed), relation_of(VIEWS[view])
    program = compile_view("v", relation, TABLES, "delta")
    (stage,) = program.stages
    assert isinstance(stage.finish, SessionEmission)
    harness = Harness(program, TABLES, elsewhere=elsewhere)
    rows = ZSet.of(visit(chance) for _ in range(40))
    harness.seed({"visits": rows})
    total = harness.load()
    assert total == expected(relation, rows)
    for _ in range(25):
        change = changes(chance, rows, 4)
        rows = rows + change
        total = total + harness.apply({"visits": change})
        assert total == expected(relation, rows)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("view", VIEWS)
def test_sessions_as_machine_code_are_those_of_the_evaluator(view: str, seed: int) -> None:
    chance, relation = Random(seed), relation_of(VIEWS[view])
    stage, tables = stage_of(DDL, VIEWS[view], "delta")
    many, few, stored = started(stage, tables), started(stage, tables), Stored(tables)
    rows = total = ZSet()
    for epoch in range(30):
        change = changes(chance, rows, chance.choice((2, 40)))
        rows = rows + change
        wanted = expected(relation, rows) - total
        pairs = list(change.items())
        for runner, is_many in ((many, True), (few, False)):
            with as_if(many=is_many):
                runner.fire("visits", _change([(visit(chance), 1) for _ in range(9)], TABLES["visits"], columns=True))
                runner.rollback()
                runner.fire("visits", _change(pairs, TABLES["visits"], columns=is_many))
                assert runner.emit().zset() == wanted
                assert runner.emit().zset() == wanted  # asking changes nothing
        total = total + wanted
        stored.take(many)
        many.settle()
        few.settle()
        if epoch % 5 == 4:
            few = _opened(stage, tables, stored)


@pytest.mark.parametrize("doubles", [False, True])
@pytest.mark.parametrize("key", ["who", "NULL", None])
def test_long_sessions_split_and_join(key: str | None, doubles: bool) -> None:
    """Sessions of more than 64 instants are in trees; they fall into many parts and grow together again."""
    by = "" if key is None else "who, "
    sql = f"""SELECT {by}session_window AS s, COUNT(*) AS n, SUM(pages) AS p{", SUM(spent) AS x" * doubles} FROM visits
      GROUP BY {by}session_window(at, '1 minute')"""
    chance, relation = Random(1), relation_of(sql)
    stage, tables = stage_of(DDL, sql, "delta")
    runner, harness = started(stage, tables), Harness(compile_view("v", relation, TABLES, "delta"), TABLES)
    harness.load()
    name = None if key == "NULL" else "ann"
    base = [(name, 1, datetime(2024, 1, 1) + timedelta(seconds=30 * i), i, None, i / 8) for i in range(900)]
    chance.shuffle(base)
    rows = total = ZSet()
    steps = [
        [(row, 1) for row in base],
        [(row, -1) for row in base if row[3] % 3],  # every one is alone
        [(row, 1) for row in base if row[3] % 3 == 1],  # the next ones join pairs
        [(row, 1) for row in base if row[3] % 3 == 2],
        [(row, -1) for row in base if 300 <= row[3] < 600],
        [(row, -1) for row in base if row[3] < 300 or row[3] >= 600],
    ]
    for pairs in steps:
        change = ZSet(pairs)
        rows = rows + change
        wanted = expected(relation, rows) - total
        total = total + wanted
        with as_if(many=True):
            runner.fire("visits", _change(pairs, TABLES["visits"], columns=True))
            assert runner.emit().zset() == wanted
            runner.rollback()
            runner.fire("visits", _change(pairs[::-1], TABLES["visits"], columns=True))
            assert runner.emit().zset() == wanted
            runner.settle()
        assert harness.apply({"visits": change}) == wanted
    assert not total
    assert len(runner) == 0


def test_a_change_in_a_long_session_reads_few_instants(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemill.runtimes.native.operators import sessions

    relation = relation_of(EXACT_VIEWS["sums"])
    harness = Harness(compile_view("v", relation, TABLES, "delta"), TABLES)
    row = ("ann", 1, datetime(2024, 1, 1), 1, Decimal(1), 1.0)
    rows = ZSet.of((*row[:2], row[2] + timedelta(minutes=i), *row[3:]) for i in range(4000))
    harness.seed({"visits": rows})
    harness.load()
    read: list[datetime] = []
    ascending = sessions.OrderedSums.ascending

    def counted(self: Any, lower: Any = None) -> Any:
        for pair in ascending(self, lower):
            read.append(pair[0])
            yield pair

    monkeypatch.setattr(sessions.OrderedSums, "ascending", counted)
    middle = [(*row[:2], row[2] + timedelta(minutes=2000 + i), *row[3:]) for i in range(15)]
    change = harness.apply({"visits": ZSet(dict.fromkeys(middle, -1))})
    assert len(change) == 3, "the session has split"
    assert len(read) <= len(middle)
    assert len(harness.apply({"visits": ZSet({middle[7]: 1})})) == 3, "and is one again"


def test_a_session_whose_end_is_no_timestamp_is_refused() -> None:
    sql = "SELECT who, COUNT(*) AS n FROM visits GROUP BY who, session_window(at, '10 minutes')"
    row = ("ann", 1, datetime(9999, 12, 31, 23, 55), 1, None, None)
    harness = Harness(compile_view("v", relation_of(sql), TABLES, "delta"), TABLES)
    harness.load()
    with pytest.raises(ArithmeticFault):
        harness.run({"visits": ZSet({row: 1})})
    stage, tables = stage_of(DDL, sql, "delta")
    runner = started(stage, tables)
    with pytest.raises(ArithmeticFault):
        runner.fire("visits", _change([(row, 1)], TABLES["visits"], columns=True))
    runner.rollback()
    runner.fire("visits", _change([((*row[:2], datetime(2024, 1, 1), *row[3:]), 1)], TABLES["visits"], columns=True))
    assert runner.emit().zset() == ZSet({("ann", 1): 1})


@pytest.mark.parametrize(
    ("relation", "sql", "fused"),
    [
        ("TABLE", "SELECT k, SUM(x) AS s FROM t GROUP BY k, session_window(at, '1 minute')", True),
        ("STREAM", "SELECT k, COUNT(*) AS s FROM t GROUP BY k, session_window(at, '1 minute')", True),
        # Rows of a stream that leave before they have come must not count off others at the same instant.
        ("STREAM", "SELECT k, SUM(x) AS s FROM t GROUP BY k, session_window(at, '1 minute')", True),
        ("STREAM", "SELECT k + 1 AS l, COUNT(*) AS s FROM t GROUP BY k + 1, session_window(at, '1 minute')", True),
        ("TABLE", "SELECT k, MAX(x) AS s FROM t GROUP BY k, session_window(at, '1 minute')", False),
        ("TABLE", "SELECT k, COUNT(DISTINCT x) AS s FROM t GROUP BY k, session_window(at, '1 minute')", False),
    ],
)
def test_what_is_one_stage_with_its_sessions(relation: str, sql: str, fused: bool) -> None:
    tables = tables_of(f"CREATE {relation} t (k INT, at TIMESTAMP, x BIGINT)")
    view = translate(sql, {name: table.fields for name, table in tables.items()}, name="v").relation
    stages = compile_view("v", view, tables, "delta").stages
    assert any(isinstance(stage.finish, SessionEmission) for stage in stages) == fused
    assert any(isinstance(stage.finish, PartitionEmission) for stage in stages) != fused
    harness, chance = Harness(compile_view("v", view, tables, "delta"), tables), Random(2)
    harness.load()
    rows = total = ZSet()
    for _ in range(30):
        change = ZSet()
        for _ in range(4):
            at = datetime(2024, 1, 1) + timedelta(seconds=20 * chance.randint(0, 30))
            row = (chance.choice((1, None)), at, chance.choice((1, 2)))
            if relation == "STREAM" or rows.get(row, 0) + change.get(row, 0) > 0:
                change.add(row, chance.choice((1, -1)))
            else:
                change.add(row, 1)
        rows = rows + change
        total = total + harness.apply({"t": change})
        assert total == evaluate(view, {"t": rows})


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_sums_over_a_stream_whose_rows_leave_before_they_have_come(tmp_path: Path, backend: str) -> None:
    ddl = "CREATE STREAM s (k BIGINT, at TIMESTAMP, x BIGINT, y STRING)"
    query = """SELECT k, session_window.start AS a, COUNT(*) AS n, SUM(x) AS t FROM s WHERE y <> 'b'
      GROUP BY k, session_window(at, '2 minutes')"""
    relation = translate(query, {"s": tables_of(ddl)["s"].fields}, name="v").relation
    chance, rows = Random(8), ZSet()
    for opening in range(3):
        with tidemill.open(tmp_path / "w", runtime="native", backend=backend) as wh:
            if not opening:
                wh.sql(f"{ddl}; CREATE MATERIALIZED VIEW v AS {query}")
            for _ in range(6):
                change = ZSet()
                for _ in range(chance.choice((5, 150))):
                    at = datetime(2024, 1, 1) + timedelta(seconds=30 * chance.randint(0, 90))
                    row = (chance.choice((1, 2, None)), at, chance.choice((1, 2, None)), chance.choice("ab"))
                    change.add(row, chance.choice((1, 1, -1)))
                wh.apply({"s": [(weight, row) for row, weight in change.items() if weight]})
                rows = rows + change
                assert ZSet.of(tuple(row) for row in wh.view("v").rows()) == evaluate(relation, {"s": rows})
            if backend == "llvm":
                assert "compiled with LLVM" in str(wh.sql("EXPLAIN VIEW v")[0])
    assert min(rows.values()) < 0, "some have left that have not come"


WAREHOUSE = """
    CREATE TABLE visits (id BIGINT PRIMARY KEY, who BIGINT, at TIMESTAMP, pages BIGINT);
    CREATE MATERIALIZED VIEW v AS SELECT who, session_window.start AS a, session_window.end AS b, COUNT(*) AS n,
      SUM(pages) AS p FROM visits GROUP BY who, session_window(at, '10 minutes');
"""


def _rows(chance: Random, ids: Sequence[int]) -> list[Row]:
    start = datetime(2024, 1, 1)
    return [
        (i, chance.choice((1, 2, 3, None)), start + timedelta(minutes=chance.randint(0, 900)), chance.randint(0, 9))
        for i in ids
    ]


@pytest.mark.parametrize("backend", ["python", "llvm", "auto"])
def test_a_warehouse_that_is_reopened_and_refuses_epochs(tmp_path: Path, backend: str) -> None:
    chance, held, last = Random(3), dict[int, Row](), 0
    for _ in range(4):
        with tidemill.open(tmp_path / "w", runtime="native", backend=backend) as wh:
            if not last:
                wh.sql(WAREHOUSE)
            for _ in range(4):
                came = _rows(chance, range(last, last + chance.choice((3, 120))))
                last += len(came)
                gone = [held.pop(i) for i in chance.sample(sorted(held), min(len(held), 30))]
                with pytest.raises(DataError):
                    wh.apply({"visits": [*((1, row) for row in came), (-1, (10**6, 1, None, 1))]})
                wh.apply({"visits": [*((1, row) for row in came), *((-1, row) for row in gone)]})
                held |= {row[0]: row for row in came}
                assert wh.view("v").verify()
            explained = "\n".join(str(row[0]) for row in wh.sql("EXPLAIN VIEW v"))
            assert "SESSIONS" in explained
            assert "keeps map v/instants[" in explained
            assert "keeps map v/sessions[" in explained
            if backend == "llvm":
                assert "compiled with LLVM" in explained
    wanted = evaluate(
        translate(
            "SELECT who, session_window.start AS a, session_window.end AS b, COUNT(*) AS n, SUM(pages) AS p "
            "FROM visits GROUP BY who, session_window(at, '10 minutes')",
            {"visits": tables_of(WAREHOUSE)["visits"].fields},
            name="v",
        ).relation,
        {"visits": ZSet.of(held.values())},
    )
    with tidemill.open(tmp_path / "w", runtime="native", backend=backend) as wh:
        assert ZSet.of(tuple(row) for row in wh.view("v").rows()) == wanted


def test_state_that_was_stored_before_sessions_had_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view over a table is rebuilt; one over a stream, whose rows are gone, is kept with the program that it had."""
    rows = [(1, datetime(2024, 1, 1) + timedelta(minutes=i)) for i in (0, 5, 30)]
    query = "SELECT k, session_window.start AS a, COUNT(*) AS n FROM {} GROUP BY k, session_window(at, '10 minutes')"
    with monkeypatch.context() as before, tidemill.open(tmp_path / "w", runtime="native") as wh:
        before.setattr(cutting, "session_keys", lambda node: None)
        wh.sql("CREATE STREAM s (k BIGINT, at TIMESTAMP); CREATE TABLE t (k BIGINT, at TIMESTAMP)")
        for name in "st":
            wh.sql(f"CREATE MATERIALIZED VIEW of_{name} AS {query.format(name)}")
            wh.apply({name: [(1, row) for row in rows[:2]]})
        first = {name: _stages(wh, f"of_{name}") for name in "st"}
    for _ in range(2):
        with tidemill.open(tmp_path / "w", runtime="native") as wh:
            assert _stages(wh, "of_s") == first["s"] == 2
            assert (_stages(wh, "of_t"), first["t"]) == (1, 2)
            for name in "st":
                wh.apply({name: [(1, rows[2])]})
                found = sorted(tuple(row) for row in wh.view(f"of_{name}").rows())
                assert [row[0] for row in found] == [1, 1]
                assert found[0] == (1, rows[0][1], 2)
                wh.apply({name: [(-1, rows[2])]})
            wh.sql("CREATE TABLE IF NOT EXISTS other (n INT)")  # writes the catalog


def _stages(wh: tidemill.Warehouse, view: str) -> int:
    return sum(str(row[0]).count("stage ") for row in wh.sql(f"EXPLAIN VIEW {view}"))


def test_a_view_over_rows_that_are_there_already() -> None:
    rows = _rows(Random(5), range(5000))
    for backend in ("llvm", "python"):
        with tidemill.open(":memory:", runtime="native", backend=backend) as wh:
            table, view = WAREHOUSE.split(";")[:2]
            wh.sql(table)
            wh.apply({"visits": [(1, row) for row in rows]})
            wh.sql(view)
            assert wh.view("v").verify()
            wh.apply({"visits": [(-1, row) for row in rows[::2]]})
            assert wh.view("v").verify()


def test_events_one_by_one() -> None:
    rows = _rows(Random(6), range(400))
    with tidemill.open(":memory:", runtime="native", backend="llvm") as wh:
        wh.sql("CREATE STREAM s (k BIGINT, at TIMESTAMP)")
        wh.sql("""CREATE MATERIALIZED VIEW v AS SELECT k, session_window.start AS a, COUNT(*) AS n FROM s
            GROUP BY k, session_window(at, '5 minutes')""")
        feed = wh.feed("s")
        for _, k, at, _ in rows:
            feed(1, k, at)
        for _, k, at, _ in rows[::3]:
            feed(-1, k, at)
        wh.flush()
        relation = translate(
            "SELECT k, session_window.start AS a, COUNT(*) AS n FROM s GROUP BY k, session_window(at, '5 minutes')",
            {"s": tables_of("CREATE STREAM s (k BIGINT, at TIMESTAMP)")["s"].fields},
            name="v",
        ).relation
        left: list[WeightedRow] = [
            *(((k, at), 1) for _, k, at, _ in rows),
            *(((k, at), -1) for _, k, at, _ in rows[::3]),
        ]
        assert ZSet.of(tuple(row) for row in wh.view("v").rows()) == evaluate(relation, {"s": ZSet.summed(left)})


def test_memory_is_counted_and_an_epoch_beyond_the_budget_is_undone() -> None:
    stage, tables = stage_of(DDL, EXACT_VIEWS["sums"], "delta")
    memory = Memory()
    finish = compile_stage(stage, lambda name: FIELDS).finish
    code = emit_stage(stage, lambda name: FIELDS)
    runner = LlvmStage(code, finish, Nothing(tables), memory, StringDictionary(memory))
    runner.prepare()
    runner.settle()
    chance = Random(7)
    first = [(visit(chance), 1) for _ in range(50)]
    runner.fire("visits", _change(first, TABLES["visits"], columns=True))
    runner.settle()
    before, sizes = memory.used, runner.sizes()
    assert sizes.keys() == {"v/instants", "v/sessions"}
    assert all(size for _, size in sizes.values())
    memory.allow(1 << 16)
    large = [(visit(chance, 500_000), 1) for _ in range(20_000)]
    with pytest.raises(OutOfBudget):
        runner.fire("visits", ChangeSet.of(large, FIELDS))
    memory.allow(None)
    runner.rollback()
    assert {name: count for name, (count, _) in runner.sizes().items()} == {n: c for n, (c, _) in sizes.items()}
    more = [(visit(chance), 1) for _ in range(50)]
    runner.fire("visits", _change(more, TABLES["visits"], columns=True))
    relation = relation_of(EXACT_VIEWS["sums"])
    old, new = (expected(relation, ZSet.summed(pairs)) for pairs in (first, first + more))
    assert runner.emit().zset() == new - old
    runner.free()
    assert memory.used < before
