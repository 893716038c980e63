"""Users who change while they are connected, and what the audit log has of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.serving.pgwire import raw
from tests.serving.pgwire.guarded import PASSWORD, GuardedDoor, end_of, eventually, guarded_door
from tidemill.serving.access.users import Users


@pytest.fixture
def door(tmp_path: Path) -> Iterator[GuardedDoor]:
    with guarded_door(tmp_path) as found:
        yield found


def _unsafe(users: Users) -> None:
    users.path.chmod(0o644)


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (lambda users: users.remove("ann"), "28000"),
        (lambda users: users.set_password("ann", "another password"), "28000"),
        (lambda users: users.set_roles("ann", ["analyst"]), "57P01"),
        (_unsafe, "28000"),
    ],
    ids=["removed", "another password", "other roles", "a file that others may read"],
)
def test_open_connections_of_a_user_who_has_changed_end(
    door: GuardedDoor, change: Callable[[Users], None], state: str
) -> None:
    with closing(door.connect()) as client, closing(door.connect("bob")) as other:
        door.users.add_token("ann")
        client.execute("BEGIN")
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (3,)
        change(door.users)
        assert end_of(client).sqlstate in (state, None)  # psycopg may find nothing but a closed connection
        if change is not _unsafe:
            assert other.execute("SELECT count(*) FROM orders").fetchone() == (2,)


@pytest.mark.parametrize("statement", ["SUBSCRIBE TO spend", "COPY (SUBSCRIBE TO spend) TO STDOUT"])
def test_a_subscription_of_a_removed_user_ends_with_an_error(door: GuardedDoor, statement: str) -> None:
    with raw.dialled(door.port) as listener:
        raw.log_in(listener, "ann", PASSWORD)
        listener.sendall(raw.query(statement))
        eventually(lambda: door.noted(user="ann", statement=statement))
        door.users.remove("ann")
        told = raw.said(listener)
    assert b"28000" in told
    assert b'user "ann" was removed' in told
    eventually(lambda: door.noted(user="ann", statement=statement, outcome="28000"))


def test_who_has_changed_comes_in_again_with_other_rights(door: GuardedDoor) -> None:
    with closing(door.connect()) as client:
        client.execute("SELECT * FROM hidden")
        door.users.set_roles("ann", ["analyst"])
        assert "Connect again" in str(end_of(client)) or client.closed
    with door.connect() as client, pytest.raises(psycopg.errors.UndefinedTable):
        client.execute("SELECT * FROM hidden")


def test_statements_and_logins_are_in_the_audit_log_without_values(door: GuardedDoor) -> None:
    secret = "hunter2"
    with door.connect() as client:
        client.execute(f"SELECT id FROM orders WHERE customer = '{secret}' AND id > 12.5")
        client.execute("SELECT customer FROM orders WHERE id = %s", [1], prepare=True)
        client.execute("SELECT customer FROM orders WHERE id = %s", [2], prepare=True)
        client.execute("SELECT relname FROM pg_class WHERE relname = 'hunter2'")
        client.execute("SET application_name = 'hunter2'; SET my.password = hunter2")
        with client.cursor().copy("COPY orders TO STDOUT (NULL 'hunter2')") as copy:
            assert len(list(copy)) == 3
        client.execute("SET dialect = 'postgres'")
        client.execute("SELECT \"id\", $$hunter2$$, 'a\\' || ', hunter2, ' || 'b' FROM orders")
        for refused in ("DELETE FROM orders", "SELECT nothing + 'a\\' || ', hunter2, '", "this is hunter2"):
            with pytest.raises(psycopg.Error):
                client.execute(refused)
    with pytest.raises(psycopg.OperationalError):
        door.connect(password=secret)
    with pytest.raises(psycopg.OperationalError):
        door.connect(user=secret)
    eventually(lambda: len(door.noted(event="login")) == 3)
    entries = door.noted(door="pgwire")
    assert secret not in json.dumps(entries)
    assert {entry["address"] for entry in entries} == {"127.0.0.1"}
    logins = [(entry.get("user"), entry["outcome"]) for entry in entries if "event" in entry]
    assert logins == [("ann", "ok"), ("ann", "28P01"), (None, "28P01")]
    told = [(entry.get("statement"), entry["outcome"], entry.get("rows")) for entry in entries if "event" not in entry]
    assert told[:8] == [
        ("SELECT id FROM orders WHERE customer = ? AND id > ?", "ok", 0),
        ("SELECT customer FROM orders WHERE id = :_1", "ok", 1),
        ("SELECT customer FROM orders WHERE id = :_1", "ok", 1),
        ("SELECT relname FROM pg_class WHERE relname = ?", "ok", 0),
        ("SET application_name = ?", "ok", 0),
        ("SET my.password = ?", "ok", 0),
        ("COPY orders TO STDOUT (NULL ?)", "ok", 3),
        ("SET dialect = ?", "ok", 0),
    ]
    assert told[8][1:] == ("ok", 3)
    assert [outcome for _, outcome, _ in told[9:]] == ["NotAllowed", "UnknownName", "ParseError"]
    assert PASSWORD not in json.dumps(entries)


def test_a_client_that_leaves_is_in_the_audit_log(door: GuardedDoor) -> None:
    client = door.connect()
    client.pgconn.send_query(b"SUBSCRIBE TO spend")
    client.pgconn.flush()
    (begun,) = eventually(lambda: door.noted(statement="SUBSCRIBE TO spend"))
    assert "outcome" not in begun
    client.close()
    eventually(lambda: door.noted(statement="SUBSCRIBE TO spend", outcome="08006"))
