"""Maps: their journals, and stored changes that restore exactly the same entries."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.changes.zset import Row, ZSet
from tidemill.model.types import BIGINT, DOUBLE, STRING, Field
from tidemill.model.types import Decimal as DecimalType
from tidemill.program.maps import Map, RingField, map_fields
from tidemill.program.stages import Stage
from tidemill.runtimes.native.python.compile import compile_stage
from tidemill.runtimes.native.state.indexes import HashIndex
from tidemill.runtimes.native.state.ring_map import RingMap
from tidemill.runtimes.native.state.row_map import BULK_ROWS, RowMap

GROUPS = Map(
    "groups",
    (Field("k", STRING),),
    (RingField("n", BIGINT), RingField("x", DOUBLE), RingField("s", DecimalType(38, 2))),
)
ROWS = st.lists(st.tuples(st.tuples(st.sampled_from([1, 2, None]), st.integers(0, 3)), st.integers(-2, 2)))


def ring_map(of: Map = GROUPS) -> RingMap:
    stage = Stage("v", (), (), (of,), (), (), None, "delta")
    map_ = compile_stage(stage, lambda name: ()).empty_maps()[of.name]
    assert isinstance(map_, RingMap)
    return map_


def summed(weight: int, n: int, doubles: list[float], s: str) -> list[Any]:
    """What a statement sums for a key: once-terms of the double, then weighted ones."""
    return [weight, n, doubles, [], Decimal(s)]


@given(ROWS, ROWS)
def test_contents_and_indexes_are_the_sum_of_what_they_absorbed(first: Any, second: Any) -> None:
    contents = RowMap()
    contents.absorb(first)
    by_first, by_both = contents.index((0,)), contents.index((0, 1))
    contents.settle()
    before = dict(contents.entries)
    contents.absorb(second)
    total = ZSet.summed([*first, *second])
    assert contents.entries == total
    assert _pairs(by_first) == {pair for pair in total.items() if pair[0][0] is not None}
    assert by_both.keys() == {row for row in total if None not in row}
    assert ZSet.summed(contents.changes()) == ZSet.summed(second)
    contents.rollback()
    assert contents.entries == before
    assert _pairs(by_first) == {pair for pair in before.items() if pair[0][0] is not None}


def _pairs(index: Any) -> set[tuple[Row, int]]:
    return {pair for pairs in index.values() for pair in pairs}


@pytest.mark.parametrize("size", [BULK_ROWS - 1, BULK_ROWS, 3 * BULK_ROWS])
def test_bulk_of_new_rows_is_indexed_and_rolled_back_like_any_other(size: int) -> None:
    contents = RowMap()
    contents.restore([((-1, "there"), 1)])
    index = contents.index((1,))
    contents.add({(number, "even" if number % 2 == 0 else None): 1 for number in range(size)})
    assert len(contents.entries) == size + 1
    assert len(list(index["even"])) == (size + 1) // 2
    assert None not in index
    contents.rollback()
    assert contents.entries == {(-1, "there"): 1}
    assert {key: list(pairs) for key, pairs in index.items()} == {"there": [((-1, "there"), 1)]}


def test_bulk_beside_rows_that_are_there_adds_up() -> None:
    contents = RowMap()
    contents.restore([((0,), 2), ((1,), 1)])
    contents.add({(number,): -1 if number == 1 else 1 for number in range(BULK_ROWS)})
    assert contents.entries == {(0,): 3} | {(number,): 1 for number in range(2, BULK_ROWS)}


def test_a_new_partition_is_told_of_also_when_it_changes_again() -> None:
    contents = RowMap()
    contents.restore([((0, 0), 1)])
    index = contents.index((0,))
    partition = {(1, number): 1 for number in range(BULK_ROWS)}
    contents.add(partition)
    assert {row: (old, new) for row, old, new in contents.touched()} == dict.fromkeys(partition, (None, 1))
    contents.add({(1, 0): -1, (1, 1): 1, (0, 0): 2})
    moved = partition | {(1, 1): 2, (0, 0): 2}
    del moved[1, 0]
    assert dict(contents.changes()) == moved
    assert ((1, 0), 1) not in index[1]
    assert ((1, 1), 2) in index[1]
    contents.rollback()
    assert contents.entries == {(0, 0): 1}
    assert list(index) == [0]
    assert list(contents.touched()) == []


def test_groups_that_are_filled_at_once_are_those_that_come_one_by_one() -> None:
    counts = Map("counts", (Field("k", STRING),), (RingField("n", BIGINT),))
    sums = {("a",): [2, 7], ("b",): [0, 3], ("c",): [-1, 0]}
    one, other = ring_map(counts), ring_map(counts)
    one.add(sums)
    for key, addend in sums.items():
        other.add({key: addend})
    assert list(one.touched()) == list(other.touched())
    one.add({("a",): [-2, -7]})
    assert one.entries == {("c",): (-1, 0)}
    assert one.changes() == [(("c", 0), -1)]


def test_index_forgets_keys_without_rows() -> None:
    index = HashIndex((0,))
    for row in [("a", 1), ("a", 2), ("b", 1)]:
        index.move(row, None, 1)
    index.move(("a", 1), 1, 0)
    index.move(("a", 2), 1, 0)
    index.move(("b", 1), 1, 0)
    assert index.pairs == {}


def test_key_of_weight_zero_starts_again_from_zero() -> None:
    groups = ring_map()
    groups.add({("a",): summed(2, 3, [0.1, 1e100], "1.50")})
    groups.add({("a",): summed(-2, -3, [-0.1], "-1.50")})
    assert groups.entries == {}
    groups.add({("a",): summed(1, 1, [0.5], "0.25")})
    assert groups.entries == {("a",): (1, 1, 0.5, 0.0, 0, Decimal("0.25"))}


def test_changes_are_in_the_columns_of_the_file() -> None:
    groups = ring_map()
    groups.add({("a",): summed(3, 2, [0.5, math.nan, math.inf], "1.50")})
    assert groups.changes() == [(("a", 2, 0.5, 0.0, 1, 1, 0, Decimal("1.50")), 3)]
    assert len(map_fields(GROUPS)) == len(groups.changes()[0][0])


NUMBERS = st.sampled_from([0.1, -3.0, 1e16, 1e-200, 1e200, -1e200, math.nan, math.inf, -math.inf])
STEPS = st.lists(st.tuples(st.integers(-2, 2), st.lists(NUMBERS, max_size=3)), max_size=8)


@given(STEPS)
def test_stored_changes_give_back_the_very_bits(steps: list[tuple[int, list[float]]]) -> None:
    groups, stored = ring_map(), []
    for weight, numbers in steps:
        groups.settle()
        groups.add({("a",): summed(weight, weight, numbers, "0.00")})
        stored += groups.changes()
    again = ring_map()
    again.restore(stored)
    assert repr(again.entries) == repr(groups.entries)
    assert not again.journal


@given(STEPS, STEPS)
def test_rollback_and_replace(first: Any, second: Any) -> None:
    groups = ring_map()
    for weight, numbers in first:
        groups.add({("a",): summed(weight, 1, numbers, "1.00"), ("b",): summed(1, 1, numbers, "1.00")})
    groups.settle()
    before = dict(groups.entries)
    for weight, numbers in second:
        groups.replace({("a",): summed(weight, 1, numbers, "2.00"), ("c",): summed(0, 0, [], "0.00")})
        assert groups.entries.keys() == ({("a",)} if weight else set())
    groups.rollback()
    assert groups.entries == before


def test_replace_by_the_same_touches_nothing() -> None:
    groups = ring_map()
    sums = {("a",): summed(1, 1, [0.5], "1.00")}
    groups.add(sums)
    groups.settle()
    groups.replace(sums)
    assert list(groups.touched()) == []
