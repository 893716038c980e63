"""Rows in columns: whatever the types, a fetch finds exactly the rows with one of the keys."""

from __future__ import annotations

import datetime
import gc
import math
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.shop import TABLES, program_of
from tests.runtimes.native.harness import Harness
from tidemill.changes.arrow import NAN, arrow_schema, to_arrow
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.types import Field
from tidemill.runtimes.native import runtime_state
from tidemill.runtimes.native.state.snapshot import ColumnSnapshot

DOMAINS: dict[t.Type, list[Any]] = {
    t.BOOLEAN: [True, False],
    t.INT: [0, -1, 2**31 - 1],
    t.BIGINT: [0, -1, 2**63 - 1],
    t.Decimal(38, 2): [Decimal("0.00"), Decimal("-1.50"), Decimal("9" * 36 + ".99")],
    t.DOUBLE: [0.0, -1.5, NAN, math.inf],
    t.STRING: ["", "a", "ü"],
    t.DATE: [datetime.date(1, 1, 1), datetime.date(2024, 2, 29)],
    t.TIMESTAMP: [datetime.datetime(1970, 1, 1), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)],
    t.Array(t.INT): [(), (1, None), (1, 2)],
    t.Struct((Field("a", t.INT), Field("b", t.STRING))): [(1, "x"), (None, None)],
}
FIELDS = tuple(Field(f"c{place}", type_) for place, type_ in enumerate(DOMAINS))
ROWS = st.tuples(*(st.sampled_from([None, *values]) for values in DOMAINS.values()))
PLACES = st.lists(st.integers(0, len(FIELDS) - 1), min_size=1, unique=True).map(tuple)


@given(st.lists(st.tuples(ROWS, st.integers(1, 3)), max_size=8), st.lists(ROWS, max_size=4), PLACES)
def test_fetch_finds_the_rows_with_a_key(pairs: Any, others: Any, positions: tuple[int, ...]) -> None:
    base = ColumnSnapshot(to_arrow(pairs, FIELDS), FIELDS)
    keys = {tuple(row[i] for i in positions) for row in [row for row, _ in pairs[::2]] + others}
    expected = [pair for pair in pairs if tuple(pair[0][i] for i in positions) in keys]
    assert ZSet.summed(base.fetch(positions, keys, tuple(range(len(FIELDS))))) == ZSet.summed(expected)


@pytest.mark.parametrize("stored", [-0.0, -math.nan])
def test_other_spellings_of_zero_and_nan_are_found(stored: float) -> None:
    fields = (Field("x", t.DOUBLE),)
    base = ColumnSnapshot(pa.table([[stored], [1]], schema=arrow_schema(fields)), fields)
    sought = NAN if stored != stored else 0.0
    assert base.fetch((0,), {(sought,)}, (0,)) == [((sought,), 1)]


def test_queries_over_columns_do_not_meet_each_other() -> None:
    harness = Harness(program_of("SELECT name FROM customers"), TABLES)
    harness.seed(
        {"customers": ZSet({(1, "ann", "n"): 1}), "edges": ZSet({(1, 2): 1}), "orders": ZSet({(1, 1, None, 7): 1})}
    )
    joined = {
        "SELECT c.name, e.b FROM edges e JOIN customers c ON c.id = e.a": ("ann", 2),
        "SELECT c.name, o.day FROM orders o JOIN customers c ON c.id = o.customer": ("ann", 7),
    }
    with patch.object(runtime_state, "RESIDENT_ROWS", -1):
        for _ in range(2):
            for sql, row in joined.items():
                assert harness.runtime.answer(program_of(sql)).zset() == ZSet({row: 1})
                gc.collect()
    assert len(harness.runtime._running._probes) <= len(joined)
