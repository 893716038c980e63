"""Ordered groups: both sides of an epoch compared with dictionaries, and their reads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.changes.zset import Row
from tidemill.runtimes.native.state import fixed_point, ordered_groups, ordered_sums
from tidemill.runtimes.native.state.ordered_groups import GroupVersion, OrderedGroupIndex, SortKey

KEYS = range(30)


def sort_key_of(key: Row) -> SortKey:
    """Keys of the second column, in descending order."""
    return (-key[1], key)


def expected(entries: dict[Row, int], prefix: Row) -> list[tuple[Row, int]]:
    there = [(key, weight) for key, weight in entries.items() if key[:1] == prefix and weight > 0]
    return sorted(there, key=lambda pair: -pair[0][1])


def compare(side: GroupVersion, there: list[tuple[Row, int]]) -> None:
    assert [(sort_key[-1], weight) for sort_key, weight in side.ascending()] == there
    assert [(sort_key[-1], weight) for sort_key, weight in side.descending()] == there[::-1]
    rows = [key for key, weight in there for _ in range(weight)]
    assert [side.select(count)[-1] for count in range(len(rows))] == rows
    assert side.sums() == (len(rows), sum(key[1] for key in rows))
    for number in KEYS:
        bound = sort_key_of((None, number))
        after = [pair for pair in there if sort_key_of(pair[0])[0] >= bound[0]]
        before = [pair for pair in there if sort_key_of(pair[0])[0] < bound[0]]
        # A bound of another partition is before the entry with its number: NULL is not compared, for it is the shorter.
        sought = (bound[0],)
        assert [(sort_key[-1], weight) for sort_key, weight in side.ascending(sought)] == after
        assert [(sort_key[-1], weight) for sort_key, weight in side.descending(sought)] == before[::-1]
        assert side.sums(sought) == (sum(w for _, w in before), sum(w * key[1] for key, w in before))


@pytest.mark.parametrize("small", [0, 4, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_both_sides_are_what_was_and_what_is(small: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_groups, "LIST_LIMIT", small)
    monkeypatch.setattr(ordered_sums, "MIN_BLOCK", 3)
    chance = Random(seed)
    held = OrderedGroupIndex(1, sort_key_of, lambda key: (key[1],), (0,))
    entries: dict[Row, int] = {(None, 3): 2, (1, 4): 1}
    held.fill(entries.items())
    for _ in range(60):
        before = dict(entries)
        touched: dict[Row, int | None] = {}
        for _ in range(chance.randint(1, 6)):
            key = (chance.choice((None, 1)), chance.choice(KEYS))
            new = chance.choice((None, 1, 2, -1))
            touched.setdefault(key, entries.get(key))
            held.move(key, entries.pop(key, None), new)
            entries |= {} if new is None else {key: new}
        for prefix, group in held.changed_groups((key, old, entries.get(key)) for key, old in touched.items()):
            compare(group.new, expected(entries, prefix))
            compare(group.old, expected(before, prefix))
    for prefix in ((None,), (1,), (2,)):
        compare(held.group(prefix).old, expected(entries, prefix))
    assert sum(1 for _ in held.all()) == len({key[:1] for key, weight in entries.items() if weight > 0})


def test_entries_that_end_as_they_began_have_not_changed() -> None:
    held = OrderedGroupIndex(1, sort_key_of)
    held.fill([((1, 1), 1), ((1, 2), 1)])
    (group,) = [group for _, group in held.changed_groups([((1, 1), 1, 1), ((1, 7), None, None)])]
    assert not group.changed
    assert group.old is group.new


def test_a_pile_is_left_with_nothing() -> None:
    held = OrderedGroupIndex(0, sort_key_of)
    held.move((1, 1), None, None)
    held.move((1, 1), None, 1)
    held.move((1, 1), 1, None)
    assert list(held.all()) == []
    assert list(held.group(()).new.ascending()) == []


DOUBLES = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(DOUBLES, max_size=8))
def test_sums_of_doubles_are_exact(values: list[float]) -> None:
    total = [sum(numbers) for numbers in zip(fixed_point.ZERO, *map(fixed_point.scaled, values), strict=True)]
    found = fixed_point.unscaled(*total)
    if all(map(math.isfinite, values)):
        exact = sum(map(Fraction, values), Fraction())
        assert found == (float(exact) if abs(exact) <= Fraction(1.7e308) else found)
    else:
        special = sum(value for value in values if not math.isfinite(value))
        assert found == special or (math.isnan(found) and math.isnan(special))
    gone = [t - n for t, n in zip(total, _sum(fixed_point.scaled(value) for value in values), strict=True)]
    assert fixed_point.unscaled(*gone) == 0.0


def _sum(parts: Iterator[Any]) -> list[int]:
    return [sum(numbers) for numbers in zip(fixed_point.ZERO, *parts, strict=True)]


def test_a_sum_may_leave_the_range_of_double() -> None:
    twice = [2 * number for number in fixed_point.scaled(1.7e308)]
    assert fixed_point.unscaled(*twice) == math.inf
    assert fixed_point.unscaled(*[-number for number in twice]) == -math.inf
    assert fixed_point.scaled(None) == fixed_point.ZERO
