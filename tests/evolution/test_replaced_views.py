"""Views with another query: those that read them, their history and their listeners see one change."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest.mock import patch

import pytest

import tidemill
from tests.held_lock import Watched
from tests.interruptions import Lines
from tidemill.engine.check import check
from tidemill.engine.definitions.replacing.pinned_view import PinnedView
from tidemill.engine.definitions.replacing.prepared_columns import PreparedColumns
from tidemill.engine.definitions.replacing.prepared_views import PreparedView
from tidemill.engine.epochs.pipeline import Pipeline
from tidemill.model.errors import EpochGone, FellBehind, Unsupported
from tidemill.program.changed_filters import changed_filter

Row = tuple[Any, ...]

TABLES = "CREATE TABLE t (k INT, n INT, z STRING NOT NULL); CREATE TABLE s (k INT, m INT);"
READERS = """
CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(n) AS n, COUNT(*) AS c FROM v GROUP BY k;
CREATE MATERIALIZED VIEW pairs AS SELECT a.k, a.n, b.n AS m FROM v AS a JOIN v AS b ON a.k = b.k AND a.n < b.n;
CREATE MATERIALIZED VIEW joined AS SELECT v.k, v.n, s.m FROM v LEFT JOIN s ON v.k = s.k;
CREATE MATERIALIZED VIEW every AS SELECT * FROM v;
CREATE MATERIALIZED VIEW top AS SELECT MAX(n) AS n FROM sums;
"""
QUERIES = (
    "SELECT k, n FROM t WHERE {}",
    "SELECT k, n FROM t WHERE {} AND k IS NOT NULL",
    "SELECT DISTINCT k, n FROM t WHERE {}",
    "SELECT k, MAX(n) AS n FROM t WHERE {} GROUP BY k",
    "SELECT k, MAX(n) AS n FROM t WHERE {} GROUP BY k HAVING COUNT(*) > 1",
    "SELECT k, MAX(n) AS n, COUNT(*) AS c FROM t WHERE {} GROUP BY k",
    "SELECT k, MAX(n) AS n, COUNT(*) AS c, SUM(n) AS s, MIN(z) AS z FROM t WHERE {} GROUP BY k HAVING MIN(z) < '2'",
    "SELECT t.k, t.n FROM t JOIN s ON t.k = s.k WHERE {}",
    "SELECT k, n FROM t WHERE {} UNION ALL SELECT k, m FROM s",
    "SELECT k, n FROM (SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n, z) AS r FROM t WHERE {}) WHERE r < 3",
    "SELECT t.k, m AS n FROM t LEFT JOIN s ON t.k = s.k AND m > 20 WHERE {}",
    "SELECT k, n, z FROM t WHERE {}",
    "SELECT z, n, k FROM t WHERE {}",
    "SELECT k, n, z, n * 2 - k AS m, n > 7 AS big FROM t WHERE {}",
    "SELECT k, MAX(n) AS n, COUNT(*) AS c, COUNT(*) + MAX(n) AS m FROM t WHERE {} GROUP BY k",
    "SELECT k, n, MAX(n) OVER (PARTITION BY z) AS high FROM t WHERE {}",
)
FILTERS = ("n > 10", "n > 20 AND z <> '1'", "n IS NULL", "n % 3 = 1", "z = '2' OR n < 5", "TRUE", "n BETWEEN 8 AND 30")
STRATEGIES = ("auto", "delta", "viewlet", "joingraph", "recompute")


def changes(chance: random.Random, wh: tidemill.Warehouse) -> dict[str, list[tuple[int, Row]]]:
    """Some rows that come, and some that go."""
    rows = wh.table("t").rows()
    gone = chance.sample(rows, min(len(rows), chance.randrange(3)))
    come = [(chance.randrange(5), chance.choice([None, *range(40)]), str(chance.randrange(3))) for _ in range(4)]
    return {
        "t": [*((1, row) for row in come), *((-1, row) for row in gone)],
        "s": [(1, (chance.choice([None, *range(6)]), chance.randrange(50)))],
    }


def write_some(chance: random.Random, wh: tidemill.Warehouse) -> None:
    """A few epochs, or none."""
    for _ in range(chance.randrange(3)):
        wh.apply(changes(chance, wh))


def is_right(wh: tidemill.Warehouse, told: object = "") -> None:
    for one in wh.verify(against="evaluator"):
        assert one.ok, (told, one)


@contextmanager
def written_meanwhile(write: Callable[[], None]) -> Iterator[None]:
    """Call ``write`` while a view is prepared: after its first rows, and before it is swapped in."""
    with ExitStack() as patched:
        for kind, name in ((PinnedView, "fill"), (PinnedView, "step"), (PreparedView, "run"), (PreparedColumns, "run")):
            original = getattr(kind, name)

            def and_write(self: Any, *given: Any, original: Callable[..., Any] = original) -> Any:
                found = original(self, *given)
                write()
                return found

            patched.enter_context(patch.object(kind, name, and_write))
        yield


def replace_often(place: Path | str, seed: int, steps: int, backend: str = "python") -> int:
    """Replace a view that others read by random ones, with changes between and meanwhile; all answers are checked.
    Returns how many were replaced."""
    chance, done = random.Random(seed), 0
    history: dict[int, tuple[list[str], list[Row]]] = {}

    def open_again() -> tidemill.Warehouse:
        return tidemill.open(place, runtime="native", backend=backend)

    wh = open_again()
    try:
        wh.sql(TABLES)
        for _ in range(5):
            wh.apply(changes(chance, wh))
        options = f"WITH (strategy = '{chance.choice(STRATEGIES)}')"
        wh.sql(f"CREATE MATERIALIZED VIEW v {options} AS {QUERIES[0].format(FILTERS[0])}")
        wh.sql(READERS)
        shape, bound, query = QUERIES[0], FILTERS[0], QUERIES[0].format(FILTERS[0])
        for turn in range(steps):
            # Now and then a column that is made of others.
            if query.startswith("SELECT k, n") and "UNION" not in query and chance.random() < 0.3:
                query = query.replace("SELECT k, n", f"SELECT k, n, n * 2 - k AS m{turn}", 1)
            else:
                shape = shape if chance.random() < 0.3 else chance.choice(QUERIES)
                bound = bound if chance.random() < 0.4 else chance.choice(FILTERS)
                query = shape.format(bound).replace("WHERE n", "WHERE t.n").replace("t.n OVER", "n OVER")
            history[wh.epoch] = [f.name for f in wh.view("v").fields], sorted(wh.view("v").rows(), key=str)
            before = {name: wh.view(name).rows() for name in ("sums", "top")}
            since = wh.epoch
            statement = f"ALTER VIEW v AS {query}"
            if chance.random() < 0.3:
                options = f"WITH (strategy = '{chance.choice(STRATEGIES)}')"
                statement = f"CREATE OR REPLACE MATERIALIZED VIEW v {options} AS {query}"
            with written_meanwhile(partial(write_some, chance, wh)):
                wh.sql(statement)
            done += 1
            is_right(wh, (seed, statement))
            for name, rows in before.items():
                summed = {row: rows.count(row) for row in rows}
                for weight, row in wh.view(name).changes(since=since):
                    summed[row] = summed.get(row, 0) + weight
                now = wh.view(name).rows()
                assert {r: w for r, w in summed.items() if w} == {r: now.count(r) for r in now}, (seed, statement)
            write_some(chance, wh)
            is_right(wh, (seed, statement))
            if place != ":memory:" and chance.random() < 0.3:
                wh.close()
                wh = open_again()
                is_right(wh, (seed, "opened again", statement))
        for epoch, (names, rows) in history.items():
            then = wh.at(epoch).view("v")
            assert [f.name for f in then.fields] == names
            assert sorted(then.rows(), key=str) == rows, (seed, epoch)
            assert len(wh.sql(f"SELECT * FROM v VERSION AS OF {epoch}").rows()) == len(rows)
    finally:
        wh.close()
    return done


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_random_replacements(tmp_path: Path, place: str) -> None:
    seed = random.randrange(1 << 32)
    replace_often(":memory:" if place == "memory" else tmp_path / "w", seed, 6)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_many_random_replacements(tmp_path: Path, backend: str) -> None:
    first = random.randrange(1 << 32)
    done = 0
    for seed in range(first, first + 40):
        done += replace_often(":memory:", seed, 12, backend)
        done += replace_often(tmp_path / f"{seed}", seed, 8, backend)
    print(f"{done} replacements on {backend}")


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(TABLES)
        wh.apply({"t": [(1, (i % 5, i, str(i % 3))) for i in range(30)], "s": [(1, (i, i)) for i in range(5)]})
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, n FROM t WHERE n > 10")
        yield wh


def test_a_filter_is_a_small_step(wh: tidemill.Warehouse) -> None:
    """Programs that differ in a filter are found to, whatever else the view does with the rows."""
    wh.sql("CREATE MATERIALIZED VIEW w AS SELECT k, SUM(n) AS n FROM t WHERE n > 10 AND z = '1' GROUP BY k")
    wh.sql("CREATE MATERIALIZED VIEW x AS SELECT k, SUM(n) AS n FROM t WHERE n > 20 GROUP BY k")
    wh.sql("CREATE MATERIALIZED VIEW y AS SELECT k, SUM(n) AS m FROM t GROUP BY k")
    programs = {name: wh._engine.catalog.view(name).full_program for name in "wxy"}
    from tidemill.program.renaming import renamed

    found = changed_filter(programs["w"], renamed(programs["x"], {"x": "w"}))
    assert found is not None and found.relation == "t" and (len(found.before), len(found.after)) == (2, 1)
    assert changed_filter(programs["w"], programs["w"]) is None
    assert changed_filter(programs["w"], renamed(programs["y"], {"y": "w"})) is None


def test_what_readers_need_is_told(wh: tidemill.Warehouse) -> None:
    wh.sql(READERS)
    with pytest.raises(Unsupported, match="sums reads n; pairs reads n; joined reads n; every reads n") as refused:
        wh.sql("ALTER VIEW v AS SELECT k, CAST(n AS BIGINT) AS n FROM t")
    assert "CASCADE" in str(refused.value)
    assert wh.sql("ALTER VIEW v AS SELECT k FROM t CASCADE").message == (
        "altered view v; dropped sums, pairs, joined, every, top"
    )
    assert list(wh.views()) == ["v"]
    is_right(wh)


def test_a_column_that_nobody_reads(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW ks AS SELECT k, COUNT(*) AS c FROM v GROUP BY k")
    with wh.subscribe("ks", timeout=0.1) as heard:
        wh.sql("ALTER VIEW v AS SELECT k, CAST(n AS STRING) AS n, z FROM t WHERE n > 10")
        assert list(heard) == []
    is_right(wh)
    wh.apply({"t": [(1, (1, 99, "1"))]})
    is_right(wh)


def test_no_view_reads_itself(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW w AS SELECT k, n FROM v")
    with pytest.raises(Unsupported, match='view "v" cannot read "w"'):
        wh.sql("ALTER VIEW v AS SELECT k, n FROM w")


def test_inputs_that_come_later(wh: tidemill.Warehouse, tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as stored:
        for one in (wh, stored):
            if one is stored:
                one.sql(f"{TABLES} CREATE MATERIALIZED VIEW v AS SELECT k, n FROM t WHERE n > 10")
            one.sql("CREATE MATERIALIZED VIEW w AS SELECT k, COUNT(*) AS c FROM v GROUP BY k")
            one.sql("CREATE TABLE late (k INT, n INT); INSERT INTO late VALUES (1, 2), (3, 4)")
            one.sql("CREATE MATERIALIZED VIEW big AS SELECT k, n FROM late WHERE n > 2")
            one.sql("ALTER VIEW v AS SELECT k, n FROM big")
            assert one.view("w").rows() == [(3, 1)]
            one.sql("INSERT INTO late VALUES (3, 9), (5, 9)")
            assert sorted(one.view("w").rows()) == [(3, 2), (5, 1)]
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as stored:
        stored.sql("INSERT INTO late VALUES (5, 9)")
        assert sorted(stored.view("w").rows()) == [(3, 2), (5, 2)]
        is_right(stored)


def test_rows_of_before_have_the_columns_of_before(wh: tidemill.Warehouse) -> None:
    before = wh.epoch
    wh.sql("ALTER VIEW v AS SELECT k, n + 1 AS o FROM t WHERE n > 28")
    assert wh.sql(f"SELECT SUM(n) AS n FROM v VERSION AS OF {before}").rows() == [(sum(range(11, 30)),)]
    assert wh.sql("SELECT o FROM v").rows() == [(30,)]
    assert [f.name for f in wh.at(before).view("v").fields] == ["k", "n"]
    with pytest.raises(FellBehind):
        wh.view("v").batches(since=before)
    assert wh.view("v").batches(since=wh.epoch) == []
    with pytest.raises(EpochGone):
        wh.at(wh.epoch + 1)


def test_deferred_views(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS SELECT k, SUM(n) AS n FROM v GROUP BY k")
    wh.sql("CREATE MATERIALIZED VIEW after AS SELECT MAX(n) AS n FROM late")
    with pytest.raises(Unsupported, match="is refreshed later"):
        wh.sql("ALTER VIEW v AS SELECT k, n, z FROM t")
    for query in ("SELECT k, n FROM t WHERE n > 20", "SELECT k, MAX(n) AS n FROM t GROUP BY k", "SELECT k, n FROM t"):
        wh.sql(f"ALTER VIEW v AS {query}")
        wh.apply({"t": [(1, (7, 50, "1"))]})
        wh.view("late").refresh()
        is_right(wh, query)
    wh.apply({"t": [(1, (7, 51, "1"))]})
    wh.sql("ALTER VIEW late AS SELECT k, SUM(n) AS n FROM v WHERE n > 30 GROUP BY k")
    is_right(wh)
    wh.sql("DROP VIEW after")
    wh.sql("ALTER VIEW v AS SELECT k, n, z FROM t WHERE n > 25")
    wh.view("late").refresh()
    is_right(wh)


MEANWHILE = (
    "ALTER TABLE t ADD COLUMN x INT DEFAULT 7",
    "CREATE MATERIALIZED VIEW new AS SELECT k, COUNT(*) AS c FROM v GROUP BY k",
    "DROP VIEW sums",
    "ALTER TABLE s RENAME COLUMN m TO p",
    "ALTER VIEW v AS SELECT k, n FROM t WHERE n > 15",
)
REPLACED = (
    "ALTER VIEW v AS SELECT k, n FROM t WHERE n > 20",
    "ALTER VIEW v AS SELECT k, MAX(n) AS n, COUNT(*) AS c FROM t GROUP BY k",
    "ALTER VIEW v AS SELECT t.k, n, z FROM t JOIN s ON t.k = s.k",
)


@pytest.mark.parametrize("statement", REPLACED)
@pytest.mark.parametrize("other", MEANWHILE)
def test_definitions_that_change_meanwhile(wh: tidemill.Warehouse, statement: str, other: str) -> None:
    """What was computed over others is computed again."""
    wh.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(n) AS n FROM v GROUP BY k")
    left = [other]

    def once() -> None:
        if left:
            wh.sql(left.pop())
            wh.apply({"t": [(1, (1, 40, "1", *([7] if "ADD COLUMN" in other else [])))]})

    with written_meanwhile(once):
        wh.sql(statement)
    assert not left
    is_right(wh)
    assert wh.view("v").definition.endswith(statement.partition(" AS ")[2])


@pytest.mark.parametrize("files", [0, 10_000])
def test_others_write_while_a_view_is_replaced(tmp_path: Path, files: int) -> None:
    """They do not wait until it is computed, and all answers are right, those of earlier epochs too."""
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(f"{TABLES} CREATE MATERIALIZED VIEW v AS SELECT k, n FROM t WHERE n > 10; {READERS}")
        wh.apply({"t": [(1, (i % 5, i, str(i % 3))) for i in range(300)], "s": [(1, (i, i)) for i in range(5)]})
        done, then = Event(), wh.epoch
        before, chance = sorted(wh.view("v").rows()), random.Random(1)

        def write() -> None:
            while not done.is_set():
                wh.apply({"t": [(1, (chance.randrange(5), chance.randrange(60), "1"))]})
                time.sleep(0.002)

        thread = Thread(target=write)
        with patch("tidemill.engine.definitions.replacing.pinned_view.FILE_ROWS", files):
            thread.start()
            try:
                for statement in REPLACED:
                    for other in (statement, "ALTER VIEW v AS SELECT k, n FROM t WHERE n > 10"):
                        wh.sql(other)
            finally:
                done.set()
                thread.join()
        is_right(wh)
        assert wh.epoch > then + 2 * len(REPLACED)
        assert sorted(wh.at(then).view("v").rows()) == before
        for epoch in range(then, wh.epoch, 7):
            assert len(wh.at(epoch).view("v").rows()) == len(wh.sql(f"SELECT * FROM v VERSION AS OF {epoch}").rows())
        wh.sql("ALTER VIEW v AS SELECT k, n, z FROM t WHERE n > 12")
        wh.compact()
        assert sorted(wh.at(then).view("v").rows()) == before
        wh.vacuum(keep=1)
        wh.compact()
        is_right(wh)
    assert check(tmp_path / "w", full=True).ok
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.apply({"t": [(1, (1, 50, "2"))]})
        is_right(wh)


@pytest.mark.parametrize("statement", REPLACED)
def test_what_is_done_while_writers_wait(
    wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """With the lock only the last few rows are taken in; readers have been told all else before."""
    wh.sql(READERS)
    wh.apply({"t": [(1, (i % 5, i, str(i % 3))) for i in range(300)]})
    watched, rows = Watched(wh, monkeypatch), []
    original = Pipeline.walk

    def walk(self: Pipeline, changes: Any, *given: Any, **named: Any) -> Any:
        rows.append((sum(change.rows for change in changes.values()), watched.held))
        return original(self, changes, *given, **named)

    watched.watch(PinnedView, "fill")
    watched.watch(PinnedView, "step")
    monkeypatch.setattr(Pipeline, "walk", walk)
    left = [3]

    def write() -> None:
        if left:
            wh.apply({"t": [(1, (1, 40 + i, "1")) for i in range(left.pop())]})

    with written_meanwhile(write):
        wh.sql(statement)
    assert [held for _, held in watched.calls] == [False]
    assert [count for count, held in rows if held] == [3]  # those that were written meanwhile, by their writer
    assert [count for count, held in rows if not held][-1] == 3
    is_right(wh)


def test_rows_that_never_leave(wh: tidemill.Warehouse) -> None:
    """A view over one that only grew is made for that: rows that leave it at once would be missed."""
    wh.sql("CREATE TABLE log (k INT, n INT) APPEND ONLY; INSERT INTO log VALUES (1, 5), (1, 9), (2, 7)")
    wh.sql("CREATE MATERIALIZED VIEW grown AS SELECT k, n FROM log WHERE n > 4")
    wh.sql("CREATE MATERIALIZED VIEW high AS SELECT k, MAX(n) AS n FROM grown GROUP BY k")
    with pytest.raises(Unsupported, match="high"):
        wh.sql("ALTER VIEW grown AS SELECT k, n FROM log WHERE n < 9")
    with pytest.raises(Unsupported, match="high"):
        wh.sql("ALTER VIEW grown AS SELECT DISTINCT k, n FROM log")
    wh.sql("ALTER VIEW grown AS SELECT k, n FROM log WHERE n > 3")
    wh.sql("INSERT INTO log VALUES (2, 4), (3, 4)")
    is_right(wh)


OVER_GROWING = (
    "SELECT x % 2 AS odd, MAX(x) AS x FROM p WHERE x < {} GROUP BY x % 2",
    "SELECT p.id, c.n FROM p JOIN c ON p.id = c.p WHERE p.x > {}",
    "SELECT p.x, COUNT(c.n) AS n FROM p LEFT JOIN c ON p.id = c.p WHERE p.x > {} GROUP BY p.x",
    "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS r FROM p WHERE x > {}) WHERE r < 3",
)


@pytest.mark.parametrize("strategy", ["delta", "viewlet"])
@pytest.mark.parametrize("query", OVER_GROWING)
def test_another_filter_over_rows_that_never_leave(query: str, strategy: str) -> None:
    """Triggers for these do not take rows back, nor look for rows that refer to one that comes."""
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE p (id INT PRIMARY KEY, x INT, k INT) APPEND ONLY")
        wh.sql("CREATE TABLE c (id INT PRIMARY KEY, p INT NOT NULL REFERENCES p, n INT)")
        wh.apply({"p": [(1, (i, i % 9, i % 2)) for i in range(20)], "c": [(1, (i, i % 15, i)) for i in range(20)]})
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {query.format(5)}")
        for number, bound in enumerate((3, 7, 5), start=20):
            wh.apply({"p": [(1, (number, number % 9, 1))], "c": [(1, (number, number, number))]})
            wh.sql(f"ALTER VIEW v AS {query.format(bound)}")
            is_right(wh, bound)


STATEMENTS = (
    "ALTER VIEW v AS SELECT k, n FROM t WHERE n > 20",
    "ALTER VIEW v AS SELECT k, MAX(n) AS n, COUNT(*) AS c FROM t GROUP BY k",
    "CREATE OR REPLACE VIEW p AS SELECT k, n + 1 AS n FROM v",
)


def interrupted(place: Path | str, statement: str, at: int | None) -> int:
    """Replace a view, interrupted at a line; returns how many lines that takes."""
    with tidemill.open(place, runtime="native", backend="python") as wh:
        wh.sql(TABLES)
        wh.apply({"t": [(1, (i % 3, i, "1")) for i in range(30)]})
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, n FROM t WHERE n > 10")
        wh.sql("CREATE VIEW p AS SELECT k, n FROM v")
        wh.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(n) AS n FROM p GROUP BY k")
        wh.sql("CREATE MATERIALIZED VIEW best AS SELECT MAX(n) AS n FROM sums")
        lines = Lines(at, KeyboardInterrupt)
        try:
            with lines:
                wh.sql(statement)
        except KeyboardInterrupt:
            assert lines.fired
        is_right(wh, lines.place)
        wh.apply({"t": [(1, (1, 40, "1")), (-1, (2, 29, "1"))]})
        is_right(wh, lines.place)
        return lines.count


@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_exception_at_some_lines(tmp_path: Path, statement: str) -> None:
    count = interrupted(tmp_path / "whole", statement, None)
    for turn in range(1, 5):
        interrupted(tmp_path / f"{turn}", statement, random.randrange(count * (turn - 1) // 4, count * turn // 4) + 1)


@pytest.mark.long
@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_exception_at_many_lines(tmp_path: Path, statement: str) -> None:
    count = interrupted(tmp_path / "whole", statement, None)
    for at in range(1, count, max(count // 300, 1)):
        interrupted(tmp_path / f"{at}", statement, at)
