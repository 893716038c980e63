"""Runs: rows that share most of their cells are handed on run-end encoded, and say what plain rows would."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import tidemill
from tidemill.changes.run_end_encoding import is_repeated
from tidemill.changes.zset import ZSet
from tidemill.engine.subscriptions.subscription import Subscription
from tidemill.engine.warehouse import Warehouse

SCHEMA = """
    CREATE STREAM follower (userid INT, name STRING);
    CREATE STREAM tweet (userid INT, tweetid BIGINT NOT NULL, text STRING, amount DECIMAL(20, 2));
    CREATE MATERIALIZED VIEW timeline WITH (strategy = 'joingraph', serve = 'subscribe') AS
      SELECT f.name, t.tweetid, t.text, t.amount FROM follower f JOIN tweet t ON f.userid = t.userid;
"""

Change = dict[str, list[tuple[int, tuple[Any, ...]]]]


@contextmanager
def timeline(form: str, backend: str = "llvm") -> Iterator[tuple[Warehouse, Subscription]]:
    with tidemill.open(":memory:", runtime="native", backend=backend) as warehouse:
        warehouse.sql(SCHEMA)
        yield warehouse, warehouse.subscribe("timeline", timeout=0, form=form)


def encoded(change: Change, *before: Change) -> list[pa.Table]:
    """What a subscriber gets of a change, as it lies in memory."""
    with timeline("arrow") as (warehouse, subscription):
        for earlier in before:
            warehouse.apply(earlier)
        list(subscription)
        warehouse.apply(change)
        return [table for batch in subscription for table in batch.encoded()]


def followers(count: int, weight: int = 1) -> Change:
    return {"follower": [(weight, (1, f"f{n}")) for n in range(count)]}


TWEET: Change = {"tweet": [(1, (1, 7, "hello", "1.50"))]}


def test_what_all_rows_share_is_written_once() -> None:
    (table,) = encoded(TWEET, followers(100))
    assert [name for name in table.column_names if is_repeated(table[name])] == ["tweetid", "text", "amount", "_weight"]
    assert table["tweetid"].chunk(0).values.to_pylist() == [7]
    assert sorted(table["name"].to_pylist()) == sorted(f"f{n}" for n in range(100))
    assert set(table["text"].to_pylist()) == {"hello"}


def test_the_other_way_round_other_columns_are_shared() -> None:
    tweets: Change = {"tweet": [(1, (1, n, None, "0.10")) for n in range(10)]}
    (table,) = encoded(followers(1), tweets)
    assert [name for name in table.column_names if is_repeated(table[name])] == ["name", "_weight"]
    assert table["tweetid"].to_pylist() == list(range(10))
    assert table["text"].null_count == 10


def test_few_rows_are_plain() -> None:
    (table,) = encoded(TWEET, followers(3))
    assert not any(is_repeated(column) for column in table.columns)


@pytest.mark.parametrize("weight", [2, 100, -3])
def test_a_weight_that_all_have_is_shared(weight: int) -> None:
    (table,) = encoded(TWEET, followers(20, weight))
    assert table["_weight"].chunk(0).values.to_pylist() == [weight]


@pytest.mark.parametrize("weight", [2, 127, -128, 1000, -(2**40)])
def test_weights_that_differ_or_are_large_are_written_for_each_row(weight: int) -> None:
    odd: Change = {"follower": [(weight - 1, (1, "f0"))]}
    (table,) = encoded(TWEET, followers(20), odd)
    assert dict(zip(table["name"].to_pylist(), table["_weight"].to_pylist(), strict=True)) == {
        f"f{n}": weight if n == 0 else 1 for n in range(20)
    }


def test_rows_that_come_and_go_within_an_epoch_cancel_across_forms() -> None:
    """A run that comes, and single rows that leave."""
    change: Change = {"tweet": TWEET["tweet"], "follower": [(-1, (1, f"f{n}")) for n in range(3)]}
    (table,) = encoded(change, followers(20))
    assert sorted(table["name"].to_pylist()) == sorted(f"f{n}" for n in range(3, 20))
    assert set(table["_weight"].to_pylist()) == {1}


def random_change(draw: random.Random) -> Change:
    def weight() -> int:
        return draw.choice([1, 1, 1, 1, -1, 2, 300])

    users = [None, 1, 2, 3]
    follower: tuple[Any, ...] = draw.choice(users), draw.choice(["a", "b", None, f"n{draw.randrange(12)}"])
    tweet: tuple[Any, ...] = draw.choice(users), draw.randrange(4), draw.choice([None, "x", "y"]), "2.50"
    return {
        "follower": [(weight(), follower)] * draw.randrange(4),
        "tweet": [(weight(), tweet)] * draw.randrange(3),
    }


@pytest.mark.parametrize("seed", range(12))
def test_encoded_and_plain_changes_are_those_of_the_interpreter(seed: int) -> None:
    draw = random.Random(seed)
    many: Change = {"follower": [(1, (user, f"n{n}")) for user in (1, 2) for n in range(draw.randrange(12))]}
    changes = [many, *(random_change(draw) for _ in range(30))]
    with timeline("arrow") as (one, runs), timeline("rows", "python") as (other, rows):
        for change in changes:
            one.apply(change)
            other.apply(change)
            assert _net(runs) == ZSet.summed((row, weight) for batch in rows for weight, row in batch.changes)


def _net(subscription: Subscription) -> ZSet:
    tables = [table for batch in subscription for table in batch.encoded()]
    rows = (row for table in tables for row in table.to_pylist())
    return ZSet.summed(
        (tuple(value for name, value in row.items() if name != "_weight"), row["_weight"]) for row in rows
    )


KINDS = "n INT, b BOOLEAN, d DATE, at TIMESTAMP, x DOUBLE, s STRING, small DECIMAL(9, 2), large DECIMAL(38, 3)"
VALUES = (7, True, "2024-02-29", "2024-01-01 10:00:00", -0.0, "text", "1.25", "12345678901234567890.125")


@pytest.mark.parametrize("nulls", [False, True])
def test_values_of_every_type_are_shared_and_copied(nulls: bool) -> None:
    """Each type stands once in a column that a run has for itself, and once in one that all of its rows share."""
    values: tuple[Any, ...] = (None,) * len(VALUES) if nulls else VALUES
    names = [kind.split()[0] for kind in KINDS.replace(", 2)", "").replace(", 3)", "").split(", ")]
    shown = ", ".join(f"{side}.{name} AS {side}_{name}" for side in ("l", "r") for name in names)
    found = []
    for backend in ("llvm", "python"):
        with tidemill.open(":memory:", runtime="native", backend=backend) as warehouse:
            for side in ("l", "r"):
                warehouse.sql(f"CREATE STREAM {side} (k INT, id INT, {KINDS})")
            warehouse.sql(
                "CREATE MATERIALIZED VIEW v WITH (strategy = 'joingraph', serve = 'subscribe') AS "
                f"SELECT l.id, {shown} FROM l JOIN r ON l.k = r.k"
            )
            changes = warehouse.subscribe("v", timeout=0)
            warehouse.apply({"l": [(1, (1, id_, *values)) for id_ in range(6)]})
            warehouse.apply({"r": [(1, (1, 0, *values))]})
            (batch,) = changes
            found.append(sorted(batch.inserts, key=lambda row: row[0]))
    assert len(found[0]) == 6 and found[0] == found[1]


def test_every_form_of_a_batch_says_the_same() -> None:
    with timeline("arrow") as (warehouse, subscription):
        warehouse.apply(followers(10))
        warehouse.apply(TWEET)
        (batch,) = subscription
        (table,) = batch.encoded()
        plain = batch.arrow()
        assert not any(is_repeated(column) for column in plain.columns)
        assert plain.to_pylist() == table.to_pylist()
        assert len(batch.inserts) == batch.rows == 10
        assert [part.to_pylist() for part in batch.encoded()] == [plain.to_pylist()]
        stored = warehouse.view("timeline").changes(since=1)
        assert sorted(row for _, row in stored) == sorted(batch.inserts)
