"""Folders of files as tables: after each sync the rows are those of the files that are there."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.model.errors import DataError, SetupError, SourceError, Unsupported
from tidemill.sources.lake import folder_files

REGIONS = ("north", "a b", "50%=x")
Row = tuple[int | None, str | None]


@pytest.fixture
def wh() -> Iterator[Any]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        yield warehouse


def write(file: Path, format: str, rows: list[Row], *, fold: bool) -> None:
    """Write a file under another name, and rename it; with ``fold`` the second column is in the folder's name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    columns = ("id",) if fold else ("id", "region")
    records = [dict(zip(columns, row, strict=False)) for row in rows]
    made = file.parent / ".made"
    if format == "parquet":
        schema = pa.schema([("id", pa.int32()), ("region", pa.string())])
        pq.write_table(pa.Table.from_pylist(records, pa.schema([schema.field(name) for name in columns])), made)
    elif format == "json":
        made.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        lines = [",".join("" if value is None else str(value) for value in record.values()) for record in records]
        made.write_text("\n".join([",".join(columns), *lines, ""]))
    made.rename(file)


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
@pytest.mark.parametrize("fold", [False, True], ids=["plain", "partitioned"])
def test_files_come_go_and_change(tmp_path: Path, random_seed: int, wh: Any, format: str, fold: bool) -> None:
    rng, root, files = random.Random(random_seed), tmp_path / "in", dict[Path, list[Row]]()
    root.mkdir()
    wh.sql(f"CREATE TABLE t (id INT, region STRING) USING {format} LOCATION '{root}'")
    wh.sql("CREATE MATERIALIZED VIEW v AS SELECT region, COUNT(*) AS n, SUM(id) AS s FROM t GROUP BY region")
    for number in range(12):
        kind = rng.choice(("add", "add", "add", "remove", "change", "touch"))
        if kind == "add" or not files:
            region = rng.choice(REGIONS)
            folder = root / f"region={region.replace('%', '%25').replace('=', '%3D')}" if fold else root
            files[folder / f"part-{number}"] = [(rng.randrange(5), region) for _ in range(rng.randrange(1, 5))]
            write(folder / f"part-{number}", format, files[folder / f"part-{number}"], fold=fold)
        else:
            file = rng.choice(list(files))
            if kind == "remove":
                file.unlink()
                del files[file]
            elif kind == "change":
                files[file] = [(rng.randrange(5, 9), files[file][0][1]), *files[file][1:]]
                write(file, format, files[file], fold=fold)
            else:
                epoch = wh.sync()
                os.utime(file)
                assert wh.sync() == epoch, "a file whose time alone changed did not"
        if rng.random() < 0.7:
            wh.sync()
            assert_same(wh, files)
    wh.sync()
    assert_same(wh, files)


def assert_same(wh: Any, files: dict[Path, list[Row]]) -> None:
    """The table and its view have the rows of the files."""
    expected = Counter(row for rows in files.values() for row in rows)
    assert Counter(wh.table("t").rows()) == expected
    assert all(one.ok for one in wh.verify())


def test_only_new_files_are_read(tmp_path: Path, wh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.csv", "csv", [(number, "x")], fold=False)
        os.utime(tmp_path / f"{number}.csv", (1, 1))
    read: list[str] = []
    digest = folder_files.file_digest
    monkeypatch.setattr(folder_files, "file_digest", lambda file, kind: read.append(file.name) or digest(file, kind))
    wh.sql(f"CREATE TABLE t (id INT, region STRING) USING csv LOCATION '{tmp_path}'")
    read.clear()
    epoch = wh.epoch
    assert wh.sync() == epoch and not read, "files that are as they were are not opened"
    write(tmp_path / "3.csv", "csv", [(3, "x")], fold=False)
    assert wh.sync().counts.files == 1
    assert {Path(name).name for name in read} == {"3.csv"}
    assert wh.positions["lake:t"].count(" ") == 1


def test_parquet_tells_its_columns(tmp_path: Path, wh: Any) -> None:
    pq.write_table(pa.table({"Id": pa.array([1], pa.int16()), "at": pa.array([2.5])}), tmp_path / "a.parquet")
    wh.sql(f"CREATE TABLE t USING parquet LOCATION '{tmp_path}'")
    assert wh.sql("DESCRIBE t").rows()[:2] == [("id", "smallint", None), ("at", "double", None)]
    pq.write_table(pa.table({"Id": pa.array([2], pa.int16())}), tmp_path / "b.parquet")
    wh.sync()
    assert sorted(wh.table("t").rows()) == [(1, 2.5), (2, None)]
    pq.write_table(pa.table({"other": [1]}), tmp_path / "c.parquet")
    with pytest.raises(tidemill.TidemillError, match="no column"):
        wh.sync()
    (tmp_path / "c.parquet").write_bytes(b"no")
    with pytest.raises(DataError, match="not Parquet"):
        wh.sync()
    assert len(wh.table("t").rows()) == 2


def test_what_cannot_be_read_is_refused(tmp_path: Path, wh: Any) -> None:
    with pytest.raises(SetupError, match="no such folder"):
        wh.sql(f"CREATE TABLE t (id INT) USING csv LOCATION '{tmp_path / 'nowhere'}'")
    with pytest.raises(SetupError, match="cannot be used"):
        wh.sql("CREATE TABLE t (id INT) USING csv LOCATION 'hdfs://lake/t'")
    write(tmp_path / "day=1" / "a", "parquet", [(1, "x")], fold=False)
    for format in ("csv", "json", "parquet"):
        with pytest.raises(Unsupported, match="must be declared"):
            wh.sql(f"CREATE TABLE t USING {format} LOCATION '{tmp_path}'")
    (tmp_path / "_temporary").mkdir()
    with pytest.raises(SourceError, match="being written"):
        wh.sql(f"CREATE TABLE t (id INT, region STRING, day INT) USING parquet LOCATION '{tmp_path}'")
    (tmp_path / "_temporary").rmdir()
    wh.sql(f"CREATE TABLE t (id INT, region STRING, day INT) USING parquet LOCATION '{tmp_path}'")
    assert wh.table("t").rows() == [(1, "x", 1)]
