"""What is asked about a view when somebody looks closer: lineage, held-back rows, certificates and sources."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

import tidemill
from tests.serving.http.conftest import Answer, Served
from tidemill.serving.server.server import Server
from tidemill.serving.server.settings import Settings

VIEWS = """
    CREATE TABLE parts (id BINARY, cost DECIMAL(9,2), pieces INT);
    CREATE MATERIALIZED VIEW prices WITH (on_error = 'quarantine') AS SELECT id, cost / pieces AS price FROM parts;
    CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS SELECT id FROM parts;
    CREATE MATERIALIZED VIEW minutely WITH (refresh = 'every 30 seconds') AS SELECT COUNT(*) AS n FROM parts;
    CREATE SOURCE crm TYPE sqlite OPTIONS (path = '{file}', setup = 'create');
    CREATE MATERIALIZED VIEW open_tickets AS SELECT state, COUNT(*) AS n FROM crm.tickets GROUP BY state;
"""


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("crm") / "crm.db"
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE tickets (id INTEGER PRIMARY KEY, state TEXT)")
        db.execute("INSERT INTO tickets VALUES (1, 'open'), (2, 'closed')")
    db.close()
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(VIEWS.format(file=file))
        wh.apply({"parts": [(+1, (b"\x00\x01", "9.00", 2)), (+1, (b"\x02", "1.00", 0))]})
        wh.sql("REFRESH VIEW minutely")
        server = Server(wh, "shop", Settings(port=0))
        server.start()
        yield Served(wh, server)
        server.stop()
        server.wait()


def post(served: Served, path: str, body: Any) -> Answer:
    return served.ask("POST", path, json.dumps(body), content_type="application/json")


def test_a_row_leads_to_its_base_rows(inspected: Served) -> None:
    (row,) = inspected.ask("GET", "/v1/views/prices").json["rows"]
    answer = post(inspected, "/v1/views/prices/lineage", {"row": row}).json
    assert answer["tables"]["parts"]["rows"] == [["AAE=", "9.00", 2]]
    assert [column["name"] for column in answer["tables"]["parts"]["columns"]] == ["id", "cost", "pieces"]


@pytest.mark.parametrize("row", [None, [1], ["not base64!", "4.5"], [5, "4.5"], ["AAE=", {}]])
def test_a_row_that_there_is_not_is_an_error(inspected: Served, row: Any) -> None:
    answer = post(inspected, "/v1/views/prices/lineage", {"row": row})
    assert answer.status in (400, 422)
    assert answer.error["what"]


def test_held_back_rows_are_told_and_released(inspected: Served) -> None:
    assert len(inspected.ask("GET", "/v1/views/prices/errors").json["rows"]) == 1
    assert post(inspected, "/v1/views/prices/errors/release", {}).json["left"] == 1
    assert post(inspected, "/v1/views/prices/errors/release?skip=perhaps", {}).status == 422
    assert inspected.ask("GET", "/v1/views/late/errors").status == 404


def test_a_view_is_refreshed(inspected: Served) -> None:
    epoch = post(inspected, "/v1/views/late/refresh", {}).json["epoch"]
    assert epoch == inspected.wh.epoch
    assert inspected.ask("GET", "/v1/views/late").json["count"] == 2


def test_a_view_over_sources_has_a_certificate(inspected: Served) -> None:
    answer = inspected.ask("GET", "/v1/views/open_tickets/certificate").json
    assert answer["level"] == "strong" and list(answer["positions"]) == ["crm"]
    assert inspected.ask("GET", "/v1/views/prices/certificate").status == 400


def test_sources_have_positions_and_readers(inspected: Served) -> None:
    (source,) = inspected.ask("GET", "/v1/sources").json["sources"]
    assert (source["name"], source["kind"], source["views"]) == ("crm", "sqlite", ["open_tickets"])
    assert list(source["position"]) == ["open_tickets"]
    views = {view["name"]: view for view in inspected.ask("GET", "/v1/status").json["views"]}
    assert views["open_tickets"]["reads"] == ["crm.tickets"]


def test_a_table_has_a_definition(inspected: Served) -> None:
    assert "CREATE TABLE" in inspected.ask("GET", "/v1/tables/parts/definition").json["definition"]
    assert inspected.ask("GET", "/v1/tables/none/definition").status == 404


def test_no_other_file_is_handed_out(inspected: Served) -> None:
    for name in ("assets.py", "..%2Fassets.py", "%2e%2e/assets.py", "sources.sha256"):
        assert inspected.ask("GET", f"/assets/{name}").status == 404
