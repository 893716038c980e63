"""Whoever reads a view in quarantine over the network is told: in JSON, in headers, in events, and by the client."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
import websockets.asyncio.client as websockets

import tidemill
from tests import coroutines
from tests.serving.http.conftest import Served, serve
from tidemill.engine.quarantine.notes import QuarantineWarning
from tidemill.serving.client.remote_relations import RemoteRows, RemoteView
from tidemill.serving.client.remote_warehouse import RemoteSnapshot, RemoteWarehouse
from tidemill.serving.http.endpoints import ENDPOINTS

TABLES = """
    CREATE TABLE parts (id INT PRIMARY KEY, cost INT, pieces INT);
    CREATE MATERIALIZED VIEW prices WITH (on_error = 'quarantine') AS SELECT id, cost DIV pieces AS price FROM parts;
    CREATE MATERIALIZED VIEW fine AS SELECT id FROM parts;
    INSERT INTO parts VALUES (1, 9, 3);
    INSERT INTO parts VALUES (2, 9, 0);
"""
NOTE = 'view "prices" is in quarantine since epoch 2'
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def parts() -> Iterator[Served]:
    wh = tidemill.open(":memory:", runtime="native")
    wh.sql(TABLES)
    yield from serve(wh, heartbeat=0.2)


@pytest.fixture(scope="module")
def remote(parts: Served) -> Iterator[RemoteWarehouse]:
    with tidemill.connect(f"http://127.0.0.1:{parts.port}") as remote:
        yield remote


def told(read: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        read()
    return [str(one.message) for one in found if issubclass(one.category, QuarantineWarning)]


READ = {"/v1/views/{name}", "/v1/views/{name}/changes"}
"""The ways by which the rows of a view come; /v1/sql has notes of every statement."""

OTHERS = """
    / /assets/{name} /healthz /readyz /metrics /v1/openapi.json /v1/me /v1/status /v1/status/stream /v1/catalog
    /v1/builds
    /v1/tables/{name} /v1/tables/{name}/definition /v1/views/{name}/definition /v1/views/{name}/explain /v1/sources
    /v1/views/{name}/certificate /v1/views/{name}/plans /v1/views/{name}/errors /v1/views/{name}/refreshes
    /v1/views/{name}/costs /v1/epochs/{number}/wait /v1/me /v1/forecast /v1/refreshes /v1/costs /v1/statistics
"""
"""Those by which none come; the status says it of each view."""


def test_what_is_read_says_so(parts: Served) -> None:
    for path in ("/v1/views/prices", "/v1/views/prices?where=id:1", "/v1/views/prices?epoch=2"):
        answer = parts.get(path)
        assert answer.json["notes"][0].startswith(NOTE), path
        assert json.loads(answer.headers["tidemill-notes"]) == answer.json["notes"]
    for kind in ("text/csv", "application/x-ndjson", ARROW):
        assert json.loads(parts.get("/v1/views/prices", accept=kind).headers["tidemill-notes"])[0].startswith(NOTE)
    assert parts.get("/v1/views/prices/changes").json["notes"][0].startswith(NOTE)
    assert parts.sql("SELECT * FROM prices").json["results"][0]["notes"][0].startswith(NOTE)
    fine = parts.get("/v1/views/fine")
    assert fine.json["notes"] == [] and "tidemill-notes" not in fine.headers
    assert parts.get("/v1/views/prices?epoch=1").json["notes"] == []


def test_live_changes_say_so(parts: Served) -> None:
    stream = parts.events("/v1/views/prices/changes?since=0")
    events = iter(stream)
    assert next(one for one in events if one.get("event") == "notes")["data"]["notes"][0].startswith(NOTE)
    assert next(one for one in events if "rows" in one.get("data", {}))["data"]["notes"][0].startswith(NOTE)
    stream.close()

    async def listen() -> Any:
        async with websockets.connect(f"ws://127.0.0.1:{parts.port}/v1/views/prices/changes") as live:
            return json.loads(await live.recv())

    assert coroutines.run(listen())["notes"][0].startswith(NOTE)


OF_VIEWS: dict[str, Callable[[RemoteView], Any]] = {
    "rows": lambda view: view.rows(),
    "arrow": lambda view: view.arrow(),
    "pandas": lambda view: view.pandas(),
    "polars": lambda view: view.polars(),
    "duckdb": lambda view: view.duckdb(),
    "where": lambda view: view.where(id=1),
    "changes": lambda view: view.changes(),
    "net_changes": lambda view: view.net_changes(0),
    "__len__": len,
    "__arrow_c_stream__": pa.table,
}
OF_WAREHOUSES: dict[str, Callable[[RemoteWarehouse], Any]] = {
    "sql": lambda remote: remote.sql("SELECT * FROM prices"),
    "view": lambda remote: remote.view("prices").rows(),
    "at": lambda remote: remote.at(2).view("prices").rows(),
    "subscribe": lambda remote: next(iter(remote.subscribe("prices", since=0, timeout=5))),
}


def public(one: type) -> set[str]:
    return {name for name in dir(one) if not name.startswith("_")}


def test_every_door_is_listed_here() -> None:
    gets = {one.path for one in ENDPOINTS if one.method == "GET"}
    assert gets == READ | set(OTHERS.split())
    others = {"fields", "columns", "definition", "explain", "lineage", "refresh"}
    assert public(RemoteView) == {name for name in OF_VIEWS if name[0] != "_"} | others
    assert public(RemoteRows) <= public(RemoteView) and public(RemoteSnapshot) == {"table", "view"}
    changing = {"apply", "upsert", "delete", "close", "wait", "url", "epoch", "status", "table", "tables", "views"}
    assert public(RemoteWarehouse) == OF_WAREHOUSES.keys() | changing


def test_the_client_says_so(remote: RemoteWarehouse) -> None:
    for method, read in OF_VIEWS.items():
        (note,) = told(lambda read=read: read(remote.view("prices")))  # type: ignore[misc]
        assert note.startswith(NOTE), method
        assert not told(lambda read=read: read(remote.view("fine"))), method  # type: ignore[misc]
    for method, ask in OF_WAREHOUSES.items():
        (note,) = told(lambda ask=ask: ask(remote))  # type: ignore[misc]
        assert note.startswith(NOTE), method
    result: list[Any] = []
    told(lambda: result.append(remote.sql("SELECT * FROM prices")))
    assert result[0].notes[0].startswith(NOTE)
