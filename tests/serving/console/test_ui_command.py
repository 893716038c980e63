"""The command ``tidemill ui``: it reads beside a writer, goes on with it, and lets its browser in as the owner."""

from __future__ import annotations

import html
import json
import re
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

import tidemill
from tests.serving.console.browser import require_browser
from tidemill.engine.warehouse import Warehouse
from tidemill.serving.access.hashed_secrets import hash_of_token
from tidemill.serving.access.logins import INVITATION_SECONDS, LOGIN_SECONDS, Logins
from tidemill.serving.access.principal import LOCAL_OWNER
from tidemill.serving.access.users import Users
from tidemill.serving.cli.console_link import address_to_show

COMMAND = [sys.executable, "-c", "from tidemill.serving.cli.entry import main; main()", "ui"]


class Owner(NamedTuple):
    """Whoever has followed the link of the command."""

    url: str
    cookie: str

    def open(self, path: str) -> Any:
        return urllib.request.urlopen(
            urllib.request.Request(self.url + path, headers={"cookie": self.cookie}), timeout=20
        )

    def get(self, path: str) -> Any:
        with self.open(path) as answer:
            return json.loads(answer.read())


def log_in(link: str) -> Owner:
    """Do what the page does that the link leads to."""
    url, _, token = link.partition("/#")
    headers = {"content-type": "application/json", "origin": url}
    asked = urllib.request.Request(f"{url}/v1/login", json.dumps({"token": token}).encode(), headers)
    with urllib.request.urlopen(asked, timeout=20) as answer:
        return Owner(url, answer.headers["set-cookie"].partition(";")[0])


def changed_nodes(owner: Owner, wh: Warehouse) -> Any:
    """The nodes of the first event that has some, while rows are applied by the writer."""
    with owner.open("/v1/status/stream") as stream:
        for line in stream:
            nodes = json.loads(line[5:])["nodes"] if line.startswith(b"data:") else None
            if nodes:
                return nodes
            if nodes is not None:
                wh.apply({"t": [(+1, (0,))]})
    raise AssertionError("no event told what views have done")


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command of a browser that writes the address down that it is given."""
    script, given = tmp_path / "browser.sh", tmp_path / "given"
    script.write_text(f'printf %s "$1" > {given}.new; mv {given}.new {given}\n')
    monkeypatch.setenv("BROWSER", f"sh {script} %s")
    return given


def link_in(address: str) -> str:
    """The link in the file that a browser was given, which nobody else can read."""
    page = Path(url2pathname(urlsplit(address).path))
    assert "once" not in address and stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    found = re.search(r"url=([^\"]+)", page.read_text())
    assert found
    return html.unescape(found[1])


def test_it_is_served_beside_a_writer_to_its_owner(tmp_path: Path, recorder: Path) -> None:
    require_browser()
    with tidemill.open(tmp_path / "shop", runtime="native") as wh:
        wh.sql(
            "CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW v AS SELECT SUM(n) AS n FROM t; INSERT INTO t VALUES (1)"
        )
        Users.load(tmp_path / "shop").add("ann", ["reader"])
        process = subprocess.Popen([*COMMAND, "-w", str(tmp_path / "shop")], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert "cannot be changed here" in process.stdout.readline()
            assert re.search(r" http://127\.0\.0\.1:\d+  ", process.stdout.readline())  # no token: it is no terminal
            wait_for(recorder.exists)
            link = link_in(recorder.read_text())
            owner = log_in(link)
            with owner.open("/") as page:
                assert "script-src 'self'" in page.headers["content-security-policy"] and b"<script" in page.read()
            assert owner.get("/v1/me")["role"] == "owner"
            with pytest.raises(urllib.error.HTTPError):
                log_in(link)
            wh.apply({"t": [(+1, (2,))]})
            wait_for(lambda: owner.get("/v1/status")["epoch"] == 2)
            assert owner.get("/v1/views/v")["rows"] == [[3]]
            assert changed_nodes(owner, wh)["v"]["rows_in"] > 0
        finally:
            process.terminate()
            process.communicate(timeout=60)
        assert process.returncode == 0
        assert not Path(url2pathname(urlsplit(recorder.read_text()).path)).exists()


def wait_for(condition: Any) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_only_a_terminal_is_shown_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = SimpleNamespace(url="http://127.0.0.1:1", invite_owner=lambda: "http://127.0.0.1:1/#once")
    for is_terminal, shown in ((True, server.invite_owner()), (False, server.url)):
        monkeypatch.setattr(sys.stdout, "isatty", lambda is_terminal=is_terminal: is_terminal)
        assert address_to_show(server) == shown


def test_a_link_lets_in_once_and_soon(tmp_path: Path) -> None:
    now = [0.0]
    logins = Logins(Users.load(tmp_path), clock=lambda: now[0])
    used, late = logins.invite(LOCAL_OWNER), logins.invite(LOCAL_OWNER)
    assert logins.holder(hash_of_token(used)) is None
    secret = logins.begin(used)
    assert secret is not None and logins.begin(used) is None
    now[0] = INVITATION_SECONDS
    assert logins.begin(late) is None
    assert logins.holder(hash_of_token(secret)) is LOCAL_OWNER
    now[0] = LOGIN_SECONDS
    assert logins.holder(hash_of_token(secret)) is None


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    ended = subprocess.run([*COMMAND, "-w", str(tmp_path / "none")], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
