"""The API of a warehouse: epochs, feeds, time travel, refresh modes and errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill
from tidemill.model import errors
from tidemill.runtimes.native import runtime_state
from tidemill.storage.memory_store import MemoryStore

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2))"
SPEND = "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer"


@pytest.fixture
def shop() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(f"{ORDERS}; CREATE MATERIALIZED VIEW spend AS {SPEND}")
        wh.apply({"orders": [(+1, (1, "ann", "9.50")), (+1, (2, "bob", "3.00"))]})
        yield wh


def test_an_epoch_moves_every_view(shop: tidemill.Warehouse) -> None:
    shop.sql("CREATE MATERIALIZED VIEW big AS SELECT customer FROM spend WHERE total > 5")
    assert shop.apply({"orders": [(+1, (3, "bob", 4))]}) == shop.epoch == 2
    assert sorted(shop.view("spend").rows()) == [("ann", Decimal("9.50"), 1), ("bob", Decimal("7.00"), 2)]
    assert sorted(shop.view("big").rows()) == [("ann",), ("bob",)]


def test_changes_and_batches(shop: tidemill.Warehouse) -> None:
    shop.sql("UPDATE orders SET amount = 4.00 WHERE id = 2")
    shop.sql("UPDATE orders SET amount = 3.00 WHERE id = 2")
    assert shop.view("spend").changes(since=1) == []
    assert [(batch.epoch, len(batch)) for batch in shop.view("spend").batches(since=1)] == [(2, 2), (3, 2)]


def test_time_travel(shop: tidemill.Warehouse) -> None:
    shop.sql("DELETE FROM orders")
    assert shop.view("spend").rows() == []
    assert sorted(shop.at(1).view("spend").rows()) == [("ann", Decimal("9.50"), 1), ("bob", Decimal("3.00"), 1)]
    assert shop.at(1).sql("SELECT COUNT(*) FROM orders") == [(2,)]
    assert shop.at(0).table("orders").rows() == []
    with pytest.raises(errors.EpochGone):
        shop.at(3)


def test_a_view_is_not_there_before_it_was_made(shop: tidemill.Warehouse) -> None:
    shop.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM orders")
    with pytest.raises(errors.EpochGone, match="did not exist at epoch 0"):
        shop.at(0).view("n")


def test_a_subscriber_hears_of_each_epoch(shop: tidemill.Warehouse) -> None:
    heard: list[tuple[int, int]] = []
    ready = threading.Event()

    def listen() -> None:
        feed = shop.subscribe("spend", since=0)
        ready.set()
        heard.extend((batch.epoch, len(batch)) for batch in feed)

    listener = threading.Thread(target=listen)
    listener.start()
    assert ready.wait(10)
    shop.apply({"orders": [(+1, (3, "eve", 1))]})
    shop.apply({"orders": [(-1, (3, "eve", 1))]})
    for batch in shop.subscribe("spend", since=2, timeout=0.2):
        assert batch.epoch == 3
    shop.close()
    listener.join(10)
    assert heard[:3] == [(1, 2), (2, 1), (3, 1)]


def test_an_epoch_that_comes_while_a_subscriber_reads_is_heard_once(
    shop: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = MemoryStore.read

    def late(self: MemoryStore, name: str, *args: Any, **bounds: Any) -> pa.Table:
        if name == "spend" and shop.epoch < 3:
            shop.apply({"orders": [(+1, (10 + shop.epoch, "eve", 1))]})
        return read(self, name, *args, **bounds)

    feed = shop.subscribe("spend", since=0, timeout=0.1)
    monkeypatch.setattr(MemoryStore, "read", late)
    assert [batch.epoch for batch in feed] == [1, 2, 3]
    assert [batch.epoch for batch in shop.subscribe("spend", since=0, timeout=0.1)] == [1, 2, 3]


def test_positions_say_where_sources_stand(shop: tidemill.Warehouse) -> None:
    assert shop.positions == {}
    shop.apply({"orders": [(+1, (3, "eve", 1))]}, positions={"queue": "7", "file": "a"})
    shop.apply({"orders": [(-1, (3, "eve", 1))]}, positions={"queue": "8"})
    assert shop.positions == {"queue": "8", "file": "a"}


def test_a_reader_in_another_place_follows_the_writer(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as writer:
        writer.sql(f"{ORDERS}; CREATE MATERIALIZED VIEW spend AS {SPEND}")
        with tidemill.open(tmp_path / "w", runtime="native", read_only=True) as reader:
            feed = reader.subscribe("spend", timeout=10)
            writer.apply({"orders": [(+1, (1, "ann", 1))]})
            assert list(next(feed)) == [(1, ("ann", Decimal("1.00"), 1))]
            with pytest.raises(errors.StorageError, match="reading only"):
                reader.apply({"orders": [(+1, (2, "bob", 1))]})


def test_many_callers_at_once(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql(f"{ORDERS}; CREATE MATERIALIZED VIEW spend AS {SPEND}")

        def work(first: int) -> None:
            for i in range(first, first + 25):
                wh.apply({"orders": [(+1, (i, "ann", 1))]})

        threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wh.epoch == 100
        assert wh.view("spend").rows() == [("ann", Decimal("100.00"), 100)]
    with tidemill.open(tmp_path / "w", runtime="native") as again:
        assert again.epoch == 100
        assert again.view("spend").verify()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"orders": [(-1, (1, "ann", "9.51"))]}, errors.MissingRow),
        ({"orders": [(+1, (1, "eve", "1.00"))]}, errors.DuplicateKey),
        ({"orders": [(+1, (None, "eve", "1.00"))]}, errors.NullViolation),
        ({"orders": [(+1, (3, "eve", "1.0.1"))]}, errors.BadValue),
        ({"orders": [(+1, (2**63, "eve", "1.00"))]}, errors.BadValue),
        ({"ordres": [(+1, (3, "eve", "1.00"))]}, errors.UnknownName),
        ({"spend": [(+1, ("eve", 1, 1))]}, errors.UnknownName),
    ],
)
def test_a_refused_epoch_changes_nothing(shop: tidemill.Warehouse, change: object, error: type[Exception]) -> None:
    before = sorted(shop.table("orders").rows()), sorted(shop.view("spend").rows())
    with pytest.raises(error):
        shop.apply(change)  # type: ignore[arg-type]
    assert shop.epoch == 1
    assert (sorted(shop.table("orders").rows()), sorted(shop.view("spend").rows())) == before
    shop.apply({"orders": [(+1, (3, "eve", "1.00"))]})
    assert shop.view("spend").verify()


def test_a_fault_in_a_view_refuses_the_epoch_of_all(shop: tidemill.Warehouse) -> None:
    shop.sql("CREATE MATERIALIZED VIEW rate AS SELECT id, 100 / (id - 5) AS r FROM orders")
    with pytest.raises(errors.ArithmeticFault, match="rate"):
        shop.apply({"orders": [(+1, (5, "eve", 1))]})
    assert len(shop.table("orders")) == 2
    assert shop.view("spend").verify()


def test_a_store_that_fails_leaves_nothing_in_memory(shop: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: MemoryStore, epoch: object) -> None:
        raise errors.StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "append", refuse)
        with pytest.raises(errors.StorageError):
            shop.apply({"orders": [(+1, (3, "eve", 1))]})
    assert shop.epoch == 1
    assert len(shop.table("orders")) == 2
    shop.apply({"orders": [(+1, (3, "eve", 1))]})
    assert shop.view("spend").verify()


def test_a_deferred_view_waits_until_it_is_asked(shop: tidemill.Warehouse) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS {SPEND}")
    shop.sql("CREATE MATERIALIZED VIEW after AS SELECT SUM(total) AS t FROM late")
    before = sorted(shop.view("late").rows())
    shop.apply({"orders": [(+1, (3, "eve", 1)), (-1, (1, "ann", "9.50"))]})
    shop.apply({"orders": [(+1, (4, "eve", 2))]})
    assert sorted(shop.view("late").rows()) == before
    assert shop.view("late").verify()
    assert shop.view("after").verify()
    shop.sql("REFRESH VIEW late")
    assert sorted(shop.view("late").rows()) == sorted(shop.view("spend").rows())
    assert shop.view("after").rows() == [(Decimal("6.00"),)]
    assert shop.view("late").refresh() == shop.epoch == 4


def test_a_deferred_join_sees_its_inputs_as_it_left_them(shop: tidemill.Warehouse) -> None:
    shop.sql("""CREATE TABLE people (name STRING PRIMARY KEY, city STRING);
        CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS
          SELECT p.city, SUM(o.amount) AS t FROM orders o JOIN people p ON o.customer = p.name GROUP BY p.city""")
    shop.apply({"people": [(+1, ("ann", "rome")), (+1, ("bob", "oslo"))], "orders": [(+1, (3, "bob", 5))]})
    shop.apply({"people": [(-1, ("bob", "oslo")), (+1, ("bob", "rome"))], "orders": [(-1, (2, "bob", 3))]})
    shop.sql("REFRESH VIEW late")
    assert shop.view("late").rows() == [("rome", Decimal("14.50"))]
    shop.apply({"orders": [(+1, (9, "ann", 1))]})
    shop.sql("REFRESH VIEW late")
    assert shop.view("late").rows() == [("rome", Decimal("15.50"))]
    assert shop.view("late").verify()


def test_a_deferred_view_over_a_stream_misses_nothing(shop: tidemill.Warehouse) -> None:
    shop.sql("""CREATE STREAM clicks (page STRING);
        CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS
          SELECT page, COUNT(*) AS n FROM clicks GROUP BY page""")
    shop.apply({"clicks": [(+1, ("home",))]})
    shop.apply({"clicks": [(+1, ("home",)), (+1, ("help",))]})
    shop.sql("REFRESH VIEW late")
    assert sorted(shop.view("late").rows()) == [("help", 1), ("home", 2)]


def test_a_view_with_an_interval_refreshes_when_it_is_due(shop: tidemill.Warehouse) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW soon WITH (refresh = 'every 0.001 seconds') AS {SPEND}")
    shop.sql(f"CREATE MATERIALIZED VIEW late WITH (refresh = 'every 10 minutes') AS {SPEND}")
    shop.apply({"orders": [(+1, (3, "eve", 1))]})
    first = sorted(shop.view("late").rows())
    assert first == sorted(shop.view("soon").rows()) == sorted(shop.view("spend").rows())
    shop.apply({"orders": [(+1, (4, "eve", 1))]})
    assert sorted(shop.view("soon").rows()) == sorted(shop.view("spend").rows())
    assert sorted(shop.view("late").rows()) == first


def test_what_a_view_reads_cannot_be_dropped(shop: tidemill.Warehouse) -> None:
    with pytest.raises(errors.Unsupported, match="cannot be dropped"):
        shop.sql("DROP TABLE orders")
    shop.sql("DROP VIEW spend; DROP TABLE orders")
    assert shop.tables() == shop.views() == ()
    shop.sql(ORDERS)
    assert shop.table("orders").rows() == []


def test_a_view_that_cannot_be_filled_leaves_no_trace(shop: tidemill.Warehouse) -> None:
    with pytest.raises(errors.ArithmeticFault):
        shop.sql("CREATE MATERIALIZED VIEW bad AS SELECT 1 / (id - 1) AS x FROM orders")
    assert shop.views() == ("spend",)
    shop.apply({"orders": [(+1, (3, "eve", 1))]})
    assert shop.view("spend").verify()


@pytest.mark.parametrize("option", ["speed = 'fast'", "strategy = 'magic'", "runtime = 'cloud'", "refresh = 'soon'"])
def test_options_are_checked(shop: tidemill.Warehouse, option: str) -> None:
    with pytest.raises(errors.TidemillError):
        shop.sql(f"CREATE MATERIALIZED VIEW v WITH ({option}) AS {SPEND}")
    assert shop.views() == ("spend",)


def test_reopening_shows_the_same(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w") as wh:
        wh.sql(f"{ORDERS}; CREATE MATERIALIZED VIEW spend AS {SPEND}")
        wh.apply({"orders": [(+1, (1, "ann", "9.50")), (+1, (2, "bob", "3.00"))]}, positions={"source": "17"})
    with tidemill.open(tmp_path / "w") as wh:
        wh.apply({"orders": [(-1, (1, "ann", "9.50"))]})
        assert wh.view("spend").rows() == [("bob", Decimal("3.00"), 1)]
        assert wh.view("spend").verify()
        with pytest.raises(errors.LockHeld):
            tidemill.open(tmp_path / "w")


def test_large_relations_stay_in_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With everything counted as large, lookups, groups and checks go through the columns and give the same answers."""
    monkeypatch.setattr(runtime_state, "RESIDENT_ROWS", 0)
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql(f"""{ORDERS};
            CREATE TABLE people (name STRING PRIMARY KEY, city STRING);
            CREATE TABLE visits (name STRING, day DATE);
            CREATE MATERIALIZED VIEW spend AS {SPEND};
            CREATE MATERIALIZED VIEW cities AS SELECT p.city, SUM(o.amount) AS t, COUNT(v.day) AS n
              FROM orders o JOIN people p ON o.customer = p.name JOIN visits v ON v.name = p.name GROUP BY p.city;
            CREATE MATERIALIZED VIEW pairs AS SELECT a.id, b.id AS other FROM orders a JOIN orders b
              ON a.customer = b.customer AND a.id < b.id""")
        people = [("ann", "rome"), ("bob", "oslo"), ("eve", None)]
        wh.apply({"people": [(+1, row) for row in people], "visits": [(+2, ("ann", "2024-01-01")), (+1, (None, None))]})
        wh.apply({"orders": [(+1, (i, ["ann", "bob", "eve", None][i % 4], i)) for i in range(20)]})
        wh.vacuum(1)
        wh.apply(
            {"people": [(-1, people[0]), (+1, ("ann", "oslo"))], "orders": [(-1, (4, "ann", 4)), (+1, (40, "eve", 1))]}
        )
        wh.apply({"visits": [(-1, (None, None)), (-1, ("ann", "2024-01-01")), (+1, ("eve", None))]})
        for view in wh.views():
            assert wh.view(view).verify(), view
        with pytest.raises(errors.MissingRow):
            wh.apply({"visits": [(-1, (None, None))]})
        with pytest.raises(errors.DuplicateKey):
            wh.apply({"orders": [(+1, (8, "new", 4))]})
        with pytest.raises(errors.MissingRow):
            wh.apply({"orders": [(-1, (8, "ann", 9))]})


def test_rows_that_never_met_cannot_fail_together() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("""
            CREATE TABLE n (k INT, dividend INT);
            CREATE TABLE d (k INT, divisor INT);
            CREATE MATERIALIZED VIEW v AS SELECT n.k, n.dividend / d.divisor AS ratio FROM n JOIN d ON n.k = d.k;
        """)
        wh.apply({"d": [(+1, (1, 0))]})
        # The trigger of n runs first and finds the divisor 0 that leaves in the same epoch.
        wh.apply({"n": [(+1, (1, 10))], "d": [(-1, (1, 0)), (+1, (1, 5))]})
        assert wh.view("v").rows() == [(1, 2.0)]
        with pytest.raises(errors.ArithmeticFault):
            wh.apply({"n": [(+1, (1, 20))], "d": [(-1, (1, 5)), (+1, (1, 0))]})
        assert wh.view("v").rows() == [(1, 2.0)]


@pytest.mark.parametrize("refresh", ["immediate", "deferred"])
def test_a_relation_that_only_the_query_of_a_view_names(tmp_path: Path, refresh: str) -> None:
    """No stage reads it, but the query is compiled again when the warehouse is opened, and when it is verified."""
    with tidemill.open(tmp_path) as wh:
        wh.sql("CREATE TABLE t (a INT); CREATE TABLE u (b INT); INSERT INTO t VALUES (1); INSERT INTO u VALUES (5)")
        wh.sql("CREATE MATERIALIZED VIEW named AS SELECT b, COUNT(*) AS c FROM u GROUP BY b")
        wh.sql(
            f"CREATE MATERIALIZED VIEW v WITH (refresh = '{refresh}') AS "
            "SELECT q.a FROM (SELECT t.a, (SELECT MAX(c) FROM named) AS unused FROM t) AS q"
        )
        with pytest.raises(tidemill.TidemillError, match="It is read by v"):
            wh.sql("DROP VIEW named")
    with tidemill.open(tmp_path) as wh:
        wh.sql("INSERT INTO t VALUES (2); INSERT INTO u VALUES (6); REFRESH VIEW v")
        assert sorted(wh.view("v").rows()) == [(1,), (2,)]
        assert all(wh.verify()) and all(found.oracle for found in wh.verify())
        wh.sql("DROP VIEW v; DROP VIEW named; DROP TABLE u")
    with tidemill.open(tmp_path) as wh:
        assert wh.views() == ()
