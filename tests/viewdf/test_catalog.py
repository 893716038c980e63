"""Views by partitions in a warehouse: stored, listed, explained, read by others, and right after a restart."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

import tidemill
from tidemill.engine.partitions.listing import Partition
from tidemill.model.errors import NameTaken, Unsupported

START = datetime(2024, 1, 1, 9)
NUMBER = int((START - datetime(1970, 1, 1)).total_seconds()) // 60

SCRIPT = """
CREATE TABLE s (ts TIMESTAMP, k STRING, n INT) PARTITION BY ts EVERY 1 MINUTE;
CREATE STREAM gone (ts TIMESTAMP) PARTITION BY ts EVERY 1 MINUTE;
CREATE VIEW running AS
INITIALIZE running[k] AS SELECT k, SUM(n) AS n FROM s[k] GROUP BY k;
UPDATE running[i] AS
  SELECT k, SUM(n) AS n FROM (SELECT * FROM running[i-1] UNION ALL SELECT k, n FROM s[i]) AS x GROUP BY k;
PARTITION BY 1 MINUTE;
CREATE MATERIALIZED VIEW recent WITH (runtime = 'native') AS
UPDATE recent[i] AS SELECT k, n FROM running[i] WHERE k IN (SELECT k FROM s[i-2 .. i]);
CREATE MATERIALIZED VIEW top AS SELECT k, MAX(n) AS n FROM recent GROUP BY k
"""


def rows(*minutes: tuple[int, str, int]) -> dict[str, list[tuple[int, tuple[datetime, str, int]]]]:
    return {"s": [(+1, (START + timedelta(minutes=minute), k, n)) for minute, k, n in minutes]}


def test_reopened(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.sql(SCRIPT)
        warehouse.apply(rows((0, "a", 1), (1, "b", 2), (3, "a", 4)))
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        assert warehouse.table("s").definition.partitioning is not None
        warehouse.apply(rows((2, "b", 8), (6, "c", 16)))
        for view in ("running", "recent", "top"):
            assert warehouse.view(view).verify().ok
        assert sorted(warehouse.view("top").rows()) == [("a", 5), ("b", 10), ("c", 16)]


def test_partitions_are_listed() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(SCRIPT)
        warehouse.apply(rows((0, "a", 1), (0, "b", 2), (2, "a", 4)))
        warehouse.sql("INSERT INTO s VALUES (NULL, 'z', 1)")
        assert warehouse.table("s").partitions() == [
            Partition(f"s_{NUMBER}", NUMBER, START, 2),
            Partition(f"s_{NUMBER + 2}", NUMBER + 2, START + timedelta(minutes=2), 1),
        ]
        listed = warehouse.sql("SHOW PARTITIONS running")
        assert [f.name for f in listed.fields] == ["name", "number", "start", "rows", "state"]
        assert [(number - NUMBER, count) for _, number, _, count, _ in listed] == [(0, 2), (1, 2), (2, 2)]
        assert {state for *_, state in listed} == {"open"}
        with pytest.raises(Unsupported, match="is a stream"):
            warehouse.sql("SHOW PARTITIONS gone")
        with pytest.raises(Unsupported, match="not cut into partitions"):
            warehouse.view("top").partitions()


def test_explain_says_how_far_each_feed_is_read() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(SCRIPT)
        running, recent = warehouse.view("running").explain(), warehouse.view("recent").explain()
        assert "of 1 MINUTE, by ts" in running
        assert "running[i] reads running[i-1]: SLB i-1, SUB i-1" in running
        assert "recent[i] reads s[i-2..i]: SLB i-2, SUB i" in recent
        warehouse.sql("CREATE TABLE plain (k STRING)")
        warehouse.sql("CREATE VIEW w AS UPDATE w[i] AS SELECT k FROM s JOIN plain USING (k)")
        explained = warehouse.view("w").explain()
        assert "w[i] reads s[..i]: SLB the first, SUB i" in explained
        assert "w[i] reads plain[]: all rows, it has no partitions" in explained
        assert "partitions" not in warehouse.view("top").explain()


def test_names_and_dependencies() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(SCRIPT)
        with pytest.raises(Unsupported, match="cannot be dropped"):
            warehouse.sql("DROP VIEW running")
        with pytest.raises(NameTaken):
            warehouse.sql("CREATE VIEW running AS UPDATE running[i] AS SELECT n FROM s[i]")
        warehouse.sql("CREATE OR REPLACE VIEW top AS UPDATE top[i] AS SELECT n FROM s[i]")
        assert warehouse.view("top").columns == ("ts", "n")


def test_registered_functions_are_found() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(SCRIPT)
        warehouse.register_function("twice", lambda n: 2 * n, arguments=["INT"], returns="INT")
        warehouse.sql("CREATE VIEW w AS UPDATE w[i] AS SELECT twice(n) AS n FROM s[i]")
        warehouse.apply(rows((0, "a", 21)))
        assert warehouse.view("w").rows() == [(START, 42)]


def test_registered_functions_are_stored(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.sql(SCRIPT)
        warehouse.register_function("twice", lambda n: 2 * n, arguments=["INT"], returns="INT")
        warehouse.sql("CREATE VIEW w AS UPDATE w[i] AS SELECT twice(n) AS n FROM s[i-1 .. i]")
    with tidemill.open(tmp_path / "wh", runtime="native") as warehouse:
        warehouse.register_function("twice", lambda n: 2 * n, arguments=["INT"], returns="INT")
        warehouse.apply(rows((0, "a", 21)))
        assert warehouse.view("w").rows() == [(START, 42)]
