"""Rows that deletion vectors and position deletes mark: what changed is exact, and read by row groups that hold it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import tidemill
from tests.lake import delta_history, iceberg_history
from tests.lake.delta_history import FEED, SMALL_GROUPS, VECTORS, DeltaHistory, rows_of
from tests.lake.iceberg_history import mark_at_random, step
from tidemill.engine.remote import lake_tables
from tidemill.model.errors import HistoryGone
from tidemill.sources.lake.marked_rows import rows_at

SUMS = "CREATE MATERIALIZED VIEW sums AS SELECT region, COUNT(*) AS n, SUM(id) AS s FROM orders GROUP BY region"


@pytest.fixture
def wh() -> Iterator[Any]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        yield warehouse


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    found = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    found.create_namespace("sales")
    return found


@pytest.fixture
def how(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each change was read."""
    found: list[str] = []
    read = lake_tables.LakeTables._read

    def noted(self: Any, *given: Any) -> Any:
        taken = read(self, *given)
        found.append(taken.change.how if taken else "nothing new")
        return taken

    monkeypatch.setattr(lake_tables.LakeTables, "_read", noted)
    return found


def create(wh: Any, tmp_path: Path, format: str, name: str = "orders") -> None:
    """Have the warehouse take a Delta table of the folder, or an Iceberg table of its catalog."""
    place = f"LOCATION '{tmp_path}/{name}'"
    if format == "iceberg":
        place = f"OPTIONS (catalog = '{tmp_path}/catalog.db') LOCATION 'sales.{name}'"
    wh.sql(f"CREATE TABLE {name} USING {format} {place}")


@pytest.mark.parametrize("partitions", [[], ["region"]], ids=["plain", "partitioned"])
@pytest.mark.parametrize("feed", ["on", "off"])
def test_random_histories_of_vectors(
    tmp_path: Path, random_seed: int, wh: Any, feed: str, partitions: list[str]
) -> None:
    lake = DeltaHistory(tmp_path / "orders", random.Random(random_seed), feed, partitions, vectors=True)
    create(wh, tmp_path, "delta")
    wh.sql(SUMS)
    for _ in range(8):
        lake.step()
        lake.step()
        before = Counter(wh.table("orders").rows())
        counts, rows = wh.sync().counts, lake.rows()
        assert Counter(wh.table("orders").rows()) == rows, f"seed {random_seed}"
        assert counts.rows == (rows - before).total() + (before - rows).total()
        assert wh.view("sums").verify().ok


@pytest.mark.filterwarnings("ignore:Delete operation did not match")
def test_random_histories_of_position_deletes(tmp_path: Path, random_seed: int, wh: Any, catalog: SqlCatalog) -> None:
    rng = random.Random(random_seed)
    groups = {"write.parquet.row-group-limit": "16"}
    lake = catalog.create_table("sales.orders", schema=delta_history.SCHEMA, properties=groups)
    lake.append(delta_history.some_rows(rng, 250))
    create(wh, tmp_path, "iceberg")
    wh.sql(SUMS)
    for _ in range(8):
        for _ in range(rng.randrange(1, 4)):
            rng.choice((step, mark_at_random, mark_at_random))(lake, rng)
        before = Counter(wh.table("orders").rows())
        counts, rows = wh.sync().counts, iceberg_history.rows_of(lake)
        assert Counter(wh.table("orders").rows()) == rows, f"seed {random_seed}"
        assert counts.rows == (rows - before).total() + (before - rows).total()
        assert wh.view("sums").verify().ok


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_other_row_groups_are_not_read(tmp_path: Path, wh: Any, catalog: SqlCatalog, format: str) -> None:
    rows = pa.table({"id": range(160), "text": [f"text {n}" for n in range(160)]})
    if format == "delta":
        path = str(tmp_path / "orders")
        write_deltalake(path, rows, configuration={VECTORS: "true"}, writer_properties=SMALL_GROUPS)
        (file,) = DeltaTable(path).file_uris()
    else:
        lake = catalog.create_table("sales.orders", rows.schema, properties={"write.parquet.row-group-limit": "16"})
        lake.append(rows)
        (file,) = (task.file.file_path for task in lake.scan().plan_files())
    create(wh, tmp_path, format)
    place, positions = Path(file.removeprefix("file://")), np.array([33, 34, 159])
    spoil_row_groups(place, {n for n in range(10) if n not in (2, 9)})
    if format == "delta":
        delta_history.mark_rows(path, {place.name: positions})
    else:
        iceberg_history.mark_rows(lake, {file: positions.tolist()})
    counts = wh.sync().counts
    assert (counts.rows, counts.files) == (3, 1), "the file is read once, for the rows that are marked"
    assert {id for id, _ in wh.table("orders").rows()} == set(range(160)) - {33, 34, 159}


def test_columns_of_marked_rows(tmp_path: Path, wh: Any, catalog: SqlCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("key", pa.binary(16)), ("n", pa.int32())])
    lake = catalog.create_table("sales.orders", schema)
    lake.append(pa.table([[1, 2, 3], [b"k" * 16] * 3, [5] * 3], schema=schema))
    with lake.update_schema() as update:
        update.rename_column("id", "name")
        update.add_column("more", lake.schema().find_field("id").field_type)
    options = f"OPTIONS (catalog = '{tmp_path}/catalog.db') LOCATION 'sales.orders'"
    wh.sql(f"CREATE TABLE orders (more BIGINT, name BIGINT, n INT) USING iceberg {options}")
    (file,) = (task.file.file_path for task in lake.scan().plan_files())
    iceberg_history.mark_rows(lake, {file: [0, 2, 7]})
    wh.sync()
    assert wh.table("orders").rows() == [(None, 2, 5)], "a file has columns by their numbers; there is no row 7"


def spoil_row_groups(file: Path, groups: set[int]) -> None:
    """Overwrite the data of row groups, so that they cannot be read."""
    described, content = pq.read_metadata(file), bytearray(file.read_bytes())
    for group in groups:
        for column in range(described.num_columns):
            chunk = described.row_group(group).column(column)
            first = chunk.dictionary_page_offset or chunk.data_page_offset
            content[first : first + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(content)


@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_rows_at_positions(tmp_path: Path, random_seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.sources.lake.marked_rows.PART_ROWS", 13)
    pq.write_table(pa.table({"id": range(300), "n": [7] * 300}), tmp_path / "file", row_group_size=32)
    positions = np.sort(random.Random(random_seed).sample(range(320), count)).astype(np.int64)
    with pq.ParquetFile(tmp_path / "file") as file:
        found = [id for part in rows_at(file, positions, ["id"]) for id in part.column("id").to_pylist()]
    assert found == [place for place in positions if place < 300], "there are no rows beyond the end"


def test_where_the_feed_is_asked(tmp_path: Path, wh: Any, how: list[str]) -> None:
    path, ids = str(tmp_path / "orders"), pa.table({"id": range(100)})
    write_deltalake(path, ids, configuration={VECTORS: "true", FEED: "true"}, writer_properties=SMALL_GROUPS)

    def mark(*positions: int, told: bool = False) -> None:
        ((file, _),) = {a["path"]: a for a in pa.table(DeltaTable(path).get_add_actions()).to_pylist()}.items()
        delta_history.mark_rows(path, {file: np.array(positions)}, told=told)

    create(wh, tmp_path, "delta")
    mark(5, 70)  # deltalake would end the process here, as it does below
    wh.sync()
    mark(6, 71, told=True)
    wh.sync()
    DeltaTable(path).delete("id = 9")  # a file with a vector is written anew
    wh.sync()
    mark(1)
    DeltaTable(path).optimize.compact()
    DeltaTable(path).delete("id = 10")  # neither the version taken nor the newest one has a vector
    wh.sync()
    assert how == ["all files", "difference of files", "change data feed", "change data feed", "difference of files"]
    assert Counter(wh.table("orders").rows()) == rows_of(path)
    assert len(wh.table("orders")) == 93


def test_a_vector_that_was_deleted(tmp_path: Path, wh: Any) -> None:
    path = str(tmp_path / "orders")
    write_deltalake(path, pa.table({"id": range(10)}), configuration={VECTORS: "true"})
    ((file,),) = [DeltaTable(path).file_uris()]
    delta_history.mark_rows(path, {Path(file).name: np.array([1])})
    create(wh, tmp_path, "delta")
    (vector,) = (tmp_path / "orders" / "_vectors").iterdir()
    delta_history.mark_rows(path, {Path(file).name: np.array([2])})
    vector.unlink()
    with pytest.raises(HistoryGone, match="a deletion vector that is needed is gone"):
        wh.sync()
    wh.sql("REFRESH TABLE orders REBUILD")
    assert Counter(wh.table("orders").rows()) == rows_of(path)
