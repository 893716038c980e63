"""Range sums and seeks, beside a plain list that is looked through from end to end."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.changes.arrow import NAN
from tidemill.runtimes.native.state import ordered_sums as module
from tidemill.runtimes.native.state.ordered_sums import OrderedIndex, OrderedSums

KEYS = st.integers(0, 40)
BOUNDS = st.one_of(st.none(), st.integers(-2, 42))


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are cut and joined at sizes that tests reach."""
    monkeypatch.setattr(module, "MIN_BLOCK", 3)


def naive_between(entries: dict[int, tuple[int, int]], *bounds: Any) -> tuple[int, int]:
    lower, lower_closed, upper, upper_closed = bounds

    def within(key: int) -> bool:
        above = lower is None or key > lower or (lower_closed and key == lower)
        return above and (upper is None or key < upper or (upper_closed and key == upper))

    chosen = [numbers for key, numbers in entries.items() if within(key)]
    return sum(n for n, _ in chosen), sum(v for _, v in chosen)


def naive_seek(entries: dict[int, tuple[int, int]], number: int, limit: int, after: bool) -> int | None:
    def beyond(key: int) -> int:
        return sum(numbers[number] for other, numbers in entries.items() if (other > key if after else other < key))

    held = [key for key in sorted(entries) if beyond(key) <= limit]
    return None if not held else held[0] if after else held[-1]


@settings(max_examples=200, deadline=None)
@given(
    start=st.dictionaries(KEYS, st.integers(0, 5)),
    moves=st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 5))), max_size=60),
    bounds=st.tuples(BOUNDS, st.booleans(), BOUNDS, st.booleans()),
    limit=st.integers(-1, 40),
)
def test_sums_and_seeks(start: Any, moves: Any, bounds: Any, limit: int) -> None:
    entries = {key: (1, value) for key, value in start.items()}
    ordered = OrderedSums((0, 0))
    ordered.fill(entries.items())
    for key, value in moves:
        old = entries.pop(key, None)
        new = None if value is None else (2, value)
        ordered.move(key, old, new)
        if new is not None:
            entries[key] = new
    assert len(ordered) == len(entries)
    assert ordered.between((0, 1), *bounds) == naive_between(entries, *bounds)
    for number in (0, 1):
        assert ordered.first((number,), lambda total: total <= limit) == naive_seek(entries, number, limit, after=True)
        assert ordered.last((number,), lambda total: total <= limit) == naive_seek(entries, number, limit, after=False)


def test_nothing_has_no_sums_and_no_key() -> None:
    nothing = OrderedSums((0, Decimal("0.00")))
    assert nothing.between((0, 1), None, False, None, False) == (0, Decimal("0.00"))
    assert nothing.first((), lambda: True) is None
    nothing.move(7, None, None)
    assert not len(nothing)


def test_blocks_stay_near_the_square_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_BLOCK", 32)
    ordered, draw = OrderedSums((0,)), random.Random(3)
    keys = draw.sample(range(100_000), 10_000)
    for key in keys:
        ordered.move(key, None, (1,))
    lengths = [len(block.keys) for block in ordered._blocks]
    assert max(lengths) <= 200 and len(lengths) <= 250
    for key in keys[:9_900]:
        ordered.move(key, (1,), None)
    assert sum(len(block.keys) for block in ordered._blocks) == 100
    assert len(ordered._blocks) <= 25


def test_entries_of_a_map_under_their_prefix() -> None:
    index = OrderedIndex((0,), 1, lambda entry: entry, (0, 0))
    index.fill([(("a", 1), (1, 10)), (("b", 2), (1, 20)), (("a", None), (1, 99)), ((None, 3), (1, 99))])
    index.move(("a", 5), None, (2, 50))
    index.move(("a", 1), (1, 10), (3, 11))
    assert index.between("a", (0, 1), None, False, 4, True) == (3, 11)
    assert index.between("a", (0, 1), None, False, None, False) == (5, 61)
    assert index.between(None, (0, 1), None, False, None, False) == (0, 0)
    assert index.first("b", (0,), lambda weight: weight == 0) == 2
    index.move(("b", 2), (1, 20), None)
    assert index.last("b", (0,), lambda _: True) is None


def test_nan_is_the_greatest_double() -> None:
    index = OrderedIndex((), 0, lambda weight: (weight,), (0,), floats=True)
    index.fill([((NAN,), 1), ((math.inf,), 1), ((1.5,), 1)])
    assert index.between((), (0,), math.inf, False, None, False) == (1,)
    assert index.between((), (0,), None, False, NAN, True) == (3,)
    assert index.first((), (0,), lambda weight: weight < 1) is NAN
