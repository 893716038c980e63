"""Users by their tokens: what each may do, and what is noted of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tests.serving.http.conftest import SHOP, Answer, Served, serve
from tidemill.model.errors import NotAllowed
from tidemill.serving.access.users import Users

ROLES = {"olga": ["owner"], "will": ["writer"], "rita": ["reader"], "eve": ["eu"]}


class Desk:
    """A server with users, and the token of each."""

    def __init__(self, served: Served, tokens: dict[str, str], audit: Path) -> None:
        self.served = served
        self.tokens = tokens
        self.audit = audit

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
    for served in serve(wh, users=users, audit=folder / "audit"):
        yield Desk(served, tokens, folder / "audit")


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
    for path in ("/v1/status", "/v1/catalog", "/v1/views/spend/explain", "/v1/refreshes", "/metrics", "/v1/sources"):
        assert desk.ask("eve", "GET", path).status == 403, path


def test_statements_are_noted_without_values(desk: Desk) -> None:
    desk.sql("rita", "SELECT * FROM spend WHERE customer = 'secret'")
    text = "".join(path.read_text() for path in desk.audit.iterdir())
    assert '"rita"' in text and "secret" not in text


def test_a_client_brings_its_token(desk: Desk) -> None:
    with tidemill.connect(desk.served.server.url, token=desk.tokens["rita"]) as shop:
        assert len(shop.view("spend").rows()) == 3
        with pytest.raises(NotAllowed):
            shop.apply({"orders": [(1, (91, "x", 1))]})
