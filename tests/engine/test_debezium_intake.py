"""Debezium's records of Kafka's topics, as the rows of Spark's Kafka source give them, as epochs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import tidemill
from tidemill.engine.streams.debezium_intake import DebeziumIntake
from tidemill.engine.streams.options import StreamOptions
from tidemill.model.errors import BadValue, InvalidArgument, UnknownName, Unsupported

TABLES = """CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, price DECIMAL(9, 2), day DATE);
CREATE TABLE notes (note STRING)"""
PRICE = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}


@pytest.fixture
def warehouse() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as opened:
        opened.sql(TABLES)
        yield opened


class Topics:
    """A broker's topics: records with their offsets, some sent twice, as a connector writes them."""

    def __init__(self, partitions: int = 3) -> None:
        self.records: list[dict[str, Any]] = []
        self._partitions = partitions
        self._offsets: dict[tuple[str, int], int] = {}

    def send(self, table: str, op: str, before: Any = None, after: Any = None, *, schema: bool = False) -> None:
        row = after or before
        key = {"id": row["id"]} if "id" in row else None
        value: Any = {"op": op, "before": before, "after": after, "source": {"table": table}}
        if schema:
            fields = [{"field": side, "fields": [{"field": "price", **PRICE}]} for side in ("before", "after")]
            value = {"schema": {"fields": fields}, "payload": value}
        self.put(f"shop.public.{table}", key, value)
        if op == "d":
            self.put(f"shop.public.{table}", key, None)

    def put(self, topic: str, key: Any, value: Any) -> None:
        partition = 0 if key is None else hash(key["id"]) % self._partitions
        offset = self._offsets[topic, partition] = self._offsets.get((topic, partition), -1) + 1
        written = None if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        self.records.append(
            {
                "key": None if key is None else json.dumps({"schema": {}, "payload": key}).encode(),
                "value": written,
                "topic": topic,
                "partition": partition,
                "offset": offset,
            }
        )

    def batch(self, chance: random.Random | None = None) -> pa.Table:
        """All records since the last batch, in any order, as a source with several partitions gives them."""
        taken, self.records = self.records, []
        if chance is not None:
            chance.shuffle(taken)
        types = {"key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
        schema = pa.schema({**types, "offset": pa.int64()})
        return pa.Table.from_pylist(taken, schema)


def order(id_: int, customer: str = "ann", price: Any = "1.50", day: int = 19723) -> dict[str, Any]:
    return {"id": id_, "customer": customer, "price": price, "day": day}


def intake(warehouse: tidemill.Warehouse, *tables: str) -> DebeziumIntake:
    made = DebeziumIntake(warehouse._engine, "shop", dict.fromkeys(tables or ("orders", "notes")))
    made.prepare()
    return made


def test_a_batch_is_an_epoch_of_all_tables(warehouse: tidemill.Warehouse) -> None:
    topics, taken = Topics(), intake(warehouse)
    topics.send("orders", "c", after=order(1, price="AJY="), schema=True)
    topics.send("orders", "u", before={"id": 1}, after=order(1, "bob"))
    topics.send("notes", "c", after={"note": "hello"})
    before = warehouse.epoch
    taken.take_records(topics.batch(), {"stream:shop": "1"})
    assert warehouse.epoch == before + 1
    assert [tuple(map(str, row)) for row in warehouse.table("orders").rows()] == [("1", "bob", "1.50", "2024-01-01")]
    assert warehouse.table("notes").rows() == [("hello",)]
    assert warehouse.positions["stream:shop"] == "1"
    assert (taken.batches, taken.counts.rows) == (1, 4)


def test_any_history_ends_as_the_database_is(warehouse: tidemill.Warehouse) -> None:
    """Inserts, updates without old rows, deletes, snapshots read again and records that come twice."""
    chance, topics, taken = random.Random(3), Topics(), intake(warehouse, "orders")
    state: dict[int, dict[str, Any]] = {}
    for number in range(40):
        for _ in range(chance.randint(1, 20)):
            id_ = chance.randint(1, 12)
            new = order(id_, chance.choice(["ann", "bob"]), f"{chance.randint(0, 999)}.25")
            if id_ in state and chance.random() < 0.3:
                topics.send("orders", "d", before=chance.choice([None, {"id": id_}, state[id_]]) or {"id": id_})
                del state[id_]
            else:
                op = "u" if id_ in state else "c"
                topics.send("orders", chance.choice([op, "r"]), before=None, after=new)
                state[id_] = new
            if chance.random() < 0.2:
                last = topics.records[-1]
                topics._offsets[last["topic"], last["partition"]] += 1
                topics.records.append({**last, "offset": topics._offsets[last["topic"], last["partition"]]})
        taken.take_records(topics.batch(chance), {"stream:shop": str(number)})
        assert {row[0]: (row[1], str(row[2])) for row in warehouse.table("orders").rows()} == {
            id_: (row["customer"], row["price"]) for id_, row in state.items()
        }


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (b"\0\0\0\0\7avro", BadValue, "Confluent's binary form"),
        (b"{", BadValue, "no JSON"),
        ({"status": "BEGIN", "id": "7"}, BadValue, "not a change record"),
        ({"op": "c", "after": {"id": 1}, "source": {"table": "other"}}, UnknownName, 'no table "other"'),
        ({"op": "c", "after": {"id": "x"}, "source": {"table": "orders"}}, BadValue, "id"),
        ({"op": "t", "source": {"table": "orders"}}, Unsupported, "'t'"),
    ],
)
def test_what_is_no_change_record_stops_with_its_place(
    warehouse: tidemill.Warehouse, value: Any, error: type[Exception], text: str
) -> None:
    topics, taken = Topics(1), intake(warehouse)
    topics.send("orders", "c", after=order(1))
    topics.put("shop.public.orders", {"id": 2}, value)
    with pytest.raises(error) as caught:
        taken.take_records(topics.batch(), {"stream:shop": "1"})
    assert "shop.public.orders[0]@1" in str(caught.value.where) and text in str(caught.value)
    assert warehouse.table("orders").rows() == [] and "stream:shop" not in warehouse.positions


def test_what_cannot_take_records_is_refused(warehouse: tidemill.Warehouse) -> None:
    warehouse.sql("CREATE TABLE log (n INT) APPEND ONLY")
    with pytest.raises(InvalidArgument, match="cannot take records"):
        intake(warehouse, "log")
    with pytest.raises(Unsupported, match="cannot be set aside"):
        StreamOptions("debezium", "quarantine")
