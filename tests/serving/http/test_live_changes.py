"""Live changes: every epoch once, from the one that was asked for, however slowly somebody reads."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets.asyncio.client as websockets

import tidemill
from tests import coroutines
from tests.serving.http.conftest import EventReader, Served, serve
from tidemill.serving.http.service.topic import Topic


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    wh = tidemill.open(tmp_path_factory.mktemp("live") / "desk", runtime="native")
    wh.sql("""
        CREATE TABLE t (k STRING, n INT);
        CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS n FROM t GROUP BY k;
        CREATE MATERIALIZED VIEW rows_of_t AS SELECT k, n FROM t;
    """)
    yield from serve(wh, heartbeat=0.2)


def add(desk: Served, *rows: tuple[str, int]) -> int:
    return desk.wh.apply({"t": [(1, row) for row in rows]})


def data(events: EventReader, count: int) -> list[Any]:
    found: list[Any] = []
    for event in events:
        if "data" in event:
            found.append(event)
        if len(found) == count:
            break
    return found


def until_readers(desk: Served, count: int) -> None:
    """Wait until so many follow the changes."""
    while sum(len(topic.queues) for topic in topics(desk)) < count:
        time.sleep(0.01)


def topics(desk: Served) -> list[Topic]:
    tasks = [*desk.server._service.changes._topics.values()]
    return [task.result() for task in tasks if task.done() and not task.exception()]


def test_a_client_that_comes_again_misses_nothing(desk: Served) -> None:
    since = desk.wh.epoch
    live = desk.events("/v1/views/v/changes")
    until_readers(desk, 1)
    first = add(desk, ("a", 1))
    (event,) = data(live, 1)
    assert (event["id"], event["data"]) == (str(first), {"epoch": first, "weights": [1], "rows": [["a", 1]]})
    live.close()
    second = add(desk, ("a", 2), ("b", 1))
    add(desk, ("c", 1))
    again = desk.events("/v1/views/v/changes?where=k:a&where=k:b", **{"last-event-id": str(first)})
    third = add(desk, ("b", 5))
    found = data(again, 2)
    assert [event["data"]["epoch"] for event in found] == [second, third]
    assert sorted(found[0]["data"]["rows"]) == [["a", 1], ["a", 3], ["b", 1]]
    again.close()
    all_of_it = desk.events(f"/v1/views/v/changes?since={since}")
    assert [int(event["id"]) for event in data(all_of_it, 4)] == list(range(since + 1, since + 5))
    all_of_it.close()


def test_while_nothing_changes_the_position_goes_on(desk: Served) -> None:
    live = desk.events("/v1/views/v/changes?where=k:nobody")
    last = add(desk, ("a", 1))
    for event in live:
        if event.get("id") == str(last):
            assert "data" not in event
            break
    live.close()


def test_what_cannot_be_resumed_says_from_where_it_can(tmp_path: Path) -> None:
    wh = tidemill.open(tmp_path / "kept", runtime="native")
    wh.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    for served in serve(wh):
        for number in range(3):
            wh.apply({"t": [(1, (number,))]})
        wh.vacuum(keep=1)
        (behind,) = data(served.events("/v1/views/v/changes?since=1"), 1)
        assert (behind["event"], behind["data"]["error"]["kind"]) == ("fellbehind", "FellBehind")
        assert behind["data"]["error"]["resume"] == 3
        (ahead,) = data(served.events("/v1/views/v/changes?since=9"), 1)
        assert ahead["data"]["error"]["kind"] == "EpochGone"
        (unknown,) = data(served.events("/v1/views/w/changes"), 1)
        assert unknown["data"]["error"]["kind"] == "UnknownName"
        assert served.get("/v1/views/v/changes", accept="text/event-stream", last_event_id="x").status == 400
        live = served.events("/v1/views/v/changes")
        until_readers(served, 1)
        wh.sql("DROP VIEW v")
        assert data(live, 1)[0]["event"] == "end"


def test_a_reader_that_does_not_read_holds_nobody_and_gets_all(desk: Served) -> None:
    since = desk.wh.epoch
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", desk.port))
    path = f"/v1/views/rows_of_t/changes?since={since}"
    slow.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
    until_readers(desk, 1)
    text = "x" * 5000
    epochs = [add(desk, *((f"{text}{number}", 1) for number in range(20))) for _ in range(100)]  # 10 MB
    queues = [queue for topic in topics(desk) for queue in topic.queues]
    assert sum(len(changes.data) for queue in queues for changes in queue.waiting) < 1_000_000
    received, slow_file = [], slow.makefile("rb")
    for line in iter(slow_file.readline, b""):
        if line.startswith(b"data: "):
            received.append(json.loads(line[6:])["epoch"])
        if len(received) == len(epochs):
            break
    assert received == epochs
    slow.close()


def test_many_filters_share_one_thread(desk: Served) -> None:
    before = threading.active_count()
    readers = [desk.events(f"/v1/views/v/changes?where=k:many{number}") for number in range(30)]
    until_readers(desk, 30)
    assert threading.active_count() - before < 15
    epoch = add(desk, *((f"many{number}", number) for number in range(30)))
    for number, reader in enumerate(readers):
        (event,) = data(reader, 1)
        assert event["data"] == {"epoch": epoch, "weights": [1], "rows": [[f"many{number}", number]]}
        reader.close()


def test_a_web_socket_has_the_same(desk: Served) -> None:
    since = desk.wh.epoch
    epoch = add(desk, ("socket", 7))
    url = f"ws://127.0.0.1:{desk.port}/v1/views/v/changes"

    async def talk() -> list[Any]:
        async with websockets.connect(f"{url}?since={since}&where=k:socket") as live:
            messages = [json.loads(await live.recv()) for _ in range(2)]
            assert messages[0] == {"epoch": since}
            found = messages[1:]
        async with websockets.connect(f"{url}?since=x") as wrong:
            found.append(json.loads(await wrong.recv()))
        with pytest.raises(Exception, match="403"):
            await websockets.connect(url, origin="http://evil.example")  # type: ignore[arg-type]
        return found

    changes, wrong = coroutines.run(talk())
    assert changes == {"epoch": epoch, "weights": [1], "rows": [["socket", 7]]}
    assert wrong["error"]["kind"] == "BadValue"
