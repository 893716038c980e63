"""Changes that are committed together: each is made as a whole or refused by itself, with or without shared epochs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.engine.row_changes import KeyedChanges
from tidemill.model.errors import ArithmeticFault, Conflict, DuplicateKey, MissingRow, StorageError, TidemillError

TABLES = """
    CREATE TABLE items (id BIGINT PRIMARY KEY, n BIGINT);
    CREATE TABLE log (n BIGINT);
    CREATE MATERIALIZED VIEW sums AS SELECT n, COUNT(*) AS c FROM items GROUP BY n;
    CREATE MATERIALIZED VIEW parts AS SELECT 12 / n AS part FROM log;
"""


@pytest.fixture
def wh(tmp_path: Path) -> Any:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql(TABLES)
        yield wh


def test_those_that_come_together_are_one_epoch(wh: tidemill.Warehouse) -> None:
    sent = [{"items": [(1, (number, number % 3))]} for number in range(20)]
    assert wh.apply_each(sent, together=True) == [1] * 20
    assert wh.apply_each(sent[:2]) != [1, 1]  # by themselves, and refused: they are there
    assert len(wh.table("items").rows()) == 20 and all(wh.verify())


def test_one_that_is_refused_is_refused_alone(wh: tidemill.Warehouse) -> None:
    good, again, bad, gone = {"items": [(1, (1, 1))]}, {"items": [(1, (1, 2))]}, {"log": [(1, (0,))]}, [(-1, (9, 9))]
    other = {"items": [(1, (2, 2))], "log": [(1, (3,))]}
    results = wh.apply_each([good, again, bad, {"items": gone}, other], together=True)
    assert [type(one) for one in results] == [int, DuplicateKey, ArithmeticFault, MissingRow, int]
    assert sorted(wh.table("items").rows()) == [(1, 1), (2, 2)] and wh.table("log").rows() == [(3,)]
    assert all(wh.verify())


def test_random_changes_are_made_or_refused_as_wholes(wh: tidemill.Warehouse) -> None:
    """The rows that are there are the sum of what was made, whatever was refused beside it."""
    drawn = random.Random(7)
    made: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for _ in range(30):
        sent = [_random_changes(drawn) for _ in range(drawn.randrange(1, 8))]
        for changes, result in zip(sent, wh.apply_each(sent, together=True), strict=True):
            if isinstance(result, int):
                for name, rows in changes.items():
                    for weight, row in rows:
                        made[name, row] += weight
    there = Counter((name, tuple(row)) for name in ("items", "log") for row in wh.table(name).rows())
    assert there == +made and min(made.values()) >= 0 and all(wh.verify())
    assert len({row[0] for name, row in there if name == "items"}) == len(wh.table("items").rows())


def _random_changes(drawn: random.Random) -> dict[str, list[tuple[int, tuple[int, ...]]]]:
    changes: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for _ in range(drawn.randrange(1, 3)):
        name = drawn.choice(("items", "log"))
        row = (drawn.randrange(12), drawn.randrange(2)) if name == "items" else (drawn.randrange(5),)
        changes.setdefault(name, []).append((drawn.choice((1, 1, -1)), row))
    return changes


def test_keys_are_kept_where_an_epoch_is_shared(wh: tidemill.Warehouse, tmp_path: Path) -> None:
    sent = [KeyedChanges({"items": [(1, (number, 0))]}, f"k{number}", "x") for number in range(20)]
    again, other = sent[3], KeyedChanges({"items": [(1, (99, 0))]}, "k4", "other")
    results = wh.apply_each([*sent, again, other], together=True)
    assert results[:21] == [1] * 21 and isinstance(results[21], Conflict)
    wh.close()
    with tidemill.open(tmp_path / "w", runtime="native") as reopened:
        more = KeyedChanges({"items": [(1, (20, 0))]}, "k20", "x")
        assert reopened.apply_each([*sent, more], together=True) == [1] * 20 + [2]
        assert len(reopened.table("items").rows()) == 21


def test_a_key_whose_epoch_was_refused_is_free(wh: tidemill.Warehouse) -> None:
    bad, good = KeyedChanges({"log": [(1, (0,))]}, "a"), KeyedChanges({"log": [(1, (1,))]}, "b")
    assert [type(one) for one in wh.apply_each([bad, good], together=True)] == [ArithmeticFault, int]
    assert wh.apply_each([KeyedChanges({"log": [(1, (2,))]}, "a"), good], together=True) == [2, 1]
    assert sorted(wh.table("log").rows()) == [(1,), (2,)]


def test_after_a_fault_of_the_disk_none_is_made_again(wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    def fails(*_: object, **__: object) -> None:
        nonlocal attempts
        attempts += 1
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tidemill.engine.epochs.commit.EpochCommitter.commit", fails)
    results = wh.apply_each([{"log": [(1, (number,))]} for number in range(1, 5)], together=True)
    assert attempts == 1 and all(isinstance(one, StorageError) for one in results)
    monkeypatch.undo()
    assert wh.table("log").rows() == []
    assert not any(isinstance(one, TidemillError) for one in wh.apply_each([{"log": [(1, (1,))]}], together=True))
