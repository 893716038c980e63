"""A memory budget refuses what does not fit and leaves everything as it was."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import chain, repeat

import numpy as np
import pyarrow as pa
import pytest

import tidemill
from tidemill.engine.epochs.memory_budget import MemoryBudget, parse_size, resident_bytes, return_free_memory
from tidemill.model.errors import OutOfBudget, SetupError, StorageError

DDL = """
    CREATE TABLE t (a BIGINT, b STRING);
    CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
"""


def test_an_epoch_that_cannot_fit_is_refused_before_it_starts() -> None:
    with tidemill.open(":memory:", memory=resident_bytes() + (64 << 20)) as wh:
        wh.sql(DDL)
        wh.apply({"t": [(1, (1, "small"))]})
        with pytest.raises(OutOfBudget, match="does not fit"):
            wh.apply({"t": [(1, (i, "large")) for i in range(1_000_000)]})
        assert wh.view("v").rows() == [(1, 1)]
        assert wh.epoch == 1


def test_an_epoch_that_grew_beyond_the_budget_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    with tidemill.open(":memory:", memory="1000GB") as wh:
        wh.sql(DDL)
        held = chain([1 << 30], repeat(2000 << 30))
        monkeypatch.setattr("tidemill.engine.epochs.memory_budget.resident_bytes", lambda: next(held))
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
        # Asked at the beginning and the end of an epoch, and for the room that is left to compiled maps.
        held = chain([1 << 30, 1 << 30], repeat(3 << 30))
        monkeypatch.setattr("tidemill.engine.epochs.memory_budget.resident_bytes", lambda: next(held))
        wh.apply({"t": rows})  # two gigabytes more: as many again would not fit
        with pytest.raises(OutOfBudget, match="5.00 GB, of at most 4.00 GB"):
            wh.apply({"t": rows})


STREAMED = """
    CREATE STREAM s (a BIGINT NOT NULL, b BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS total FROM s GROUP BY a;
"""


def _few(count: int, start: int = 0) -> pa.Table:
    return pa.table({"a": pa.array(range(start, start + count)), "b": pa.array([1] * count)})


def test_maps_of_machine_code_stop_before_they_take_too_much() -> None:
    """Events in columns are one epoch: what cannot be held is refused while it comes, and all of it is undone."""
    with tidemill.open(":memory:", runtime="native", backend="llvm", memory=resident_bytes() + (64 << 20)) as wh:
        wh.sql(STREAMED)
        wh.replay({"s": _few(1000)}, ["s"] * 1000)
        assert len(wh.view("v").rows()) == 1000
        large = _few(1_000_000, start=5000)
        before = resident_bytes()
        with pytest.raises(OutOfBudget, match="maps of a view do not fit into the memory budget"):
            wh.replay({"s": large}, np.zeros(1_000_000, dtype=np.uint8))
        assert resident_bytes() - before < 64 << 20
        assert len(wh.view("v").rows()) == 1000
        wh.replay({"s": _few(10)}, ["s"] * 10)
        rows = dict(wh.view("v").rows())
        assert rows[3] == 2 and rows[500] == 1 and len(rows) == 1000


def test_an_event_that_does_not_fit_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    room: list[int | None] = [None]
    monkeypatch.setattr(MemoryBudget, "room", lambda self: room[0])
    with tidemill.open(":memory:", runtime="native", backend="llvm", memory="1000GB") as wh:
        wh.sql(STREAMED)
        feed = wh.feed("s")
        feed(1, 0, 5)
        wh.flush()
        room[0] = 200_000
        taken = _taken(feed, 100_000)
        assert 1 < taken < 100_000
        rows = dict(wh.view("v").rows())
        assert len(rows) == taken and rows[0] == 6
        room[0] = None
        assert _taken(feed, 100_000) == 100_000
        assert len(wh.view("v").rows()) == 100_000


def test_what_was_freed_is_looked_for_before_an_epoch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with tidemill.open(":memory:", memory="4GB") as wh:
        wh.sql(DDL)
        held = [5 << 30]
        monkeypatch.setattr("tidemill.engine.epochs.memory_budget.resident_bytes", lambda: held[0])
        monkeypatch.setattr(
            "tidemill.engine.epochs.memory_budget.return_free_memory", lambda: held.__setitem__(0, 1 << 30)
        )
        wh.apply({"t": [(1, (1, "x"))]})
        assert wh.view("v").rows() == [(1, 1)]


JOINED = """
    CREATE STREAM a (k BIGINT NOT NULL, x BIGINT NOT NULL);
    CREATE STREAM b (k BIGINT NOT NULL, y BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW v WITH (strategy = 'joingraph', serve = '{serve}') AS
        SELECT a.k, x, y FROM a, b WHERE a.k = b.k;
"""


@pytest.mark.parametrize("rows", [60_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("serve", ["subscribe", "read", "both"])
def test_a_closed_warehouse_gives_its_memory_back(serve: str, rows: int) -> None:
    """At once, whoever still holds the warehouse, and all of it: what ten leave behind is not more than what two do."""
    left = []
    for _ in range(10):
        with tidemill.open(":memory:", runtime="native", backend="llvm") as wh:
            wh.sql(JOINED.format(serve=serve))
            keys = np.arange(rows // 2)
            wh.apply({"a": pa.table({"k": keys, "x": keys})})
            wh.apply({"b": pa.table({"k": keys, "y": keys})})
            assert wh.view("v").arrow().num_rows == rows // 2
        left.append(resident_bytes())
    assert left[-1] - left[1] < 40 * rows


def test_a_warehouse_that_is_never_closed_gives_its_memory_back() -> None:
    left = []
    for _ in range(5):
        wh = tidemill.open(":memory:", runtime="native", backend="llvm")
        wh.sql(JOINED.format(serve="subscribe"))
        keys = np.arange(30_000)
        wh.apply({"a": pa.table({"k": keys, "x": keys})})
        wh.apply({"b": pa.table({"k": keys, "y": keys})})
        del wh
        gc.collect()
        return_free_memory()
        left.append(resident_bytes())
    assert left[-1] - left[1] < 40 * 60_000


def test_a_closed_warehouse_in_memory_answers_nothing() -> None:
    wh = tidemill.open(":memory:")
    wh.sql(DDL)
    wh.apply({"t": [(1, (1, "x"))]})
    wh.close()
    with pytest.raises(StorageError, match="closed"):
        wh.view("v").rows()
    with pytest.raises(StorageError, match="closed"):
        wh.sql("SELECT * FROM t")


def _taken(feed: Callable[..., None], events: int) -> int:
    """How many events are taken in before one is refused."""
    for a in range(events):
        try:
            feed(1, a, 1)
        except OutOfBudget:
            return a
    return events


@pytest.mark.parametrize("size", ["much", "4 gigabytes", "-1GB", "GB"])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    with pytest.raises(SetupError, match="not an amount of memory"):
        tidemill.open(":memory:", memory=size)


def test_sizes() -> None:
    assert parse_size("1.5KB") == 1536
    assert parse_size("7") == 7


def test_lists_that_grow_alike_leave_little_memory_unused() -> None:
    """Each of 200 lists of a join graph has grown from one item to 200, and then half of them go and others come."""
    with tidemill.open(":memory:", runtime="native", backend="llvm") as wh:
        wh.sql("CREATE STREAM t (g BIGINT NOT NULL, k BIGINT NOT NULL); CREATE STREAM u (g BIGINT NOT NULL, w BIGINT)")
        wh.sql("CREATE MATERIALIZED VIEW v WITH (strategy = 'joingraph') AS SELECT t.k, u.w FROM t JOIN u ON t.g = u.g")
        keys = np.arange(40_000)
        for part in np.split(keys, 40):
            wh.apply({"t": pa.table({"g": part % 200, "k": part})})
        (held,) = (size for size in wh.view("v").sizes() if size.map == "v:t")
        assert held.bytes is not None and held.bytes / held.entries < 90
        wh.apply({"t": [(-1, (k % 200, k)) for k in range(0, 40_000, 2)]})
        wh.apply({"t": pa.table({"g": keys % 7, "k": keys + 40_000})})
        wh.apply({"u": [(1, (3, 1)), (1, (9, 2))]})
        seen = sorted(row[0] for row in wh.view("v").rows() if row[1] == 2)
        assert seen == [k for k in range(1, 40_000, 2) if k % 200 == 9]
        there = [k for k in range(1, 40_000, 2) if k % 200 == 3] + [k + 40_000 for k in range(40_000) if k % 7 == 3]
        assert sorted(row[0] for row in wh.view("v").rows() if row[1] == 1) == there
