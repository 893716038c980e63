"""A memory budget refuses what does not fit and leaves everything as it was."""

from __future__ import annotations

import pytest

import tidemill
from tidemill.engine.memory import parse_size, resident
from tidemill.model.errors import OutOfBudget, SetupError

DDL = """
    CREATE TABLE t (a BIGINT, b STRING);
    CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
"""


def test_an_epoch_that_cannot_fit_is_refused_before_it_starts() -> None:
    with tidemill.open(":memory:", memory=resident() + (64 << 20)) as wh:
        wh.sql(DDL)
        wh.apply({"t": [(1, (1, "small"))]})
        with pytest.raises(OutOfBudget, match="does not fit"):
            wh.apply({"t": [(1, (i, "large")) for i in range(1_000_000)]})
        assert wh.view("v").rows() == [(1, 1)]
        assert wh.epoch == 1


def test_an_epoch_that_grew_beyond_the_budget_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    with tidemill.open(":memory:", memory="1000GB") as wh:
        wh.sql(DDL)
        held = iter([1 << 30, 2000 << 30])
        monkeypatch.setattr("tidemill.engine.memory.resident", lambda: next(held))
        with pytest.raises(OutOfBudget):
            wh.apply({"t": [(1, (1, "x"))]})
        monkeypatch.undo()
        assert wh.view("v").rows() == []
        wh.apply({"t": [(1, (2, "y"))]})
        assert wh.view("v").rows() == [(2, 1)]


def test_rows_teach_what_rows_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(1, (i, "x")) for i in range(20_000)]
    with tidemill.open(":memory:", memory="4GB") as wh:
        wh.sql(DDL)
        held = iter([1 << 30, 3 << 30, 3 << 30])
        monkeypatch.setattr("tidemill.engine.memory.resident", lambda: next(held))
        wh.apply({"t": rows})  # two gigabytes more: as many again would not fit
        with pytest.raises(OutOfBudget, match="5.00 GB, of at most 4.00 GB"):
            wh.apply({"t": rows})


@pytest.mark.parametrize("size", ["much", "4 gigabytes", "-1GB", "GB"])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    with pytest.raises(SetupError, match="not an amount of memory"):
        tidemill.open(":memory:", memory=size)


def test_sizes() -> None:
    assert parse_size("1.5KB") == 1536
    assert parse_size("7") == 7
