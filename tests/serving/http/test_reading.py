"""Rows, changes, catalog, explanation and status, as clients get them."""

from __future__ import annotations

import io
import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.serving.http.conftest import Served
from tidemill.engine.builds.builds import BuildStatus
from tidemill.serving.http.endpoints import ENDPOINTS
from tidemill.serving.http.metrics import metrics_text


def test_rows_come_in_the_form_that_is_accepted(shop: Served) -> None:
    found = shop.get("/v1/views/spend?order=customer").json
    assert found["columns"][1] == {"name": "total", "type": "DECIMAL(22,2)"}
    assert (found["epoch"], found["count"]) == (1, 3)
    assert found["rows"] == [[None, "1.00", 1], ["ann", "9.50", 1], ["bob", "3.00", 1]]
    csv = shop.get("/v1/views/spend?order=customer%20desc&limit=2", accept="text/csv")
    assert csv.body == b"customer,total,n\r\nbob,3.00,1\r\nann,9.50,1\r\n"
    lines = shop.get("/v1/views/spend?where=n:1&where=customer:ann", accept="application/x-ndjson")
    assert lines.body == b'{"customer": "ann", "total": "9.50", "n": 1}\n'
    arrow = shop.get("/v1/views/spend", accept="application/vnd.apache.arrow.stream, */*;q=0.1")
    assert arrow.headers["tidemill-epoch"] == "1"
    table = pa.ipc.open_stream(io.BytesIO(arrow.body)).read_all()
    assert sorted(table.column("customer").to_pylist(), key=str) == [None, "ann", "bob"]
    assert shop.get("/v1/views/spend", accept="image/png").status == 406


def test_rows_with_values_and_of_an_epoch(shop: Served) -> None:
    before = shop.wh.epoch
    shop.sql("INSERT INTO orders VALUES (10, 'ann', 0.50)")
    assert shop.get("/v1/views/spend?where=customer:ann").json["rows"] == [["ann", "10.00", 2]]
    then = shop.get(f"/v1/views/spend?where=customer:ann&epoch={before}").json
    assert (then["epoch"], then["rows"]) == (before, [["ann", "9.50", 1]])
    assert shop.get("/v1/views/spend?where=customer").json["rows"] == [[None, "1.00", 1]]
    either = shop.get("/v1/views/spend?where=customer:bob&where=customer:nobody&order=n").json["rows"]
    assert either == [["bob", "3.00", 1]]
    shop.sql("DELETE FROM orders WHERE id = 10")
    gone = shop.get("/v1/views/spend?epoch=999999")
    assert (gone.status, gone.error["kind"]) == (410, "EpochGone")


def test_changes_say_from_where_to_resume(shop: Served) -> None:
    since = shop.wh.epoch
    shop.sql("INSERT INTO orders VALUES (20, 'eve', 2)")
    shop.sql("DELETE FROM orders WHERE id = 20")
    found = shop.get(f"/v1/views/spend/changes?since={since}").json
    assert found["epoch"] == since + 2
    assert found["rows"] == [["eve", "2.00", 1, 1, since + 1], ["eve", "2.00", 1, -1, since + 2]]
    assert shop.get(f"/v1/views/spend/changes?since={since + 2}").json["rows"] == []


def test_statements_give_all_results_and_end_their_transactions(shop: Served) -> None:
    text = "SELECT customer FROM spend WHERE n = :n ORDER BY customer; SELECT DATE'2024-01-02' AS d, 0.5D AS x"
    first, second = shop.sql(text, parameters={"n": 1}, limit=1).json["results"]
    assert (first["rows"], first["count"]) == ([[None]], 3)
    assert second["rows"] == [["2024-01-02", 0.5]]
    left = shop.sql("BEGIN; INSERT INTO orders VALUES (30, 'zoe', 1)")
    assert (left.status, left.error["kind"]) == (400, "TransactionState")
    assert shop.get("/v1/views/spend?where=customer:zoe").json["rows"] == []
    assert shop.sql("BEGIN; INSERT INTO orders VALUES (30, 'zoe', 1); ROLLBACK").status == 200
    arrow = shop.ask(
        "POST",
        "/v1/sql",
        '{"sql": "SELECT 7 AS seven"}',
        content_type="application/json",
        accept="application/vnd.apache.arrow.stream",
    )
    assert pa.ipc.open_stream(io.BytesIO(arrow.body)).read_all().to_pylist() == [{"seven": 7}]


def test_errors_have_their_four_fields_and_a_status(shop: Served) -> None:
    wrong = shop.sql("SELECT customr FROM spend")
    assert wrong.status == 404
    assert wrong.error["hint"] == 'Did you mean "customer"?'
    assert wrong.error["at"] == {"line": 1, "column": 8, "length": 7}
    for answer, status in [
        (shop.sql("SELEC"), 400),
        (shop.sql("INSERT INTO orders VALUES (1, 'x', 1)"), 422),
        (shop.get("/v1/views/nothing"), 404),
        (shop.get("/v1/nothing"), 404),
        (shop.ask("DELETE", "/v1/status"), 405),
        (shop.get("/v1/views/spend?epoch=x"), 422),
        (shop.get("/v1/views/spend?what=1"), 422),
        (shop.get("/v1/views/spend?where=nothing:1"), 404),
        (shop.post("/v1/sql", {"text": "SELECT 1"}), 422),
        (shop.post("/v1/sql", [1]), 422),
    ]:
        assert answer.status == status, answer
        assert answer.error.keys() >= {"kind", "what", "where", "detail", "hint"}


def test_definition_explanation_costs_and_refreshes(shop: Served) -> None:
    assert "SUM(amount)" in shop.get("/v1/views/spend/definition").json["definition"]
    explained = shop.get("/v1/views/spend/explain").json
    (stage,) = explained["stages"]
    assert (stage["name"], stage["inputs"], stage["maps"][0]["keys"]) == ("spend", ["orders"], ["orders.customer"])
    assert stage["triggers"][0]["relation"] == "orders"
    assert {box["name"] for box in explained["graph"]["boxes"]} == {"orders", "spend/groups", "spend"}
    assert shop.get("/v1/views/spend/explain", accept="image/svg+xml").body.startswith(b"<svg ")
    assert shop.get("/v1/views/spend/explain", accept="text/plain").body.startswith(b"view spend")
    assert shop.get("/v1/views/spend/refreshes?limit=1").json["refreshes"][0]["view"] == "spend"
    assert shop.get("/v1/views/spend/costs").json["maps"][0]["map"].startswith("spend")
    assert shop.get("/v1/costs?by=rows").json["costs"][0]["view"] == "spend"
    assert shop.get("/v1/statistics").json["statistics"]["orders"]["rows"] == 3
    assert shop.get("/v1/builds").json == {"builds": []}


def test_the_status_tells_what_there_is(shop: Served) -> None:
    found = shop.get("/v1/status").json
    assert (found["warehouse"], found["epoch"]) == ("shop", shop.wh.epoch)
    (orders,), (spend,) = found["tables"], found["views"]
    assert (orders["kind"], orders["rows"], orders["bytes"] > 0) == ("table", 3, True)
    assert (spend["reads"], spend["state"], spend["strategy"], spend["runtime"]) == (
        ["orders"],
        "fresh",
        "delta",
        "native",
    )
    assert spend["staleness"] == {"epochs": 0, "seconds": 0.0}
    catalog = shop.get("/v1/catalog").json
    assert [one["name"] for one in catalog["relations"]] == ["orders", "spend"]
    assert "sum" in catalog["functions"]
    assert shop.get("/healthz").status == 200
    assert shop.get("/readyz").json == {"ready": True, "epoch": shop.wh.epoch}


def test_the_status_is_streamed_while_something_is_done(shop: Served) -> None:
    events = shop.events("/v1/status/stream")
    stream = iter(events)
    assert next(stream)["data"] == {"epoch": shop.wh.epoch, "nodes": {}}
    shop.sql("INSERT INTO orders VALUES (40, 'ann', 1); DELETE FROM orders WHERE id = 40")
    nodes: dict[str, int] = {}
    while nodes.get("spend", 0) < 4:  # the old row and the new one, twice
        for name, one in next(stream)["data"]["nodes"].items():
            nodes[name] = nodes.get(name, 0) + one["rows_out"]
    assert nodes == {"orders": 2, "spend": 4}
    events.close()


def test_the_status_and_stored_rows_are_told_while_a_view_is_filled(shop: Served) -> None:
    filling, go_on = threading.Event(), threading.Event()

    def slowly(number: int) -> int:
        filling.set()
        go_on.wait(20)
        return number

    shop.wh.register_function("slowly", slowly, arguments=["BIGINT"], returns="BIGINT")
    create = "CREATE MATERIALIZED VIEW slow AS SELECT slowly(id) AS id FROM orders"
    thread = threading.Thread(target=lambda: shop.sql(create))
    thread.start()
    try:
        assert filling.wait(20)
        begun = time.perf_counter()
        assert [view["name"] for view in shop.get("/v1/status").json["views"]] == ["spend"]
        assert time.perf_counter() - begun < 0.1
        assert len(shop.get("/v1/views/spend").json["rows"]) == 3
        assert shop.get("/v1/views/spend/changes").status == 200
        assert shop.get("/v1/catalog").status == 200
    finally:
        go_on.set()
        thread.join()
    assert [view["name"] for view in shop.get("/v1/status").json["views"]] == ["spend", "slow"]
    shop.sql("DROP VIEW slow")


def test_the_description_is_made_of_the_endpoints(shop: Served) -> None:
    paths = shop.get("/v1/openapi.json").json["paths"]
    assert {(method, path) for path, methods in paths.items() for method in methods} == {
        (one.method.lower(), one.path) for one in ENDPOINTS
    }
    (where,) = (one for one in paths["/v1/views/{name}"]["get"]["parameters"] if one["name"] == "where")
    assert where["schema"] == {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"content_type": "text/plain", "origin": "http://127.0.0.1:1"},
        {"content_type": "application/x-www-form-urlencoded"},
    ],
)
def test_pages_of_others_change_nothing(shop: Served, headers: dict[str, str]) -> None:
    given = {"content_type": "application/json", **headers}
    answer = shop.ask("POST", "/v1/sql", '{"sql": "DROP VIEW spend"}', **given)
    assert answer.status in (403, 415)
    assert "spend" in shop.wh.views()


def test_responses_are_not_run_by_browsers(shop: Served) -> None:
    headers = shop.get("/v1/views/spend").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]


def test_what_is_behind_a_view(shop: Served) -> None:
    found = shop.post("/v1/views/spend/lineage", {"row": ["ann", "9.50", 1]}).json
    assert found["tables"]["orders"]["rows"] == [[1, "ann", "9.50"]]
    assert shop.post("/v1/views/spend/lineage", {"row": 7}).status == 422
    assert shop.get("/v1/views/spend/plans").json["plans"][0]["cause"] == "created"
    assert shop.post("/v1/views/spend/refresh").json == {"epoch": shop.wh.epoch}
    assert shop.get("/v1/sources").json["sources"] == []
    (spend,) = shop.get("/v1/forecast").json["forecast"]
    assert spend["view"] == "spend" and spend["seconds"] > 0
    assert shop.get("/v1/views/spend/certificate").status == 400
    shop.sql("""
        CREATE TABLE parts (a INT, b INT);
        CREATE MATERIALIZED VIEW shares WITH (on_error = 'quarantine') AS SELECT a / b AS share FROM parts;
        INSERT INTO parts VALUES (1, 0), (1, 2)
    """)
    assert shop.get("/v1/status").json["views"][1]["state"] == "quarantined"
    assert len(shop.get("/v1/views/shares/errors").json["rows"]) == 1
    assert shop.ask("POST", "/v1/views/shares/errors/release?skip=true").json["left"] == 1
    shop.sql("DROP VIEW shares; DROP TABLE parts")


def test_figures_for_prometheus(shop: Served) -> None:
    assert shop.sql("SELECT 1").status == shop.get("/v1/views/spend").status == 200
    text = shop.get("/metrics").body.decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(lines["tidemill_epoch"]) == shop.wh.epoch
    assert float(lines['tidemill_view_rows{view="spend"}']) == 3
    assert float(lines['tidemill_view_state{view="spend",state="fresh"}']) == 1
    assert float(lines['tidemill_view_rows_in_total{view="spend"}']) > 0
    assert lines["tidemill_waiting_posts"] == "0"
    buckets = [float(n) for line, n in lines.items() if line.startswith("tidemill_epoch_latency_seconds_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == float(lines["tidemill_epoch_latency_seconds_count"]) > 0
    assert float(lines["tidemill_epoch_latency_seconds_sum"]) > 0
    assert float(lines['tidemill_requests_total{kind="sql",status="200"}']) > 0
    assert float(lines['tidemill_request_latency_seconds_bucket{kind="rows",le="+Inf"}']) > 0


def test_figures_of_readers_and_builds(shop: Served) -> None:
    live = shop.events("/v1/views/spend/changes")
    next(event for event in live if "id" in event)
    text = shop.get("/metrics").body.decode()
    assert 'tidemill_view_subscribers{view="spend"} 1\n' in text
    assert 'tidemill_view_waiting_bytes{view="spend"} 0\n' in text
    assert 'tidemill_view_lagging_subscribers{view="spend"} 0\n' in text
    live.close()
    built = replace(shop.wh.status(), builds=(BuildStatus("slow", "filling", 5, 20),))
    text = metrics_text(shop.server._service, built, shop.wh.activity(), {})
    assert 'tidemill_build_share{view="slow",state="filling"} 0.25\n' in text


def test_the_page_lists_all_figures(shop: Served) -> None:
    names = {line.split()[2] for line in shop.get("/metrics").body.decode().splitlines() if line.startswith("# TYPE")}
    page = (Path(__file__).parents[3] / "docs" / "reference" / "operate.md").read_text()
    assert set(re.findall(r"`(tidemill_\w+)", page)) == names
