"""Changes of more rows than are held: they go through files, with the same sum and in bounded memory."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import tidemill
from tests.lake import delta_history
from tests.lake.large_changes import begin, measure, taken
from tidemill.engine.remote import staged_rows
from tidemill.sources.lake import delta_feed

ROWS = 20_000_000
MOST_BYTES = 800 << 20
"""Bytes by which a process may grow for a change of so many rows, which are 700 MB in columns."""


@pytest.mark.parametrize("feed", ["on", "off"])
def test_the_same_through_files(tmp_path: Path, random_seed: int, monkeypatch: pytest.MonkeyPatch, feed: str) -> None:
    monkeypatch.setattr(staged_rows, "FILE_ROWS", 4)
    monkeypatch.setattr(staged_rows, "HELD_FILES", 2)
    monkeypatch.setattr(delta_feed, "FEED_ROWS", 6)
    lake = delta_history.DeltaHistory(tmp_path / "orders", random.Random(random_seed), feed, [])
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(f"CREATE TABLE orders USING delta LOCATION '{lake.path}'")
        wh.sql(
            "CREATE MATERIALIZED VIEW sums AS SELECT region, COUNT(*) AS n, SUM(id) AS s FROM orders GROUP BY region"
        )
        for _ in range(8):
            lake.step()
            before = Counter(wh.table("orders").rows())
            counts = wh.sync().counts
            rows = lake.rows()
            changed = Counter(dict(rows)), Counter(dict(before))
            assert counts.rows == sum(((changed[0] - changed[1]) + (changed[1] - changed[0])).values())
            assert Counter(wh.table("orders").rows()) == rows, f"seed {random_seed}"
            assert wh.view("sums").verify().ok


@pytest.mark.long
def test_memory_is_bounded(tmp_path: Path) -> None:
    begin(tmp_path)
    rows, grown = taken("append", tmp_path, ROWS)
    assert rows == ROWS and grown < MOST_BYTES
    print(f"{ROWS} rows appended: {grown >> 20} MB")


@pytest.mark.long
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    measure(2_000)
    append, replace = capsys.readouterr().out.splitlines()
    assert append.startswith("append: 2,000 rows taken") and replace.startswith("replace: 410 rows taken")
