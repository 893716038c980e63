"""Maps as a whole: all types in and out, faults that change nothing, and memory that is counted and given back."""

from __future__ import annotations

import ctypes
import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtimes.native.llvm.map_harness import Lab, Shape
from tidemill.algebra.functions.datetime.time_windows import WINDOW
from tidemill.changes.arrow import NAN, canonical_double, from_arrow, to_arrow
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Field
from tidemill.program.maps import Map, RingField, map_fields
from tidemill.runtimes.native.llvm.codegen.layout import Status
from tidemill.runtimes.native.state import double_sums

NESTED = t.Struct((Field("x", t.INT), Field("y", t.Array(t.STRING))))

ALL_TYPES: dict[t.Type, st.SearchStrategy[Any]] = {
    t.BOOLEAN: st.booleans(),
    t.INT: st.integers(-(2**31), 2**31 - 1),
    t.BIGINT: st.integers(-(2**63), 2**63 - 1),
    t.Decimal(18, 4): st.decimals(-(10**13), 10**13, places=4),
    t.Decimal(38, 2): st.decimals(-(10**35), 10**35, places=2),
    t.DOUBLE: st.floats(width=64).map(canonical_double),
    t.STRING: st.text(max_size=5),
    t.DATE: st.dates(),
    t.TIMESTAMP: st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)),
    t.Array(t.INT): st.lists(st.integers(0, 9) | st.none(), max_size=3).map(tuple),
    WINDOW: st.tuples(*[st.datetimes(datetime.datetime.min, datetime.datetime.max) | st.none()] * 2),
    NESTED: st.tuples(st.integers(0, 9), st.lists(st.sampled_from("ab"), max_size=2).map(tuple)),
}

WIDE = Shape(Map("wide", tuple(Field(f"k{i}", type_) for i, type_ in enumerate(ALL_TYPES))))
COUNTED = Shape(
    Map(
        "counted", (Field("k", t.BIGINT, nullable=False),), (RingField("n", t.BIGINT), RingField("d", t.Decimal(38, 3)))
    )
)
ORDERED = Shape(COUNTED.map, orders=(((), "k"),), guarded=("n",))
SUMMED = Shape(Map("summed", (Field("k", t.INT, nullable=False),), (RingField("x", t.DOUBLE),)))


@given(st.lists(st.tuples(*(some | st.none() for some in ALL_TYPES.values())), max_size=8))
@settings(max_examples=60, deadline=None)
def test_keys_of_every_type_come_back(rows: list[tuple[Any, ...]]) -> None:
    lab = Lab(WIDE)
    expected: dict[tuple[Any, ...], int] = {}
    for row in rows:
        expected[row] = expected.get(row, 0) + 1
    lab.native.restore(to_arrow([(row, 1) for row in rows], map_fields(WIDE.map)))
    assert dict(from_arrow(lab.native.entries(), map_fields(WIDE.map))) == expected


def test_a_weight_that_overflows_changes_nothing() -> None:
    lab = Lab(COUNTED)
    assert lab.add((1,), 2**63 - 1, [5, 0]) == Status.OK
    assert lab.add((1,), 1, [5, 0]) == Status.WEIGHT_OVERFLOW
    assert lab.find((1,)) == (2**63 - 1, 5, 0)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_overflows_changes_nothing(sign: int) -> None:
    lab = Lab(COUNTED)
    assert lab.add((1,), 1, [sign * (2**127 - 1), 0]) == Status.OK
    assert lab.add((1,), 1, [sign * 2, 0]) == Status.VALUE_OVERFLOW
    assert lab.find((1,)) == (1, sign * (2**127 - 1), 0)


def test_sums_of_an_order_may_overflow_and_are_rolled_back() -> None:
    lab = Lab(ORDERED)
    assert lab.add((1,), 1, [7, 0]) == Status.OK
    lab.native.settle()
    huge = 2**116
    statuses = [lab.add((key,), 1, [huge, 0]) for key in range(2, 40)]
    assert Status.VALUE_OVERFLOW in statuses
    lab.native.rollback()
    assert len(lab.native) == 1
    assert lab.sum_range(((), "k"), [], None, None) == (1, 7, 0)


def test_sums_that_do_not_fit_their_type_are_faults_when_they_are_stored() -> None:
    lab = Lab(COUNTED)
    lab.add((1,), 1, [2**63, 0])
    with pytest.raises(ArithmeticFault, match="does not fit BIGINT"):
        lab.native.changes()
    ((_, _, entry),) = lab.native.touched()
    assert entry[1] == 2**63  # finish expressions still see it
    lab.add((1,), 1, [-1, 10**38])
    with pytest.raises(ArithmeticFault, match="DECIMAL"):
        lab.native.changes()
    lab.add((1,), 1, [0, -1])
    assert lab.native.changes().arrow().column("d").to_pylist() == [Decimal("99999999999999999999999999999999999.999")]


def test_a_change_too_large_for_its_type_is_stored_as_two_rows() -> None:
    lab = Lab(COUNTED)
    lab.add((1,), 1, [-(2**62) * 2 + 1, 0])
    lab.native.settle()
    lab.add((1,), 1, [2**64 - 2, 0])
    rows = lab.native.changes().pairs()
    assert [(row[1], weight) for row, weight in rows] == [(2**63 - 1, -1), (2**63 - 1, 2)]


def test_a_budget_is_kept_and_what_failed_can_be_rolled_back() -> None:
    lab = Lab(ORDERED, budget=60_000)
    statuses = [lab.add((key,), 1, [1, 1]) for key in range(2000)]
    assert set(statuses) == {Status.OK, Status.BUDGET}
    assert lab.memory.used <= 60_000
    kept = statuses.count(Status.OK)
    assert len(lab.native) == kept
    assert lab.sum_range(((), "k"), [], None, None)[0] == kept
    lab.native.rollback()
    assert len(lab.native) == 0
    assert lab.sum_range(((), "k"), [], None, None) == (0, 0, 0)
    assert lab.add((1,), 1, [1, 1]) == Status.OK


def test_memory_is_given_back() -> None:
    lab = Lab(ORDERED)
    for key in range(5000):
        lab.add((key,), 1, [1, 1])
    assert lab.memory.used >= lab.native.bytes - 1000 > 5000 * 40
    lab.native.free()
    assert lab.memory.used == 0


def test_stamps_begin_anew_after_two_thousand_million_epochs() -> None:
    lab = Lab(COUNTED)
    lab.add((1,), 1, [1, 0])
    lab.native.settle()
    place = lab.code.changing.handle.offset("epoch")
    epoch = ctypes.c_int32.from_address(lab.native.address + place)
    lab.add((1,), 1, [1, 0])  # an entry stamped with epoch 2, which will come again
    lab.native.settle()
    epoch.value = 2**31 - 1
    for number in (1, 2):
        lab.add((2,), 1, [1, 0])  # an epoch that touches nothing is not counted
        lab.native.settle()
        assert epoch.value == number
    lab.add((1,), 1, [1, 0])
    assert [(old, new) for _, old, new in lab.native.touched()] == [((2, 2, 0), (3, 3, 0))]


FLOATS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
TERMS = st.tuples(
    st.integers(0, 3), FLOATS | st.sampled_from([NAN, math.inf, -math.inf, 1e16, 0.1]), st.integers(-3, 3)
)


@given(st.lists(st.lists(TERMS, max_size=12), max_size=4))
@settings(max_examples=150, deadline=None)
def test_sums_of_double_are_those_of_the_python_runtime(epochs: list[list[tuple[int, float, int]]]) -> None:
    """To the last bit of what is seen; stored changes give back the very same entries, here and there."""
    lab = Lab(SUMMED)
    model: dict[int, tuple[int, double_sums.DoubleSumState]] = {}
    stored: list[tuple[Any, int]] = []
    for terms in epochs:
        for key, term, weight in terms:
            lab.add((key,), weight, [canonical_double(term)])
            held, parts = model.get(key, (0, double_sums.ZERO))
            model[key] = (
                held + weight,
                double_sums.plus(*parts, [], [(canonical_double(term), weight)] if weight else []),
            )
        model = {key: entry for key, entry in model.items() if entry[0]}
        stored += lab.native.changes().pairs()
        lab.native.settle()
    found = {row[0]: (weight, row[1:]) for row, weight in from_arrow(lab.native.entries(), map_fields(SUMMED.map))}
    assert found.keys() == model.keys()
    for key, (weight, (high, _, special)) in model.items():
        assert found[key][0] == weight
        assert double_sums.pack(*found[key][1][2:]) == special
        assert math.isclose(found[key][1][0], high, rel_tol=1e-15, abs_tol=1e-15)
    again = Lab(SUMMED)
    again.native.restore(to_arrow(stored, map_fields(SUMMED.map)))
    assert again.native.entries().sort_by("k") == lab.native.entries().sort_by("k")
    for key in found:
        parts = double_sums.ZERO
        for row, _ in stored:
            if row[0] == key:
                parts = double_sums.combine(parts, (row[1], row[2], double_sums.pack(*row[3:])))
        assert (parts[0], parts[1], *double_sums.unpack(parts[2])) == found[key][1]
