"""Drivers of others, as they are."""

from __future__ import annotations

import datetime
import decimal
import os
import signal

import psycopg
import pytest

from tests import coroutines
from tests.serving.pgwire.guarded import eventually

D = decimal.Decimal

ENDLESS = "SELECT count(*) FROM range(100000) a JOIN range(100000) b ON a.id + b.id = 7"


def test_psql_shows_rows_tags_and_places_of_errors(psql):
    said = psql.psql("SELECT * FROM spend ORDER BY customer", "SELECT custmer FROM orders", "SHOW VIEWS")
    assert "ann      | 10.00 | 2" in said.stdout and "(2 rows)" in said.stdout
    assert "strategy" in said.stdout
    assert "LINE 1: SELECT custmer FROM orders\n               ^" in said.stderr
    assert 'HINT:  Did you mean "customer"?' in said.stderr


def test_a_query_of_several_statements_stops_at_the_first_error(psql):
    said = psql.psql("SELECT 1 AS a; SELECT ';' AS b; SELECT nothing; SELECT 2 AS never")
    assert said.stdout.count("(1 row)") == 2 and "never" not in said.stdout
    assert "nothing" in said.stderr


def test_psql_copies_in_and_tells_the_time(psql, tmp_path):
    file = tmp_path / "orders.csv"
    file.write_text("id,customer,amount\n701,fay,1.50\n702,,2.00\n")
    into = rf"\copy orders (id, customer, amount) FROM '{file}' CSV HEADER"
    said = psql.psql(r"\timing on", into, "SELECT customer, amount FROM orders WHERE id > 700 ORDER BY id", into)
    assert "Timing is on." in said.stdout and "COPY 2\n" in said.stdout and "fay      |   1.50" in said.stdout
    assert said.stdout.count("Time: ") == 3
    assert "ERROR:  " in said.stderr and "primary key" in said.stderr
    assert "DELETE 2" in psql.psql("DELETE FROM orders WHERE id > 700").stdout


@pytest.mark.parametrize("statement", ["SUBSCRIBE TO spend", ENDLESS])
def test_psql_cancels(psql, statement):
    """Ctrl-C ends the statement, not the session."""
    before = set(psql.server.clients._inside.values())
    terminal, inner = os.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), inner)
    with open(terminal, "r+b", buffering=0) as screen, psql.opened_psql(**streams) as process:
        os.close(inner)
        assert b"=> " in shown_until(screen, b"=> ")
        (mine,) = set(psql.server.clients._inside.values()) - before
        screen.write(statement.encode() + b";\n")
        eventually(lambda: mine.busy)
        process.send_signal(signal.SIGINT)
        cancelled = shown_until(screen, b"=> ", after=b"ERROR:  the statement was cancelled")
        screen.write(b"SELECT 40 + 2 AS after;\n")
        assert b"   42" in shown_until(screen, b"(1 row)")
        screen.write(b"\\q\n")
    assert b"Cancel request sent" in cancelled


def shown_until(screen, wanted, after=b""):
    """What a terminal shows up to some text; what comes later waits there."""
    shown = b""
    while after not in shown or wanted not in shown[shown.find(after) :]:
        shown += screen.read(4096)
    return shown


def test_psycopg_reads_text_and_binary(client):
    wanted = [(1, "ann", D("9.50"), datetime.date(2024, 1, 2))]
    for binary in (False, True):
        found = client.execute("SELECT * FROM orders WHERE id = %s", [1], binary=binary).fetchall()
        assert found == wanted


def test_psycopg_changes_rows_in_transactions_and_pipelines(client, door):
    before = door.warehouse.epoch
    with client.transaction():
        client.execute("INSERT INTO orders (id, customer, amount) VALUES (%s, %s, %s)", [101, "eve", D("1.25")])
        client.execute("UPDATE orders SET amount = %s WHERE id = %s", [D("1.50"), 101])
    assert door.warehouse.epoch == before + 1
    client.execute("BEGIN")
    client.execute("DELETE FROM orders WHERE id = 101")
    client.execute("INSERT INTO orders (id) VALUES (2)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        client.execute("COMMIT")
    assert client.execute("SELECT amount FROM orders WHERE id = 101").fetchone() == (D("1.50"),)
    with client.pipeline():
        found = [client.execute("SELECT %s::int + id FROM orders WHERE id = 101", [n]) for n in range(5)]
    assert [one.fetchone() for one in found] == [(101 + n,) for n in range(5)]
    assert client.execute("DELETE FROM orders WHERE id = 101").rowcount == 1


def test_a_failed_transaction_takes_nothing_but_its_end(client):
    client.execute("BEGIN")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        client.execute("SELECT nothing")
    assert client.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        client.execute("SELECT 1")
    assert client.execute("COMMIT").statusmessage == "ROLLBACK"
    assert client.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_errors_have_their_sqlstate(client):
    for text, state in (
        ("SELECT 1 / 0", "22012"),
        ("SELECT * FROM nothing", "42P01"),
        ("SELECT nothing FROM orders", "42703"),
        ("SELEC 1", "42601"),
        ("INSERT INTO orders (id) VALUES (NULL)", "23502"),
        ("CREATE TABLE orders (a INT)", "42P07"),
        ("SAVEPOINT a", "25P01"),
    ):
        with pytest.raises(psycopg.Error) as refused:
            client.execute(text)
        assert refused.value.sqlstate == state, text


def test_asyncpg_is_told_the_types_of_parameters(door):
    async def work():
        import asyncpg

        options = {**door.options, "database": "shop"}
        del options["dbname"]
        client = await asyncpg.connect(**options)
        try:
            assert await client.fetchval("SELECT customer FROM orders WHERE id = $1", 2) == "bob"
            rows = await client.fetch("SELECT customer FROM spend WHERE total > $1", D("5.0"))
            assert [tuple(row) for row in rows] == [("ann",)]
            async with client.transaction():
                await client.execute(
                    "INSERT INTO orders (id, amount, day) VALUES ($1, $2, $3)", 201, D("0.1"), datetime.date(2024, 5, 6)
                )
                found = {record["id"] async for record in client.cursor("SELECT id FROM orders", prefetch=2)}
                assert found == {1, 2, 3, 201}
            assert await client.execute("DELETE FROM orders WHERE id = $1", 201) == "DELETE 1"
            with pytest.raises(asyncpg.UndefinedColumnError):
                await client.fetch("SELECT nothing FROM orders")
        finally:
            await client.close()

    coroutines.run(work())
