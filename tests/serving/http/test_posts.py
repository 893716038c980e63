"""Rows that are posted: each post is made as a whole, durable when it is answered, and once for each key."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill
from tests.serving.http.conftest import Answer, Served, serve

NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"

TABLES = """
    CREATE TABLE items (id BIGINT PRIMARY KEY, name STRING, price DECIMAL(10,2), day DATE, code BINARY);
    CREATE TABLE log (line STRING, n INT);
    CREATE MATERIALIZED VIEW names AS SELECT name, COUNT(*) AS n, SUM(price) AS price FROM items GROUP BY name;
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Served]:
    wh = tidemill.open(tmp_path / "desk", runtime="native")
    wh.sql(TABLES)
    yield from serve(wh, waiting_posts=8, body_bytes=200_000)


def post(served: Served, table: str, body: bytes | str, kind: str = NDJSON, **headers: str) -> Answer:
    return served.ask("POST", f"/v1/tables/{table}", body, content_type=kind, **headers)


def test_rows_come_in_every_form(desk: Served) -> None:
    one = post(desk, "items", '{"id": 1, "name": "a", "price": 1.10, "day": "2024-01-02", "code": "aGk="}')
    assert (one.status, one.json) == (200, {"epoch": 1, "rows": 1})
    assert desk.wh.sql("SELECT * FROM items").rows()[0][4] == b"hi"
    assert post(desk, "log", '[{"line": "x", "n": 1}, {"LINE": "y"}]', "application/json").json["rows"] == 2
    assert post(desk, "log", 'line,n,_weight\n"x, y",7,2\n', "text/csv").json["rows"] == 1
    assert post(desk, "log", '{"line": "x", "n": 1, "_weight": -1}\n\n{"line": "z"}\n').json["epoch"] == 4
    sink = io.BytesIO()
    table = pa.table({"line": ["arrow"], "n": [3]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert post(desk, "log", sink.getvalue(), ARROW).json == {"epoch": 5, "rows": 1}
    lines = [("arrow", 3), ("x, y", 7), ("x, y", 7), ("y", None), ("z", None)]
    assert sorted(desk.wh.table("log").rows(), key=str) == lines


def test_debezium_and_upserts(desk: Served) -> None:
    post(desk, "items", '{"id": 1, "name": "a", "price": 1}')
    updated = {"op": "u", "before": None, "after": {"id": 1, "name": "b", "price": "2"}, "source": {"table": "items"}}
    created = {"op": "c", "after": {"id": 2, "name": "b", "price": 1}, "source": {"table": "items"}}
    records = "\n".join(map(json.dumps, (updated, created)))
    assert post(desk, "items", records, "application/vnd.debezium+json").status == 200
    assert desk.get("/v1/views/names").json["rows"] == [["b", 2, "3.00"]]
    gone = post(desk, "items?mode=upsert", '{"id": 2, "_weight": -1}\n{"id": 1, "name": "c", "price": 5}')
    assert desk.get("/v1/views/names").json["rows"] == [["c", 1, "5.00"]]
    assert desk.get(f"/v1/epochs/{gone.json['epoch']}/wait?view=names").json["reached"] is True
    assert desk.get("/v1/epochs/999/wait?timeout=0.05").status == 202


def test_what_is_refused_changes_nothing_and_names_its_row(desk: Served) -> None:
    for table, body, kind, status, where in [
        ("items", '{"id": 1}\n{"id": 1}', NDJSON, 422, "items"),
        ("items", '{"id": 1}\n{"id": "x"}', NDJSON, 422, "line 2"),
        ("items", '{"id": 1}\n{', NDJSON, 422, "line 2"),
        ("items", "[1]", "application/json", 422, "line 1"),
        ("items", "id\nx\n", "text/csv", 422, "line 2"),
        ("items", b"\xff\xfe", NDJSON, 422, "byte 1"),
        ("items", b"\x00" * 64, ARROW, 422, "items"),
        ("items", "{}", "text/html", 415, None),
        ("nothing", '{"id": 1}', NDJSON, 404, None),
        ("names", '{"id": 1}', NDJSON, 404, None),
        ("items?mode=best", '{"id": 1}', NDJSON, 400, None),
        ("items?wat=1", '{"id": 1}', NDJSON, 422, None),
        ("log", " " * 300_000, NDJSON, 413, None),
    ]:
        answer = post(desk, table, body, kind)
        assert answer.status == status, (body, answer)
        assert where is None or where in answer.error["where"], answer
    assert desk.wh.epoch == 0


def test_a_key_is_one_epoch_also_after_a_restart(tmp_path: Path) -> None:
    for turn in range(2):
        wh = tidemill.open(tmp_path / "keys", runtime="native")
        wh.sql("CREATE TABLE IF NOT EXISTS t (a INT)")
        for served in serve(wh):
            first = post(served, "t", '{"a": 1}', idempotency_key="one")
            again = post(served, "t", '{"a": 1}', idempotency_key="one")
            assert first.json == again.json == {"epoch": 1, "rows": 1}
            other = post(served, "t", '{"a": 2}', idempotency_key="one")
            assert (other.status, other.error["kind"]) == (409, "Conflict")
            assert post(served, "t", '{"a": "x"}', idempotency_key=f"bad{turn}").status == 422
            assert post(served, "t", '{"a": 3}', idempotency_key=f"bad{turn}").json["epoch"] == 2 + turn
            assert post(served, "t", '{"a": 1}', idempotency_key="x" * 300).status == 422
            assert wh.positions == {}
    with tidemill.open(tmp_path / "keys", runtime="native") as wh:
        assert sorted(wh.table("t").rows()) == [(1,), (3,), (3,)]


def test_many_posts_share_epochs_and_none_is_lost(desk: Served) -> None:
    answers: list[Answer] = []

    def send(worker: int) -> None:
        connection = desk.connection()
        for number in range(25):
            body = json.dumps({"line": f"w{worker}", "n": number})
            connection.request("POST", "/v1/tables/log", body, {"content-type": NDJSON})
            found = connection.getresponse()
            answers.append(Answer(found.status, {}, found.read()))
        connection.close()

    threads = [threading.Thread(target=send, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} == {200}
    epochs = {answer.json["epoch"] for answer in answers}
    assert epochs == set(range(1, len(epochs) + 1)) and desk.wh.epoch == len(epochs)
    assert len(desk.wh.table("log").rows()) == 200


def test_what_does_not_fit_into_the_queue_is_sent_back(desk: Served) -> None:
    sent = [threading.Thread(target=post, args=(desk, "log", '{"n": 1}')) for _ in range(8)]
    # Whoever has the warehouse to himself holds the thread that commits posts.
    with desk.wh._engine.settled():
        for thread in sent:
            thread.start()
        while desk.server._service.posts.waiting < 8:
            threading.Event().wait(0.01)
        busy = post(desk, "log", '{"n": 2}')
    assert (busy.status, busy.error["kind"], busy.headers["retry-after"]) == (429, "Busy", "1")
    for thread in sent:
        thread.join()
    assert desk.wh.table("log").rows() == [(None, 1)] * 8
