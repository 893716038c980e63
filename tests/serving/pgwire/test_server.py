"""The door as the server opens it, beside HTTP."""

from __future__ import annotations

import time
import urllib.request

import psycopg
import pytest

import tidemill
from tests.serving.pgwire.door import SHOP
from tidemill.serving.pgwire.server import PgServer

pytest.importorskip("uvicorn", reason="the extra tidemill[server] is not installed")


def ask_until_it_ends(client):
    for _ in range(200):
        client.execute("SELECT 1")
        time.sleep(0.02)


def test_both_doors_show_one_warehouse_and_close_in_order():
    from tidemill.serving.server.server import Server
    from tidemill.serving.server.settings import Settings
    from tidemill.serving.server.statement_pool import StatementPool

    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(SHOP)
        door = PgServer(wh, None, StatementPool(2, 8, "pgwire"), port=0)
        server = Server(wh, "shop", Settings(port=0), [door])
        server.start()
        try:
            urllib.request.urlopen(f"{server.url}/healthz", timeout=20).read()
            with psycopg.connect(
                host="127.0.0.1", port=door.port, user="ann", dbname="shop", autocommit=True
            ) as client:
                client.execute("INSERT INTO orders (id, customer) VALUES (4, 'eve')")
                assert wh.view("spend").rows() and ("eve", None, 1) in wh.view("spend").rows()
                client.execute("BEGIN")
                client.execute("DELETE FROM orders")
                server.stop()
                with pytest.raises(psycopg.Error) as ended:
                    ask_until_it_ends(client)
                assert "shuts down" in str(ended.value) or "closed" in str(ended.value)
        finally:
            server.stop()
            server.wait()
        assert len(wh.table("orders")) == 4


def test_both_doors_have_one_audit_log(tmp_path):
    from tidemill.serving.access.audit_log import AuditLog
    from tidemill.serving.access.users import Users
    from tidemill.serving.server.server import Server
    from tidemill.serving.server.settings import Settings
    from tidemill.serving.server.statement_pool import StatementPool

    users = Users.load(tmp_path)
    users.add("ann", ["reader"], "correct horse")
    headers = {"Authorization": f"Bearer {users.add_token('ann')}", "Content-Type": "application/json"}
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(SHOP)
        door = PgServer(wh, users, StatementPool(2, 8, "pgwire"), port=0)
        server = Server(wh, "shop", Settings(port=0, users=users, audit=AuditLog(tmp_path / "audit")), [door])
        server.start()
        try:
            asked = urllib.request.Request(f"{server.url}/v1/sql", b'{"sql": "SELECT 1"}', headers)
            urllib.request.urlopen(asked, timeout=20).read()
            with psycopg.connect(f"host=127.0.0.1 port={door.port} user=ann password='correct horse'") as client:
                client.execute("SELECT 2")
        finally:
            server.stop()
            server.wait()
    entries = [entry for entry in AuditLog(tmp_path / "audit").entries() if "statement" in entry]
    assert [(one["door"], one["statement"]) for one in entries][::-1] == [
        ("http", "SELECT ?"),
        ("pgwire", "BEGIN"),
        ("pgwire", "SELECT ?"),
        ("pgwire", "COMMIT"),
    ]
