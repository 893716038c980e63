"""APPEND ONLY: no row leaves, whichever way changes come in, and the declaration is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tidemill
from tests import ways
from tidemill.model.errors import AppendOnlyViolation

TABLES = """
CREATE TABLE t (id INT PRIMARY KEY, v INT) APPEND ONLY;
CREATE TABLE loose (v INT) APPEND ONLY;
CREATE STREAM s (v INT) APPEND ONLY;
CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM s;
INSERT INTO t VALUES (1, 1);
INSERT INTO loose VALUES (1);
"""

REFUSED: dict[str, Callable[[tidemill.Warehouse], object]] = {
    "DELETE": lambda wh: wh.sql("DELETE FROM t"),
    "UPDATE": lambda wh: wh.sql("UPDATE t SET v = 2 WHERE id = 1"),
    "TRUNCATE": lambda wh: wh.sql("TRUNCATE TABLE loose"),
    "apply": lambda wh: wh.apply({"loose": [(-1, (1,))]}),
    "apply an update": lambda wh: wh.apply({"t": [(-1, (1, 1)), (+1, (1, 2))]}),
    "apply to a stream": lambda wh: wh.apply({"s": [(+1, (7,)), (-1, (7,))]}),
    "feed": lambda wh: wh.feed("t")(-1, 1, 1),
    "feed a stream": lambda wh: wh.feed("s")(-1, 7),
    "replay": lambda wh: wh.replay({"s": [(+1, (7,)), (-1, (7,))]}, ["s", "s"]),
}


@pytest.mark.turns("way")
@pytest.mark.parametrize("way", ways.NATIVE)
@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_no_row_leaves(way: str, refused: Callable[[tidemill.Warehouse], object]) -> None:
    with ways.opened(way) as wh:
        wh.sql(TABLES)
        wh.feed("s")(+1, 3)
        with pytest.raises(AppendOnlyViolation, match="APPEND ONLY"):
            refused(wh)
        assert (wh.table("t").rows(), wh.table("loose").rows()) == ([(1, 1)], [(1,)])
        assert wh.view("n").rows() == [(1,)]


def test_what_sums_to_nothing_is_no_deletion() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(TABLES)
        wh.apply({"t": [(-1, (1, 1)), (+1, (1, 1)), (+1, (2, 2))], "loose": [(+1, (5,)), (-1, (5,))]})
        assert sorted(wh.table("t").rows()) == [(1, 1), (2, 2)]


def test_it_is_stored_and_shown(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "wh", runtime="native") as wh:
        wh.sql(TABLES)
        wh.sql("CREATE STREAM late (ts TIMESTAMP) APPEND ONLY PARTITION BY ts EVERY 1 MINUTE LATENESS 1 HOUR")
    with tidemill.open(tmp_path / "wh", runtime="native") as wh:
        assert wh.sql("SHOW CREATE TABLE loose").rows() == [("CREATE TABLE `loose` (`v` INT) APPEND ONLY",)]
        ((shown,),) = wh.sql("SHOW CREATE TABLE late").rows()
        assert "APPEND ONLY PARTITION BY `ts` EVERY 1 MINUTE LATENESS 1 HOUR" in shown
        assert "APPEND ONLY" not in wh.sql("SHOW CREATE TABLE late_late").rows()[0][0]
        with pytest.raises(AppendOnlyViolation) as error:
            wh.sql("DELETE FROM t WHERE id = 1")
        assert error.value.hint == "Send new rows only, or create the table without APPEND ONLY."


def test_late_changes_that_take_rows_out_are_not_replayed() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        partitions = "PARTITION BY ts EVERY 1 MINUTE LATENESS 5 MINUTES RETAIN 2 HOURS"
        wh.sql(f"CREATE STREAM s (ts TIMESTAMP, g INT) APPEND ONLY {partitions}")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT g, MIN(ts) AS a FROM s GROUP BY g")
        wh.apply({"s": [(+1, ("2024-01-01 00:00:00", 1)), (+1, ("2024-01-01 01:00:00", 1))]})
        wh.apply({"s": [(+1, ("2024-01-01 00:30:00", 2)), (-1, ("2024-01-01 00:00:00", 1))]})
        before = wh.view("v").rows()
        with pytest.raises(AppendOnlyViolation):
            wh.sql("REPLAY LATE s")
        assert wh.view("v").rows() == before
        wh.sql("REPLAY LATE s WHERE change = 1")
        assert sorted(group for group, _ in wh.view("v").rows()) == [1, 2]
