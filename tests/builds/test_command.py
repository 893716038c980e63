"""``tidemill builds``: what it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.builds.stepping import IdleWorker
from tidemill.engine.builds import builds
from tidemill.serving.cli.app import main

SCRIPT = """
    CREATE TABLE t (id INT PRIMARY KEY, b INT);
    INSERT INTO t SELECT id, id % 3 FROM range(50);
    CREATE MATERIALIZED VIEW v WITH (build = 'background') AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
"""


class Command:
    """Runs commands in this process, over one warehouse."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, warehouse: Path) -> None:
        self._capsys = capsys
        self._patch = monkeypatch
        self._warehouse = warehouse

    def __call__(self, *arguments: str) -> str:
        self._patch.setattr(sys, "argv", ["tidemill", *arguments, "-w", str(self._warehouse)])
        try:
            main()
        except SystemExit as end:
            if end.code:
                return self._capsys.readouterr().err
        return self._capsys.readouterr().out


@pytest.fixture(name="command")
def _command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    return Command(capsys, monkeypatch, tmp_path / "wh")


def test_list_pause_resume_run(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(builds, "Worker", IdleWorker)
        assert "building view v in the background" in command("sql", SCRIPT)
        assert command("builds") == "v: waiting\n"
        assert command("builds", "pause", "v") == "paused the build of v\n"
        assert json.loads(command("builds", "--json"))["state"] == "paused"
        assert "not built" in command("builds", "run")
        assert command("builds", "resume", "v") == "resumed the build of v\n"
        assert 'view "v" is still being built' in command("show", "v")
    told = command("builds", "run").splitlines()
    assert told[-1] == "v: built, 3 rows"
    assert command("builds") == "no view is being built\n"
    assert 'there is no build of a view "v"' in command("builds", "cancel", "v")


def test_cancel(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "Worker", IdleWorker)
    command("sql", SCRIPT)
    assert command("builds", "cancel", "v") == "cancelled the build of v\n"
    assert command("builds") == "no view is being built\n"
