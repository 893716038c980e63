"""Values from outside: what each type takes, what it refuses, and that nothing is lost on the way."""

from __future__ import annotations

import datetime as dt
import math
from collections import namedtuple
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model import types as t
from tidemill.model.coerce import coerce, coerce_row, present
from tidemill.model.errors import BadValue, NullViolation, UnknownName
from tidemill.model.types import Field, Type

MONEY = t.Decimal(12, 2)
POINT = t.Struct((Field("x", t.INT, nullable=False), Field("label", t.STRING)))
NOON = dt.datetime(2024, 5, 1, 12)
ZONE = dt.timezone(dt.timedelta(hours=2))

TAKEN: list[tuple[Any, Type, Any]] = [
    (True, t.BOOLEAN, True),
    (np.bool_(False), t.BOOLEAN, False),
    (7, t.INT, 7),
    (2**31 - 1, t.INT, 2**31 - 1),
    (-(2**63), t.BIGINT, -(2**63)),
    (3.0, t.INT, 3),
    (Decimal("3.00"), t.BIGINT, 3),
    (np.int32(5), t.BIGINT, 5),
    ("9.5", MONEY, Decimal("9.50")),
    (3, MONEY, Decimal("3.00")),
    (Decimal("9.500"), MONEY, Decimal("9.50")),
    ("-9999999999.99", MONEY, Decimal("-9999999999.99")),
    ("1E3", MONEY, Decimal("1000.00")),
    (np.int64(4), MONEY, Decimal("4.00")),
    (1, t.DOUBLE, 1.0),
    (2**53, t.DOUBLE, 2.0**53),
    (Decimal("0.1"), t.DOUBLE, 0.1),
    (np.float32(0.5), t.DOUBLE, 0.5),
    (math.inf, t.DOUBLE, math.inf),
    ("ann", t.STRING, "ann"),
    ("žluť", t.STRING, "žluť"),
    (np.str_("bob"), t.STRING, "bob"),
    ("2024-05-01", t.DATE, dt.date(2024, 5, 1)),
    (dt.datetime(2024, 5, 1), t.DATE, dt.date(2024, 5, 1)),
    (np.datetime64("2024-05-01"), t.DATE, dt.date(2024, 5, 1)),
    (NOON, t.TIMESTAMP, NOON),
    ("2024-05-01 12:00:00", t.TIMESTAMP, NOON),
    ("2024-05-01T14:00:00+02:00", t.TIMESTAMP, NOON),
    ("2024-05-01T12:00:00.000000000Z", t.TIMESTAMP, NOON),
    (NOON.replace(hour=14, tzinfo=ZONE), t.TIMESTAMP, NOON),
    (dt.date(2024, 5, 1), t.TIMESTAMP, dt.datetime(2024, 5, 1)),
    (np.datetime64("2024-05-01T12:00:00", "ns"), t.TIMESTAMP, NOON),
    (pd.Timestamp("2024-05-01 12:00"), t.TIMESTAMP, NOON),
    (9.5, MONEY, Decimal("9.50")),
    (np.float64(1.005), MONEY, Decimal("1.01")),
    (-0.125, MONEY, Decimal("-0.13")),
    (1e-9, MONEY, Decimal("0.00")),
    ("9.505", MONEY, Decimal("9.51")),
    (Decimal("-9.505"), MONEY, Decimal("-9.51")),
    ([1, None, 2], t.Array(t.INT), (1, None, 2)),
    (np.array([1, 2]), t.Array(t.BIGINT), (1, 2)),
    ({"LABEL": "a", "x": 1}, POINT, (1, "a")),
    ({"x": 1}, POINT, (1, None)),
    ((1, "a"), POINT, (1, "a")),
    ([{"x": 1}], t.Array(POINT), ((1, None),)),
    (None, t.INT, None),
]

REFUSED: list[tuple[Any, Type, str]] = [
    (1, t.BOOLEAN, "BOOLEAN"),
    ("true", t.BOOLEAN, "BOOLEAN"),
    (True, t.INT, "INT"),
    ("7", t.INT, "INT"),
    (2**31, t.INT, "holds -2147483648 to 2147483647"),
    (2**63, t.BIGINT, "BIGINT"),
    (1.5, t.INT, "INT"),
    (math.nan, t.BIGINT, "BIGINT"),
    (Decimal("NaN"), t.BIGINT, "BIGINT"),
    (math.inf, MONEY, "DECIMAL(12,2)"),
    (math.nan, MONEY, "DECIMAL(12,2)"),
    (1e10, MONEY, "more than 10 digits before the point"),
    ("9999999999.995", MONEY, "more than 10 digits before the point"),
    ("10000000000", MONEY, "more than 10 digits before the point"),
    ("1e99999", MONEY, "digits before the point"),
    ("NaN", MONEY, "DECIMAL(12,2)"),
    ("1_000", MONEY, "DECIMAL(12,2)"),
    ("nine", MONEY, "DECIMAL(12,2)"),
    (True, MONEY, "DECIMAL(12,2)"),
    (2**53 + 1, t.DOUBLE, "nearest double is 9007199254740992"),
    (10**400, t.DOUBLE, "DOUBLE"),
    (Decimal("1e400"), t.DOUBLE, "too large"),
    ("1.5", t.DOUBLE, "DOUBLE"),
    (5, t.STRING, "STRING"),
    (b"raw", t.STRING, "STRING"),
    ("\ud800", t.STRING, "not valid Unicode"),
    ("2024-02-30", t.DATE, "out of range"),
    (NOON, t.DATE, "time of day"),
    (20240501, t.DATE, "DATE"),
    ("noon", t.TIMESTAMP, "TIMESTAMP"),
    ("2024-05-01T12:00:00.1234567", t.TIMESTAMP, "microseconds"),
    (pd.Timestamp(1), t.TIMESTAMP, "microseconds"),
    (np.datetime64(1, "ns"), t.TIMESTAMP, "TIMESTAMP"),
    (pd.NaT, t.TIMESTAMP, "TIMESTAMP"),
    (dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-2))), t.TIMESTAMP, "TIMESTAMP"),
    (1, t.VOID, "VOID"),
    ("12", t.Array(t.INT), "ARRAY<INT>"),
    ("ab", POINT, "STRUCT"),
]


@pytest.mark.parametrize(("value", "type_", "inner"), TAKEN, ids=str)
def test_a_value_that_fits_is_taken(value: Any, type_: Type, inner: Any) -> None:
    result = coerce(value, type_, where="t.c")
    assert result == inner
    assert type(result) is type(inner)
    assert str(result) == str(inner)  # a decimal stands at its scale
    (in_row,) = coerce_row((value,), (Field("c", type_),), "t")
    assert (type(in_row), str(in_row)) == (type(inner), str(inner))


@pytest.mark.parametrize(("value", "type_", "reason"), REFUSED, ids=str)
def test_a_value_that_would_lose_something_is_refused(value: Any, type_: Type, reason: str) -> None:
    with pytest.raises(BadValue) as caught:
        coerce(value, type_, where="t.c")
    assert reason in caught.value.render()
    assert caught.value.where == "t.c"
    with pytest.raises(BadValue) as in_row:
        coerce_row((value,), (Field("c", type_),), "t")
    assert in_row.value.render() == caught.value.render()


@pytest.mark.parametrize("type_", [t.BOOLEAN, t.INT, t.BIGINT, t.DATE, t.DOUBLE, t.STRING, t.TIMESTAMP, MONEY], ids=str)
def test_a_row_has_no_values_of_other_kinds(type_: Type) -> None:
    for value in (object(), type, ...):
        with pytest.raises(BadValue, match="is not a value of type"):
            coerce_row((value,), (Field("c", type_),), "t")


def test_equal_doubles_are_equal_keys() -> None:
    assert len({coerce(value, t.DOUBLE) for value in (math.nan, np.float64("nan"), Decimal("NaN"))}) == 1
    assert math.copysign(1, coerce(-0.0, t.DOUBLE)) == 1
    assert str(coerce("-0", MONEY)) == "0.00"


def test_null_stays_out_of_a_required_place() -> None:
    with pytest.raises(NullViolation, match=r"t\.p\[1\]\.x"):
        coerce([{"x": 1}, {"label": "a"}], t.Array(POINT), where="t.p")
    with pytest.raises(NullViolation):
        coerce(None, t.INT, where="t.c", nullable=False)


def test_an_error_in_a_nested_value_shows_the_way_to_it() -> None:
    with pytest.raises(BadValue) as caught:
        coerce([{"x": 1}, {"x": "one"}], t.Array(POINT), where="t.p")
    assert caught.value.where == "t.p[1].x"


FIELDS = (Field("id", t.BIGINT, nullable=False), Field("name", t.STRING), Field("amount", MONEY))
SparkLike = namedtuple("SparkLike", ["amount", "name", "id"])


@pytest.mark.parametrize(
    "row",
    [
        (1, "ann", "2"),
        [1, "ann", 2],
        {"id": 1, "name": "ann", "amount": Decimal("2")},
        {"AMOUNT": "2.00", "Id": 1, "name": "ann"},
        SparkLike("2", "ann", 1),
    ],
    ids=repr,
)
def test_a_row_comes_as_tuple_list_or_mapping(row: Any) -> None:
    assert coerce_row(row, FIELDS, "orders") == (1, "ann", Decimal("2.00"))


def test_a_nullable_column_may_be_left_out() -> None:
    assert coerce_row({"id": 1}, FIELDS, "orders") == (1, None, None)
    with pytest.raises(NullViolation, match=r"orders\.id"):
        coerce_row({"name": "ann"}, FIELDS, "orders")


@pytest.mark.parametrize(
    ("row", "error", "text"),
    [
        ((1, "ann"), BadValue, "2 values for 3 columns"),
        ({"id": 1, "colour": "red"}, UnknownName, 'no column "colour"'),
        ({"id": 1, "ID": 2}, BadValue, "twice"),
        ((1, 5, "2"), BadValue, "orders.name"),
        ("abc", BadValue, "type str"),
        (7, BadValue, "type int"),
    ],
)
def test_a_row_of_another_shape_is_refused(row: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        coerce_row(row, FIELDS, "orders")
    assert text in str(caught.value)


def test_nested_values_are_presented_as_lists_and_dicts() -> None:
    assert present(((1, "a"), None), t.Array(POINT)) == [{"x": 1, "label": "a"}, None]
    assert present(None, POINT) is None
    assert present("ann", t.STRING) == "ann"


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9))
def test_a_decimal_survives_its_text(number: Decimal) -> None:
    assert coerce(str(number), MONEY) == number == coerce(number, MONEY)


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_a_timestamp_survives_its_text(moment: dt.datetime) -> None:
    assert coerce(moment.isoformat(), t.TIMESTAMP) == moment.replace(tzinfo=None) == coerce(moment, t.TIMESTAMP)
