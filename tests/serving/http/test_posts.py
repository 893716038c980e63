"""Rows that are posted: each post is made as a whole, durable when it is answered, and once for each key."""

from __future__ import annotations

import io
import json
import struct
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
    yield from serve(wh, waiting_posts=8, body_bytes=2_000_000, decoded_bytes=20_000_000)


def post(served: Served, table: str, body: bytes | str, kind: str = NDJSON, **headers: str) -> Answer:
    return served.ask("POST", f"/v1/tables/{table}", body, content_type=kind, **headers)


def test_rows_come_in_every_form(desk: Served) -> None:
    one = post(desk, "items", '{"id": 1, "name": "a", "price": 1.10, "day": "2024-01-02", "code": "aGk="}')
    assert (one.status, one.json) == (200, {"epoch": 1, "rows": 1})
    assert desk.wh.sql("SELECT * FROM items").rows()[0][4] == b"hi"
    assert post(desk, "log", '[{"line": "x", "n": 1}, {"LINE": "y"}]', "application/json").json["rows"] == 2
    assert post(desk, "log", 'line,n,_weight\n"x, y",7,2\n', "text/csv").json["rows"] == 1
    assert post(desk, "log", '{"line": "x", "n": 1, "_weight": -1}\n\n{"line": "z"}\n').json["epoch"] == 4
    assert post(desk, "log", stream(pa.table({"line": ["arrow"], "n": [3]})), ARROW).json == {"epoch": 5, "rows": 1}
    lines = [("arrow", 3), ("x, y", 7), ("x, y", 7), ("y", None), ("z", None)]
    assert sorted(desk.wh.table("log").rows(), key=str) == lines


@pytest.mark.parametrize("number", ["9" * 5_000, "1e999999999", f"1e{'9' * 5_000}"], ids=["digits", "exponent", "both"])
def test_huge_numbers_are_refused(desk: Served, number: str) -> None:
    for column in ("id", "price", "_weight"):
        row = {"id": "7", "price": "1", "_weight": "1"} | {column: number}
        text = ", ".join(f'"{name}": {value}' for name, value in row.items())
        assert post(desk, "items", f"{{{text}}}").status == 422
        assert post(desk, "items", f"[{{{text}}}]", "application/json").status == 422
    assert desk.wh.epoch == 0


@pytest.mark.parametrize(
    "epoch", ["9" * 5_000, "%C2%B2", "-1", "1.0"], ids=["digits", "square", "negative", "fraction"]
)
def test_epochs_that_are_none(desk: Served, epoch: str) -> None:
    assert desk.get(f"/v1/epochs/{epoch}/wait").status == 422
    assert desk.get(f"/v1/refreshes?since={epoch}").status == 422


def test_parameters_that_say_nothing_or_two_things(desk: Served) -> None:
    assert desk.get("/v1/epochs/9/wait?timeout=nan").status == 422
    assert desk.get("/v1/views/names?epoch=0&epoch=1").status == 422


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
        ("log", " " * 2_000_001, NDJSON, 413, None),
    ]:
        answer = post(desk, table, body, kind)
        assert answer.status == status, (body, answer)
        assert where is None or where in answer.error["where"], answer
    assert desk.wh.epoch == 0


def stream(rows: pa.Table, compression: str | None = None, **named: str) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema.with_metadata(named or None), options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue()


MANY = 3_000_000
VIEWS = [pa.py_buffer(struct.pack("<i4sii", 30_000, b"xxxx", 0, 0) * 1000), pa.py_buffer(b"x" * 30_000)]
BOMBS = {
    "zstd": stream(pa.table({"n": pa.repeat(pa.scalar(7, pa.int64()), MANY)}), "zstd"),
    "lz4": stream(pa.table({"n": pa.repeat(pa.scalar(7, pa.int64()), MANY)}), "lz4"),
    "a dictionary": stream(pa.table({"n": [1], "line": pa.array(["x" * 7 * MANY]).dictionary_encode()}), "zstd"),
    "nulls": stream(pa.table({"line": pa.nulls(MANY)})),
    "shared texts": stream(
        pa.table({"line": pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), ["x" * 50_000])})
    ),
    "views of a text": stream(pa.table({"line": pa.Array.from_buffers(pa.string_view(), 1000, [None, *VIEWS])})),
    "lists of nothing": stream(pa.table({"line": pa.array([[None] * MANY], pa.list_(pa.null()))})),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_a_body_stands_for_is_limited(desk: Served, bomb: str) -> None:
    answer = post(desk, "log", BOMBS[bomb], ARROW)
    assert (answer.status, answer.error["what"]) == (413, "the body is too long once it is read"), answer
    several = stream(pa.table({"n": [1]}), table="log") + BOMBS[bomb]
    assert desk.ask("POST", "/v1/changes", several, content_type=ARROW).status == 413
    assert desk.wh.epoch == 0


def test_rows_that_are_short_count_more_than_their_text(desk: Served) -> None:
    many = 21_000_000 // 200
    for body, kind in [
        ("{}\n" * many, NDJSON),
        (f"[{'{},' * many}{{}}]", "application/json"),
        ("n\n" * many, "text/csv"),
    ]:
        answer = post(desk, "log", body, kind)
        assert (answer.status, answer.error["what"]) == (413, "the body is too long once it is read"), kind
    lines = '{"table":"log"}\n' * many
    assert desk.ask("POST", "/v1/changes", lines, content_type=NDJSON).status == 413


def test_what_is_compressed_and_not_too_long_is_taken(desk: Served) -> None:
    texts = pa.array(["a" * 20, "b", None])
    for number, line in enumerate([texts, texts.dictionary_encode(), texts.cast(pa.string_view())]):
        for compression in (None, "zstd", "lz4"):
            body = stream(pa.table({"line": line, "n": [number] * 3}), compression)
            assert post(desk, "log", body, ARROW).json["rows"] == 3
    assert len(desk.wh.table("log").rows()) == 27
    shared = pa.table({"line": pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string())))})
    assert post(desk, "log", stream(shared), ARROW).error["what"].startswith("a column of type list<item: dictionary")


def test_bad_rows_are_set_aside_in_every_form(desk: Served) -> None:
    where = "log?on_error=quarantine"
    sent = {
        NDJSON: '{"line": "a", "n": 1}\n{"line": "b", "n": "x"}\nno json\n{"line": "c", "m": 1}\n[1]\n{"LINE": "d"}\n',
        "application/json": '[{"line": "a", "n": 1}, {"line": "b", "n": "x"}, 7, {"n": 3000000000}, {"line": "d"}]',
        "text/csv": "line,n,_weight\na,1,1\nb,x,1\nc,1,1,1\nd,,\n",
        ARROW: stream(pa.table({"line": ["a", "b", "d"], "n": pa.array([1, 1 << 40, None])})),
    }
    bad = 0
    for kind, body in sent.items():
        answer = post(desk, where, body, kind)
        assert answer.status == 200, answer
        assert answer.json["rows"] - answer.json["rejected"] == 2, kind
        bad += answer.json["rejected"]
        assert sorted(desk.wh.table("log").rows(), key=str) == [("a", 1), ("d", None)]
        desk.wh.sql("DELETE FROM log")
    errors = desk.wh.table("log_errors").rows()
    assert len(errors) == bad == 10 and {source for source, *_ in errors} == {"post"}
    assert {"no json"} <= {json.loads(text).get("text") for *_, text in errors}
    assert post(desk, where, "{}", "application/vnd.debezium+json").status == 415
    assert post(desk, "log?on_error=quarantin", '{"line": "a"}').error["hint"].startswith('Did you mean "quarantine"?')


def test_bad_rows_of_several_tables_and_upserts(desk: Served) -> None:
    lines = [
        {"table": "items", "row": {"id": 1, "name": "a", "price": 1.5, "code": "aGk="}},
        {"table": "items", "row": {"id": 1, "name": "b"}},
        {"table": "items", "row": {"id": 2, "code": "not base64!"}},
        {"table": "log", "weight": "x", "row": ["a", 1]},
        {"table": "log", "weight": 2, "row": ["a", 1]},
    ]
    several, where = "\n".join(map(json.dumps, lines)), "/v1/changes?on_error=quarantine"
    answer = desk.ask("POST", where, several, content_type=NDJSON, idempotency_key="k")
    assert answer.json == {"epoch": desk.wh.epoch, "rows": 5, "rejected": 3}
    again = desk.ask("POST", where, several, content_type=NDJSON, idempotency_key="k")
    assert again.json == {"epoch": desk.wh.epoch, "rows": 5}
    assert desk.wh.sql("SELECT name, code FROM items").rows() == [("a", b"hi")]
    assert desk.wh.table("log").rows() == [("a", 1)] * 2
    assert sorted(place for _, place, *_ in desk.wh.table("items_errors").rows()) == [2, 3]
    upserts = '{"id": 1, "name": "c"}\n{"id": "x"}\n{"id": 1, "_weight": 0.5}'
    post(desk, "items?mode=upsert&on_error=quarantine", upserts)
    assert desk.wh.sql("SELECT name FROM items").rows() == [("c",)]
    assert len(desk.wh.table("items_errors").rows()) == 4
    before = desk.wh.epoch
    assert desk.ask("POST", where, '{"table": "x", "row": {}}', content_type=NDJSON).status == 404
    assert desk.wh.epoch == before


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
