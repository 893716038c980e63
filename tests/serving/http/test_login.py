"""Logging in with a browser: a cookie stands for a token, for one's own pages alone, until it or the token ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import websockets.asyncio.client as websockets

import tidemill
from tests import coroutines
from tests.serving.http.conftest import SHOP, Answer, Served, serve
from tests.serving.http.test_limits import until
from tidemill.serving.access.hashed_secrets import hash_of_token
from tidemill.serving.access.logins import LOGIN_SECONDS, Logins
from tidemill.serving.access.users import Users


class Browser:
    """A browser with a page of the server: it sends its cookie, and says from which page."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.cookie = ""
        self.origin = f"http://localhost:{served.port}"

    def ask(self, method: str, path: str, given: Any = None, **headers: str) -> Answer:
        named = {"host": f"localhost:{self.served.port}", "origin": self.origin, **headers}
        if self.cookie:
            named["cookie"] = f"theme=dark; {self.cookie}"
        answer = self.served.ask(method, path, json.dumps(given), content_type="application/json", **named)
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer


class Desk(NamedTuple):
    served: Served
    users: Users
    token: str


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("login")
    users = Users.load(folder / "users.json")
    users.add("rita", ["reader"])
    token = users.add_token("rita", "console")
    wh = tidemill.open(folder / "shop", runtime="native")
    wh.sql(SHOP)
    for served in serve(wh, users=users):
        yield Desk(served, users, token)


@pytest.fixture
def browser(desk: Desk) -> Browser:
    return Browser(desk.served)


def test_a_cookie_stands_for_a_token_until_logout(desk: Desk, browser: Browser) -> None:
    nobody = {"user": None, "roles": [], "role": None, "by": None, "login_needed": True}
    assert browser.ask("GET", "/v1/me").json == nobody
    assert browser.ask("POST", "/v1/login", {"token": "tidemill_guessed"}).status == 401
    assert browser.ask("POST", "/v1/login", {"token": 1}).status == 422
    answer = browser.ask("POST", "/v1/login", {"token": desk.token})
    rita = {"user": "rita", "roles": ["reader"], "role": "reader", "by": "cookie", "login_needed": False}
    assert answer.json == rita == browser.ask("GET", "/v1/me").json
    name, _, attributes = answer.headers["set-cookie"].partition("=")
    assert name == f"tidemill_{desk.served.port}" and desk.token not in attributes
    assert attributes.split("; ")[1:] == [f"Max-Age={LOGIN_SECONDS}", "Path=/", "HttpOnly", "SameSite=Strict"]
    assert browser.ask("GET", "/v1/views/spend").json["count"] == 3
    assert browser.ask("POST", "/v1/sql", {"sql": "SELECT 1"}).status == 200
    kept = browser.cookie
    assert browser.ask("POST", "/v1/logout").json == nobody
    browser.cookie = kept
    assert browser.ask("GET", "/v1/views/spend").status == 401


def test_a_page_behind_tls_gets_a_secure_cookie(desk: Desk, browser: Browser) -> None:
    browser.origin = browser.origin.replace("http:", "https:")
    answer = browser.ask("POST", "/v1/login", {"token": desk.token})
    assert answer.headers["set-cookie"].endswith("; SameSite=Strict; Secure")


def test_pages_of_others_do_nothing_with_a_cookie(desk: Desk, browser: Browser) -> None:
    browser.ask("POST", "/v1/login", {"token": desk.token})
    select = {"sql": "SELECT 1"}
    assert browser.ask("POST", "/v1/sql", select, origin="http://evil.example").status == 403
    assert browser.ask("POST", "/v1/logout", origin="null").status == 403
    assert browser.ask("GET", "/v1/views/spend", sec_fetch_site="same-site").status == 403
    assert browser.ask("GET", "/", sec_fetch_site="same-site").status in (200, 503)  # a link to the console
    silent = {"content_type": "application/json", "cookie": browser.cookie}
    assert desk.served.ask("POST", "/v1/sql", json.dumps(select), **silent).status == 403


def test_live_changes_need_no_header(desk: Desk, browser: Browser) -> None:
    browser.ask("POST", "/v1/login", {"token": desk.token})
    live = desk.served.events("/v1/views/spend/changes?since=0", cookie=browser.cookie, accept="text/event-stream")
    assert next(event for event in live if "data" in event)["id"] == "1"
    live.close()
    url = f"ws://localhost:{desk.served.port}/v1/views/spend/changes?since=0"

    async def listen(origin: str) -> Any:
        headers = {"Cookie": browser.cookie}
        async with websockets.connect(url, additional_headers=headers, origin=origin) as socket:  # type: ignore[arg-type]
            return [json.loads(await socket.recv()) for _ in range(2)]

    assert coroutines.run(listen(browser.origin))[1]["epoch"] == 1
    with pytest.raises(Exception, match="403"):
        coroutines.run(listen("http://evil.example"))


def test_a_login_ends_with_its_token(desk: Desk, browser: Browser) -> None:
    token = desk.users.add_token("rita", "lost")
    browser.ask("POST", "/v1/login", {"token": token})
    assert browser.ask("GET", "/v1/views/spend").status == 200
    desk.users.remove_token("rita", "lost")
    assert browser.ask("GET", "/v1/views/spend").status == 401
    assert browser.ask("GET", "/v1/me").json["login_needed"] is True


def test_a_login_ends_after_its_time(desk: Desk) -> None:
    now = [0.0]
    logins = Logins(desk.users, clock=lambda: now[0])
    secret = logins.begin(desk.token)
    assert secret is not None and logins.begin("tidemill_guessed") is None
    assert logins.holder(hash_of_token(secret)) is not None and logins.holder(hash_of_token(desk.token)) is None
    now[0] = LOGIN_SECONDS
    assert logins.holder(hash_of_token(secret)) is None


def test_a_file_that_is_not_safe_lets_nobody_in_and_is_not_told(tmp_path: Path) -> None:
    users = Users.load(tmp_path / "users.json")
    users.add("ann", ["owner"])
    token = users.add_token("ann")
    serving = serve(tidemill.open(":memory:", runtime="native"), users=users, failure_seconds=0.0)
    served, bearer = next(serving), {"authorization": f"Bearer {token}"}
    assert served.get("/v1/status", **bearer).status == 200
    users.path.chmod(0o644)
    until(lambda: served.get("/v1/status", **bearer).status == 401)
    for answer in (served.get("/v1/status", **bearer), served.post("/v1/login", {"token": token})):
        assert answer.status == 401 and str(tmp_path).encode() not in answer.body
    assert next(serving, None) is None


def test_without_users_nobody_logs_in(shop: Served) -> None:
    owner = {"user": None, "roles": ["owner"], "role": "owner", "by": "machine", "login_needed": False}
    assert shop.get("/v1/me").json == owner
    answer = shop.post("/v1/login", {"token": "any"})
    assert answer.json == owner and "set-cookie" not in answer.headers


def test_who_is_unknown_sends_little(desk: Desk) -> None:
    long = json.dumps({"token": "x" * 20_000})
    assert desk.served.ask("POST", "/v1/login", long, content_type="application/json").status == 413
