"""Tasks that check parts of a change let pass, sum and refuse the same as one process that checks all of it."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tidemill
from tidemill.changes.arrow import canonical_double
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.errors import DuplicateKey, MissingRow, StorageError
from tidemill.model.schema import Table, names_of
from tidemill.model.types import Field
from tidemill.runtimes.spark import bulk_check
from tidemill.runtimes.spark.lookup.key_check import check_in_driver, smallest_weight
from tidemill.runtimes.spark.tasks import checked_parts
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.runs import rows_between
from tidemill.storage.store import Store

NAN = canonical_double(math.nan)
VALUES = (Field("place", t.STRING), Field("weight_sum", t.DOUBLE))  # users may choose any names
BY_NUMBER = Table("t", (Field("id", t.INT), *VALUES), primary_key=("id",))
BY_BOTH = Table("t", (Field("id", t.INT), *VALUES), primary_key=("place", "id"))
ROWS = st.tuples(st.integers(-4, 5), st.sampled_from(["a", "b"]), st.sampled_from([0.0, 1.5, NAN, None]))
PAIRS = st.lists(st.tuples(ROWS, st.sampled_from([-1, -1, 1, 1, 2])), max_size=14)
Pairs = list[tuple[Row, int]]


def store_of(table: Table, pairs: Pairs) -> MemoryStore:
    """A store with rows of which some were corrected later: it has several runs."""
    store = MemoryStore()
    held = ZSet.summed(pair for pair in pairs if pair[1] > 0)
    first = {tuple(row[i] for i in table.key_positions): row for row in held}
    store.commit(Epoch(1, {"t": ChangeSet.of([(row, 1) for row in first.values()], table.fields)}))
    moved = list(first.values())[::2]
    corrected = [pair for row in moved for pair in ((row, -1), ((*row[:2], 7.0), 1))]
    store.commit(Epoch(2, {"t": ChangeSet.of(corrected, table.fields)}))
    return store


def checked(store: Store, table: Table, change: ChangeSet, parts: int = 3) -> ChangeSet | None:
    """The check of a change by tasks, which run here; each is tried twice, as Spark may do."""
    with bulk_check._handed_over(store, {"t": (table, change)}, 3, parts) as handed:
        work = pickle.loads(pickle.dumps(handed["t"]))
        for part in range(parts):
            checked_parts.check_part(work, part, parts, 1_000)
        answers = [checked_parts.check_part(work, part, parts, 1_000) for part in range(parts)]
    assert not list(work.folder.glob("*.arrow"))
    return bulk_check.CheckedTables(handed, answers).change(table)


def verdict(check: Callable[[], ChangeSet | None]) -> ZSet | str:
    try:
        found = check()
    except (DuplicateKey, MissingRow) as refused:
        return str(refused)
    assert found is not None and len(found.zset()) == found.rows == len(found.arrow())
    return found.zset()


@settings(max_examples=60)
@given(table=st.sampled_from([BY_NUMBER, BY_BOTH]), stored=PAIRS, change=PAIRS, keep=st.booleans())
def test_the_verdict_is_that_of_one_process(table: Table, stored: Pairs, change: Pairs, keep: bool) -> None:
    store = store_of(table, stored)
    held = ChangeSet.of_arrow(
        store.read("t", table.fields).select([*names_of(table.fields), "_weight"]), table.fields
    ).zset()
    if keep:  # most random deletions are of rows that are not there
        change = [*((row, -1) for row in list(held)[::2]), *(pair for pair in change if pair[1] > 0)]
    assume(change)
    rows = ChangeSet.of(change, table.fields)
    assert verdict(lambda: checked(store, table, rows)) == verdict(lambda: check_in_driver(table, rows, held))
    store.close()


def test_parts_are_ranges_of_keys_that_later_tasks_read_alone() -> None:
    store = MemoryStore()
    rows = [((i * 7919 % 1000, "a", None), 1) for i in range(1_000)]
    found = checked(store, BY_NUMBER, ChangeSet.of(rows, BY_NUMBER.fields), parts=4)
    assert found is not None and found.files is not None and len(found.files) == 4
    schema = pa.schema([("id", pa.int32())])
    for first, last in ((0, 1_000), (240, 510)):
        some = pa.concat_tables(rows_between(found.files, schema, first, last))
        assert some.column("id").to_pylist() == list(range(first, last))
    store.close()


def test_files_that_are_not_where_they_were_written_are_missed() -> None:
    """As on machines that do not share the disk of the warehouse."""
    store = MemoryStore()
    change = ChangeSet.of([((i, "a", None), 1) for i in range(10)], BY_NUMBER.fields)
    with bulk_check._handed_over(store, {"t": (BY_NUMBER, change)}, 1, 2) as handed:
        answers = [checked_parts.check_part(handed["t"], part, 2, 10) for part in range(2)]
    (handed["t"].folder / pickle.loads(answers[1].file)).unlink()
    with pytest.raises(StorageError, match='Spark wrote 10 rows of "t", and 5 of them are here'):
        bulk_check.CheckedTables(handed, answers).change(BY_NUMBER)
    lost = [checked_parts.check_part(handed["t"], part, 2, 10) for part in range(2)]
    with pytest.raises(StorageError, match=r"Spark's tasks do not find change\.arrow"):
        bulk_check.CheckedTables(handed, lost).change(BY_NUMBER)
    store.close()


def test_of_rows_that_cancel_nothing_is_left() -> None:
    row = (1, "a", 1.5)
    change = ChangeSet.of([(row, 1), (row, -1)], BY_NUMBER.fields)
    found = checked(MemoryStore(), BY_NUMBER, change)
    assert found is not None and not found.rows and smallest_weight(found) == 1


def test_many_rows_in_doubt_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_check, "COLLECT_ROWS", 3)
    store = MemoryStore()
    rows = [((i, "a", None), 2) for i in range(10)]
    assert checked(store, BY_NUMBER, ChangeSet.of(rows, BY_NUMBER.fields)) is None
    store.close()


def test_rows_that_are_in_files_are_checked_there(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    store = MemoryStore()
    change = ChangeSet.of([((i, "a", None), 1) for i in range(10)], BY_NUMBER.fields)
    pq.write_table(change.arrow(), tmp_path / "rows.parquet")
    found = checked(store, BY_NUMBER, ChangeSet.of_files([tmp_path / "rows.parquet"], BY_NUMBER.fields, 10))
    assert found is not None and found.zset() == change.zset()
    assert (tmp_path / "rows.parquet").exists()
    store.close()


def test_what_a_killed_driver_has_handed_over_is_removed(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        wh.apply({"t": [(+1, (1,))]})
    left = tmp_path / "w" / "staging" / "0123-abc"
    left.mkdir(parents=True)
    (left / "change.arrow").write_bytes(b"rows")
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.compact()
        assert wh.table("t").rows() == [(1,)]
    assert not left.exists()
