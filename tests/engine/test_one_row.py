"""The cost of an epoch of one row: a bounded number of calls, whatever other tables and views there are."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tidemill
from tidemill.engine.telemetry import recorder

CALLS = {"python": 321, "llvm": 323}
"""Calls of Python functions and of built-in ones for one row of a table with a key, read by one view, in memory."""

DURABLE_CALLS = 76
"""Further ones for its record in the log, and the sync."""


@pytest.fixture(autouse=True)
def _written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of the refresh log are written once a second, and for an epoch of 10 ms: neither is counted here."""
    monkeypatch.setattr(recorder, "WRITE_SECONDS", 1e9)
    monkeypatch.setattr(recorder, "SLOW_SECONDS", 1e9)


def calls_of_an_epoch(wh: tidemill.Warehouse, changes: dict[str, list[Any]]) -> int:
    """The calls that ``apply`` makes for ``changes``."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        wh.apply(changes)
    finally:
        sys.setprofile(before)
    return count


def filled(wh: tidemill.Warehouse, others: int = 0) -> tidemill.Warehouse:
    wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)")
    wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    for number in range(others):
        wh.sql(f"CREATE TABLE u{number} (id BIGINT PRIMARY KEY, a BIGINT)")
        wh.sql(f"CREATE MATERIALIZED VIEW w{number} AS SELECT a, COUNT(*) AS n FROM u{number} GROUP BY a")
        wh.apply({f"u{number}": [(1, (1, 1))]})
    for number in range(5):
        wh.apply({"t": [(1, (number, number % 3))]})
    return wh


@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("backend", CALLS)
def test_a_row_costs_few_calls(backend: str, disk: bool, tmp_path: Path) -> None:
    most = CALLS[backend] + (DURABLE_CALLS if disk else 0)
    with tidemill.open(tmp_path if disk else ":memory:", runtime="native", backend=backend) as wh:
        filled(wh)
        assert calls_of_an_epoch(wh, {"t": [(1, (10, 1))]}) <= most
        assert calls_of_an_epoch(wh, {"t": [(-1, (10, 1)), (1, (10, 2))]}) <= most + 50


def test_a_row_that_reaches_no_group_costs_fewer() -> None:
    with tidemill.open(":memory:", runtime="native", backend="llvm") as wh:
        filled(wh)
        wh.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, a BIGINT)")
        wh.sql("CREATE MATERIALIZED VIEW w AS SELECT u.a, COUNT(*) AS n FROM u JOIN t ON t.id = u.a GROUP BY u.a")
        wh.apply({"u": [(1, (1, 1)), (1, (2, 99))]})
        met, missed = (calls_of_an_epoch(wh, {"u": [(1, (key, value))]}) for key, value in ((3, 1), (4, 99)))
        assert missed <= met - 60
        assert wh.view("w").rows() == [(1, 2)]


@pytest.mark.parametrize("disk", [False, True])
def test_what_an_epoch_does_not_touch_costs_nothing(disk: bool, tmp_path: Path) -> None:
    def cost(others: int) -> int:
        with tidemill.open(tmp_path / str(others) if disk else ":memory:", runtime="native") as wh:
            return calls_of_an_epoch(filled(wh, others), {"t": [(1, (10, 1))]})

    assert cost(0) == cost(5)
