"""Lake tables whose rows are not kept: views are filled, kept and verified from the lake, and nothing is stored."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo

import tidemill
from tests.lake.delta_history import DeltaHistory
from tidemill.model.errors import DataError, HistoryGone, Unsupported

VIEWS = {
    "sums": "SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region",
    "joined": "SELECT o.id, o.region, r.id AS other FROM orders o JOIN returns r ON o.id = r.id WHERE o.score >= 0.5",
    "least": "SELECT region, MIN(id) AS least FROM orders GROUP BY region",
    "rest": "SELECT id FROM orders WHERE id NOT IN (SELECT id FROM returns)",
    "first": "SELECT id, region FROM orders ORDER BY id LIMIT 3",
    "over": "SELECT id, SUM(id) OVER (PARTITION BY region) AS s FROM orders",
    "named": "SELECT o.id, n.name FROM orders o LEFT JOIN names n ON o.id = n.id",
    "above": "SELECT COUNT(*) AS n FROM sums WHERE total > 100",
}


@pytest.mark.parametrize("feed", ["on", "off"])
def test_random_histories(tmp_path: Path, random_seed: int, feed: str) -> None:
    rng = random.Random(random_seed)
    lakes = {name: DeltaHistory(tmp_path / name, rng, feed, []) for name in ("orders", "returns")}
    waiting = dict(VIEWS)
    for turn in range(4):
        with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
            if turn == 0:
                for name, lake in lakes.items():
                    wh.sql(f"CREATE TABLE {name} USING delta OPTIONS (keep = 'none') LOCATION '{lake.path}'")
                wh.sql("CREATE TABLE names (id BIGINT, name STRING)")
                wh.sql("INSERT INTO names VALUES (1, 'one'), (7, 'seven'), (12, 'twelve')")
            for view in list(waiting)[: 2 if turn < 3 else len(waiting)]:
                refresh = "WITH (refresh = 'deferred') " if view == "least" else ""
                wh.sql(f"CREATE MATERIALIZED VIEW {view} {refresh}AS {waiting.pop(view)}")
            assert_right(wh, lakes, random_seed)
            for lake in lakes.values():
                for _ in range(rng.randrange(3)):
                    lake.step()
            wh.sync()
            assert_right(wh, lakes, random_seed)
            wh.vacuum()
            assert not any(wh.statistics(name)[name].bytes for name in lakes)


def assert_right(wh: Any, lakes: dict[str, DeltaHistory], seed: int) -> None:
    """Tables are what the lake has, and views what their queries make of it, at the version that they show."""
    for name, lake in lakes.items():
        assert Counter(wh.table(name).rows()) == lake.rows(), f"seed {seed}"
    for found in wh.verify():
        assert found.ok, f"seed {seed}: {found}"


def test_iceberg(tmp_path: Path) -> None:
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", schema=pa.schema([("id", pa.int64()), ("g", pa.string())]))
    table.append(pa.table({"id": range(6), "g": ["a", "b"] * 3}))
    options = f"OPTIONS (catalog = '{tmp_path}/catalog.db', keep = 'none')"
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(f"CREATE TABLE orders USING iceberg {options} LOCATION 'sales.orders'")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(id) AS s FROM orders GROUP BY g")
        table.delete(EqualTo("id", 3))
        wh.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM orders")
        assert wh.view("n").rows() == [(6,)], "a view is filled at the version that was taken"
        wh.sync()
        assert sorted(wh.view("v").rows()) == [("a", 6), ("b", 6)] and wh.view("n").rows() == [(5,)]
        assert all(one.ok for one in wh.verify())


def test_queries_read_the_lake(tmp_path: Path) -> None:
    lake = str(tmp_path / "orders")
    write_deltalake(lake, pa.table({"id": [1, 2, 3]}))
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(f"CREATE TABLE orders USING delta OPTIONS (keep = 'none') LOCATION '{lake}'")
        begin = wh.epoch
        assert wh.sql("SELECT SUM(id) FROM orders").rows() == [(6,)]
        DeltaTable(lake).delete("id = 2")
        assert wh.sql("SELECT SUM(id) FROM orders").rows() == [(6,)], "versions are taken by REFRESH alone"
        wh.sql("REFRESH TABLE orders")
        assert wh.sql("SELECT SUM(id) FROM orders").rows() == [(4,)]
        for earlier in ("'delta:0'", begin):
            assert wh.sql(f"SELECT SUM(id) FROM orders VERSION AS OF {earlier}").rows() == [(6,)]
        assert "keep = 'none'" in wh.sql("SHOW CREATE TABLE orders").rows()[0][0]
        assert wh.sql("SHOW TABLES").rows()[0][:2] == ("orders", "table")
        wh.sql("DROP TABLE orders")


def test_what_needs_rows_is_refused(tmp_path: Path) -> None:
    lake = str(tmp_path / "orders")
    write_deltalake(lake, pa.table({"id": [1, 2, 3]}))
    (tmp_path / "in").mkdir()
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        for text, said in (
            (f"(PRIMARY KEY (id)) USING delta OPTIONS (keep = 'none') LOCATION '{lake}'", "keys, checks"),
            (f"(id BIGINT, CHECK (id > 0)) USING delta OPTIONS (keep = 'none') LOCATION '{lake}'", "keys, checks"),
            (f"(id INT) USING csv OPTIONS (keep = 'none') LOCATION '{tmp_path / 'in'}'", "needs its rows"),
            (f"USING delta OPTIONS (keep = 'some') LOCATION '{lake}'", "no value of the option keep"),
            (
                f"USING delta OPTIONS (keep = 'none', on_history_gone = 'rebuild') LOCATION '{lake}'",
                "cannot be rebuilt",
            ),
        ):
            with pytest.raises(Unsupported, match=said):
                wh.sql(f"CREATE TABLE orders {text}")
        wh.sql(f"CREATE TABLE orders USING delta OPTIONS (keep = 'none') LOCATION '{lake}'")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(id) AS s FROM orders")
        with pytest.raises(Unsupported, match="cannot be rebuilt"):
            wh.sql("REFRESH TABLE orders REBUILD")
        for change in ("INSERT INTO orders VALUES (1)", "DELETE FROM orders", "UPDATE orders SET id = 1"):
            with pytest.raises(DataError, match="cannot be changed here"):
                wh.sql(change)
        DeltaTable(lake).delete("id = 2")
        DeltaTable(lake).vacuum(0, dry_run=False, enforce_retention_duration=False)
        with pytest.raises(HistoryGone) as refused:
            wh.sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM orders")
        assert "REFRESH TABLE orders" in refused.value.render()
        with pytest.raises(HistoryGone, match="gone"):
            wh.sync()
        assert wh.view("v").rows() == [(6,)]
