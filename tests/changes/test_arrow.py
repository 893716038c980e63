"""Rows from Arrow: any number of rows and any chunks are read back as they were."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from tidemill.changes.arrow import MANY, from_arrow, to_arrow
from tidemill.model.types import STRING, TIMESTAMP, Field

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
