"""Change records of other databases: every operation, every envelope, every spelling of a value."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest

from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.errors import BadValue, TidemillError, UnknownName, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.sources.ingest.debezium import read_debezium
from tidemill.sources.ingest.pairs import read_pairs

ORDERS = Table("orders", (Field("id", t.BIGINT, nullable=False), Field("customer", t.STRING)), primary_key=("id",))
NOTES = Table("notes", (Field("note", t.STRING),))
TABLES = {"orders": ORDERS, "notes": NOTES}


def record(op: str, before: Any = None, after: Any = None, table: str = "orders") -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"table": table, "db": "shop"}, "ts_ms": 1}


def read(*messages: Any, lookup: Any = None) -> dict[str, ZSet]:
    lines = [message if isinstance(message, str) else json.dumps(message) for message in messages]
    return {name: change.zset() for name, change in read_debezium(lines, TABLES, lookup=lookup).items()}


ANN, BOB = {"id": 1, "customer": "ann"}, {"id": 1, "customer": "bob"}


def test_each_operation_is_weights() -> None:
    assert read(record("c", after=ANN)) == {"orders": ZSet({(1, "ann"): 1})}
    assert read(record("r", after=ANN)) == {"orders": ZSet({(1, "ann"): 1})}
    assert read(record("u", before=ANN, after=BOB)) == {"orders": ZSet({(1, "ann"): -1, (1, "bob"): 1})}
    assert read(record("d", before=ANN)) == {"orders": ZSet({(1, "ann"): -1})}


@pytest.mark.parametrize(
    "message",
    [
        record("c", after=ANN),
        {"schema": {"type": "struct"}, "payload": record("c", after=ANN)},
        {"topic": "shop.public.orders", "key": {"id": 1}, "value": {"op": "c", "after": ANN}},
        {"topic": "shop.public.orders", "partition": 0, "payload": json.dumps({"payload": {"op": "c", "after": ANN}})},
        {"op": "c", "after": {"ID": 1, "Customer": "ann"}, "source": {"table": "ORDERS"}},
    ],
)
def test_each_envelope_is_opened(message: Any) -> None:
    assert read(message) == {"orders": ZSet({(1, "ann"): 1})}


@pytest.mark.parametrize(
    "tombstone", ["null", "", {"schema": None, "payload": None}, {"topic": "a.orders", "value": None}]
)
def test_a_tombstone_changes_nothing(tombstone: Any) -> None:
    assert read(record("d", before=ANN), tombstone) == {"orders": ZSet({(1, "ann"): -1})}


def test_records_of_several_tables_are_kept_apart() -> None:
    changes = read(record("c", after=ANN), record("c", after={"note": "hello"}, table="notes"), record("m"))
    assert changes == {"orders": ZSet({(1, "ann"): 1}), "notes": ZSet({("hello",): 1})}


def test_a_missing_before_is_looked_up_by_key() -> None:
    held: dict[Row, Row] = {(1,): (1, "ann")}
    find = lambda table, key: held.get(key)  # noqa: E731
    assert read(record("u", after=BOB), lookup=find) == {"orders": ZSet({(1, "ann"): -1, (1, "bob"): 1})}
    key_only = record("d", before={"id": 1, "customer": None})
    assert read(key_only, lookup=find) == {"orders": ZSet({(1, "ann"): -1})}


def test_a_row_of_the_same_input_is_found_without_lookup() -> None:
    moves = [record("c", after=ANN), record("u", after=BOB), record("d", before={"id": 1})]
    assert read(*moves) == {"orders": ZSet()}


def test_an_update_may_move_the_key() -> None:
    move = record("u", before={"id": 1}, after={"id": 2, "customer": "ann"})
    changes = read(record("c", after=ANN), move)
    assert changes == {"orders": ZSet({(2, "ann"): 1})}


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        ("{", BadValue, "not JSON"),
        ("[1]", BadValue, "not a change record"),
        ('{"a": 1}', BadValue, "not a change record"),
        (record("c", after=ANN, table="nowhere"), UnknownName, 'no table "nowhere"'),
        ({"op": "c", "after": ANN}, BadValue, "which table"),
        (record("t"), Unsupported, "'t'"),
        (record("c"), BadValue, 'no "after" row'),
        (record("u", after={"note": "x"}, table="notes"), BadValue, "REPLICA IDENTITY FULL"),
        (record("c", after={"id": "x"}), BadValue, "orders.id"),
        (record("c", after={"id": 1, "colour": "red"}), UnknownName, "colour"),
    ],
)
def test_a_record_that_cannot_be_read_names_its_line(message: Any, error: type[TidemillError], text: str) -> None:
    with pytest.raises(error) as caught:
        read(record("c", after=ANN), message)
    assert str(caught.value.where).startswith("debezium:2")
    assert text in caught.value.render()


MIDNIGHT = dt.datetime(2024, 1, 1)
SEMANTIC = "io.debezium.time."
VALUES: list[tuple[Any, t.Type, dict[str, Any], Any]] = [
    (19723, t.DATE, {}, MIDNIGHT.date()),
    (-1, t.DATE, {}, dt.date(1969, 12, 31)),
    ("2024-01-01", t.DATE, {}, MIDNIGHT.date()),
    (1704067200000, t.TIMESTAMP, {}, MIDNIGHT),
    (1704067200000000, t.TIMESTAMP, {}, MIDNIGHT),
    (1704067200000000000, t.TIMESTAMP, {}, MIDNIGHT),
    ("2024-01-01T00:00:00Z", t.TIMESTAMP, {"name": SEMANTIC + "ZonedTimestamp"}, MIDNIGHT),
    (5, t.TIMESTAMP, {"name": SEMANTIC + "MicroTimestamp"}, dt.datetime(1970, 1, 1, 0, 0, 0, 5)),
    (5, t.TIMESTAMP, {"name": SEMANTIC + "Timestamp"}, dt.datetime(1970, 1, 1, 0, 0, 0, 5000)),
    (5000, t.TIMESTAMP, {"name": SEMANTIC + "NanoTimestamp"}, dt.datetime(1970, 1, 1, 0, 0, 0, 5)),
    ("9.5", t.Decimal(9, 2), {}, Decimal("9.50")),
    (9.25, t.Decimal(9, 2), {}, Decimal("9.25")),
    ({"scale": 1, "value": "AA8="}, t.Decimal(9, 2), {}, Decimal("1.50")),
    (
        "/w==",
        t.Decimal(9, 2),
        {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        Decimal("-0.01"),
    ),
    (7, t.DOUBLE, {}, 7.0),
    (None, t.DATE, {}, None),
]


@pytest.mark.parametrize(("value", "type_", "column", "inner"), VALUES)
def test_values_are_decoded_by_schema_or_by_column(
    value: Any, type_: t.Type, column: dict[str, Any], inner: Any
) -> None:
    schema = {"fields": [{"field": "after", "fields": [{"field": "c", **column}]}]}
    message = {"schema": schema, "payload": record("c", after={"c": value}, table="one")}
    tables = {"one": Table("one", (Field("c", type_),))}
    assert read_debezium([json.dumps(message)], tables)["one"].zset() == ZSet({(inner,): 1})


@pytest.mark.parametrize(
    ("value", "type_", "column"),
    [
        (10**40, t.TIMESTAMP, {}),
        (10**12, t.DATE, {}),
        (1, t.TIMESTAMP, {"name": SEMANTIC + "NanoTimestamp"}),
        ("*", t.Decimal(9, 2), {"name": "org.apache.kafka.connect.data.Decimal"}),
    ],
)
def test_values_that_no_column_holds_are_refused(value: Any, type_: t.Type, column: dict[str, Any]) -> None:
    schema = {"fields": [{"field": "after", "fields": [{"field": "c", **column}]}]}
    message = {"schema": schema, "payload": record("c", after={"c": value}, table="one")}
    with pytest.raises(BadValue, match="debezium:1"):
        read_debezium([json.dumps(message)], {"one": Table("one", (Field("c", type_),))})


def test_pairs_are_read_by_table() -> None:
    lines = [
        '{"table": "Orders", "weight": -1, "row": {"id": 1, "customer": "ann"}}',
        "",
        '{"table": "notes", "row": ["x"]}',
    ]
    changes = {name: change.zset() for name, change in read_pairs(lines, TABLES).items()}
    assert changes == {"orders": ZSet({(1, "ann"): -1}), "notes": ZSet({("x",): 1})}


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"table": "orders"}', BadValue),
        ('{"table": "nowhere", "row": []}', UnknownName),
        ('{"table": "orders", "row": [1]}', BadValue),
        ('{"table": "orders", "weight": "x", "row": [1, "ann"]}', BadValue),
    ],
)
def test_bad_pairs_name_their_line(line: str, error: type[TidemillError]) -> None:
    with pytest.raises(error, match="pairs:2"):
        read_pairs(["", line], TABLES)
