"""Window functions: rankings, neighbours and frames by example, and moving aggregates beside plain ones."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from typing import Any

import pytest

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_multiset, aggregate_type
from tidemill.algebra.expressions.ordering import SortOrder, sort_key
from tidemill.algebra.expressions.scalars import Column
from tidemill.algebra.kernels.frames import spans_of
from tidemill.algebra.kernels.moving_frames import aggregate_frames
from tidemill.algebra.kernels.windows import window_values
from tidemill.algebra.relational.windows import Frame, WindowCall
from tidemill.model import types as t
from tidemill.model.types import Type

X = Column("x", t.INT)
UP = (SortOrder(X),)


def values(call: WindowCall, keys: list[Any], seen: list[Any], order: tuple[SortOrder, ...] = UP) -> list[Any]:
    return window_values(call, seen, [(key,) for key in keys], order)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("row_number", [1, 2, 3, 4, 5]),
        ("rank", [1, 2, 2, 4, 5]),
        ("dense_rank", [1, 2, 2, 3, 4]),
        ("percent_rank", [0.0, 0.25, 0.25, 0.75, 1.0]),
        ("cume_dist", [0.2, 0.6, 0.6, 0.8, 1.0]),
    ],
)
def test_rankings(function: str, expected: list[float]) -> None:
    call = WindowCall("r", function, (), t.INT)
    assert values(call, [None, 7, 7, 8, math.nan], [()] * 5) == expected


@pytest.mark.parametrize(("rows", "expected"), [(7, [1, 1, 1, 2, 2, 3, 3]), (2, [1, 2]), (6, [1, 1, 2, 2, 3, 3])])
def test_ntile_gives_the_first_buckets_a_row_more(rows: int, expected: list[int]) -> None:
    assert values(WindowCall("b", "ntile", (X,), t.INT), list(range(rows)), [(3,)] * rows) == expected


def test_one_row_alone_has_no_percent_rank_but_zero() -> None:
    assert values(WindowCall("p", "percent_rank", (), t.DOUBLE), [1], [()]) == [0.0]


def test_neighbours_may_skip_nulls() -> None:
    seen = [(1, 1, -9), (None, 1, -9), (3, 1, -9)]
    lag, lead = (WindowCall("n", name, (X, X, X), t.INT, ignore_nulls=True) for name in ("lag", "lead"))
    assert values(lag, [1, 2, 3], seen) == [-9, 1, 1]
    assert values(lead, [1, 2, 3], seen) == [3, 3, -9]


def test_a_null_that_is_there_is_no_default() -> None:
    assert values(WindowCall("n", "lag", (X, X, X), t.INT), [1, 2], [(None, 1, 5), (2, 1, 5)]) == [5, None]


DAY = datetime.date(2024, 2, 28)


@pytest.mark.parametrize(
    ("frame", "keys", "expected"),
    [
        (Frame(True, 1, 2), [1, 2, 3], [(1, 3), (2, 3), (3, 3)]),
        (Frame(True, -2, -1), [1, 2, 3], [(0, 0), (0, 1), (0, 2)]),
        (Frame(False, None, 0), [1, 1, 2], [(0, 2), (0, 2), (0, 3)]),
        (Frame(False, -1, 1), [None, 1, 2, 4], [(0, 1), (1, 3), (1, 3), (3, 4)]),
        (Frame(False, 0, None), [None, 1, 1], [(0, 3), (1, 3), (1, 3)]),
        (Frame(False, -1, 0), [DAY, datetime.date(2024, 2, 29), datetime.date(2024, 3, 2)], [(0, 1), (0, 2), (2, 3)]),
        (Frame(False, -1, 0), [datetime.date.min], [(0, 1)]),
        (Frame(False, Decimal("-0.5"), 0), [Decimal("1.0"), Decimal("1.5"), Decimal("2.1")], [(0, 1), (0, 2), (2, 3)]),
    ],
)
def test_frames(frame: Frame, keys: list[Any], expected: list[tuple[int, int]]) -> None:
    assert spans_of(frame, [(key,) for key in keys], UP) == expected


def test_a_range_is_counted_against_a_falling_order() -> None:
    down = (SortOrder(X, descending=True, nulls_first=False),)
    assert spans_of(Frame(False, -2, -1), [(9,), (8,), (6,), (None,)], down) == [(0, 0), (0, 1), (1, 2), (3, 4)]


def test_a_row_at_the_very_end_of_a_session_is_in_it() -> None:
    noon = datetime.datetime(2024, 1, 1, 12)
    times = [noon + datetime.timedelta(seconds=second) for second in (0, 10, 21)]
    call = WindowCall("s", "session_window", (X, X), t.STRING)
    first = (noon, noon + datetime.timedelta(seconds=20))
    last = (times[2], times[2] + datetime.timedelta(seconds=10))
    assert values(call, times, [(time, 10_000_000) for time in times]) == [first, first, last]


def test_lists_keep_the_order_of_the_rows() -> None:
    frame = Frame(False, None, 0)
    listed = WindowCall("l", "array_agg", (X,), t.Array(t.INT), frame)
    joined = WindowCall("l", "string_agg", (X,), t.STRING, frame, parameters=("-",))
    assert values(listed, [1, 2, 3], [(9,), (None,), (4,)]) == [(9,), (9,), (9, 4)]
    assert values(joined, [1, 2, 3], [(None,), ("b",), ("a",)]) == [None, "b", "b-a"]


# ---------------------------------------------------------------------------------------------- moving beside plain

DRAWN: dict[Type, list[Any]] = {
    t.INT: [None, -3, 0, 1, 7],
    t.BIGINT: [None, -(2**40), 5, 2**40],
    t.Decimal(8, 2): [None, Decimal("-1.25"), Decimal("0.00"), Decimal("3.10")],
    t.DOUBLE: [None, 0.1, -2.5, 1e300, -1e300, math.nan, math.inf, -math.inf],
}


@pytest.mark.parametrize("function", ["count", "sum", "avg", "min", "max"])
@pytest.mark.parametrize("of", DRAWN, ids=str)
def test_moving_aggregates_say_what_plain_ones_say(function: str, of: Type) -> None:
    random_ = random.Random(f"{function} {of}")
    call = AggregateCall("a", function, Column("x", of), aggregate_type(function, of))
    for _ in range(150):
        rows: list[Any] = [random_.choice([None, *((v,) for v in DRAWN[of])]) for _ in range(random_.randint(0, 9))]
        keys = sorted((random_.choice([None, 1, 2, 3, 5]) for _ in rows), key=lambda key: sort_key((key,), UP))
        ends = sorted(random_.randint(-3, 3) for _ in range(2))
        frame = Frame(random_.random() < 0.5, *(random_.choice([None, end]) for end in ends))
        spans = spans_of(frame, [(key,) for key in keys], UP)
        plain = [
            aggregate_multiset(call, [(row, 1) for row in rows[start:end] if row is not None]) for start, end in spans
        ]
        assert repr(aggregate_frames(call, rows, spans)) == repr(plain)
