"""Partitions in this process: after every epoch, also reopened, the rows are those of the evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.partitions import ABOVE, GROUPED, OWN, PLAIN, TABLES, Epochs, above, definitions, epochs, partitioned
from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.time_partitions import MOST_PARTITIONS, PartitionSlice, Subscript
from tidemill.changes.zset import WeightedRow, ZSet
from tidemill.compiler.passes import compile_view
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native import runtime_state
from tidemill.runtimes.native.operators import time_partitions
from tidemill.runtimes.native.operators.touched_groups import TouchedGroups


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), epochs(), st.sampled_from(ABOVE), st.sampled_from(("auto", "partition")), st.integers(0, 3))
@pytest.mark.parametrize(("few", "bodies"), [(0, GROUPED), (time_partitions.TOUCHED_FRACTION, PLAIN + OWN)])
def test_rows_are_those_of_the_evaluator(
    few: int, bodies: tuple[str, ...], data: st.DataObject, changes: Epochs, text: str, strategy: str, resident: int
) -> None:
    relation = above(data.draw(definitions(bodies)).node, text)
    program = compile_view("v", relation, TABLES, strategy)
    with (
        patch.object(runtime_state, "RESIDENT_ROWS", 4 * resident),
        patch.object(time_partitions, "TOUCHED_FRACTION", few),
    ):
        harness = Harness(program, TABLES)
        rows, tables = harness.load(), {name: ZSet() for name in TABLES}
        for number, epoch in enumerate(changes):
            tables |= {name: tables[name] + change for name, change in epoch.items()}
            rows = rows + harness.apply(epoch)
            assert rows == evaluate(relation, tables)
            if number % 2 == resident % 2:
                harness = Harness(program, TABLES, harness.store)


SUM = (
    "SELECT g, SUM(x) AS x FROM `s[i]` GROUP BY g",
    "SELECT g, SUM(x) AS x FROM (SELECT g, x FROM `v[i-1]` UNION ALL SELECT g, x FROM `s[i]` "
    "UNION ALL SELECT g, -x FROM `s[i-3]`) GROUP BY g",
)
SUM_LAYERS = (
    PartitionSlice("s", Subscript(), Subscript()),
    PartitionSlice("s", Subscript(-3), Subscript(-3)),
    PartitionSlice("v", Subscript(-1), Subscript(-1)),
)


def running_sum() -> Harness:
    """The sums of three partitions, each from the one before: what comes is added and what leaves is taken back."""
    harness = Harness(compile_view("v", partitioned(1, {"s": 1}, SUM_LAYERS, *SUM), TABLES), TABLES)
    harness.load()
    harness.apply({"s": ZSet.of([(n, 1, 1) for n in range(10)])})
    return harness


def test_a_late_row_touches_what_reads_it_and_nothing_else() -> None:
    harness = running_sum()
    made: list[int] = []
    make = time_partitions.PartitionRecomputation.make_one

    def noted(making: time_partitions.PartitionRecomputation, number: int) -> bool:
        made.append(number)
        return make(making, number)

    with patch.object(time_partitions.PartitionRecomputation, "make_one", noted):
        change = harness.apply({"s": ZSet.of([(5, 1, 10)])})
    assert made == [5, 6, 7, 8]
    assert change == ZSet({(n, 1, x): w for n in (5, 6, 7) for x, w in ((3, -1), (13, 1))})


def test_rows_impossibly_far_apart_are_refused_and_change_nothing() -> None:
    harness = running_sum()
    with pytest.raises(ArithmeticFault, match="most are empty"):
        harness.apply({"s": ZSet.of([(10 + MOST_PARTITIONS, 1, 1)])})
    assert harness.apply({"s": ZSet.of([(10, 1, 4)])}) == ZSet({(10, 1, 6): 1})


def test_a_gap_is_filled_with_partitions() -> None:
    harness = running_sum()
    assert harness.apply({"s": ZSet.of([(13, 1, 5)])}) == ZSet(
        {(10, 1, 2): 1, (11, 1, 1): 1, (12, 1, 0): 1, (13, 1, 5): 1}
    )


def test_first_and_last_partition_move() -> None:
    harness = running_sum()
    assert harness.apply({"s": ZSet({(0, 1, 1): -1, (9, 1, 1): -1})}) == ZSet(
        {(0, 1, 1): -1, (1, 1, 2): -1, (1, 1, 1): 1, (2, 1, 3): -1, (2, 1, 2): 1, (9, 1, 3): -1}
    )


def test_a_late_row_looks_at_its_group_alone() -> None:
    harness = running_sum()
    harness.apply({"s": ZSet.of([(n, g, g) for n in range(10) for g in range(2, 40)])})
    seen: list[int] = []
    of_slice = TouchedGroups.of_slice

    def noted(touched: TouchedGroups, name: str, rows: Iterable[WeightedRow]) -> Iterator[WeightedRow]:
        found = list(of_slice(touched, name, rows))
        seen.append(len(found))
        return iter(found)

    with patch.object(TouchedGroups, "of_slice", noted):
        change = harness.apply({"s": ZSet.of([(5, 7, 100)])})
    assert change == ZSet({(n, 7, x): w for n in (5, 6, 7) for x, w in ((21, -1), (121, 1))})
    # Of four partitions three slices each, and of the feed's eight each is searched first.
    assert max(seen) == 2 and len(seen) == 20
