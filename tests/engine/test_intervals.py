"""Intervals at the doors of a warehouse: declared, applied in every form, stored, read again and printed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill
from tidemill.model.errors import BadValue
from tidemill.serving.render import as_text, json_line

TABLE = """CREATE TABLE t (
    id INT PRIMARY KEY, ym INTERVAL YEAR TO MONTH, dt INTERVAL DAY TO SECOND, d INTERVAL DAY, list ARRAY<INTERVAL HOUR>
)"""
ROWS = [
    (1, 14, timedelta(days=1, seconds=5), timedelta(days=2), [timedelta(hours=3), None]),
    (2, -5, timedelta(microseconds=-1), None, None),
]


def test_intervals_are_stored(tmp_path: Path) -> None:
    with tidemill.open(tmp_path) as warehouse:
        warehouse.sql(TABLE)
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(ym) AS m, SUM(dt) AS s FROM t GROUP BY id > 0")
        warehouse.sql("CREATE MATERIALIZED VIEW c AS SELECT make_interval(0, id, 0, 1) AS i FROM t")
        warehouse.apply({"t": [(1, row) for row in ROWS]})
    with tidemill.open(tmp_path) as warehouse:
        assert sorted(warehouse.sql("SELECT * FROM t")) == ROWS
        warehouse.apply({"t": [(-1, ROWS[1])]})
        assert list(warehouse.view("v").rows()) == [(14, timedelta(days=1, seconds=5))]
        assert list(warehouse.view("c").rows()) == [((1, 1, 0),)]


def test_the_forms_in_which_intervals_come() -> None:
    with tidemill.open() as warehouse:
        warehouse.sql(TABLE)
        warehouse.apply({"t": [(1, (1, "1-2", "1 00:00:05", "INTERVAL '2 00:00:00' DAY TO SECOND", ["3", None]))]})
        durations = {"id": [2], "ym": pa.array([-5], pa.int32()), "dt": pa.array([-1], pa.duration("us"))}
        warehouse.apply({"t": pa.table(durations)})
        assert sorted(warehouse.sql("SELECT * FROM t")) == ROWS


def test_hours_are_no_days() -> None:
    with tidemill.open() as warehouse:
        warehouse.sql(TABLE)
        with pytest.raises(BadValue, match="INTERVAL DAY"):
            warehouse.apply({"t": [(1, (1, None, None, timedelta(hours=2), None))]})
        with pytest.raises(BadValue, match="INTERVAL DAY"):
            warehouse.apply({"t": pa.table({"id": [1], "d": pa.array([7200], pa.duration("s"))})})


def test_intervals_are_printed() -> None:
    assert as_text(timedelta(seconds=-1.5)) == "INTERVAL '-0 00:00:01.5' DAY TO SECOND"
    assert json_line({"a": timedelta(days=1)}) == """{"a": "INTERVAL '1 00:00:00' DAY TO SECOND"}"""
