"""The commands that show costs: beside a writer, and with an exit code that tells."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tidemill
from tests.telemetry.test_refresh_log import filled
from tidemill.serving.cli.app import main


def lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> list[dict[str, object]]:
    monkeypatch.setattr(sys, "argv", ["tidemill", *arguments, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_commands_beside_a_writer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "wh")
    with tidemill.open(folder) as wh:
        filled(wh)
        wh.refreshes()  # so that all of it is written
        found = lines(capsys, monkeypatch, "refreshes", "v", "-w", folder, "--since", "1 hour")
        assert {one["view"] for one in found} == {"v"} and {one["way"] for one in found} == {"filled", "incremental"}
        costs = lines(capsys, monkeypatch, "costs", "-w", folder, "--by", "rows", "--limit", "1")
        assert costs[0]["view"] == "w" and costs[0]["refreshes"] == 6
        top = lines(capsys, monkeypatch, "top", "-w", folder, "--rounds", "1", "--window", "60")
        assert {one["view"] for one in top} == {"v", "w"}
        found = lines(capsys, monkeypatch, "doctor", "-w", folder)
        states = {str(one["what"]): one["state"] for one in found}
        assert states[f"warehouse {folder}"] == "ok" and states["refresh log"] == "ok"


def test_doctor_finds_a_damaged_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tidemill.open(tmp_path / "wh").close()
    (tmp_path / "wh" / "tidemill.json").write_text("{}")
    monkeypatch.setattr(sys, "argv", ["tidemill", "doctor", "-w", str(tmp_path / "wh")])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().out
    assert ended.value.code == 1 and "error    warehouse" in told and "next: Run `tidemill repair`." in told


def test_lists_count_rows_without_reading_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "wh")
    with tidemill.open(folder) as wh:
        filled(wh)
        wh.sql("CREATE MATERIALIZED VIEW d WITH (refresh = 'deferred') AS SELECT COUNT(*) AS n FROM t")
        for number in range(10, 14):
            wh.apply({"t": [(1, (number, 1))]})
        wh.apply({"t": [(-1, (10, 1))]})
        rows = {row[0]: row for row in wh.sql("SHOW VIEWS")}
        assert rows["d"][4:6] == (5, 5) and rows["v"][5] == 0
    with tidemill.open(folder) as wh:  # the epochs are in one file now
        assert {row[0]: row[5] for row in wh.sql("SHOW VIEWS")} == {"v": 0, "w": 0, "d": 5}
        expected = {name: len(wh.table(name)) for name in wh.tables()} | {
            name: len(wh.view(name)) for name in wh.views()
        }
    found = lines(capsys, monkeypatch, "show", "-w", folder)
    assert {one["name"]: one["rows"] for one in found} == expected
