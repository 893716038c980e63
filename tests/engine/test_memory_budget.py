"""A memory budget costs time and not answers: what does not fit stays on disk, and changes look up what they touch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.engine import budget_process
from tests.engine.test_stored_lookups import TABLES, VIEWS, History, require_fresh
from tidemill.engine.epochs.memory_budget import MemoryBudget
from tidemill.model.errors import OutOfBudget
from tidemill.runtimes.native.state import stored_lookups
from tidemill.runtimes.native.state_room import StateRoom

ROWS = 300_000


def in_process(folder: Path, budget: int) -> dict[str, Any]:
    """The memory and CPU time of another process that applied changes within a budget."""
    command = [sys.executable, "-m", "tests.engine.budget_process", str(folder), str(ROWS), str(budget), "12"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    measured: dict[str, Any] = json.loads(found.stdout)
    return measured


@pytest.mark.long
def test_a_tenth_of_the_memory_is_enough(tmp_path: Path) -> None:
    """Changes of 300,000 rows and seven views, in a tenth of the memory that their state takes in dictionaries."""
    budget_process.fill(tmp_path / "whole", ROWS)
    shutil.copytree(tmp_path / "whole", tmp_path / "tenth")
    whole = in_process(tmp_path / "whole", 0)
    budget = (whole["peak"] - whole["base"]) // 10
    tenth = in_process(tmp_path / "tenth", budget)
    assert tenth["peak"] - tenth["base"] <= budget
    assert "on disk" in tenth["explained"] and "per_owner" in tenth["explained"].split("on disk")[1].splitlines()[0]
    assert "on disk" not in whole["explained"]
    with tidemill.open(tmp_path / "whole") as one, tidemill.open(tmp_path / "tenth") as other:
        for name, query in budget_process.VIEWS.items():
            rows = Counter(other.sql(query))
            assert Counter(one.view(name).rows()) == Counter(other.view(name).rows()) == rows, name


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The first element says if state fits."""
    fits = [False]
    monkeypatch.setattr(stored_lookups, "LOOKUP_ROWS", 1)
    monkeypatch.setattr(StateRoom, "fits", lambda room, bytes_: fits[0] and not room._sparing)
    return fits


@pytest.mark.turns("backend")
@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_random_histories_with_and_without_room(
    tmp_path: Path, random_seed: int, monkeypatch: pytest.MonkeyPatch, no_room: list[bool], backend: str
) -> None:
    """State is read, released for others, looked up and read again, compiled and taken back; answers stay right."""
    monkeypatch.setattr("tidemill.runtimes.native.runtime.LEAST_RELEASED", 1)
    history = History(random_seed)
    with tidemill.open(tmp_path, runtime="native", backend=backend, memory="1000GB") as wh:
        wh.sql(TABLES)
        for name, query in VIEWS.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        wh.apply(history.change(60))
        admit = MemoryBudget.admit

        def admit_after_release(budget: MemoryBudget, rows: int, *, stored: bool = True) -> int:
            if history.random.random() < 0.3:
                budget.release_state(history.random.choice([1, 10_000, 1 << 40]))
            return admit(budget, rows, stored=stored)

        monkeypatch.setattr(MemoryBudget, "admit", admit_after_release)
        for step in range(30):
            no_room[0] = history.random.random() < 0.6
            wh.apply(history.change(history.random.choice([1, 2, 6])))
            if step % 8 == 7:
                require_fresh(wh)
        require_fresh(wh)


def test_an_epoch_that_does_not_fit_is_tried_again_without_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_room: list[bool]
) -> None:
    no_room[0] = True
    measured: list[bool] = []
    measure = MemoryBudget.measure

    def fits_without_state(budget: MemoryBudget, rows: int, before: int) -> None:
        measured.append(budget._sparing)
        if not budget._sparing:
            raise OutOfBudget("too much")
        measure(budget, rows, before)

    with tidemill.open(tmp_path, runtime="native", memory="1000GB") as wh:
        wh.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n, MAX(a) AS last FROM t GROUP BY b")
        wh.apply({"t": [(+1, (i, i % 7)) for i in range(100)]})
        monkeypatch.setattr(MemoryBudget, "measure", fits_without_state)
        wh.apply({"t": [(-1, (98, 0)), (+1, (200, 1))]})
        assert measured == [False, True]
        assert Counter(wh.view("v").rows()) == Counter(wh.sql("SELECT b, COUNT(*), MAX(a) FROM t GROUP BY b"))
        assert wh.epoch == 2


def test_an_epoch_that_never_fits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidemill.open(tmp_path, runtime="native", memory="1000GB") as wh:
        wh.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT)")
        wh.apply({"t": [(+1, (1, 1))]})
        monkeypatch.setattr("tidemill.engine.epochs.memory_budget.resident_bytes", lambda: 2000 << 30)
        with pytest.raises(OutOfBudget, match="does not fit into the memory budget"):
            wh.apply({"t": [(+1, (2, 2))]})
        monkeypatch.undo()
        wh.apply({"t": [(+1, (3, 3))]})
        assert sorted(wh.sql("SELECT a FROM t")) == [(1,), (3,)]


def test_duckdb_spills_into_the_warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of more groups than DuckDB's part of the budget holds is filled, with files that go with the warehouse."""
    from tidemill.runtimes.duckdb import answer

    limits: list[answer.MemoryLimit | None] = []
    connected = answer.connected

    def noted(limit: answer.MemoryLimit | None = None) -> Any:
        limits.append(limit)
        return connected(limit)

    monkeypatch.setattr("tidemill.runtimes.duckdb.fill.connected", noted)
    monkeypatch.setattr(MemoryBudget, "room", lambda budget: 1)
    budget_process.fill(tmp_path, 30_000)
    with tidemill.open(tmp_path, runtime="native", memory="1000GB") as wh:
        limits.clear()
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT id, MAX(price) AS most FROM item GROUP BY id")
        (limit,) = limits
        assert limit is not None and limit.folder.is_relative_to(tmp_path)
        assert f"SET memory_limit = '{answer.LEAST_MEMORY}B'" in limit.settings
        assert len(wh.view("v").rows()) == 30_000
        with answer.connected(limit) as connection:
            (bytes_, folder) = connection.sql(
                "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
            ).fetchall()[0]
        assert (bytes_, folder) == ("64.0 MiB", str(limit.folder))
    assert not limit.folder.exists()
