"""Statements sent by HTTP: they end with their client and after their time, and large results come in pieces."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

import tidemill
from tests.serving.http.conftest import SHOP, Served, serve
from tests.serving.http.test_limits import until
from tidemill.serving.http.content import PIECE_ROWS

INSERT = {"sql": "INSERT INTO orders VALUES (9, 'zoe', 1)"}
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def shop() -> Iterator[Served]:
    wh = tidemill.open(":memory:", runtime="native")
    wh.sql(SHOP + "CREATE TABLE numbers (n BIGINT, t STRING)")
    count = 2 * PIECE_ROWS + 7
    wh.apply({"numbers": pa.table({"n": range(count), "t": ["é"] * count})})
    yield from serve(wh, statement_timeout=60.0, threads=2)


@contextmanager
def held(served: Served) -> Iterator[Callable[[], int]]:
    """The warehouse is held, so that statements wait; gives out how many run or wait."""
    with served.wh._engine.settled():
        yield lambda: served.server._service.statements.pending


def test_a_client_that_goes_away_ends_its_statement(shop: Served) -> None:
    epoch = shop.wh.epoch
    with held(shop) as pending:
        clients = [shop.connection() for _ in range(4)]  # two of them wait for a thread
        for client in clients:
            client.request("POST", "/v1/sql", json.dumps(INSERT), {"content-type": "application/json"})
        until(lambda: pending() == 4)
        for client in clients:
            client.close()
        until(lambda: pending() == 0)
    assert shop.sql("SELECT COUNT(*) FROM orders WHERE id = 9").json["results"][0]["rows"] == [[0]]
    assert shop.wh.epoch == epoch


def test_a_statement_has_its_time() -> None:
    wh = tidemill.open(":memory:", runtime="native")
    wh.sql(SHOP)
    for served in serve(wh, statement_timeout=0.2):
        with held(served):
            late = served.post("/v1/sql", INSERT)
        assert (late.status, late.error["kind"]) == (408, "Cancelled")
        assert late.error["what"] == "the statement took longer than 0.2 seconds"
        assert served.post("/v1/sql", INSERT).status == 200


def test_a_server_that_stops_does_not_wait_for_a_statement_forever() -> None:
    wh = tidemill.open(":memory:", runtime="native")
    wh.sql(SHOP)
    (serving,) = [serve(wh, patience=0.2)]
    served = next(serving)
    release = threading.Event()

    def hold() -> None:
        with held(served):
            release.wait(60)

    holding = threading.Thread(target=hold)
    holding.start()
    client = served.connection()
    client.request("POST", "/v1/sql", json.dumps(INSERT), {"content-type": "application/json"})
    until(lambda: served.server._service.statements.pending == 1)
    served.server.stop()
    served.server.wait()
    release.set()
    holding.join()
    assert wh.table("orders").rows() and len(wh.table("orders")) == 3
    assert next(serving, None) is None


def test_large_results_come_in_pieces(shop: Served) -> None:
    count = 2 * PIECE_ROWS + 7
    path = "/v1/tables/numbers?order=n"
    for kind in ("application/json", "application/x-ndjson", "text/csv", ARROW):
        answer = shop.get(path, accept=kind)
        assert answer.status == 200 and "content-length" not in answer.headers, kind
    rows = [[n, "é"] for n in range(count)]
    assert shop.get(path).json["rows"] == rows and shop.get(path).json["count"] == count
    lines = shop.get(path, accept="application/x-ndjson").body.decode().splitlines()
    assert [list(json.loads(line).values()) for line in lines] == rows
    assert shop.get(path, accept="text/csv").body.decode().split("\r\n")[1:-1] == [f"{n},é" for n in range(count)]
    arrow = pa.ipc.open_stream(shop.get(path, accept=ARROW).body).read_all()
    assert arrow["n"].to_pylist() == [*range(count)]
    query = {"sql": "SELECT n, t FROM numbers ORDER BY n; SELECT 1 AS one; SELECT n FROM numbers WHERE n < 0"}
    all_of_it, one, none = shop.post("/v1/sql", query).json["results"]
    assert (all_of_it["rows"], one["rows"], none["rows"]) == (rows, [[1]], [])
    assert "content-length" in shop.get(f"{path}&limit=10").headers
    answer = shop.post("/v1/sql", {"sql": "SELECT n FROM numbers ORDER BY n"}, accept=ARROW)
    assert pa.ipc.open_stream(answer.body).read_all().num_rows == count
