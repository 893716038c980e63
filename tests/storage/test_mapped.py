"""Mapped runs: lookups find the rows that a scan finds, whatever is there of derived files, and however they look."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.storage.samples import child_environment
from tidemill.changes.arrow import arrow_schema, from_arrow, to_arrow
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.sorted_hashes import sought_hashes
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.storage import runs
from tidemill.storage.commits.layout import Layout
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.mapped import derived_files, lookup_costs
from tidemill.storage.mapped.mapped_run import IndexedColumns, MappedRun
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.repair.examine import examine
from tidemill.storage.store import Store

FIELDS = (
    Field("n", t.INT),
    Field("id", t.BIGINT),
    Field("price", t.Decimal(20, 2)),
    Field("text", t.STRING),
    Field("day", t.DATE),
    Field("at", t.TIMESTAMP),
)
EVENTS = Map("events", FIELDS)
VALUES: tuple[tuple[Any, ...], ...] = (
    (None, 0, 1, -1, 7),
    (None, 0, 2**62, -(2**63)),
    (None, Decimal("0.00"), Decimal("-1.50"), Decimal("123456789012345678.25")),
    (None, "", "a", "ab", "é" * 9, "x" * 600, "x" * 599 + "y", "12345678", "123456789"),
    (None, date(1970, 1, 1), date(1582, 10, 4), date(2026, 2, 1)),
    (None, datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2026, 2, 1, 3)),
)
Rows = Counter[tuple[tuple[Any, ...], int]]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first lookup makes what it needs."""
    monkeypatch.setattr(lookup_costs, "WORTH", 0.0)
    derived_files._mapped.clear()
    derived_files._compared.clear()
    yield
    derived_files._mapped.clear()
    derived_files._compared.clear()


def drawn(draw: random.Random) -> tuple[Any, ...]:
    return tuple(draw.choice(values) for values in VALUES)


def fill(store: Store, draw: random.Random, epochs: int = 3, rows: int = 60) -> None:
    """Some runs with equal rows in one and in several of them, and rows that leave."""
    for number in range(store.epoch + 1, store.epoch + epochs + 1):
        pairs = [(drawn(draw), draw.choice([1, 1, 2, -1])) for _ in range(rows)]
        store.commit(Epoch(number, {"events": ChangeSet.of(pairs, FIELDS)}))
        if isinstance(store, FolderStore):
            store.checkpoint()


def looked_up(store: Store, positions: tuple[int, ...], keys: set[tuple[Any, ...]], **bounds: Any) -> Rows:
    """The rows with one of the keys. The store may give more of them, but none without a value of each column."""
    fields = [FIELDS[i] for i in positions]
    columns = to_arrow(((key, 1) for key in keys), fields).drop_columns([WEIGHT])
    where = {f.name: columns.column(f.name).combine_chunks() for f in fields}
    found = from_arrow(store.read("events", FIELDS, where=where, **bounds), FIELDS)
    for place, position in enumerate(positions):
        assert {row[position] for row, _ in found} <= {key[place] for key in keys}
    return Counter(pair for pair in found if tuple(pair[0][i] for i in positions) in keys)


def scanned(store: Store, positions: tuple[int, ...], keys: set[tuple[Any, ...]], **bounds: Any) -> Rows:
    pairs = from_arrow(store.read("events", FIELDS, **bounds), FIELDS)
    return Counter(pair for pair in pairs if tuple(pair[0][i] for i in positions) in keys)


def require_equal(store: Store, draw: random.Random, lookups: int = 12) -> None:
    """Compare random lookups, by one column or several, with scans."""
    for _ in range(lookups):
        positions = tuple(sorted(draw.sample(range(len(FIELDS)), draw.choice([1, 1, 2, 3, 6]))))
        there = [row for row, _ in from_arrow(store.read("events", FIELDS), FIELDS)]
        rows = [draw.choice(there) if draw.random() < 0.7 else drawn(draw) for _ in range(draw.choice([1, 3, 20]))]
        keys = {tuple(row[i] for i in positions) for row in rows}
        bound = draw.randrange(store.oldest, store.epoch + 1)
        bounds: dict[str, int] = draw.choice([{}, {"until": bound}, {"since": bound}])
        assert looked_up(store, positions, keys, **bounds) == scanned(store, positions, keys, **bounds)


def derived(folder: Path) -> list[Path]:
    return sorted(file for file in (folder / "mapped").rglob("*") if file.is_file())


def test_lookups_find_what_scans_find(tmp_path: Path, at_once: None, random_seed: int) -> None:
    draw = random.Random(random_seed)
    with FolderStore.open(tmp_path) as store:
        fill(store, draw)
        require_equal(store, draw, 40)
        assert {file.suffix for file in derived(tmp_path)} == {".column", ".index"}
        store.commit(Epoch(4, {"events": ChangeSet.of([(drawn(draw), 1)], FIELDS)}))  # this one is in the log
        require_equal(store, draw)
        store.vacuum(1)
        store.compact({"events": EVENTS})
        require_equal(store, draw)


def test_lookups_in_memory_find_what_scans_find(at_once: None, random_seed: int) -> None:
    draw, store = random.Random(random_seed), MemoryStore()
    fill(store, draw)
    store.bytes("events")  # puts the changes together
    require_equal(store, draw, 40)
    fill(store, draw)
    require_equal(store, draw, 40)


def test_mapped_rows_are_read_from_derived_files(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by another process, which makes none of them."""
    draw = random.Random(1)
    with FolderStore.open(tmp_path) as store:
        fill(store, draw)
        keys: set[tuple[Any, ...]] = {(1,), (None,)}
        expected = looked_up(store, (0,), keys)
    monkeypatch.setattr(lookup_costs, "WORTH", 1.0)
    monkeypatch.setattr(runs, "open_run", lambda file: pytest.fail("a run was opened"))
    derived_files._mapped.clear()
    derived_files._compared.clear()
    with FolderStore.open(tmp_path, read_only=True) as store:
        assert looked_up(store, (0,), keys) == expected
        assert expected


def test_files_are_made_once_lookups_have_cost_as_much(tmp_path: Path) -> None:
    rows = 50_000
    table = pa.table({"id": range(rows), WEIGHT: [1] * rows}, schema=arrow_schema([Field("id", t.BIGINT)]))
    fields = (Field("id", t.BIGINT),)
    where = {"id": pa.array([77, 20_000, 49_999])}
    with FolderStore.open(tmp_path) as store:
        store.commit(Epoch(1, {"m": ChangeSet.of_arrow(table, fields)}))
        store.checkpoint()
        made = []
        for _ in range(12):
            assert sorted(store.read("m", fields, where=where).column("id").to_pylist()) == [77, 20_000, 49_999]
            made.append(bool(derived(tmp_path)))
    # A lookup reads the keys of all rows, then three columns of them; an index and three columns cost 11 values a row.
    assert made == [False, False, False, *[True] * 9]


def test_changed_bytes_change_no_row(tmp_path: Path, at_once: None, random_seed: int) -> None:
    """A damaged file, a torn one, one of another run and a link in its place are made again."""
    draw = random.Random(random_seed)
    keys: set[tuple[Any, ...]] = {(1, "a"), (None, "ab"), (0, None), (7, "")}
    with FolderStore.open(tmp_path / "w") as store:
        fill(store, draw, epochs=2)
        expected = looked_up(store, (0, 3), keys)
        assert expected
        files = derived(tmp_path / "w")
        assert len(files) == 2 * (len(FIELDS) + 3)
        for file in files:
            whole = file.read_bytes()
            for at in sorted({0, len(whole) // 3, len(whole) - 30, len(whole) - 9, len(whole) - 1}):
                changed = bytearray(whole)
                changed[at] ^= draw.randrange(1, 256)
                for content in (bytes(changed), whole[:at], whole + b"x"):
                    file.unlink()
                    file.write_bytes(content)
                    assert looked_up(store, (0, 3), keys) == expected, f"{file.name} at {at}"
                    assert file.read_bytes() == whole
            other = files[files.index(file) - 1].read_bytes()
            file.unlink()
            file.write_bytes(other)
            assert looked_up(store, (0, 3), keys) == expected
        behind = tmp_path / "behind"
        behind.write_bytes(b"somebody's")
        files[0].unlink()
        files[0].symlink_to(behind)
        assert looked_up(store, (0, 3), keys) == expected
        assert behind.read_bytes() == b"somebody's" and not files[0].is_symlink()


def test_a_folder_that_is_a_link_is_refused_and_not_written_to(tmp_path: Path, at_once: None) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with FolderStore.open(tmp_path / "w") as store:
        fill(store, random.Random(1))
        (tmp_path / "w" / "mapped").symlink_to(elsewhere)
        for file in (tmp_path / "w" / "maps").iterdir():
            (elsewhere / file.name).mkdir()
        keys: set[tuple[Any, ...]] = {(1,)}
        assert looked_up(store, (0,), keys) == scanned(store, (0,), keys)
    assert not [file for file in elsewhere.rglob("*") if file.is_file()]


def test_no_files_where_nothing_may_be_written(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch, random_seed: int
) -> None:
    """They are in a temporary folder then, and gone when the store is closed."""
    draw = random.Random(random_seed)
    with FolderStore.open(tmp_path / "w") as store:
        fill(store, draw)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with FolderStore.open(tmp_path / "w", read_only=True) as store:
        require_equal(store, draw)
        assert not derived(tmp_path / "w")
        assert list(tmp_path.glob("tidemill-*/*/*.index"))
    assert not list(tmp_path.glob("tidemill-*"))


def test_no_files_on_a_disk_that_is_nearly_full(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch, random_seed: int
) -> None:
    draw = random.Random(random_seed)
    monkeypatch.setattr(derived_files, "LEFT_FREE", 1)
    with FolderStore.open(tmp_path) as store:
        fill(store, draw)
        require_equal(store, draw)
        assert not derived(tmp_path)


def test_files_go_with_their_runs(tmp_path: Path, at_once: None) -> None:
    draw = random.Random(1)
    with FolderStore.open(tmp_path) as store:
        fill(store, draw)
        require_equal(store, draw)
        before = derived(tmp_path)
        assert store.check().strays == ()
        assert examine(Layout(tmp_path)).unknown == ()
        (before[0].parent / f".{before[0].name}.1.ab.draft").write_bytes(b"left by a crash")
        store.vacuum(5)
        assert derived(tmp_path) == before
        store.vacuum(1)
        store.compact({"events": EVENTS})
        assert not derived(tmp_path)
        require_equal(store, draw)
        with store.pin() as pinned:
            fill(store, draw, 1)
            made = derived(tmp_path)
            store.vacuum(1)
            store.compact({"events": EVENTS})
            assert derived(tmp_path) == made
            assert pinned.epoch == store.epoch - 1


ASKING = """
import sys
import pyarrow as pa
from tidemill.storage.mapped import lookup_costs
from tidemill.storage.folder_store import FolderStore
from tests.storage.test_mapped import FIELDS
lookup_costs.WORTH = 0.0
store = FolderStore.open(sys.argv[1], read_only=True)
sys.stdin.readline()
print(store.read("events", FIELDS, where={"n": pa.array([1, 7], pa.int32())}).num_rows)
"""


def test_processes_may_make_the_same_files(tmp_path: Path, at_once: None) -> None:
    with FolderStore.open(tmp_path) as store:
        fill(store, random.Random(1))
        expected = sum(scanned(store, (0,), {(1,), (7,)}).values())
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", ASKING, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        )
        for _ in range(2)
    ]
    for process in asking:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [int(process.communicate()[0]) for process in asking] == [expected, expected]
    assert len(derived(tmp_path)) == 3 * (len(FIELDS) + 3)
    assert not list((tmp_path / "mapped").rglob("*.draft"))


def test_elements_of_arrays_are_found(tmp_path: Path) -> None:
    column = pa.chunked_array([pa.array([["a", "b"], [], None, ["b", None, "b"], ["c"]])])
    field = pa.field("tags", column.type)
    run, by = MappedRun(5, tmp_path / "maps" / "1"), IndexedColumns(pa.schema([field]), elements=True)
    assert run.make(by, pa.schema([field]), lambda _: column)
    found = run.find(by, sought_hashes([pa.chunked_array([["b"]])]), pa.schema([field]))
    assert found is not None and found.column(0).to_pylist() == [["a", "b"], ["b", None, "b"]]
    nothing = MappedRun(2, tmp_path / "maps" / "2")
    empty = pa.chunked_array([pa.array([[], None], column.type)])
    assert nothing.make(by, pa.schema([field]), lambda _: empty)
    found = nothing.find(by, sought_hashes([pa.chunked_array([["b"]])]), pa.schema([field]))
    assert found is not None and found.num_rows == 0
