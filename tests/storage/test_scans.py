"""Parts of a scan have every row once together, however rows are spread over files, deleted and repeated."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill
from tidemill.changes.arrow import from_arrow
from tidemill.engine.results import present_rows
from tidemill.model.errors import EpochGone
from tidemill.model.types import Field
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.scans import run_slice, scan_parts
from tidemill.storage.scans.scan_parts import change_parts, row_parts

COLUMNS = "n INT, s STRING, d DECIMAL(9, 2), f DOUBLE, at TIMESTAMP, list ARRAY<INT>, pair STRUCT<x: INT, y: STRING>"


def _random_row(draw: random.Random) -> tuple[Any, ...]:
    n = draw.choice([None, 0, 1, 2])
    text, number, list_ = (
        draw.choice([None, "", "ab"]),
        draw.choice([0.0, -0.0, float("inf")]),
        draw.choice([None, [n]]),
    )
    return (n, text, n, number, None, list_, None if n is None else {"x": n, "y": text})


def _make(folder: Path, seed: int, epochs: int = 8) -> dict[int, Counter[str]]:
    """A warehouse of random epochs; its rows as of each."""
    draw, history = random.Random(seed), dict[int, Counter[str]]()
    with tidemill.open(folder, runtime="native", durability="checkpoint") as wh:
        wh.sql(f"CREATE TABLE t ({COLUMNS})")
        for _ in range(epochs):
            changes = [(draw.randint(1, 3), _random_row(draw)) for _ in range(draw.randint(1, 8))]
            held = [(-1, row) for row in wh.table("t").rows() if draw.random() < 0.4]
            epoch = wh.apply({"t": changes + held})
            history[epoch] = Counter(map(repr, wh.table("t").rows()))
            if draw.random() < 0.3:
                wh.compact()
    return history


def _rows(store: FolderStore, until: int, fields: tuple[Field, ...]) -> Counter[str]:
    found: Counter[str] = Counter()
    with store.pin() as snapshot:
        parts = [pickle.loads(pickle.dumps(part)) for part in row_parts(snapshot, "t", fields, until)]
    for table in (table for part in parts for table in part.tables()):
        ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
        pairs = from_arrow(table.append_column("_weight", ones), fields)
        found.update(map(repr, present_rows((row for row, _ in pairs), fields)))
    return found


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("slice_rows", "deleted_rows"), [(10**6, 10**6), (5, 10**6), (5, 0)])
def test_parts_are_the_rows_of_every_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, slice_rows: int, deleted_rows: int
) -> None:
    monkeypatch.setattr(run_slice, "SLICE_ROWS", slice_rows)
    monkeypatch.setattr(scan_parts, "SLICE_ROWS", slice_rows)
    monkeypatch.setattr(scan_parts, "DELETED_ROWS", deleted_rows)
    history = _make(tmp_path / "w", seed)
    with tidemill.open(tmp_path / "w", read_only=True) as wh:
        fields = wh.table("t").fields
    store = FolderStore.open(tmp_path / "w", read_only=True)
    for epoch, rows in history.items():
        assert _rows(store, epoch, fields) == rows
    store.close()


@pytest.mark.parametrize("seed", range(2))
def test_changes_sum_to_the_difference_of_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(run_slice, "SLICE_ROWS", 5)
    monkeypatch.setattr(scan_parts, "SLICE_ROWS", 5)
    history = _make(tmp_path / "w", seed)
    with tidemill.open(tmp_path / "w", read_only=True) as wh:
        fields = wh.table("t").fields
    store = FolderStore.open(tmp_path / "w", read_only=True)
    first, last = min(history), max(history)
    middle = (first + last) // 2
    with store.pin() as snapshot:
        parts = change_parts(snapshot, "t", fields, middle, last)
        with pytest.raises(EpochGone):
            change_parts(snapshot, "t", fields, middle, last + 1)
    net: Counter[tuple[Any, ...]] = Counter()
    epochs = set()
    for part in parts:
        for table in part.tables():
            for *row, weight, epoch in zip(*(column.to_pylist() for column in table.columns), strict=True):
                net[repr(row[0]), repr(row[1])] += weight
                epochs.add(epoch)
    assert epochs <= set(range(middle + 1, last + 1))
    total = sum(history[last].values()) - sum(history[middle].values())
    assert sum(net.values()) == total
    store.close()
