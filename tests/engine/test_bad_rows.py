"""Rows that a table cannot take: ``apply`` sets them aside, in the same epoch, as files and streams do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tidemill
from tidemill.engine.row_changes import KeyedChanges
from tidemill.model.errors import DataError, InvalidArgument, NotAllowed, TidemillError, UnknownName

TABLES = """
    CREATE TABLE groups (g INT PRIMARY KEY);
    CREATE TABLE items (id INT PRIMARY KEY, n INT NOT NULL CHECK (n > 0), g INT REFERENCES groups (g));
    CREATE TABLE log (line STRING, n INT);
    CREATE MATERIALIZED VIEW sums AS SELECT g, SUM(n) AS n FROM items GROUP BY g;
    INSERT INTO groups VALUES (1), (2);
    INSERT INTO items VALUES (1, 5, 1);
"""
GOOD = [(1, (2, 6, 1)), (1, {"id": 3, "n": 7}), (-1, (1, 5, 1))]
BAD: list[tuple[Any, str]] = [
    ((1, (1, 9, 1)), "CHECK"),
    ((1, (4, "many", 1)), "many"),
    ((1, (5, None, 1)), "NULL"),
    ((1, (6, -1, 1)), "false"),
    ((1, (2, 9, 1)), "is taken"),
    ((1, (7, 7, 9)), "groups"),
    ((1, (8, 8)), "2 values for 3 columns"),
    ((-1, (9, 9, 1)), "not there"),
    ((-1, (3, 8, None)), "not there"),
    ((1, {"id": 10, "m": 1}), "m"),
    (7, "pair"),
]


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as opened:
        opened.sql(TABLES)
        yield opened


def errors(wh: tidemill.Warehouse, table: str = "items") -> list[tuple[Any, ...]]:
    return sorted(wh.table(f"{table}_errors").rows(), key=str)


@pytest.mark.parametrize("bad", BAD[1:], ids=lambda bad: bad[1])
def test_a_bad_row_is_set_aside_and_the_others_are_taken(wh: tidemill.Warehouse, bad: tuple[Any, str]) -> None:
    row, why = bad
    before = wh.epoch
    epoch = wh.apply({"items": [*GOOD, row], "log": [(1, ("a", 1))]}, on_error="quarantine")
    assert epoch == wh.epoch == before + 1
    assert epoch.counts.rows == 4 and epoch.counts.rejected == 1  # type: ignore[attr-defined]
    assert sorted(wh.table("items").rows()) == [(2, 6, 1), (3, 7, None)] and wh.table("log").rows() == [("a", 1)]
    assert sorted(wh.view("sums").rows(), key=str) == [(1, 6), (None, 7)]
    ((source, place, reason, text),) = errors(wh)
    assert (source, place) == ("apply", 4) and why in reason and text


def test_without_it_one_bad_row_refuses_everything(wh: tidemill.Warehouse) -> None:
    before = wh.epoch
    for row, _ in BAD[1:]:
        with pytest.raises(TidemillError):
            wh.apply({"items": [*GOOD, row]})
    assert wh.epoch == before and "items_errors" not in wh.tables()


def test_good_rows_need_no_table_of_errors(wh: tidemill.Warehouse) -> None:
    epoch = wh.apply({"items": iter(GOOD)}, on_error="quarantine")
    assert epoch.counts.rows == 3 and not epoch.counts.rejected  # type: ignore[attr-defined]
    assert "items_errors" not in wh.tables()


@pytest.mark.parametrize(("form", "bad"), [(pa.table, None), (pd.DataFrame, "many")])
def test_rows_of_frames_are_set_aside(wh: tidemill.Warehouse, form: Any, bad: Any) -> None:
    frame = form({"ID": [2, 3, 4], "n": [6, bad, 7], "_weight": [1, 1, 1]})
    wh.apply({"items": frame}, on_error="quarantine")
    assert sorted(wh.table("items").rows()) == [(1, 5, 1), (2, 6, None), (4, 7, None)]
    ((_, place, reason, text),) = errors(wh)
    assert place == 2 and str(bad or "NULL") in reason and '"id": 3' in text


def test_upserts_and_deletes_by_key(wh: tidemill.Warehouse) -> None:
    rows = [(1, (1, 8, 1)), (1, (2, -2, 1)), (-1, (3, 1, None)), (1, (4, 4, 7)), ("x", (5, 5, 1))]
    wh.apply({"items": rows}, mode="upsert", on_error="quarantine")
    assert wh.table("items").rows() == [(1, 8, 1)]
    assert [place for _, place, *_ in errors(wh)] == [2, 4, 5]


def test_the_table_of_errors_grows_with_each_epoch(wh: tidemill.Warehouse) -> None:
    for number in (2, 3):
        wh.apply({"items": [(1, (number, 0, 1))]}, on_error="quarantine")
    assert len(errors(wh)) == 2 and wh.at(wh.epoch - 1).table("items_errors").rows() == errors(wh)[:1]


def test_posts_set_bad_rows_aside_once(wh: tidemill.Warehouse) -> None:
    sent = {"items": [(1, (2, 6, 1)), (1, (3, 0, 1))]}
    post = KeyedChanges(sent, key="k", content="c", on_error="quarantine")
    plain: dict[str, Any] = {"log": [(1, ("b", 1))]}
    first, other = wh.apply_each([post, plain])
    assert first.counts.rejected == 1 and other == first + 1  # type: ignore[union-attr, operator]
    assert wh.apply_each([post]) == [first] and len(errors(wh)) == 1
    assert sorted(wh.table("items").rows()) == [(1, 5, 1), (2, 6, 1)]


def test_faults_of_views_are_not_those_of_rows(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW strict AS SELECT id, 1 DIV (n - 1) AS q FROM items")
    with pytest.raises(DataError, match="division"):
        wh.apply({"items": [(1, (2, 1, 1))]}, on_error="quarantine")


def test_what_is_refused(wh: tidemill.Warehouse) -> None:
    with pytest.raises(InvalidArgument, match='Did you mean "quarantine"'):
        wh.apply({"items": GOOD}, on_error="quarantin")
    with pytest.raises(InvalidArgument, match='Did you mean "quarantine"'):
        wh.load("items", "nowhere.csv", on_error="quarentine")
    with pytest.raises(InvalidArgument, match="mode"):
        wh.apply({"items": GOOD}, mode="upserts", on_error="quarantine")
    with pytest.raises(UnknownName):
        wh.apply({"item": GOOD}, on_error="quarantine")
    with pytest.raises(InvalidArgument, match="in a transaction"), wh.transaction():
        wh.apply({"items": GOOD}, on_error="quarantine")
    with pytest.raises(InvalidArgument, match="in a transaction"), wh.transaction():
        wh.load("items", "nowhere.csv", on_error="quarantine")
    assert wh.table("items").rows() == [(1, 5, 1)]


def test_a_user_sets_rows_aside_where_he_may(wh: tidemill.Warehouse) -> None:
    rows = {"items": [(1, (2, 6, 1)), (1, (3, 0, 1))]}
    wh.sql("GRANT SELECT, INSERT ON items TO ann")
    with wh.session(user="ann", roles=()) as ann:
        with pytest.raises(NotAllowed, match="items_errors"):
            ann.apply(rows, on_error="quarantine")
        wh.apply({"items": [(1, (9, 0, 1))]}, on_error="quarantine")
        with pytest.raises(TidemillError):
            ann.apply(rows, on_error="quarantine")
        wh.sql("GRANT INSERT ON items_errors TO ann")
        assert ann.apply(rows, on_error="quarantine").counts.rejected == 1  # type: ignore[attr-defined]
    assert len(errors(wh)) == 2 and len(wh.table("items").rows()) == 2
