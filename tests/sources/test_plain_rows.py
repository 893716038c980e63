"""Many rows of plain values as columns: whatever is taken so means what it means value by value."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from typing import Any

import numpy as np
import pytest

from tidemill.changes.arrow import to_arrow
from tidemill.model import types as t
from tidemill.model.errors import DataError
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.sources.ingest.frames import changes_of
from tidemill.sources.ingest.plain_rows import MANY_ROWS, columns_of_pairs

PLUS_ONE = datetime.timezone(datetime.timedelta(hours=1))

VALUES: dict[t.Type, tuple[list[Any], list[Any]]] = {
    t.BOOLEAN: ([True, False], [1, np.bool_(True), "true"]),
    t.INT: ([0, -5, 2**31 - 1], [2**31, True, 2.0, np.int32(3), decimal.Decimal(4)]),
    t.BIGINT: ([0, 2**63 - 1, -(2**63)], [2**63, 1.5, "7", np.int64(3)]),
    t.Decimal(6, 2): (
        [decimal.Decimal(text) for text in ("1.5", "-0", "9999.99", "1E+2")],
        [decimal.Decimal("1.234"), decimal.Decimal("NaN"), decimal.Decimal(10**6), 3, "1.5", 1.5],
    ),
    t.DOUBLE: ([0.0, -0.0, math.nan, -math.nan, math.inf, 1.5], [1, decimal.Decimal("0.1"), np.float64(2.5), "1"]),
    t.STRING: (["", "ann", "ü"], ["\ud800", 5, b"x"]),
    t.DATE: ([datetime.date(2024, 2, 29), datetime.date.min], ["2024-01-01", datetime.datetime(2024, 1, 1)]),
    t.TIMESTAMP: (
        [datetime.datetime(2024, 2, 29, 1, 2, 3, 4), datetime.datetime.max],
        ["2024-01-01", datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=PLUS_ONE)],
    ),
    t.Array(t.INT): ([], [[1, 2], (3,), None]),
}
"""For each type values that are plain, and others, of which some can be converted."""


def value_by_value(pairs: list[Any], table: Table) -> Any:
    """What the rows are as columns when they come one by one, or the error that they raise."""
    try:
        return to_arrow([pair for one in pairs for pair in changes_of([one], table).pairs()], table.fields)
    except DataError as error:
        return type(error)


def all_at_once(pairs: list[Any], table: Table) -> Any:
    try:
        return changes_of(pairs, table).arrow()
    except DataError as error:
        return type(error)


def same(some: Any, others: Any) -> bool:
    if isinstance(some, type) or isinstance(others, type):
        return some is others
    return repr(some.to_pydict()) == repr(others.to_pydict()) and some.schema == others.schema


@pytest.mark.parametrize("type_", VALUES, ids=str)
@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_columns_mean_what_values_mean(type_: t.Type, nullable: bool, seed: int) -> None:
    draw = random.Random(f"{type_} {nullable} {seed}")
    table = Table("t", (Field("k", t.BIGINT), Field("v", type_, nullable=nullable)))
    plain, others = VALUES[type_]
    values = [*plain, *([None] if nullable or draw.random() < 0.2 else [])] or others
    rows = [(number, draw.choice(values)) for number in range(MANY_ROWS)]
    pairs: list[Any] = [(draw.choice((1, -1, 3)), row) for row in rows]
    if draw.random() < 0.5:
        pairs[draw.randrange(len(pairs))] = (1, (0, draw.choice(others)))
    assert same(all_at_once(pairs, table), value_by_value(pairs, table))


@pytest.mark.parametrize("type_", [type_ for type_, (plain, _) in VALUES.items() if plain], ids=str)
def test_plain_values_are_taken_as_columns(type_: t.Type) -> None:
    pairs = [(1, (value,)) for value in [*VALUES[type_][0], None]]
    assert columns_of_pairs(pairs, (Field("v", type_),)) is not None


@pytest.mark.parametrize(
    "pair",
    [(1, (1, 2)), (1, ()), (1.0, (1,)), (True, (1,)), (2**63, (1,)), (1, {"v": 1}), (1, [1]), (1,), "xy", 5],
    ids=repr,
)
def test_other_pairs_go_one_by_one(pair: Any) -> None:
    table = Table("t", (Field("v", t.BIGINT),))
    pairs = [(1, (number,)) for number in range(MANY_ROWS)]
    pairs[7] = pair
    assert same(all_at_once(pairs, table), value_by_value(pairs, table))


def test_a_bad_row_is_named() -> None:
    table = Table("t", (Field("v", t.BIGINT),))
    pairs: list[Any] = [(1, (number,)) for number in range(1000)]
    pairs[700] = (1, ("x",))
    with pytest.raises(DataError, match="'x' is not a value of type BIGINT") as error:
        changes_of(pairs, table)
    assert error.value.where == "row 701, t.v"
