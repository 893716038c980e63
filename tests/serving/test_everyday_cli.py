"""Upserts, CSV options and transactions on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemill.serving.cli.app import app


def run(*arguments: str, code: int = 0) -> str:
    outcome = CliRunner().invoke(app, list(arguments))
    assert outcome.exit_code == code, outcome.output
    return outcome.output


def test_load_upserts_and_reads_csv_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
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


def test_a_script_ends_its_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("sql", "CREATE TABLE t (a INT)")
    told = run("sql", "BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT")
    assert told.splitlines()[-1] == "committed: 2 row changes in epoch 1"
    assert "ends within a transaction" in run("sql", "BEGIN; DELETE FROM t", code=1)
    run("sql", "BEGIN; DELETE FROM t; ROLLBACK")
    assert len(run("sql", "SELECT * FROM t", "--json").splitlines()) == 2
