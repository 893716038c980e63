"""Statistics: counted as epochs go by, analyzed on demand, stored with the warehouse, and what plans are made by."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidemill
from tidemill.engine.definitions import stored_statistics
from tidemill.model.errors import StorageError, UnknownName, Unsupported
from tidemill.storage import folder_writer

TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING, day DATE, price DECIMAL(10, 2), tags ARRAY<INT>)"
Rows = list[tuple[int, tuple[Any, ...]]]


def opened(tmp_path: Path, kind: str) -> tidemill.Warehouse:
    return tidemill.open(":memory:" if kind == "memory" else tmp_path / "wh", runtime="native")


def row(number: int, name: str | None = "ann") -> tuple[Any, ...]:
    return (number, name, f"2024-01-{number % 28 + 1:02}", f"{number % 7}.50", [1])


def shown(wh: tidemill.Warehouse, name: str) -> dict[str, Any]:
    result = wh.sql("SHOW STATISTICS")
    return next(dict(zip(result.columns, one, strict=True)) for one in result if one[0] == name)


def columns(wh: tidemill.Warehouse, name: str) -> dict[str, dict[str, Any]]:
    result = wh.sql(f"SHOW STATISTICS FOR {name}")
    return {one[0]: dict(zip(result.columns, one, strict=True)) for one in result}


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_changes_are_counted_as_epochs_go_by(kind: str, tmp_path: Path) -> None:
    with opened(tmp_path, kind) as wh:
        wh.sql(TABLE)
        wh.apply({"t": [(1, row(n)) for n in range(10)]})
        wh.apply({"t": [(-1, row(0)), (1, row(0, "bob")), (-1, row(1))]})
        wh.sql("DELETE FROM t WHERE id = 2; UPDATE t SET name = 'bob' WHERE id > 7")
        found = shown(wh, "t")
        assert (found["rows"], found["inserted"], found["updated"], found["deleted"]) == (8, 10, 3, 2)
        assert (found["epochs"], found["bytes"] > 0, found["kind"]) == (4, True, "table")
        assert found["insert_rate"] == pytest.approx(10 / 4, rel=0.02)
        assert found["update_rate"] == pytest.approx(3 / 4, rel=0.02)
    if kind == "folder":
        with opened(tmp_path, kind) as wh:
            again = shown(wh, "t")
            assert {**again, "bytes": 0} == pytest.approx({**found, "bytes": 0})


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_analyze_counts_what_is_there(kind: str, tmp_path: Path) -> None:
    random = Random(3)
    with opened(tmp_path, kind) as wh:
        wh.sql(TABLE)
        names = random.choices(
            ["ann", "bob", "cid", None, *(f"p{n}" for n in range(50))], [40, 20, 5, 15, *[1] * 50], k=500
        )
        rows = [row(n, name) for n, name in enumerate(names)]
        wh.apply({"t": [(1, one) for one in rows]})
        wh.apply({"t": [(-1, one) for one in rows[:100]]})
        wh.sql("CREATE TABLE bag (a INT); INSERT INTO bag VALUES (1), (1), (1), (2), (NULL)")
        assert wh.sql("ANALYZE").message == "analyzed 5 columns of t, bag"
        left = Counter(names[100:])
        nulls = left.pop(None, 0)
        found = columns(wh, "t")
        assert set(found) == {"id", "name", "day", "price"}
        name = found["name"]
        assert (name["rows"], name["distinct"], name["nulls"]) == (400, len(left), nulls)
        assert (name["least"], name["greatest"]) == (min(left), max(left))
        assert name["matches"] == pytest.approx(sum(n * n for n in left.values()) / sum(left.values()))
        (first, count), *_ = left.most_common(1)
        assert name["frequent"].startswith(f"{first} ({count / 400:.1%})")
        assert (found["id"]["distinct"], found["id"]["frequent"], found["price"]["greatest"]) == (400, "", "6.50")
        assert columns(wh, "bag")["a"]["frequent"] == "1 (60.0%)"
        analyzed = wh.statistics("T")["t"].columns["name"]
        assert analyzed.statistics.frequent[0] == (first, count) and analyzed.epoch == 3
    if kind == "folder":
        with opened(tmp_path, kind) as wh:
            assert columns(wh, "t") == found


def test_a_plan_analyzes_what_it_asks_for_and_what_has_changed_since(tmp_path: Path) -> None:
    pairs = "SELECT r.id, s.id AS other FROM t r JOIN t s ON r.name = s.name"
    with opened(tmp_path, "folder") as wh:
        wh.sql(TABLE)
        wh.apply({"t": [(1, row(n, f"p{n}")) for n in range(50)]})
        wh.sql(f"CREATE MATERIALIZED VIEW a AS {pairs}")
        assert {name: found["distinct"] for name, found in columns(wh, "t").items()} == {"name": 50}
        wh.apply({"t": [(1, row(n, "ann")) for n in range(50, 54)]})
        wh.view("a").explain()
        assert columns(wh, "t")["name"]["epoch"] == 1  # 4 of 50 rows are too few to count again
    with opened(tmp_path, "folder") as wh:
        assert columns(wh, "t")["name"]["distinct"] == 50
        wh.apply({"t": [(1, row(n, "ann")) for n in range(54, 100)]})
        wh.sql(f"CREATE MATERIALIZED VIEW b AS {pairs}")
        assert columns(wh, "t")["name"]["frequent"] == "ann (50.0%)"
        wh.sql("DROP VIEW a; DROP VIEW b; DROP TABLE t")
        wh.sql(TABLE)
        assert not columns(wh, "t") and shown(wh, "t")["inserted"] == 0


def test_large_relations_are_analyzed_only_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_statistics, "MAX_COUNTED_ROWS", 10)
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(TABLE)
        wh.apply({"t": [(1, row(n)) for n in range(20)]})
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT r.id FROM t r JOIN t s ON r.name = s.name")
        assert not columns(wh, "t")
        wh.sql("ANALYZE TABLE t, v COMPUTE STATISTICS FOR ALL COLUMNS")
        assert columns(wh, "t")["name"]["distinct"] == 1
        assert columns(wh, "v")["id"]["rows"] == 400


def test_predictions_use_frequent_values() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE even (id INT PRIMARY KEY, k INT); CREATE TABLE skewed (id INT PRIMARY KEY, k INT)")
        wh.apply({"even": [(1, (n, n % 100)) for n in range(1000)]})
        wh.apply({"skewed": [(1, (n, 0 if n % 2 else n % 198)) for n in range(1000)]})
        visits = {}
        for table in ("even", "skewed"):
            wh.sql(f"CREATE MATERIALIZED VIEW v_{table} AS SELECT a.id FROM {table} a JOIN {table} b ON a.k = b.k")
            text = wh.view(f"v_{table}").explain()
            (line,) = re.findall(r"delta .*; ([\d.,]+) visits a change", text)
            visits[table] = float(line.replace(",", ""))
            assert f"statistics   {table} 1,000 rows" in text
        assert wh.statistics("skewed")["skewed"].columns["k"].statistics.distinct == 99
        # A row of the even table meets 10 others twice, one of the skewed table half of the time 505.
        assert visits["even"] == pytest.approx(2 * 3 * 10, rel=0.2)
        assert visits["skewed"] == pytest.approx(2 * 3 * (505 * 0.505 + 5 * 0.495), rel=0.05)
        assert re.search(r"an epoch lately; k 99 values, 5[01]% 0\n", text)


def test_columns_of_a_lookup_are_counted_together() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, `a, b` INT)")
        wh.apply({"t": [(1, (n, n % 10, n % 10 if n else None, n)) for n in range(100)]})
        wh.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT r.id FROM t r JOIN t s ON r.a = s.a AND r.b = s.b AND r.id <> s.id"
        )
        found = columns(wh, "t")
        assert set(found) >= {"a", "b"}
        wh.sql("CREATE TABLE p (x INT, y INT, PRIMARY KEY (x, y)); CREATE TABLE q (x INT, y INT)")
        wh.apply({name: [(1, (n % 10, n)) for n in range(50)] for name in ("p", "q")})
        wh.sql("CREATE MATERIALIZED VIEW w AS SELECT q.x FROM p JOIN q ON p.x = q.x AND p.y = q.y")
        assert set(columns(wh, "p")) <= {"x", "y"}  # a key has as many values as rows, and is not counted
        assert columns(wh, "q")["x, y"]["distinct"] == 50


def test_relations_that_change_often_count_more() -> None:
    join = "SELECT f.id, f.a * r.rate AS x FROM facts f JOIN rates r ON f.k = r.k"
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(
            "CREATE TABLE facts (id INT PRIMARY KEY, k INT, a INT); CREATE TABLE rates (k INT PRIMARY KEY, rate INT)"
        )
        wh.apply({"facts": [(1, (n, n % 4, n)) for n in range(100)], "rates": [(1, (k, 0)) for k in range(4)]})
        before = stored_statistics.stored_statistics(wh._engine.catalog, wh._engine.store)
        assert (before.changes["facts"], before.changes["rates"]) == (100, 4)
        for n in range(300):
            wh.apply({"rates": [(-1, (0, n)), (1, (0, n + 1))]})
        after = stored_statistics.stored_statistics(wh._engine.catalog, wh._engine.store)
        assert after.changes["rates"] > after.changes["facts"] and after.rows["rates"] == 4
        wh.sql(f"CREATE MATERIALIZED VIEW v AS {join}")
        assert re.search(r"rates 4 rows, 0\.\d+ inserted, 0\.99\d updated an epoch lately", wh.view("v").explain())


def test_reads_and_subscribers() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(TABLE)
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT name, COUNT(*) AS n FROM t GROUP BY name")
        wh.apply({"t": [(1, row(1))]})
        wh.view("v").rows()
        wh.sql("SELECT * FROM v WHERE n > 0")
        with wh.subscribe("v"), wh.subscribe("v"):
            found = wh.statistics()
            assert (found["v"].reads, found["v"].subscribers, found["t"].reads) == (2, 2, 0)
            assert (found["v"].kind, found["v"].rows, found["v"].inserted) == ("view", 1, 1)
        assert shown(wh, "v")["subscribers"] == 0


def test_what_cannot_be_analyzed_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, "folder") as wh:
        wh.sql("CREATE STREAM s (a INT); CREATE TABLE t (a INT)")
        with pytest.raises(Unsupported, match='"s" cannot be analyzed'):
            wh.sql("ANALYZE t, s")
        with pytest.raises(UnknownName, match='no table or view "u"'):
            wh.sql("SHOW STATISTICS FOR u")
        assert wh.sql("ANALYZE").message == "analyzed 1 columns of t"
        assert (shown(wh, "s")["kind"], shown(wh, "s")["rows"]) == ("stream", None)
    with tidemill.open(tmp_path / "wh", read_only=True) as reader:
        assert shown(reader, "t")["rows"] == 0
        with pytest.raises(StorageError):
            reader.sql("ANALYZE")


def test_a_warehouse_without_counts_starts_with_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        write = folder_writer.write_manifest
        before.setattr(folder_writer, "write_manifest", lambda folder, one: write(folder, replace(one, counts={})))
        with opened(tmp_path, "folder") as wh:
            wh.sql(TABLE)
            wh.apply({"t": [(1, row(n)) for n in range(10)]})
            wh.apply({"t": [(-1, row(0)), (1, row(0, "bob"))]})
    with opened(tmp_path, "folder") as wh:
        assert (shown(wh, "t")["rows"], shown(wh, "t")["updated"]) == (10, 0)
        wh.sql("DELETE FROM t WHERE id = 3")
        assert (shown(wh, "t")["rows"], shown(wh, "t")["deleted"]) == (9, 1)
        wh.sql("ANALYZE t")
        assert columns(wh, "t")["name"]["rows"] == 9


def test_the_maps_of_a_view_are_counted_by_the_columns_that_lookups_go_by(tmp_path: Path) -> None:
    with opened(tmp_path, "folder") as wh:
        wh.sql("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT)")
        wh.sql("""CREATE MATERIALIZED VIEW v WITH (strategy = 'viewlet') AS
                  SELECT a.x, COUNT(*) AS n, SUM(b.y) AS y FROM a JOIN b ON a.k = b.k GROUP BY a.x""")
        wh.apply({"a": [(1, row) for row in [(1, 10), (1, 10), (1, 11), (1, 12), (2, 10), (3, 13)]]})
        wh.apply({"a": [(-1, (3, 13)), (-1, (1, 10))], "b": [(1, (1, 5))]})
        (kept,) = [one for one in wh.statistics("v")["v"].maps.values() if one.lookups]
        assert (kept.entries, kept.bytes > 0) == (4, True)
        (lookup,) = kept.lookups.values()
        assert (lookup.rows, lookup.distinct, lookup.matches) == (4, 2, pytest.approx(10 / 4))
        result = wh.sql("SHOW STATISTICS FOR v")
        found = [dict(zip(result.columns, one, strict=True)) for one in result]
        (whole,) = [one for one in found if one["map"] == kept.name and one["column"] is None]
        (by_key,) = [one for one in found if one["map"] == kept.name and one["column"] is not None]
        assert (whole["rows"], whole["bytes"], whole["epoch"]) == (4, kept.bytes, 2)
        assert (by_key["rows"], by_key["distinct"], by_key["matches"]) == (4, 2, pytest.approx(10 / 4))
        groups = next(one for one in found if one["map"] == "v/groups")
        assert groups["rows"] == 3
        assert wh.statistics()["v"].maps == {}
