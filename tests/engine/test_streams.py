"""Batches of a stream, row by row: bad ones are set aside, and upserts replace by key."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import tidemill
from tidemill.engine.streams.intake import StreamIntake
from tidemill.engine.streams.options import StreamOptions
from tidemill.model import errors

DDL = """CREATE TABLE customer (id INT PRIMARY KEY, name STRING NOT NULL, chief INT REFERENCES customer (id));
CREATE TABLE orders (id INT PRIMARY KEY, customer INT REFERENCES customer (id), amount INT CHECK (amount >= 0), at INT);
CREATE MATERIALIZED VIEW spend AS SELECT name, SUM(amount) AS s FROM orders JOIN customer ON customer = customer.id
GROUP BY name"""

Rows = list[dict[str, Any]]


def intake(wh: tidemill.Warehouse, *tables: str, **options: Any) -> StreamIntake:
    """A stream into tables, without Spark."""
    made = StreamIntake(wh._engine, "s", dict.fromkeys(tables, lambda b: b), StreamOptions(**options), wh._take)
    made.prepare()
    return made


def take(stream: StreamIntake, number: int, **rows: Rows) -> None:
    columns = {"customer": ("id", "name", "chief"), "orders": ("id", "customer", "amount", "at")}
    tables = {
        name: pa.table(
            {
                c: [row.get(c) for row in given]
                for c in {**dict.fromkeys(columns[name]), **dict.fromkeys(k for r in given for k in r)}
            }
        )
        for name, given in rows.items()
    }
    stream.take_rows(tables, {"stream:s": json.dumps({"query": "q", "batch": number})})


def order(number: int, customer: int | None = None, amount: Any = 1, at: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": number, "customer": customer, "amount": amount, "at": at, **more}


@pytest.fixture
def wh() -> Any:
    with tidemill.open(":memory:", runtime="native") as opened:
        opened.sql(DDL)
        yield opened


def test_bad_rows_of_every_kind_go_to_a_table_of_their_own(wh: tidemill.Warehouse) -> None:
    stream = intake(wh, "customer", "orders", on_error="quarantine")
    take(
        stream,
        4,
        customer=[{"id": 1, "name": "ann"}, {"id": 2, "name": None}, {"id": 3, "name": "bob", "chief": 2}],
        orders=[
            order(1, 1),
            order(1, 1, 5),
            order(2, 9),
            order(3, 1, -4),
            order(4, 3),
            order(5, None, 2**40),
            order(6),
        ],
    )
    assert wh.table("customer").rows() == [(1, "ann", None)]
    assert sorted(wh.table("orders").rows()) == [(1, 1, 1, 0), (6, None, 1, 0)]
    told = {json.loads(row)["id"]: reason for _, _, reason, row in wh.table("orders_errors").rows()}
    assert told.keys() == {1, 2, 3, 4, 5}
    assert "is taken" in told[1] and "no row with id = 9" in told[2] and "CHECK (amount >= 0)" in told[3]
    assert "no row with id = 3" in told[4], "its customer was set aside, because its chief was"
    assert {(stream, batch) for stream, batch, _, _ in wh.table("orders_errors").rows()} == {("s", 4)}
    assert {json.loads(row)["id"] for _, _, _, row in wh.table("customer_errors").rows()} == {2, 3}
    assert (stream.counts.rows, stream.counts.rejected, stream.batches) == (3, 7, 1)
    assert wh.positions["stream:s"] == '{"query": "q", "batch": 4}'


def test_a_row_that_would_be_replaced_by_a_bad_one_stays(wh: tidemill.Warehouse) -> None:
    stream = intake(wh, "orders", on_error="quarantine")
    take(stream, 0, orders=[order(1), order(2), order(3)])
    old = [order(number, _weight=-1) for number in (1, 2, 3)]
    new = [order(1, 9, _weight=1), order(2, None, 2**40, _weight=1), order(3, None, 7, _weight=1)]
    take(stream, 1, orders=[*old, *new])
    assert sorted(wh.table("orders").rows()) == [(1, None, 1, 0), (2, None, 1, 0), (3, None, 7, 0)]
    assert stream.counts.rejected == 2


def test_without_quarantine_a_bad_row_refuses_its_batch(wh: tidemill.Warehouse) -> None:
    stream = intake(wh, "orders", mode="upsert")
    with pytest.raises(errors.DanglingReference, match="no row with id = 9"):
        take(stream, 0, orders=[order(1), order(2, 9)])
    with pytest.raises(errors.BadValue, match="nothing says which is the later"):
        take(stream, 0, orders=[order(1), order(1, None, 2)])
    assert wh.epoch == 0 and wh.table("orders").rows() == []


def test_upserts_replace_and_delete_by_key(wh: tidemill.Warehouse) -> None:
    stream = intake(wh, "orders", mode="upsert", sequence_by="AT", delete_where="gone")
    take(stream, 0, orders=[order(1, None, 5, at=2), order(1, None, 9, at=1), order(2, None, 1, at=1)])
    assert sorted(wh.table("orders").rows()) == [(1, None, 5, 2), (2, None, 1, 1)]
    take(stream, 1, orders=[order(1, None, 8, at=1), order(2, None, -1, at=3, _deleted=True), order(3, None, 4, at=1)])
    assert sorted(wh.table("orders").rows()) == [(1, None, 5, 2), (3, None, 4, 1)], "what is stored is the later"
    before = wh.epoch
    take(stream, 2, orders=[order(3, None, 4, at=1), order(7, None, 1, at=1, _deleted=True)])
    assert wh.epoch == before + 1 and sorted(wh.table("orders").rows()) == [(1, None, 5, 2), (3, None, 4, 1)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": "merge"}, "mode cannot be"),
        ({"on_error": "null"}, "on_error cannot be"),
        ({"sequence_by": "at"}, "are for upserts"),
    ],
)
def test_options_that_mean_nothing(options: dict[str, str], error: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=error):
        StreamOptions(**options)


def test_tables_that_do_not_fit(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TABLE plain (a INT); CREATE TABLE plain_errors (a INT)")
    with pytest.raises(errors.Unsupported, match="cannot be replaced by key"):
        intake(wh, "plain", mode="upsert")
    with pytest.raises(errors.InvalidArgument, match="which has other columns"):
        intake(wh, "plain", on_error="quarantine")


def test_random_upserts_are_those_of_a_dictionary(wh: tidemill.Warehouse, random_seed: int) -> None:
    dice, model = Random(random_seed), dict[int, tuple[Any, ...]]()
    wh.apply({"customer": [(1, (number, f"c{number}", None)) for number in range(5)]})
    stream = intake(wh, "orders", mode="upsert", sequence_by="sequence", on_error="quarantine")
    bad = 0
    for number in range(30):
        rows = [
            order(dice.randrange(8), dice.randrange(6), dice.randrange(-1, 6), dice.randrange(3), sequence=place)
            | {"_deleted": dice.random() < 0.2}
            for place in range(dice.randrange(6))
        ]
        for row in sorted(rows, key=lambda one: one["sequence"]):
            if row["_deleted"]:
                model.pop(row["id"], None)
            elif row["amount"] >= 0:
                model[row["id"]] = row["id"], row["customer"], row["amount"], row["at"]
            bad += not row["_deleted"] and row["amount"] < 0
        orphans = [key for key, row in model.items() if row[1] == 5]
        if orphans:  # the last row of a key is set aside, and what was stored stays
            stored = {row[0]: row for row in wh.table("orders").rows()}
            for key in orphans:
                model.pop(key)
                model.update({key: stored[key]} if key in stored else {})
                bad += 1
        dice.shuffle(rows)
        take(stream, number, orders=rows)
        assert sorted(wh.table("orders").rows()) == sorted(model.values())
    assert len(wh.table("orders_errors").rows()) == bad > 0
    assert wh.view("spend").verify()
