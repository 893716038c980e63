"""A warehouse folder over time: reopening, time travel, the feed, compaction and vacuum, with views in between."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tidemill
from tests.ways import NATIVE, taking
from tidemill.model.errors import EpochGone, LockHeld, StorageError

SCRIPT = """
  CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount DECIMAL(8,2));
  CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
  CREATE MATERIALIZED VIEW often AS SELECT customer FROM spend WHERE n > 1;
"""


def _shop(folder: Path) -> tidemill.Warehouse:
    warehouse = tidemill.open(folder, runtime="native")
    warehouse.sql(SCRIPT)
    warehouse.apply({"orders": [(+1, (1, "ann", "5.00")), (+1, (2, "bob", "3.00"))]})
    warehouse.apply({"orders": [(+1, (3, "ann", "2.00"))]})
    warehouse.apply({"orders": [(-1, (1, "ann", "5.00")), (-1, (2, "bob", "3.00"))]})
    return warehouse


def _shown(handle: object) -> list[tuple[object, ...]]:
    return sorted((row[0], *map(str, row[1:])) for row in handle.rows())  # type: ignore[attr-defined]


def test_every_epoch_can_be_read_again(tmp_path: Path) -> None:
    with _shop(tmp_path / "shop") as warehouse:
        history = [_shown(warehouse.at(epoch).view("spend")) for epoch in range(4)]
        assert history == [
            [],
            [("ann", "5.00", "1"), ("bob", "3.00", "1")],
            [("ann", "7.00", "2"), ("bob", "3.00", "1")],
            [("ann", "2.00", "1")],
        ]
        assert warehouse.at(2).view("often").rows() == [("ann",)]
        assert warehouse.at(2).sql("SELECT COUNT(*) AS n FROM orders") == [(3,)]
        with pytest.raises(EpochGone):
            warehouse.at(4)


def test_the_past_reads_alike_in_every_form(tmp_path: Path) -> None:
    with _shop(tmp_path / "shop") as warehouse:
        for multiset in (warehouse.view("spend"), warehouse.at(3).view("spend"), warehouse.at(2).view("spend")):
            rows = sorted(multiset.rows())
            assert sorted(tuple(row.values()) for row in multiset.arrow().to_pylist()) == rows
            assert sorted(multiset.pandas().itertuples(index=False, name=None)) == rows


def test_views_go_on_after_reopening(tmp_path: Path) -> None:
    _shop(tmp_path / "shop").close()
    with tidemill.open(tmp_path / "shop", runtime="native") as warehouse:
        assert warehouse.epoch == 3
        warehouse.sql("INSERT INTO orders VALUES (9, 'ann', 1.00)")
        assert _shown(warehouse.view("spend")) == [("ann", "3.00", "2")]
        assert warehouse.view("often").rows() == [("ann",)]
        assert all(warehouse.view(name).verify() for name in warehouse.views())


@pytest.mark.parametrize("way", NATIVE)
def test_every_kind_of_state_is_found_again(way: str, tmp_path: Path) -> None:
    with taking(way):
        with _shop(tmp_path / "shop") as warehouse:
            warehouse.sql("CREATE MATERIALIZED VIEW grand AS SELECT COUNT(*) AS n, SUM(amount) AS total FROM orders")
            warehouse.sql("INSERT INTO orders VALUES (8, 'ann', NULL)")
        for customer in ("bob", "cat"):
            with tidemill.open(tmp_path / "shop", runtime="native") as warehouse:
                warehouse.apply({"orders": [(+1, (100 + warehouse.epoch, customer, "1.00"))]})
                assert all(warehouse.view(name).verify() for name in warehouse.views())
                assert warehouse.view("grand").rows()[0][0] == len(warehouse.table("orders"))


def test_the_sum_of_the_feed_is_the_view(tmp_path: Path) -> None:
    with _shop(tmp_path / "shop") as warehouse:
        changes = warehouse.view("spend").changes(since=0)
        assert [row for weight, row in changes if weight == 1] == warehouse.view("spend").rows()
        assert [batch.epoch for batch in warehouse.view("often").batches(since=0)] == [2, 3]


def test_compaction_changes_nothing_that_can_be_read(tmp_path: Path) -> None:
    with _shop(tmp_path / "shop") as warehouse:
        before = [_shown(warehouse.at(epoch).view("spend")) for epoch in range(4)]
        warehouse.compact()
        assert [_shown(warehouse.at(epoch).view("spend")) for epoch in range(4)] == before
        warehouse.vacuum(keep=1)
        assert _shown(warehouse.at(3).view("spend")) == before[3]
        with pytest.raises(EpochGone):
            warehouse.at(1)
        assert warehouse.view("spend").verify()


def test_a_subscriber_in_another_thread_sees_every_epoch(tmp_path: Path) -> None:
    with _shop(tmp_path / "shop") as warehouse:
        seen: list[int] = []
        feed = warehouse.subscribe("spend", since=1, timeout=20)

        def listen() -> None:
            seen.extend(next(feed).epoch for _ in range(3))

        listener = threading.Thread(target=listen)
        listener.start()
        warehouse.sql("INSERT INTO orders VALUES (7, 'cat', 1.00)")
        listener.join(timeout=30)
        assert seen == [2, 3, 4]


def test_one_writer_and_any_number_of_readers(tmp_path: Path) -> None:
    with _shop(tmp_path / "shop"):
        with pytest.raises(LockHeld):
            tidemill.open(tmp_path / "shop", runtime="native")
        with tidemill.open(tmp_path / "shop", runtime="native", read_only=True) as reader:
            assert _shown(reader.view("spend")) == [("ann", "2.00", "1")]
            with pytest.raises(StorageError):
                reader.sql("DELETE FROM orders")


def test_a_dropped_view_is_gone_and_can_come_back(tmp_path: Path) -> None:
    with _shop(tmp_path / "shop") as warehouse:
        warehouse.sql("DROP VIEW often")
        assert warehouse.views() == ("spend",)
        warehouse.sql("CREATE MATERIALIZED VIEW often AS SELECT customer, n FROM spend WHERE n > 0")
        assert warehouse.view("often").rows() == [("ann", 1)]
    with tidemill.open(tmp_path / "shop", runtime="native") as warehouse:
        assert warehouse.view("often").rows() == [("ann", 1)]


def test_a_deferred_view_waits_to_be_asked(tmp_path: Path) -> None:
    with _shop(tmp_path / "shop") as warehouse:
        warehouse.sql("""
          CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS
            SELECT a.customer, COUNT(*) AS pairs
            FROM orders a JOIN orders b ON a.customer = b.customer GROUP BY a.customer
        """)
        warehouse.sql("INSERT INTO orders VALUES (4, 'ann', 1.00)")
        warehouse.sql("INSERT INTO orders VALUES (5, 'dan', 1.00)")
        assert warehouse.view("late").rows() == [("ann", 1)]
        warehouse.sql("REFRESH VIEW late")
        assert sorted(warehouse.view("late").rows()) == [("ann", 4), ("dan", 1)]
        assert warehouse.view("late").verify()


def test_a_stream_keeps_no_rows_and_its_views_go_on(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "clicks", runtime="native") as warehouse:
        warehouse.sql("CREATE STREAM clicks (page STRING)")
        warehouse.sql("CREATE MATERIALIZED VIEW n AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page")
        warehouse.apply({"clicks": [(+1, ("home",)), (+1, ("home",))]})
    with tidemill.open(tmp_path / "clicks", runtime="native") as warehouse:
        warehouse.apply({"clicks": [(+1, ("home",)), (+1, ("help",))]})
        assert sorted(warehouse.view("n").rows()) == [("help", 1), ("home", 3)]
