"""Users, passwords and encryption."""

from __future__ import annotations

import ssl
from contextlib import closing

import psycopg
import pytest

import tidemill
from tests.serving.certificates import make_certificate
from tests.serving.pgwire import raw
from tests.serving.pgwire.door import SHOP, Door
from tests.serving.pgwire.guarded import eventually
from tidemill.serving.access.users import Users
from tidemill.serving.pgwire.limits import PgLimits


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = make_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(SHOP)
        users = Users(folder / "users.json")
        users.add("ann", ["reader"], "correct horse")
        door = Door(wh, users=users, tls=context, limits=PgLimits(connections=3, failure_seconds=0, patience=5))
        yield door
        door.close()


def test_a_user_proves_to_know_the_password(secured):
    for mode in ("disable", "require"):
        with secured.connect(password="correct horse", sslmode=mode) as client:
            assert client.execute("SELECT count(*) FROM orders").fetchone() == (3,)
            assert client.pgconn.ssl_in_use == (mode == "require")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                client.execute("DELETE FROM orders")


@pytest.mark.parametrize(("user", "password"), [("ann", "wrong horse"), ("bob", "correct horse"), ("ann", "")])
def test_nobody_else_comes_in(secured, user, password):
    with pytest.raises(psycopg.OperationalError) as refused:
        secured.connect(user=user, password=password or None)
    assert "authentication failed" in str(refused.value) or "no password" in str(refused.value)
    assert "horse" not in str(refused.value)


def test_a_connection_too_many_is_refused(secured):
    clients = [secured.connect(password="correct horse") for _ in range(3)]
    try:
        with pytest.raises(psycopg.OperationalError, match="too many connections"):
            secured.connect(password="correct horse")
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_encryption_that_does_not_come_about_leaves_nothing(secured, loop):
    limits = PgLimits(login_seconds=0.5)
    door = Door(
        secured.warehouse, tls=secured.server.tls, limits=limits, loop=pytest.importorskip(loop).new_event_loop()
    )
    with raw.dialled(door.port, raw.SSL_REQUEST), closing(door):
        for after in (b"", b"\x16\x03\x01\x02\x00 this is no TLS"):
            with raw.dialled(door.port, raw.SSL_REQUEST) as client:
                assert client.recv(1) == b"S"
                client.sendall(after)
        eventually(lambda: len(door.server.clients) == 0)


def test_without_users_a_door_is_for_this_machine_alone(secured):
    with pytest.raises(tidemill.TidemillError, match="needs users"):
        Door(secured.warehouse, host="0.0.0.0")
