"""What users see of a warehouse over PostgreSQL's protocol: what was granted to them, row by row, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.serving.pgwire.guarded import GuardedDoor, guarded_door


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedDoor]:
    with guarded_door(tmp_path_factory.mktemp("rights")) as found:
        yield found


@pytest.fixture
def bob(door: GuardedDoor) -> Iterator[psycopg.Connection[Any]]:
    """Of orders and spend the rows of ann, and no right on anything else."""
    with closing(door.connect("bob")) as client:
        yield client


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_rows_are_those_that_were_granted(bob: psycopg.Connection[Any], dialect: str) -> None:
    bob.execute(f"SET dialect = '{dialect}'")
    assert sorted(bob.execute("SELECT id FROM orders").fetchall()) == [(1,), (3,)]
    assert bob.execute("SELECT count(*), max(customer) FROM orders").fetchone() == (2, "ann")
    assert bob.execute("SELECT customer FROM spend WHERE n > 0 OR 1 = 1").fetchall() == [("ann",)]
    with bob.cursor().copy("COPY orders (id) TO STDOUT") as copy:
        assert sorted(bytes(row) for row in copy) == [b"1\n", b"3\n"]
    with bob.transaction():
        bob.execute("DECLARE c CURSOR FOR SELECT customer FROM orders")
        assert bob.execute("FETCH ALL FROM c").fetchall() == [("ann",), ("ann",)]


def test_prepared_reads_by_key_have_the_same_rows(door: GuardedDoor, bob: psycopg.Connection[Any]) -> None:
    """Those of others are answered from memory before and after, which bob must not see."""
    text = "SELECT customer, n FROM spend WHERE customer = %s"
    with closing(door.connect("eve")) as eve:
        for _ in range(3):
            found = [
                client.execute(text, [who], prepare=True).fetchall() for client in (eve, bob) for who in ("ann", "bob")
            ]
            assert found == [[("ann", 2)], [("bob", 1)], [("ann", 2)], []]
            assert bob.execute("SELECT id FROM orders WHERE id = %s", [2], prepare=True).fetchall() == []
            assert bob.execute("SELECT id FROM orders WHERE id = %s", [3], prepare=True).fetchall() == [(3,)]


def test_a_prepared_read_ends_with_its_right(door: GuardedDoor, bob: psycopg.Connection[Any]) -> None:
    with closing(door.connect("eve")) as eve:
        eve.execute("CREATE TABLE lent (id INT PRIMARY KEY)")
        eve.execute("INSERT INTO lent VALUES (1)")
        eve.execute("GRANT SELECT ON lent TO bob")
        for _ in range(3):
            assert bob.execute("SELECT id FROM lent WHERE id = %s", [1], prepare=True).fetchall() == [(1,)]
        eve.execute("REVOKE SELECT ON lent FROM bob")
        with pytest.raises(psycopg.errors.UndefinedTable):
            bob.execute("SELECT id FROM lent WHERE id = %s", [1], prepare=True)
        eve.execute("DROP TABLE lent")


def test_subscriptions_have_the_same_rows(door: GuardedDoor, bob: psycopg.Connection[Any]) -> None:
    since = door.warehouse.epoch
    with closing(door.connect("eve")) as eve:
        eve.execute("INSERT INTO orders (id, customer) VALUES (11, 'bob'), (12, 'ann')")
        eve.execute("DELETE FROM orders WHERE id IN (11, 12)")
    text = f"SUBSCRIBE TO spend SINCE {since} UNTIL {since + 2}"
    assert {row[2] for row in bob.cursor().stream(text)} == {"ann"}
    with bob.cursor().copy(f"COPY ({text}) TO STDOUT") as copy:
        assert all(b"\tann\t" in row for row in map(bytes, copy))


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("SELECT * FROM hidden", "42P01"),
        ("COPY hidden TO STDOUT", "42P01"),
        ("SUBSCRIBE TO hidden", "42P01"),
        ("DELETE FROM hidden", "42P01"),
        ("DELETE FROM orders", "42501"),
        ("INSERT INTO orders (id) VALUES (50)", "42501"),
        ("CREATE TABLE mine (a INT)", "42501"),
        ("GRANT SELECT ON orders TO bob", "42501"),
        ("COPY hidden FROM STDIN", "42P01"),
    ],
)
def test_the_rest_is_refused(bob: psycopg.Connection[Any], text: str, state: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        bob.execute(text)
    assert refused.value.sqlstate == state


def test_rows_that_are_copied_in_need_a_right(door: GuardedDoor, bob: psycopg.Connection[Any]) -> None:
    for client in (bob, door.connect("ann")):
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege),
            client.cursor().copy("COPY orders FROM STDIN") as copy,
        ):
            copy.write("60\tbob\t1.00\t\\N\n")
    assert len(door.warehouse.table("orders")) == 3


def test_the_catalog_has_what_was_granted(door: GuardedDoor, bob: psycopg.Connection[Any]) -> None:
    """Whoever asks in between: each sees the catalog by their own rights."""
    names = "SELECT relname FROM pg_class WHERE relname IN ('orders', 'spend', 'hidden') ORDER BY 1"
    columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'hidden'"
    with closing(door.connect("ann")) as ann:
        for _ in range(2):
            assert ann.execute(names).fetchall() == [("hidden",), ("orders",), ("spend",)]
            assert bob.execute(names).fetchall() == [("orders",), ("spend",)]
            assert (ann.execute(columns).fetchone(), bob.execute(columns).fetchone()) == ((2,), (0,))
    assert bob.execute("SELECT current_user, session_user").fetchone() == ("bob", "bob")
    with pytest.raises(psycopg.Error):
        bob.execute("SET SESSION AUTHORIZATION eve")
