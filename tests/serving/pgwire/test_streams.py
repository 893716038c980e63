"""COPY, SUBSCRIBE, cursors and cancelling."""

from __future__ import annotations

import threading
import time
from decimal import Decimal

import psycopg
import pytest

ROWS = [(301, "a\tb\\c\nd", Decimal("1.50"), None), (302, "", None, None), (303, 'q"x,y', Decimal("-2.00"), None)]


@pytest.mark.parametrize("how", ["", "(FORMAT csv)", "(FORMAT csv, HEADER)", "(FORMAT binary)"])
def test_what_is_copied_out_can_be_copied_in(client, door, how):
    client.execute("CREATE TABLE copied (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2), day DATE)")
    before = door.warehouse.epoch
    binary = "binary" in how
    with client.cursor().copy(f"COPY copied FROM STDIN {'(FORMAT binary)' if binary else ''}") as copy:
        if binary:
            copy.set_types(["int8", "text", "numeric", "date"])
        for row in ROWS:
            copy.write_row(row)
    assert door.warehouse.epoch == before + 1
    with client.cursor().copy(f"COPY copied TO STDOUT {how}") as copy:
        data = b"".join(copy)
    client.execute("DELETE FROM copied")
    with client.cursor().copy(f"COPY copied FROM STDIN {how}") as copy:
        copy.write(data)
    assert sorted(client.execute("SELECT * FROM copied").fetchall()) == ROWS
    client.execute("DROP TABLE copied")


def test_a_copy_that_is_refused_changes_nothing(client):
    for data, state in (("1\tann\tnothing\t\\N\n", "22P02"), ("1\tann\n", "22P04"), ("1\tann\t1\t\\N\n", "23505")):
        with pytest.raises(psycopg.Error) as refused, client.cursor().copy("COPY orders FROM STDIN") as copy:
            copy.write(data)
        assert refused.value.sqlstate == state
    assert client.execute("SELECT count(*) FROM orders").fetchone() == (3,)
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        client.execute("COPY orders TO '/tmp/file'")


def test_psql_copies(psql, tmp_path):
    file = tmp_path / "spend.csv"
    said = psql.psql(rf"\copy (SELECT customer, n FROM spend ORDER BY customer) TO '{file}' CSV HEADER")
    assert said.stdout == "COPY 2\n", said.stderr
    assert file.read_text() == "customer,n\nann,2\nbob,1\n"


def test_subscribers_get_every_epoch(door, client):
    with door.connect() as listener:
        since = door.warehouse.epoch
        found = []

        def listen():
            for row in listener.cursor().stream(f"SUBSCRIBE TO spend SINCE {since} UNTIL {since + 3}"):
                found.append(row)

        thread = threading.Thread(target=listen)
        thread.start()
        for id in (401, 402, 403):
            client.execute("INSERT INTO orders (id, customer, amount) VALUES (%s, 'sub', 1.00)", [id])
        thread.join(20)
        client.execute("DELETE FROM orders WHERE customer = 'sub'")
    assert [(epoch - since, weight, customer, n) for epoch, weight, customer, _, n in found] == [
        (1, 1, "sub", 1),
        *((2, weight, "sub", n) for weight, n in ((-1, 1), (1, 2))),
        *((3, weight, "sub", n) for weight, n in ((-1, 2), (1, 3))),
    ]


def test_a_subscription_by_copy_and_by_cursor(door, client):
    since = door.warehouse.epoch
    client.execute("INSERT INTO orders (id, customer) VALUES (501, 'cur'), (502, 'cut')")
    with client.cursor().copy(f"COPY (SUBSCRIBE TO spend SINCE {since} UNTIL {since + 1}) TO STDOUT") as copy:
        rows = sorted(bytes(one) for one in copy)
    assert b"".join(rows).count(b"\tcu") == 2
    client.execute(f"DECLARE c CURSOR FOR SUBSCRIBE TO spend SINCE {since}")
    assert len(client.execute("FETCH 1 FROM c").fetchall()) == 1
    assert len(client.execute("FETCH ALL FROM c").fetchall()) == 1
    assert client.execute("FETCH ALL FROM c WITH (TIMEOUT '50ms')").fetchall() == []
    client.execute("DELETE FROM orders WHERE id IN (501, 502)")
    assert {row[1] for row in client.execute("FETCH ALL FROM c").fetchall()} == {-1}
    client.execute("CLOSE c")
    with pytest.raises(psycopg.errors.InvalidCursorName):
        client.execute("FETCH ALL FROM c")


def test_cursors_go_forward(client):
    with client.transaction():
        cursor = client.cursor("named")
        cursor.itersize = 2
        cursor.execute("SELECT id FROM orders ORDER BY id")
        assert [row[0] for row in cursor] == [1, 2, 3]


def test_a_subscription_is_cancelled(door):
    with door.connect() as listener:
        threading.Timer(0.3, listener.cancel_safe).start()
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            listener.execute("SUBSCRIBE TO spend")
        assert time.monotonic() - began < 5
        assert listener.execute("SELECT 1").fetchone() == (1,)


def test_a_client_that_is_gone_leaves_nothing(door):
    before = len(door.server.clients)
    listener = door.connect()
    listener.pgconn.send_query(b"SUBSCRIBE TO spend")
    listener.pgconn.flush()
    time.sleep(0.2)
    listener.close()
    for _ in range(100):
        if len(door.server.clients) <= before:
            return
        time.sleep(0.02)
    pytest.fail("the connection is still there")
