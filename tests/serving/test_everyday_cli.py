"""Upserts, CSV options and transactions on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serving.test_cli import Tidemill

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command; returns what it prints, or its error if it ends with ``code``."""
    monkeypatch.chdir(tmp_path)
    command = Tidemill(capsys, monkeypatch)

    def called(*arguments: str, code: int = 0) -> str:
        outcome = command(*arguments)
        assert outcome.code == code, outcome
        return outcome.err if code else outcome.out

    return called


def test_load_upserts_and_reads_csv_as_it_is(run: Run) -> None:
    run("sql", "CREATE TABLE t (id INT PRIMARY KEY, day DATE, note STRING); INSERT INTO t VALUES (1, NULL, 'old')")
    Path("a.csv").write_text("1;29.02.2024;'x;y'\n2;NA;NA\n")
    options = ["--no-header", "--null", "NA", "--date-format", "dd.MM.yyyy", "--quote", "'", "--separator", ";"]
    assert "loaded into t 2 rows from 1 file" in run("load", "t", "*.csv", "--mode", "upsert", *options)
    assert run("sql", "SELECT * FROM t ORDER BY id", "--json").splitlines() == [
        '{"id": 1, "day": "2024-02-29", "note": "x;y"}',
        '{"id": 2, "day": null, "note": null}',
    ]
    Path("b.csv").write_text("id\n3\n")
    run("load", "t", "b.csv", "--mode", "overwrite")
    Path("c.jsonl").write_text('{"table": "t", "row": [3, null, "new"]}\n{"table": "t", "row": [4, null, "more"]}\n')
    assert "row changes" in run("apply", "c.jsonl", "--format", "pairs", "--upsert")
    assert len(run("sql", "SELECT * FROM t WHERE note IS NOT NULL", "--json").splitlines()) == 2
    assert "no mode" in run("load", "t", "b.csv", "--mode", "merge", code=1)


def test_a_script_ends_its_transaction(run: Run) -> None:
    run("sql", "CREATE TABLE t (a INT)")
    told = run("sql", "BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT")
    assert "committed: 2 row changes in epoch 1" in told.splitlines()[-1]
    assert "ends within a transaction" in run("sql", "BEGIN; DELETE FROM t", code=1)
    run("sql", "BEGIN; DELETE FROM t; ROLLBACK")
    assert len(run("sql", "SELECT * FROM t", "--json").splitlines()) == 2
