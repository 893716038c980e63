"""CAST and TRY_CAST, and how values are written and read. Spark itself is asked in ``test_functions_against_spark``."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.algebra.expressions.conversions import cast, convert
from tidemill.algebra.expressions.scalars import Cast, Column, Literal
from tidemill.algebra.values import formats
from tidemill.algebra.values.casts import can_cast, cast_value
from tidemill.algebra.values.coercion import common_type
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Field, Type

PRICE = t.Decimal(5, 2)
DAY = datetime.date(2024, 2, 9)


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        ("Yes", t.STRING, t.BOOLEAN, True),
        (Decimal("0.00"), PRICE, t.BOOLEAN, False),
        (-2.9, t.DOUBLE, t.INT, -2),
        (Decimal("2.99"), PRICE, t.BIGINT, 2),
        (2.0**63, t.DOUBLE, t.BIGINT, 2**63 - 1),
        (True, t.BOOLEAN, PRICE, Decimal("1.00")),
        (0.125, t.DOUBLE, PRICE, Decimal("0.13")),
        (math.nan, t.DOUBLE, PRICE, None),
        (" 1.005 ", t.STRING, PRICE, Decimal("1.01")),
        ("-inf", t.STRING, t.DOUBLE, -math.inf),
        ("-0", t.STRING, t.DOUBLE, 0.0),
        (1.0, t.DOUBLE, t.STRING, "1.0"),
        (Decimal("-0.00"), PRICE, t.STRING, "0.00"),
        (Decimal("1E-7"), t.Decimal(8, 7), t.STRING, "0.0000001"),
        ("2024-2-9 at noon", t.STRING, t.DATE, DAY),
        ("2024-02-09T01:02:03.5+01:00", t.STRING, t.TIMESTAMP, datetime.datetime(2024, 2, 9, 0, 2, 3, 500_000)),
        (DAY, t.DATE, t.TIMESTAMP, datetime.datetime(2024, 2, 9)),
        (-0.5, t.DOUBLE, t.TIMESTAMP, datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000)),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000), t.TIMESTAMP, t.BIGINT, -1),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, 250_000), t.TIMESTAMP, PRICE, Decimal("1.25")),
        (datetime.datetime(2024, 2, 9, 1, 2, 3, 120_000), t.TIMESTAMP, t.STRING, "2024-02-09 01:02:03.12"),
        (("1", None), t.Array(t.STRING), t.Array(t.INT), (1, None)),
        ((1, "x"), t.Struct((Field("a", t.INT), Field("b", t.STRING))), t.STRING, "{1, x}"),
        (None, t.STRING, t.INT, None),
    ],
)
def test_values(value: Any, source: Type, target: Type, result: Any) -> None:
    found = cast_value(value, source, target)
    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        ("maybe", t.STRING, t.BOOLEAN),
        (2**31, t.BIGINT, t.INT),
        ("2.5", t.STRING, t.INT),
        (math.inf, t.DOUBLE, t.BIGINT),
        (1000, t.INT, PRICE),
        ("1_000", t.STRING, t.DOUBLE),
        ("2024-02-30", t.STRING, t.DATE),
        ("2024-02-09 24:00:00", t.STRING, t.TIMESTAMP),
        (2**62, t.BIGINT, t.TIMESTAMP),
    ],
)
def test_faults(value: Any, source: Type, target: Type) -> None:
    with pytest.raises(ArithmeticFault):
        cast_value(value, source, target)
    assert cast_value(value, source, target, lenient=True) is None


def test_lenience_reaches_into_arrays() -> None:
    assert cast_value(("1", "x"), t.Array(t.STRING), t.Array(t.INT), lenient=True) == (1, None)


def test_casts_that_do_not_exist() -> None:
    assert not can_cast(t.DATE, t.INT)
    assert not can_cast(t.INT, t.Array(t.INT))
    with pytest.raises(TypeMismatch, match="BOOLEAN cannot be cast to DATE"):
        cast(Column("p", t.BOOLEAN), t.DATE)


def test_a_cast_of_a_literal_is_a_literal() -> None:
    assert cast(Literal("7", t.STRING), t.INT) == Literal(7, t.INT)
    assert cast(Literal("x", t.STRING), t.INT, lenient=True) == Literal(None, t.INT)
    assert cast(Literal("x", t.STRING), t.INT) == Cast(Literal("x", t.STRING), t.INT)
    assert convert(Column("n", t.INT), t.INT) == Column("n", t.INT)


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ((t.INT, t.BIGINT), "BIGINT"),
        ((t.INT, PRICE), "DECIMAL(12,2)"),
        ((t.BIGINT, PRICE, t.DOUBLE), "DOUBLE"),
        ((t.VOID, t.DATE, t.TIMESTAMP), "TIMESTAMP"),
        ((t.STRING, t.INT), "BIGINT"),
        ((t.STRING, PRICE), "DOUBLE"),
        ((t.STRING, t.DATE), "DATE"),
        ((t.Array(t.INT), t.Array(t.DOUBLE)), "ARRAY<DOUBLE>"),
        ((), "VOID"),
    ],
)
def test_common_types(types: tuple[Type, ...], common: str) -> None:
    assert str(common_type(types)) == common


@pytest.mark.parametrize("types", [(t.BOOLEAN, t.INT), (t.DATE, t.INT), (t.Array(t.INT), t.INT)])
def test_types_with_nothing_in_common(types: tuple[Type, ...]) -> None:
    with pytest.raises(TypeMismatch, match="no common type"):
        common_type(types)


@given(st.floats(allow_nan=False))
def test_doubles_survive_their_text(value: float) -> None:
    assert formats.read_double(formats.write(value, t.DOUBLE)) == value


@given(st.datetimes())
def test_timestamps_survive_their_text(value: datetime.datetime) -> None:
    assert formats.read_timestamp(formats.write_timestamp(value)) == value


@given(st.decimals(-(10**6), 10**6, places=3))
def test_decimals_survive_their_text(value: Decimal) -> None:
    assert formats.read_decimal(formats.write(value, t.Decimal(10, 3))) == value
