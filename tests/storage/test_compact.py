"""Compaction: the same sums in fewer rows, and only when it pays."""

from __future__ import annotations

import math
import random
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.samples import PEOPLE, TOTAL_FIELDS, TOTALS, commit, contents, files, totals
from tidemill.changes.arrow import from_arrow, to_arrow
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.types import BIGINT, DOUBLE, STRING, Field
from tidemill.program.maps import Map, RingField
from tidemill.storage.compaction.cancelling import without_pairs
from tidemill.storage.compaction.consolidate import MERGE_AT, choose_runs, consolidate, difference, sum_pairs
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import COMPACT_AT, MemoryStore
from tidemill.storage.runs import RunEntry
from tidemill.storage.segments import LARGE_CHANGE, with_epoch


def run(rows: int, first: int, last: int | None = None, retracted: int = 0, ended: int | None = None) -> RunEntry:
    last = first if last is None else last
    return RunEntry(f"{rows}-{first}-{last}", rows, rows, 0, first, last, retracted, ended)


def test_few_runs_are_left_alone() -> None:
    assert choose_runs([run(100, n) for n in range(1, MERGE_AT)], oldest=0) == ()


def test_many_small_runs_are_merged_and_the_large_one_is_not() -> None:
    small = [run(1, n) for n in range(2, MERGE_AT + 2)]
    assert choose_runs([run(10**6, 1), *small], oldest=0) == tuple(small)


def test_small_runs_that_outgrow_the_large_one_are_merged_with_it() -> None:
    runs = [run(1000, 1), *(run(100, n) for n in range(2, MERGE_AT + 2))]
    assert set(choose_runs(runs, oldest=0)) == set(runs)


def test_runs_beyond_time_travel_are_merged_sooner() -> None:
    assert set(choose_runs([run(100, 1), run(100, 2), run(100, 9)], oldest=2)) == {run(100, 1), run(100, 2)}


def test_retractions_beyond_time_travel_make_a_merge_worth_while() -> None:
    runs = [run(1000, 1), run(400, 2, retracted=400)]
    assert set(choose_runs(runs, oldest=2)) == set(runs)
    assert choose_runs(runs, oldest=1) == ()


def test_a_run_of_many_old_epochs_is_summed_once() -> None:
    assert choose_runs([run(100, 1, 50)], oldest=40) == (run(100, 1, 50),)
    assert choose_runs([run(100, 1, 50)], oldest=10) == ()
    assert choose_runs([run(100, 40), run(10, 41, 50)], oldest=40) == ()


def test_a_bound_leaves_the_largest_runs_alone() -> None:
    runs = [run(100, n) for n in range(1, 3 * MERGE_AT)]
    assert choose_runs(runs, oldest=0, most=100 * MERGE_AT) == tuple(runs[:MERGE_AT])
    assert choose_runs(runs, oldest=0, most=100 * MERGE_AT - 1) == ()
    small = [run(1, n) for n in range(50, 50 + MERGE_AT)]
    assert choose_runs([*runs, *small], oldest=0, most=99) == tuple(small)


def test_ended_runs_are_not_touched() -> None:
    assert choose_runs([run(1, n, ended=99) for n in range(20)], oldest=50) == ()


def test_rewriting_stays_logarithmic() -> None:
    """A thousand single-row epochs, compacted whenever it pays: each row is written a few times, not hundreds."""
    runs, rewritten, most = [], 0, 0
    for epoch in range(1, 1001):
        runs.append(run(1, epoch))
        chosen = choose_runs(runs, oldest=0)
        if chosen:
            rows = sum(r.rows for r in chosen)
            rewritten += rows
            runs = [r for r in runs if r not in chosen]
            runs.append(run(rows, min(r.first for r in chosen), max(r.last for r in chosen)))
        most = max(most, len(runs))
    assert rewritten < 1000 * 12
    assert most < 4 * MERGE_AT


KEYS = (
    Field("b", t.BOOLEAN),
    Field("i", t.INT),
    Field("d", t.Decimal(12, 2)),
    Field("f", DOUBLE),
    Field("s", STRING),
    Field("a", t.Array(t.Struct((Field("x", BIGINT), Field("y", STRING))))),
    Field("r", t.Struct((Field("x", BIGINT), Field("y", t.Array(STRING))))),
    Field("v", t.VOID),
)

ROWS = st.tuples(
    st.sampled_from([None, True, False]),
    st.sampled_from([None, 0, -1]),
    st.sampled_from([None, Decimal("1.50"), Decimal("-2.00")]),
    st.sampled_from([None, 0.0, float("inf"), 1.5]),
    st.sampled_from([None, "", "ä"]),
    st.sampled_from([None, (), ((1, "x"), None), ((1, None),)]),
    st.sampled_from([None, (1, ("p", None)), (None, None)]),
    st.none(),
)


@given(st.lists(st.tuples(ROWS, st.sampled_from([-1, 1, 2]), st.integers(1, 4))), st.integers(0, 4))
def test_relations_with_keys_of_every_type(rows: list[tuple[tuple[object, ...], int, int]], oldest: int) -> None:
    tables = [with_epoch(to_arrow([(row, weight)], KEYS), epoch) for row, weight, epoch in rows]
    if not tables:
        return
    folded = [table for table, _, _ in consolidate(pa.concat_tables(tables), Map("m", KEYS), oldest, whole=True)]
    for until in range(oldest, 5):
        expected = ZSet.summed((row, weight) for row, weight, epoch in rows if epoch <= until)
        assert _until(folded, until) == expected
    for table in folded:
        marked = [row for row, _ in from_arrow(table, (*KEYS, Field("_epoch", BIGINT)))]
        assert len(set(marked)) == len(marked)
        assert 0 not in table.column("_weight").to_pylist()


def _until(tables: list[pa.Table], until: int) -> ZSet:
    marked = (*KEYS, Field("_epoch", BIGINT))
    pairs = [pair for table in tables for pair in from_arrow(table, marked)]
    return ZSet.summed((row[:-1], weight) for row, weight in pairs if row[-1] <= until)


RING = Map("ring", (Field("k", STRING),), (RingField("n", BIGINT), RingField("d", t.Decimal(38, 2))))


def ring(*rows: tuple[str, int, str, int, int]) -> pa.Table:
    fields = (Field("k", STRING), Field("n", BIGINT), Field("d", t.Decimal(38, 2)))
    return pa.concat_tables(
        [with_epoch(to_arrow([((key, n, Decimal(d)), weight)], fields), epoch) for key, n, d, weight, epoch in rows]
    )


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("leaving", [0, 1])
def test_rows_that_only_come_are_summed_where_they_repeat(copies: int, leaving: int) -> None:
    rows = [((n, None if n % 7 else "x"), 1) for n in range(10_000) for _ in range(copies)]
    table = to_arrow([*rows, *[((n, None if n % 7 else "x"), -1) for n in range(leaving)]], PEOPLE.keys)
    ((found, first, last),) = consolidate(with_epoch(table, 3), PEOPLE, 5, whole=True, ordered=False)
    expected = ZSet.summed([*rows, *(((n, None if n % 7 else "x"), -1) for n in range(leaving))])
    assert ZSet.summed(from_arrow(found, PEOPLE.keys)) == expected
    assert (found.num_rows, first, last) == (len(expected), 5, 5)


def test_an_update_that_leaves_the_weight_alone_is_kept() -> None:
    rows = ring(("a", 5, "1.10", 0, 2), ("b", 1, "1.00", 0, 2), ("b", -1, "-1.00", 0, 2))
    [(table, first, last)] = consolidate(rows, RING, 0, whole=False)
    assert (first, last) == (2, 2)
    assert table.to_pylist() == [{"k": "a", "n": 5, "d": Decimal("1.10"), "_weight": 0, "_epoch": 2}]


def test_a_key_of_weight_zero_leaves_the_whole_map() -> None:
    rows = ring(("a", 5, "1.10", 1, 1), ("a", -5, "-1.09", -1, 2), ("a", 7, "0.00", 1, 3))
    folded = consolidate(rows, RING, 2, whole=True)
    assert [table.to_pylist() for table, _, _ in folded] == [
        [{"k": "a", "n": 7, "d": Decimal("0.00"), "_weight": 1, "_epoch": 3}]
    ]
    assert len(consolidate(rows, RING, 2, whole=False)) == 2


def test_after_the_line_an_update_is_kept_even_in_the_whole_map() -> None:
    folded = consolidate(ring(("a", 5, "1.10", 1, 1), ("a", 2, "0.00", 0, 3)), RING, 2, whole=True)
    assert [table.column("n").to_pylist() for table, _, _ in folded] == [[5], [2]]


def test_a_partial_merge_keeps_values_without_weight(tmp_path: Path) -> None:
    """Two small runs merge beside a large one that they belong to: their weights cancel, their sums do not."""
    with FolderStore.open(tmp_path) as store:
        store.commit(Epoch(1, {"totals": totals(*((f"k{n}", 5, 10, 0.0) for n in range(20_000)))}))
        for number, entry in enumerate([("k1", 1, 3, 0.0), ("k1", -1, -1, 0.0)], start=2):
            store.commit(Epoch(number, {"totals": totals(entry)}))
            store.checkpoint()
        store.vacuum(keep=1)
        store.compact({"totals": TOTALS})
        assert sorted(run.rows for run in store.runs("totals")) == [1, 20_000]
        entries = store.read("totals", TOTAL_FIELDS).to_pylist()
        assert sum(entry["n"] for entry in entries if entry["name"] == "k1") == 12


def test_double_doubles_sum_as_if_exactly() -> None:
    random.seed(7)
    lengths = [1, 2, 3, 7, 1000]
    groups = [[random.uniform(-1, 1) * 10.0 ** random.randint(-8, 8) for _ in range(length)] for length in lengths]
    starts = np.cumsum([0, *lengths[:-1]])
    flat = np.array([x for group in groups for x in group])
    high, low = sum_pairs(flat.copy(), np.zeros(len(flat)), starts)
    for group, h, lo in zip(groups, high, low, strict=True):
        terms = [Fraction(term) for term in group]
        error = abs(Fraction(float(h)) + Fraction(float(lo)) - sum(terms))
        assert error <= Fraction(2) ** -90 * sum(map(abs, terms))


def test_compacted_files_are_sorted_and_old_ones_stay_until_vacuum(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        for number in range(1, MERGE_AT + 1):
            commit(store, number, [((-number, "x"), 1)])
            store.checkpoint()
        assert store.compaction_due("people")
        assert store.compact({"people": PEOPLE}) > 0
        assert not store.compaction_due("people")
        assert len(store.runs("people")) == 1
        assert len(files(tmp_path)) == MERGE_AT + 1
        ids = store.read("people", PEOPLE.keys).column("id").to_pylist()
        assert ids == sorted(ids)
        assert store.vacuum(keep=100) > 0
        assert len(files(tmp_path)) == 1
        assert contents(store, until=3) == ZSet({(-n, "x"): 1 for n in (1, 2, 3)})


def test_a_map_dropped_during_its_compaction_stays_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FolderStore.open(tmp_path) as store:
        for number in range(1, MERGE_AT + 1):
            commit(store, number, [((number, "x"), 1)])
            store.checkpoint()
        drop = lambda point: point == "during-compaction" and commit(store, MERGE_AT + 1, [], dropped=("people",))  # noqa: E731
        monkeypatch.setattr("tidemill.storage.folder_store.fault", drop)
        assert store.compact({"people": PEOPLE}) == 0
        assert store.runs("people") == ()
        store.vacuum(keep=1)
        assert files(tmp_path) == []


def test_a_bulk_load_alone_is_not_summed_again() -> None:
    """Small changes after a load must not pay for summing rows of which each came once."""
    fields = (Field("n", BIGINT),)
    store = MemoryStore()
    store.commit(Epoch(1, {"t": ChangeSet.of([((n,), 1) for n in range(3 * COMPACT_AT)], fields)}))
    for number in range(2, 100):
        store.commit(Epoch(number, {"t": ChangeSet.of([((number,), -1)], fields)}))
        store.read("t", fields)
        assert not store.compaction_due("t")
    store.commit(Epoch(100, {"t": ChangeSet.of([((n,), -1) for n in range(100, 3 * COMPACT_AT)], fields)}))
    store.commit(Epoch(101, {"t": ChangeSet.of([((n,), 1) for n in range(200)], fields)}))
    assert store.compaction_due("t")


def test_large_changes_are_not_copied_while_no_epoch_can_be_summed() -> None:
    fields, rows = (Field("n", BIGINT),), 2 * LARGE_CHANGE
    maps = {"t": Map("t", fields)}
    store = MemoryStore()
    for number in range(1, 100):
        first = number * rows
        store.commit(Epoch(number, {"t": ChangeSet.of([((first + n,), 1) for n in range(rows)], fields)}))
        assert not store.compaction_due("t", 10**9)
    store.vacuum(keep=10)
    assert store.compaction_due("t", 10**9)
    store.compact(maps, most=10**9)
    assert not store.compaction_due("t", 10**9)
    assert store.read("t", fields).num_rows == 99 * rows


WIDE = (Field("name", STRING), Field("x", DOUBLE), Field("tags", t.Array(t.INT)))
WIDE_ROWS = st.tuples(
    st.sampled_from([None, "ann", "bob"]),
    st.sampled_from([None, 0.5, math.nan]),
    st.sampled_from([None, (), (1, None)]),
)
WEIGHTED = st.lists(st.tuples(WIDE_ROWS, st.integers(-2, 3).filter(bool)), max_size=8)


@given(WEIGHTED, WEIGHTED)
def test_the_difference_leads_from_the_old_rows_to_the_new(
    old: list[tuple[tuple[object, ...], int]], new: list[tuple[tuple[object, ...], int]]
) -> None:
    changed = difference(to_arrow(old, WIDE), to_arrow(new, WIDE), Map("v", WIDE))
    assert changed.schema == to_arrow(new, WIDE).schema
    assert len({repr(row) for row, _ in from_arrow(changed, WIDE)}) == changed.num_rows
    assert ZSet.summed([*old, *from_arrow(changed, WIDE)]) == ZSet.summed(new)


NARROW = (Field("id", t.INT), Field("day", t.DATE), Field("name", STRING), Field("x", DOUBLE), Field("flag", t.BOOLEAN))
NARROW_ROWS = st.tuples(
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, date(2020, 1, 1)]),
    st.sampled_from([None, "ann", "bob"]),
    st.sampled_from([None, 0.0, math.nan]),
    st.sampled_from([None, True]),
)


@given(st.lists(st.tuples(NARROW_ROWS, st.sampled_from([-2, -1, 1, 2])), max_size=12))
def test_pairs_that_cancel_are_equal(rows: list[tuple[tuple[object, ...], int]]) -> None:
    left = without_pairs(to_arrow(rows, NARROW).combine_chunks())
    assert ZSet.summed(from_arrow(left, NARROW)) == ZSet.summed(rows)


def test_zeros_of_both_signs_are_two_values() -> None:
    rows = pa.table({"id": [1, 1], "x": [0.0, -0.0], "_weight": [1, -1]})
    assert without_pairs(rows).num_rows == 2


def test_rewritten_rows_cancel_without_being_summed() -> None:
    rows = [((id, None, f"n{id}", 0.5, True), weight) for id in range(50) for weight in (1, -1)]
    assert without_pairs(to_arrow(rows, NARROW).combine_chunks()).num_rows == 0
