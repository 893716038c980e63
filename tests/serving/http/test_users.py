"""Users by their tokens: what each may do, and what is noted of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tests.serving.http.conftest import SHOP, Answer, Served, serve
from tidemill.model.errors import NotAllowed
from tidemill.serving.access.audit_log import AuditLog
from tidemill.serving.access.users import Users

ROLES = {"olga": ["owner"], "will": ["writer"], "rita": ["reader"], "eve": ["eu"], "log": []}
NDJSON = "application/x-ndjson"


class Desk:
    """A server with users, and the token of each."""

    def __init__(self, served: Served, tokens: dict[str, str], audit: Path, log: AuditLog) -> None:
        self.served = served
        self.tokens = tokens
        self.audit = audit
        self.log = log

    def ask(self, user: str, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        given = {"content_type": "application/json", "authorization": f"Bearer {self.tokens[user]}", **headers}
        return self.served.ask(method, path, body, **given)

    def sql(self, user: str, text: str) -> Answer:
        return self.ask(user, "POST", "/v1/sql", json.dumps({"sql": text}))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("users")
    users = Users.load(folder / "users.json")
    for name, roles in ROLES.items():
        users.add(name, roles)
    tokens = {name: users.add_token(name) for name in ROLES}
    wh = tidemill.open(folder / "shop", runtime="native")
    wh.sql(SHOP)
    wh.sql("GRANT SELECT ON spend TO eu WHERE customer = 'ann'")
    wh.sql("CREATE TABLE lines (id BIGINT PRIMARY KEY, line STRING); GRANT INSERT ON lines TO log WHERE line <> 'no'")
    wh.sql("CREATE FUNCTION secret_price(i INT) RETURNS INT RETURN i + 1")
    log = AuditLog(folder / "audit")
    for served in serve(wh, users=users, audit=log):
        yield Desk(served, tokens, folder / "audit", log)


def test_nobody_is_let_in_without_a_token(desk: Desk) -> None:
    for headers in ({}, {"authorization": "Bearer nobody's"}, {"authorization": "Basic b2xnYTo="}):
        answer = desk.served.get("/v1/status", **headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert desk.served.ask("POST", "/v1/tables/orders", "{}", content_type="application/json").status == 401
    assert desk.served.get("/healthz").status == 200


def test_roles_read_write_and_own(desk: Desk) -> None:
    row = '{"id": 90, "customer": "zoe", "amount": 1}'
    assert desk.ask("rita", "POST", "/v1/tables/orders", row).status == 403
    assert desk.ask("will", "POST", "/v1/tables/orders", row).status == 200
    assert desk.ask("rita", "GET", "/v1/views/spend?where=customer:zoe").json["count"] == 1
    assert desk.ask("rita", "GET", "/v1/status").status == 200
    assert desk.ask("will", "POST", "/v1/views/spend/refresh").status == 403
    assert desk.ask("olga", "POST", "/v1/views/spend/refresh").status == 200
    assert desk.sql("rita", "DELETE FROM orders WHERE id = 90").status == 403
    assert desk.sql("will", "DROP VIEW spend").status == 403
    assert desk.sql("will", "DELETE FROM orders WHERE id = 90").status == 200
    assert desk.ask("olga", "GET", "/v1/views/spend", host="shop.example").status == 200


def test_rows_are_those_that_were_granted(desk: Desk) -> None:
    ann = [["ann", "9.50", 1]]
    assert desk.ask("eve", "GET", "/v1/views/spend").json["rows"] == ann
    assert desk.ask("eve", "GET", "/v1/views/spend?where=customer:bob").json["rows"] == []
    assert desk.ask("eve", "GET", "/v1/views/spend?epoch=1").json["rows"] == ann
    assert [row[:3] for row in desk.ask("eve", "GET", "/v1/views/spend/changes").json["rows"]] == ann
    assert desk.sql("eve", "SELECT * FROM spend").json["results"][0]["rows"] == ann
    assert desk.ask("eve", "GET", "/v1/tables/orders").status in (403, 404)
    for path in ("/v1/status", "/v1/views/spend/explain", "/v1/refreshes", "/metrics", "/v1/sources"):
        assert desk.ask("eve", "GET", path).status == 403, path


def test_rows_are_sent_by_who_may_insert_them(desk: Desk) -> None:
    def post(user: str, body: str, path: str = "/v1/tables/lines", **headers: str) -> Answer:
        return desk.ask(user, "POST", path, body, **{"content_type": NDJSON, **headers})

    assert post("log", '{"id": 1, "line": "a"}').json["rows"] == 1
    named = '{"table": "lines", "weight": 1, "row": {"id": 2, "line": "b"}}'
    assert post("log", named, "/v1/changes").status == 200
    for body, path, status, kind in [
        ('{"id": 3, "line": "no"}', "/v1/tables/lines", 403, "NotAllowed"),
        ('{"id": 1, "line": "a", "_weight": -1}', "/v1/tables/lines", 403, "NotAllowed"),
        ('{"id": 1}', "/v1/tables/lines?mode=delete", 403, "NotAllowed"),
        ('{"id": 1, "line": "c"}', "/v1/tables/lines?mode=upsert", 403, "NotAllowed"),
        ('{"id": 1, "customer": "x"}', "/v1/tables/orders", 404, "UnknownName"),
        (named.replace("lines", "orders"), "/v1/changes", 404, "UnknownName"),
    ]:
        answer = post("log", body, path)
        assert (answer.status, answer.error["kind"]) == (status, kind), (body, path, answer)
        assert "orders" not in (answer.error["hint"] or "")
    assert post("eve", '{"id": 5, "line": "a"}').status == 404
    taken = post("log", '{"id": 1, "line": "b"}')
    assert (taken.status, taken.error["kind"]) == (422, "DuplicateKey")
    assert sorted(desk.served.wh.table("lines").rows()) == [(1, "a"), (2, "b")]


def test_a_key_belongs_to_its_user(desk: Desk) -> None:
    epochs = [
        desk.ask(user, "POST", "/v1/tables/lines", f'{{"id": {number}}}', idempotency_key="mine").json["epoch"]
        for number, user in [(11, "will"), (12, "olga"), (11, "will"), (12, "olga")]
    ]
    assert epochs[:2] == epochs[2:] and epochs[0] != epochs[1]


def test_what_is_known_of_the_warehouse_is_what_was_granted(desk: Desk) -> None:
    catalog = desk.ask("eve", "GET", "/v1/catalog").json
    assert [one["name"] for one in catalog["relations"]] == ["spend"] and "sum" in catalog["functions"]
    assert "secret_price" not in catalog["functions"]
    assert "secret_price" in desk.ask("rita", "GET", "/v1/catalog").json["functions"]
    assert len(desk.ask("rita", "GET", "/v1/catalog").json["relations"]) == 3
    assert desk.ask("eve", "GET", "/v1/epochs/1/wait?view=spend").json["reached"] is True
    assert desk.ask("log", "GET", "/v1/epochs/1/wait").json["reached"] is True
    assert desk.ask("log", "GET", "/v1/epochs/1/wait?view=spend").status == 404
    assert desk.ask("rita", "GET", "/v1/views/spend/definition").status == 200
    for user, path, status in [
        ("eve", "/v1/views/spend/definition", 403),
        ("log", "/v1/views/spend/definition", 404),
        ("log", "/v1/tables/lines/definition", 403),
        ("log", "/v1/tables/orders/definition", 404),
    ]:
        assert desk.ask(user, "GET", path).status == status, (user, path)


def test_statements_are_noted_without_values(desk: Desk) -> None:
    desk.sql("rita", "SELECT * FROM spend WHERE customer = 'secret'")
    text = "".join(path.read_text() for path in desk.audit.iterdir())
    assert '"rita"' in text and "secret" not in text


def test_what_is_done_is_noted(desk: Desk) -> None:
    desk.ask("will", "POST", "/v1/tables/orders", '[{"id": 70}, {"id": 71}]')
    desk.ask("will", "POST", "/v1/tables/orders", '{"id": 70}')
    desk.ask("will", "POST", "/v1/tables/orders", '{"id": "secret"}')
    desk.ask("log", "POST", "/v1/tables/orders", '{"id": 72}')
    desk.ask("olga", "POST", "/v1/views/spend/refresh")
    desk.ask("olga", "POST", "/v1/builds/nothing/pause")
    released = desk.ask("olga", "POST", "/v1/views/spend/errors/release")
    assert released.status == 400
    noted = {
        (entry["user"], entry["action"], entry.get("rows"), entry["outcome"], entry["door"])
        for entry in desk.log.entries()
        if "action" in entry
    }
    assert noted >= {
        ("will", "POST /v1/tables/orders", 2, "ok", "http"),
        ("will", "POST /v1/tables/orders", 1, "DuplicateKey", "http"),
        ("will", "POST /v1/tables/orders", None, "BadValue", "http"),
        ("log", "POST /v1/tables/orders", None, "UnknownName", "http"),
        ("olga", "POST /v1/views/spend/refresh", None, "ok", "http"),
        ("olga", "POST /v1/builds/nothing/pause", None, "UnknownName", "http"),
        ("olga", "POST /v1/views/spend/errors/release", None, released.error["kind"], "http"),
    }
    desk.served.wh.sql("DELETE FROM orders WHERE id IN (70, 71)")


def test_a_client_brings_its_token(desk: Desk) -> None:
    with tidemill.connect(desk.served.server.url, token=desk.tokens["rita"]) as shop:
        assert len(shop.view("spend").rows()) == 3
        with pytest.raises(NotAllowed):
            shop.apply({"orders": [(1, (91, "x", 1))]})
