"""Tables without a primary key as counted rows: deletions that are right are taken, and never anything else."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidemill
from tests.runtimes.native.llvm.table_contents import TableContents
from tidemill.changes.arrow import to_arrow
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.hashing import hash_rows
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.errors import DataError, MissingRow
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.integrity import SAFE_WEIGHT, check_change
from tidemill.runtimes.native import backends
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.table import counted_rows
from tidemill.runtimes.native.llvm.table.counted_rows import CountedRows
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.storage.memory_store import MemoryStore

FIELDS = (
    Field("n", t.BIGINT),
    Field("name", t.STRING),
    Field("price", t.DOUBLE),
    Field("cost", t.Decimal(20, 2)),
)
TABLE = Table("events", FIELDS)


def table_over(contents: TableContents, memory: Memory) -> CountedRows:
    return CountedRows(TABLE, contents, memory, StringDictionary(memory), set())


class Model:
    """The rows of the table, held as plainly as can be."""

    def __init__(self) -> None:
        self.rows = ZSet()
        self.memory = Memory(None)
        self.contents = TableContents(self.read)
        self.table = table_over(self.contents, self.memory)
        self.unused = self.memory.used

    def read(self) -> ChangeSet:
        """As a store would: some rows have come and gone."""
        gone = (9, "x", 0.5, None)
        return change_of([(gone, -1), *self.rows.items(), (gone, 1)])

    def accepts(self, net: ZSet) -> bool:
        try:
            check_change(TABLE, net, self.rows.weight, lambda key: ())
        except DataError:
            return False
        return True


def change_of(pairs: list[tuple[Row, int]]) -> ChangeSet:
    return ChangeSet.of_arrow(to_arrow(pairs, FIELDS), FIELDS)


def random_row(draw: random.Random) -> Row:
    values = (None, 0, 1), (None, "", "a"), (None, 0.0, math.nan), (None, Decimal(0), Decimal("1.50"))
    return tuple(draw.choice(choices) for choices in values)


def random_change(draw: random.Random, held: ZSet) -> list[tuple[Row, int]]:
    """Mostly deletions of rows that are there; some rows come twice, or come and go."""
    pairs: list[tuple[Row, int]] = []
    for _ in range(draw.choice((1, 2, 3, 6))):
        old = draw.choice(list(held)) if held and draw.random() < 0.9 else random_row(draw)
        pairs.append((old, -1) if draw.random() < 0.5 else (random_row(draw), draw.choice((1, 1, 2))))
    draw.shuffle(pairs)
    return pairs


@pytest.mark.parametrize("seed", range(5))
def test_takes_what_is_right_sums_it_and_refuses_all_else(seed: int) -> None:
    """Epochs are committed, undone and missed; rows are given back and read again."""
    draw, model = random.Random(seed), Model()
    taken = refused = 0
    for _ in range(300):
        pairs = random_change(draw, model.rows)
        net, fate = ZSet.summed(pairs), draw.random()
        accepts = model.accepts(net)
        if fate < 0.2 and accepts:  # an epoch that others check
            model.contents.missed = change_of(pairs) if draw.random() < 0.7 else None
            model.table.settle()
            model.table.pause()
            model.rows.update_by(net)
            found = model.table.take(change_of([]))
            assert found is not None
            model.table.settle()
            continue
        found = model.table.take(change_of(pairs))
        assert (found is not None) == accepts, f"{pairs} for {model.rows}"
        taken, refused = taken + accepts, refused + (not accepts)
        if found is not None:
            assert found.zset() == net and len(found) == len(net)
        if fate < 0.4 or not accepts:
            model.table.rollback()
        else:
            model.rows.update_by(net)
            model.table.settle()
        if fate > 0.9:
            model.table.free()
            assert not model.table.ready and model.memory.used == model.unused
    assert taken > 50 and refused > 20


def test_different_rows_with_one_hash_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that brings them is not taken; a table that has them is not read again and again."""
    monkeypatch.setattr(counted_rows, "hash_rows", lambda columns: np.zeros(len(columns[0]), np.uint64))
    one, two = (1, "a", 0.5, None), (2, "a", 0.5, None)
    reads: list[int] = []
    rows = [(one, 1)]
    table = table_over(TableContents(lambda: reads.append(1) or change_of(rows)), Memory(None))
    assert table.take(change_of([(two, 1), (one, -1)])) is None
    assert table.take(change_of([(two, -1)])) is None
    assert table.take(change_of([(one, -1)])) is not None and len(reads) == 1
    table.free()
    rows.append((two, 1))
    assert [table.take(change_of([(one, -1)])) for _ in range(3)] == [None] * 3
    assert len(reads) == 2


def test_weights_that_might_overflow_and_nested_columns_are_left_to_others() -> None:
    table = table_over(TableContents(lambda: change_of([])), Memory(None))
    assert table.take(change_of([((1, "a", 0.5, None), SAFE_WEIGHT + 1)])) is None
    nested = Table("t", (Field("tags", t.Array(t.STRING)),))
    with pytest.raises(NotCompiled):
        CountedRows(nested, TableContents(lambda: change_of([])), Memory(None), table._strings, set())


def test_no_memory_is_no_error() -> None:
    rows = [((i, "name", 0.5, None), 1) for i in range(5_000)]
    table = table_over(TableContents(lambda: change_of(rows)), Memory(50_000))
    assert table.take(change_of([(rows[0][0], -1)])) is None and not table.ready


def test_rows_that_have_gone_are_dropped_in_time() -> None:
    """Other rows come and go in every epoch: what is kept of them does not grow without end."""
    held: list[tuple[Row, int]] = []
    table = table_over(TableContents(lambda: change_of(held)), Memory(None))
    most = 0
    for epoch in range(200):
        held = [((100 * epoch + i, "a", None, None), 1) for i in range(100)]
        for change in (held, [(row, -1) for row, _ in held]):
            assert table.take(change_of(change)) is not None
            held = held if change is held else []
            table.settle()
        most = max(most, table._store.rows if table._store is not None else 0)
    assert most <= 1_000


def test_hashes_tell_nulls_from_zeros() -> None:
    values = [(a, b) for a in (None, 0) for b in (None, "")]
    table = pa.table({"a": pa.array([a for a, _ in values], pa.int64()), "b": [b for _, b in values]})
    assert len(set(hash_rows(table.columns).tolist())) == 4


def test_epochs_that_others_check_are_missed() -> None:
    """On Spark the check of tables may be elsewhere, and this runtime hears of a change when it absorbs it."""
    store = MemoryStore()
    runtime = NativeRuntime(store, lambda name: FIELDS, backend="llvm")
    one, two = (1, "a", 0.5, None), (2, None, math.nan, None)

    def run(number: int, pairs: list[tuple[Row, int]], *, checks: bool) -> None:
        change = change_of(pairs)
        runtime.begin(number)
        change = runtime.check(TABLE, change) if checks else change
        runtime.absorb("events", change)
        store.commit(Epoch(number, {"events": change, **runtime.commit()}))

    run(1, [(one, 2), (two, 1)], checks=True)
    run(2, [(one, -1)], checks=True)
    run(3, [(one, -1), (two, 1)], checks=False)
    with pytest.raises(MissingRow):
        run(4, [(one, -1)], checks=True)
    runtime.rollback()
    run(4, [(two, -2)], checks=True)
    with pytest.raises(MissingRow):
        run(5, [(two, -1)], checks=True)


@pytest.mark.parametrize("backend", ["auto", "llvm", "python"])
def test_epochs_of_all_sizes_are_checked(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small changes find rows one by one, large ones by counts, and others are refused by both in the same words."""
    monkeypatch.setattr(backends, "TABLE_AFTER_ROWS", 100)
    monkeypatch.setattr(backends, "COMPILE_AFTER_ROWS", 100)
    draw = random.Random(5)
    held = [(i % 700, None if i % 5 else f"name {i % 40}", i % 3 / 2, None) for i in range(2_000)]
    with tidemill.open(tmp_path / "w", backend=backend) as warehouse:
        warehouse.sql("CREATE TABLE events (n BIGINT, name STRING, price DOUBLE, cost DECIMAL(20, 2))")
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT name, COUNT(*) AS c, SUM(n) AS n FROM events GROUP BY name")
        warehouse.apply({"events": change_of([(row, 1) for row in held]).arrow()})
        for count in (500, 1, 300, 2, 2, 700):
            draw.shuffle(held)
            gone, held = held[:count], held[count:]
            wrong = [*((row, -1) for row in gone), ((-1, "never there", None, None), -1)]
            with pytest.raises(MissingRow, match="never there"):
                warehouse.apply({"events": change_of(wrong).arrow()})
            warehouse.apply({"events": change_of([(row, -1) for row in gone]).arrow()})
            back = gone[: count // 2]
            if back:
                warehouse.apply({"events": change_of([(row, 1) for row in back]).arrow()})
            held += back
            assert warehouse.view("v").verify()
        counted = warehouse._engine.state.placement.native._backends.counted
        assert (backend == "python") == (not counted)
