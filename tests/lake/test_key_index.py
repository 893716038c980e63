"""Where rows of published files are: the same with and without what is derived from files, which are read once."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidemill
from tests.lake.publishing import FORMATS, options, rows_of, table_of
from tidemill.sources.lake.publication import key_index
from tidemill.sources.lake.publication.deletion_vectors import FOLDER, read_vector, vector_file
from tidemill.sources.lake.publication.delta_writer import DeltaWriter
from tidemill.sources.lake.publication.iceberg_snapshot import IcebergFiles
from tidemill.sources.lake.publication.key_index import KeyIndex
from tidemill.sources.lake.publication.key_positions import live_positions

ROWS = 20_000


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each data file that is read to find keys, or to be compacted."""
    found: list[int] = []

    def counted(original: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
        def read(*given: Any) -> pa.Table:
            rows = original(*given)
            found.append(rows.num_rows)
            return rows

        return read

    monkeypatch.setattr(DeltaWriter, "_read", counted(DeltaWriter._read))
    monkeypatch.setattr(IcebergFiles, "read", counted(IcebergFiles.read))
    return found


@pytest.mark.parametrize("format", FORMATS)
def test_files_are_read_once(tmp_path: Path, reads: list[int], format: str) -> None:
    place = tmp_path / "w"
    with tidemill.open(place, runtime="native") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, s STRING)")
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options(tmp_path, format, 'out')}) AS SELECT id, s FROM t")
        wh.apply({"t": [(1, (id, "a")) for id in range(ROWS)]})
        wh.publish()
    for number in range(4):
        if number == 3:
            shutil.rmtree(place / "published")
        with tidemill.open(place, runtime="native") as wh:
            wh.sql(f"UPDATE t SET s = 'u{number}' WHERE id IN (7, {number})")
            wh.publish()
            shown = table_of(tmp_path, format, "out")
            assert shown is not None and rows_of(shown) == Counter(wh.view("v").rows())
        assert sum(rows == ROWS for rows in reads) == (2 if number == 3 else 1)
    assert len(list((place / "published").iterdir())) == 1
    with tidemill.open(place, runtime="native") as wh:
        wh.sql("DROP VIEW v")
        wh.publish()
        assert not list((place / "published").iterdir())


def test_as_by_reading(tmp_path: Path, random_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "INDEXED_ROWS", 3)
    rng = random.Random(random_seed)
    kinds = {
        "n": [None, 0, 1, 2, 3],
        "s": [None, "", "a", "a longer text than others"],
        "d": [None, 0.0, -0.0, float("nan"), 1.5],
        "a": [None, [], [1], [None]],
    }
    for _ in range(30):
        names = rng.sample(sorted(kinds), rng.randint(1, 3))
        files = {f"{number}-{rng.random()}": _table(rng, kinds, names, rng.randint(0, 8)) for number in range(3)}
        deleted = {
            path: np.array([0], np.int64) for path, rows in files.items() if rows.num_rows and rng.random() < 0.5
        }
        keys = _table(rng, kinds, names, 3).slice(0, rng.randint(1, 3))
        expected = {path: live_positions(rows, keys, deleted.get(path)).tolist() for path, rows in files.items()}
        for _ in range(2):  # the second time by what the first has made
            counts = {path: rows.num_rows for path, rows in files.items()}
            found = KeyIndex(tmp_path / "derived").positions(counts, keys, files.__getitem__, deleted)
            assert {path: places.tolist() for path, places in found.items()} == expected, f"seed {random_seed}"


def _table(rng: random.Random, kinds: dict[str, list[Any]], names: list[str], rows: int) -> pa.Table:
    types = {"n": pa.int64(), "s": pa.string(), "d": pa.float64(), "a": pa.list_(pa.int64())}
    columns = {name: pa.array([rng.choice(kinds[name]) for _ in range(rows)], types[name]) for name in names}
    return pa.table(columns)


def test_a_vector_is_read_as_it_was_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    many = np.unique(np.concatenate((rng.integers(0, 70_000, 5_000), [1 << 16, (1 << 33) + 5, (1 << 33) + 70_000])))
    written = {"a": many.astype(np.int64), "b": np.array([3], np.int64), "c": np.arange(70_000)}
    name, content, vectors = vector_file(written)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / name).write_bytes(content)
    for path, places in written.items():
        read = read_vector(str(tmp_path), vectors[path])
        assert read is not None and (read == places).all()
    assert read_vector(str(tmp_path), {"storageType": "i", "pathOrInlineDv": "x", "cardinality": 1}) is None
    (tmp_path / name).write_bytes(content[:5] + bytes([content[5] ^ 1]) + content[6:])
    assert read_vector(str(tmp_path), vectors["a"]) is None, "it is damaged, and left to the package"
