"""``tidemill.connect``: the face of a local warehouse, over HTTP."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill
from tests.serving.http.conftest import Served, serve
from tidemill.model.errors import DuplicateKey, FellBehind, InvalidArgument, SourceLost, UnknownName
from tidemill.serving.client.remote_warehouse import RemoteWarehouse
from tidemill.serving.server.server import Server
from tidemill.serving.server.settings import Settings

TABLES = """
    CREATE TABLE orders (
      id BIGINT PRIMARY KEY, customer STRING NOT NULL, amount DECIMAL(12,2), day DATE, tags ARRAY<STRING>
    );
    CREATE TABLE notes (id INT, line STRING);
    CREATE MATERIALIZED VIEW spend AS
      SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    wh = tidemill.open(tmp_path_factory.mktemp("client") / "desk", runtime="native")
    wh.sql(TABLES)
    yield from serve(wh, heartbeat=0.2)


@pytest.fixture(scope="module")
def remote(desk: Served) -> Iterator[RemoteWarehouse]:
    with tidemill.connect(f"http://127.0.0.1:{desk.port}") as remote:
        yield remote


def test_it_reads_and_changes_as_a_local_one(desk: Served, remote: RemoteWarehouse) -> None:
    day = datetime.date(2024, 1, 2)
    first = remote.apply(
        {"orders": [(1, (1, "ann", "9.50", day, ["x", "y"]))], "notes": [(2, {"id": 1, "line": "é\n"})]}
    )
    assert first == desk.wh.epoch
    assert remote.table("orders").rows() == desk.wh.table("orders").rows()
    assert remote.view("spend").rows() == [("ann", Decimal("9.50"), 1)]
    assert remote.table("notes").rows() == [(1, "é\n")] * 2
    assert remote.view("spend").columns == ("customer", "total", "n")
    assert remote.view("spend").pandas()["n"].tolist() == [1]
    second = remote.upsert("orders", [{"id": 1, "customer": "ann", "amount": 1}, {"id": 2, "customer": "bob"}])
    assert remote.view("spend").where(customer=["bob"]) == [("bob", None, 1)]
    assert remote.at(first).view("spend").rows() == [("ann", Decimal("9.50"), 1)]
    changes = remote.view("spend").changes(since=first)
    assert sorted(changes, key=str) == sorted(desk.wh.view("spend").changes(since=first), key=str)
    assert remote.delete("orders", [2]) == second + 1
    assert remote.apply({"notes": pa.table({"id": [7], "line": ["frame"], "_weight": [1]})}) == second + 2
    result = remote.sql("SELECT id, tags, amount + 1 AS more FROM orders WHERE id = :id", id=1)
    assert (result.columns, list(result)) == (("id", "tags", "more"), [(1, None, Decimal("2.00"))])
    assert remote.sql("INSERT INTO notes VALUES (?, ?)", [8, "sql"]).message.startswith("1 row")
    assert remote.wait(remote.epoch) and remote.epoch == desk.wh.epoch
    assert (remote.tables(), remote.views()) == (("orders", "notes"), ("spend",))
    assert "SUM(amount)" in remote.view("spend").definition
    explained = remote.view("spend").explain()
    assert explained.startswith("view spend") and explained.parts()["view"] == "spend"
    assert explained.picture().startswith("<svg")
    assert remote.view("spend").lineage(("ann", Decimal("1.00"), 1))["orders"][0][0] == 1


def test_errors_come_back_as_the_same_classes(remote: RemoteWarehouse) -> None:
    with pytest.raises(UnknownName, match="Did you mean"):
        remote.sql("SELECT customr FROM spend")
    with pytest.raises(DuplicateKey):
        remote.apply({"orders": [(1, (50, "a", 1, None, None)), (1, (50, "b", 1, None, None))]})
    with pytest.raises(UnknownName):
        remote.view("nothing")
    with pytest.raises(InvalidArgument, match="address"):
        tidemill.connect("localhost:80")


def test_a_key_is_one_epoch(remote: RemoteWarehouse) -> None:
    once = remote.apply({"notes": [(1, (9, "key"))]}, key="mine")
    assert remote.apply({"notes": [(1, (9, "key"))]}, key="mine") == once
    assert remote.epoch == once


def test_a_subscription_goes_on_over_restarts(tmp_path: Path) -> None:
    wh = tidemill.open(tmp_path / "restart", runtime="native")
    wh.sql("CREATE TABLE t (k STRING, n INT); CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS n FROM t GROUP BY k")
    server = Server(wh, "v", Settings(port=0, heartbeat=0.2))
    server.start()
    port = int(server.url.rpartition(":")[2])
    with tidemill.connect(server.url) as remote:
        live = remote.subscribe("v", where={"k": "a"})
        remote.apply({"t": [(1, ("a", 1)), (1, ("b", 1))]})
        assert next(live).inserts == [("a", 1)]
        server.stop()
        server.wait()
        wh.apply({"t": [(1, ("a", 2))]})
        again = Server(wh, "v", Settings(port=port))
        threading.Timer(0.5, again.start).start()
        batch = next(live)
        assert (batch.epoch, batch.changes) == (2, [(-1, ("a", 1)), (1, ("a", 3))])
        wh.vacuum(keep=1)
        with pytest.raises(FellBehind) as gone:
            next(remote.subscribe("v", since=0))
        assert gone.value.resume == 2
        assert list(remote.subscribe("v", timeout=0.3)) == []
        again.stop()
        again.wait()
        with pytest.raises(SourceLost):
            next(remote.subscribe("v", since=2, patience=0.1))
    wh.close()


def test_bad_rows_are_set_aside_by_the_server(desk: Served, remote: RemoteWarehouse) -> None:
    good, bad = (1, (71, "zoe", "2.00", datetime.date(2024, 1, 2), ["x"])), (1, (72, None, "1", None, None))
    epoch = remote.apply({"orders": [good, bad, (1, (73,))], "notes": [(1, (1, "x"))]}, on_error="quarantine")
    assert epoch == desk.wh.epoch and epoch.counts.rejected == 2  # type: ignore[attr-defined]
    added = [row for row in desk.wh.table("orders").rows() if row[0] > 70]
    assert added == [(71, "zoe", Decimal("2.00"), datetime.date(2024, 1, 2), ["x"])]
    assert sorted(place for _, place, *_ in desk.wh.table("orders_errors").rows()) == [2, 3]
    desk.wh.sql("DELETE FROM orders; DELETE FROM notes")
