"""A kill -9 during ALTER: it has happened, or it has not, and views are right whichever it is."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import tidemill
from tests import forked_children
from tests.evolution import replacing
from tests.evolution.altering import STEPS, live, rows_after, steps_done
from tests.interruptions import Lines
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

PASSINGS = [
    *(f"{point}:{passing}" for point in ("before-alter", "after-alter") for passing in (1, 3, 6)),
    *(f"{point}:{passing}" for point in ("before-manifest", "after-manifest") for passing in (7, 12)),
]
"""At which passing of which point to die."""


@pytest.mark.parametrize("passing", PASSINGS)
def test_killed_at(tmp_path: Path, passing: str) -> None:
    died = forked_children.run("tests.evolution.altering", tmp_path, timeout=60, **{FAULT_VARIABLE: passing})
    assert died.returncode == -signal.SIGKILL, died.stderr
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        if {"t", "every"} <= {*wh.tables(), *wh.views()}:
            done, rows = steps_done(wh), sorted(wh.table("t").rows(), key=str)
            before = [row for row in rows_after(done) if row[0] != STEPS[done - 1][1][0]]
            assert rows in (sorted(rows_after(done), key=str), sorted(before, key=str))
            assert all(one.ok for one in wh.verify())
    live(tmp_path)
    with tidemill.open(tmp_path, runtime="native", read_only=True) as wh:
        assert sorted(wh.table("t").rows()) == sorted(rows_after(len(STEPS)))
        assert sorted(wh.view("every").rows()) == sorted(row[:3] for row in rows_after(len(STEPS)))
        assert all(one.ok for one in wh.verify())


REPLACING = [
    *("replacement-prepared:2", "replacement-prepared:4"),
    *("before-swap:1", "before-swap:3", "after-swap:2", "after-swap:4"),
    *("before-manifest:7", "after-manifest:8", "between-files:8"),
]


@pytest.mark.parametrize("passing", REPLACING)
def test_killed_while_a_view_is_replaced(tmp_path: Path, passing: str) -> None:
    """It has the old query or the new one, whole, and so have the views that read it."""
    died = forked_children.run("tests.evolution.replacing", tmp_path, timeout=60, **{FAULT_VARIABLE: passing})
    assert died.returncode == -signal.SIGKILL, died.stderr
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        if "v" in wh.views():
            assert 0 <= replacing.query_of(wh) < len(replacing.QUERIES)
            assert all(one.ok for one in wh.verify())
    replacing.live(tmp_path)
    with tidemill.open(tmp_path, runtime="native", read_only=True) as wh:
        assert replacing.query_of(wh) == len(replacing.QUERIES) - 1
        assert all(one.ok for one in wh.verify())


WIDEN = "ALTER TABLE t ALTER COLUMN a TYPE BIGINT"
STATEMENTS = [
    *(STEPS[0][0], STEPS[1][0], WIDEN, "ALTER TABLE t RENAME TO u", "ALTER VIEW v RENAME TO w"),
    "ALTER TABLE t ADD UNIQUE (a)",
    "ALTER VIEW v SET (on_error = 'quarantine')",
    "ALTER VIEW v SET (on_error = 'null', strategy = 'recompute', refresh = 'deferred')",
]


def interrupted(path: Path | str, statement: str, at: int | None) -> int:
    """Run a statement, interrupted at a line; returns how many lines it has."""
    with tidemill.open(path, runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, b STRING, a INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT b, MAX(a) AS m FROM t GROUP BY b")
        wh.sql("CREATE MATERIALIZED VIEW every AS SELECT * FROM t")
        wh.apply({"t": [(1, (1, "x", 10)), (1, (2, "y", 20))]})
        lines = Lines(at, KeyboardInterrupt)
        try:
            with lines:
                wh.sql(statement)
        except KeyboardInterrupt:
            assert lines.fired
        table = wh.tables()[0]
        extra = (5,) if len(wh.table(table).fields) == 4 else ()
        assert {row[:3] for row in wh.table(table).rows()} == {(1, "x", 10), (2, "y", 20)}, lines.place
        wh.apply({table: [(1, (3, "x", 30, *extra))]})
        (name,) = {"v", "w"} & {*wh.views()}
        wh.sql(f"REFRESH VIEW {name}")
        assert sorted(wh.view(name).rows()) == [("x", 30), ("y", 20)], lines.place
        assert sorted(wh.view("every").rows()) == [(1, "x", 10), (2, "y", 20), (3, "x", 30)], lines.place
        assert all(one.ok for one in wh.verify()), lines.place
        return lines.count


@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_exception_at_some_lines(tmp_path: Path, statement: str) -> None:
    count = interrupted(tmp_path / "whole", statement, None)
    for turn in range(1, 6):
        interrupted(tmp_path / f"{turn}", statement, count * turn // 6)
        interrupted(":memory:", statement, count * turn // 6)


@pytest.mark.long
@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_exception_at_many_lines(tmp_path: Path, statement: str) -> None:
    count = interrupted(tmp_path / "whole", statement, None)
    for at in range(1, count, max(count // 400, 1)):
        interrupted(tmp_path / f"{at}", statement, at)
