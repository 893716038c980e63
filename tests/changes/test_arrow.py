"""Rows from Arrow: any number of rows and any chunks are read back as they were."""

from __future__ import annotations

import decimal
import math
from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest

from tidemill.changes.arrow import MANY, arrow_type, from_arrow, plain_array, to_arrow
from tidemill.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Field, Type

FIELDS = Field("name", STRING), Field("at", TIMESTAMP)
NEW_YEAR = datetime(2024, 1, 1)


@pytest.mark.parametrize("names", [5, 3 * MANY])
@pytest.mark.parametrize("nulls", [False, True])
def test_many_texts_and_timestamps_come_back(names: int, nulls: bool) -> None:
    pairs = [
        (
            (
                None if nulls and i % 7 == 0 else f"host {i % names}",
                None if nulls and i % 5 == 0 else NEW_YEAR + timedelta(microseconds=977 * i),
            ),
            1,
        )
        for i in range(3 * MANY)
    ]
    table = to_arrow(pairs, FIELDS)
    assert from_arrow(table, FIELDS) == pairs
    chunks = pa.concat_tables([table.slice(0, 10), table.slice(10, MANY), table.slice(MANY + 10)])
    assert from_arrow(chunks.slice(3), FIELDS) == pairs[3:]


def test_equal_texts_are_one_object() -> None:
    pairs = [((f"host {i % 5}", datetime.min if i % 2 else datetime.max), 1) for i in range(MANY)]
    one, other = (from_arrow(to_arrow(pairs, FIELDS), FIELDS) for _ in range(2))
    assert one == other == pairs
    assert {id(row[0]) for row, _ in one} == {id(row[0]) for row, _ in other}
    assert len({id(row[0]) for row, _ in one}) == 5


VALUES = {
    BOOLEAN: [True, None, False, True, True, False, True, False, None],
    INT: [0, None, -(1 << 31), (1 << 31) - 1],
    BIGINT: [0, None, -(1 << 63), (1 << 63) - 1],
    DOUBLE: [0.0, None, -1.5, math.inf, 1e-300],
    STRING: ["", None, "ann", "é", "\U0001f600"],
    DATE: [date.min, None, date(1970, 1, 1), date.max],
    TIMESTAMP: [datetime.min, None, datetime(1970, 1, 1), datetime.max],
    Decimal(38, 2): [decimal.Decimal(text) for text in ("0", "1.5", "-0.01", "9" * 36 + ".99", "-1E3")] + [None],
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_few_values_are_made_of_buffers_as_arrow_makes_them(type_: Type) -> None:
    for values in (VALUES[type_], [value for value in VALUES[type_] if value is not None], [None], []):
        found = plain_array(values, type_)
        found.validate(full=True)
        assert found.equals(pa.array(values, arrow_type(type_)))
        rows = [((value,), 1) for value in values]
        assert from_arrow(to_arrow(rows, [Field("x", type_)]), [Field("x", type_)]) == rows


def test_values_that_do_not_fit_are_left_to_arrow() -> None:
    for type_, value in ((INT, 1 << 31), (BIGINT, 1 << 63), (Decimal(4, 2), decimal.Decimal("100"))):
        assert plain_array([value], type_) is None
        with pytest.raises((pa.ArrowInvalid, OverflowError)):
            to_arrow([((value,), 1)], [Field("x", type_)])
