"""Pairs, Arrow and pandas frames mean the same, and are refused alike."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import BadValue, NullViolation, TidemillError, UnknownName
from tidemill.model.schema import Table
from tidemill.model.types import Field, Type
from tidemill.sources.ingest.frames import changes_of

ORDERS = Table(
    "orders",
    (Field("id", t.BIGINT, nullable=False), Field("customer", t.STRING), Field("amount", t.Decimal(12, 2))),
    primary_key=("id",),
)
ONE = ZSet({(1, "ann", Decimal("9.50")): 1})


@pytest.mark.parametrize(
    "data",
    [
        [(+1, (1, "ann", "9.50"))],
        ((1, row) for row in [{"id": 1, "customer": "ann", "amount": Decimal("9.5")}]),
        pa.table({"id": [1], "customer": ["ann"], "amount": ["9.5"]}),
        pa.table({"AMOUNT": [Decimal("9.5")], "Customer": ["ann"], "id": pa.array([1], pa.int8())}),
        pa.record_batch({"id": [1], "customer": ["ann"], "amount": [Decimal("9.50")], "_weight": [1]}),
        pa.table({"id": [1.0], "customer": pa.array(["ann"]).dictionary_encode(), "amount": [Decimal("9.500")]}),
        pd.DataFrame({"id": [1], "customer": ["ann"], "amount": ["9.50"]}, index=[17]),
        pd.DataFrame({"id": [np.int32(1)], "customer": ["ann"], "amount": [Decimal("9.50")], "_WEIGHT": [1]}),
        ChangeSet.of([((1, "ann", Decimal("9.50")), 1)], ORDERS.fields),
    ],
    ids=lambda data: type(data).__name__,
)
def test_every_form_means_the_same(data: Any) -> None:
    change = changes_of(data, ORDERS)
    assert change.zset() == ONE
    assert change.arrow().column_names == ["id", "customer", "amount", "_weight"]


def test_a_missing_nullable_column_is_null() -> None:
    assert changes_of(pa.table({"id": [1, 2]}), ORDERS).zset() == ZSet.of([(1, None, None), (2, None, None)])
    assert changes_of(pd.DataFrame({"id": [1]}), ORDERS).zset() == ZSet.of([(1, None, None)])


def test_weights_delete_and_repeat() -> None:
    table = pa.table({"id": [1, 2], "_weight": pa.array([-1, 3], pa.int8())})
    assert changes_of(table, ORDERS).zset() == ZSet({(1, None, None): -1, (2, None, None): 3})


def test_an_empty_frame_changes_nothing() -> None:
    assert len(changes_of(pa.table({"id": pa.array([], pa.int64())}), ORDERS)) == 0
    assert len(changes_of([], ORDERS)) == 0
    assert changes_of([], ORDERS).arrow().num_rows == 0


def test_pandas_gaps_are_null() -> None:
    frame = pd.DataFrame({"id": [1, 2], "customer": ["ann", None], "amount": [Decimal("1"), None]})
    assert changes_of(frame, ORDERS).zset() == ZSet.of([(1, "ann", Decimal("1.00")), (2, None, None)])
    counts = Table("counts", (Field("n", t.INT),))
    assert changes_of(pd.DataFrame({"n": [1, np.nan]}), counts).zset() == ZSet.of([(1,), (None,)])


def test_a_pandas_column_of_mixed_objects_goes_value_by_value() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3], "customer": ["a", "b", "c"], "amount": ["9.50", Decimal("3"), 4]})
    rows = changes_of(frame, ORDERS).zset()
    assert rows == ZSet.of([(1, "a", Decimal("9.50")), (2, "b", Decimal("3.00")), (3, "c", Decimal("4.00"))])


REFUSED: list[tuple[Any, type[TidemillError], str]] = [
    (pa.table({"id": [1], "colour": ["red"]}), UnknownName, 'no column "colour"'),
    (pd.DataFrame({"id": [1], "colour": ["red"]}), UnknownName, 'no column "colour"'),
    (pa.table({"id": [1], "ID": [2]}), BadValue, "comes twice"),
    (pa.table({"customer": ["ann"]}), NullViolation, 'column "id" is missing'),
    (pa.table({"id": [1, None]}), NullViolation, "row 2, orders.id"),
    (pa.table({"id": ["1"]}), BadValue, "row 1, orders.id"),
    (pa.table({"id": [1, 2], "amount": [1.0, 1e20]}), BadValue, "row 2, orders.amount"),
    (pa.table({"id": [1, 2], "amount": ["1.00", "1.0.0"]}), BadValue, "row 2, orders.amount"),
    (pa.table({"id": [1, 2], "amount": [Decimal("1"), Decimal("99999999999")]}), BadValue, "row 2, orders.amount"),
    (pa.table({"id": pa.array([1, 2**63], pa.uint64())}), BadValue, "row 2, orders.id"),
    (pa.table({"id": [1], "_weight": pa.array([None], pa.int64())}), NullViolation, "_weight"),
    ([(1, (1, "ann", 2)), (1, (2, "bob", 2.5e20))], BadValue, "row 2, orders.amount"),
    ([(1, (None, "ann", 2))], NullViolation, "row 1, orders.id"),
    ([("x", (1, "ann", 2))], BadValue, "_weight"),
    ([(1, "ann", 2)], BadValue, "not a (weight, row) pair"),
    ([(True, (1, "ann", 2))], BadValue, "_weight"),
    ({"id": [1]}, BadValue, "cannot come from a dict"),
    (7, BadValue, "cannot come from a int"),
    (pd.DataFrame({"id": [1, 2], "amount": ["1.00", 2.5e20]}), BadValue, "row 2, orders.amount"),
]


@pytest.mark.parametrize(("data", "error", "text"), REFUSED)
def test_what_does_not_fit_is_refused_by_row_and_column(data: Any, error: type[TidemillError], text: str) -> None:
    with pytest.raises(error) as caught:
        changes_of(data, ORDERS)
    assert text in str(caught.value)


NS = pa.timestamp("ns")
CASTS: list[tuple[pa.Array, Type, list[Any]]] = [
    (pa.array([1, 2], pa.int64()), t.DOUBLE, [1.0, 2.0]),
    (pa.array([-0.0]), t.DOUBLE, [0.0]),
    (pa.array([7], pa.int64()), t.Decimal(3, 2), [Decimal("7.00")]),
    (pa.array(["a"], pa.large_string()), t.STRING, ["a"]),
    (pa.array([dt.date(2024, 5, 1)], pa.date64()), t.DATE, [dt.date(2024, 5, 1)]),
    (pa.array([dt.datetime(2024, 5, 1)]), t.DATE, [dt.date(2024, 5, 1)]),
    (pa.array(["2024-05-01"]), t.DATE, [dt.date(2024, 5, 1)]),
    (pa.array([1_000], NS), t.TIMESTAMP, [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    (pa.array([0], pa.timestamp("s", "Europe/Berlin")), t.TIMESTAMP, [dt.datetime(1970, 1, 1)]),
    (pa.array(["1970-01-01T01:00:00+01:00"]), t.TIMESTAMP, [dt.datetime(1970, 1, 1)]),
    (pa.array([None]), t.INT, [None]),
    (pa.array([[1, None]]), t.Array(t.INT), [(1, None)]),
    (pa.array([{"y": "b", "x": 1}]), t.Struct((Field("x", t.INT), Field("y", t.STRING))), [(1, "b")]),
]


@pytest.mark.parametrize(("column", "type_", "values"), CASTS, ids=str)
def test_arrow_columns_become_the_tables_types(column: pa.Array, type_: Type, values: list[Any]) -> None:
    table = Table("t", (Field("c", type_),))
    change = changes_of(pa.table({"c": column}), table)
    assert [row for row, _ in change.pairs()] == [(value,) for value in values]
    assert repr(change.pairs()[0][0]) == repr((values[0],))


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (pa.array([1, 1_500], NS), t.TIMESTAMP),
        (pa.array([0, 3_600], pa.timestamp("s")), t.DATE),
        (pa.array([1, 2**53 + 1]), t.DOUBLE),
        (pa.array([0, 1]), t.BOOLEAN),
        (pa.array([1.0, 1.5]), t.BIGINT),
        (pa.array([1, 1000]), t.Decimal(3, 0)),
    ],
    ids=str,
)
def test_a_cast_that_would_lose_something_names_the_row(column: pa.Array, type_: Type) -> None:
    with pytest.raises(BadValue, match=r"row [12], t\.c"):
        changes_of(pa.table({"c": column}), Table("t", (Field("c", type_),)))


def test_any_frame_with_an_arrow_stream_is_taken() -> None:
    class Frame:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.table({"id": [1], "customer": ["ann"], "amount": ["9.5"]}).__arrow_c_stream__(requested_schema)

    assert changes_of(Frame(), ORDERS).zset() == ONE
