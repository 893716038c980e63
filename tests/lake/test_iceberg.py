"""Iceberg tables as tables: after each sync rows and views are what pyiceberg and DuckDB make of the snapshot."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

import tidemill
from tests.lake.delta_history import SCHEMA
from tests.lake.iceberg_history import rows_of, step
from tidemill.model.errors import DataError, HistoryGone, SetupError, SourceError, Unsupported

VIEWS = {
    "per_region": "SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region",
    "joined": "SELECT o.id, o.region, r.id AS other FROM orders o JOIN returns r ON o.id = r.id WHERE o.score >= 0.5",
}


@pytest.fixture
def wh() -> Iterator[Any]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        yield warehouse


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    found = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    found.create_namespace("sales")
    return found


def create(wh: Any, tmp_path: Path, name: str) -> None:
    """Have the warehouse take a table of the catalog."""
    options = f"OPTIONS (catalog = '{tmp_path}/catalog.db')"
    wh.sql(f"CREATE TABLE {name} USING iceberg {options} LOCATION 'sales.{name}'")


@pytest.mark.filterwarnings("ignore:Delete operation did not match")
@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_random_histories(tmp_path: Path, catalog: SqlCatalog, wh: Any, random_seed: int, partitioned: bool) -> None:
    rng = random.Random(random_seed)
    lakes = {name: catalog.create_table(f"sales.{name}", schema=SCHEMA) for name in ("orders", "returns")}
    for name, lake in lakes.items():
        if partitioned:
            with lake.update_spec() as spec:
                spec.add_identity("region")
        create(wh, tmp_path, name)  # without a snapshot
    for view, query in VIEWS.items():
        wh.sql(f"CREATE MATERIALIZED VIEW {view} AS {query}")
    for _ in range(5):
        for lake in lakes.values():
            for _ in range(rng.randrange(3)):
                step(lake, rng)
        before = wh.epoch
        wh.sync()
        assert wh.epoch <= before + 1, "all lake tables are one epoch"
        other = duckdb.connect()
        for name, lake in lakes.items():
            assert Counter(wh.table(name).rows()) == rows_of(lake), f"seed {random_seed}"
            other.register(name, lake.scan().to_arrow())
        for view, query in VIEWS.items():
            assert Counter(wh.view(view).rows()) == Counter(other.sql(query).fetchall()), f"seed {random_seed}"


def add_delete_file(table: Any, content: DataFileContent, rows: pa.Table, root: Path) -> None:
    """Commit a delete file, which pyiceberg reads and does not write."""

    class DeleteManifest(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    io, number, snapshot = PyArrowFileIO(), table.metadata.last_sequence_number + 1, random.randrange(1 << 60)
    path = f"{root}/{uuid.uuid4()}"
    pq.write_table(rows, f"{path}.parquet")
    equal = [1] if content == DataFileContent.EQUALITY_DELETES else None
    given = {
        "content": content,
        "file_path": f"file://{path}.parquet",
        "file_format": FileFormat.PARQUET,
        "partition": Record(),
        "record_count": rows.num_rows,
        "file_size_in_bytes": Path(f"{path}.parquet").stat().st_size,
        "equality_ids": equal,
    }
    file = DataFile.from_args(**given)
    file.spec_id = 0
    before = table.current_snapshot()
    with DeleteManifest(table.spec(), table.schema(), io.new_output(f"{path}.avro"), snapshot, "null") as writer:
        writer.add_entry(
            ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, data_file=file)
        )
    listed = io.new_output(f"{path}-list.avro")
    with write_manifest_list(2, listed, snapshot, before.snapshot_id, number, "null") as manifests:
        manifests.add_manifests([*before.manifests(table.io), writer.to_manifest_file()])
    made = Snapshot(
        snapshot_id=snapshot,
        parent_snapshot_id=before.snapshot_id,
        sequence_number=number,
        manifest_list=listed.location,
        summary=Summary(Operation.OVERWRITE),
        schema_id=table.schema().schema_id,
    )
    branch = SetSnapshotRefUpdate(snapshot_id=snapshot, ref_name="main", type="branch")
    table._do_commit((AddSnapshotUpdate(snapshot=made), branch), ())


def test_delete_files(tmp_path: Path, catalog: SqlCatalog, wh: Any) -> None:
    table = catalog.create_table("sales.orders", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": range(100)}))
    create(wh, tmp_path, "orders")
    wh.sql("CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(id) AS s FROM orders")
    (data,) = (task.file.file_path for task in table.scan().plan_files())
    gone: set[int] = set()
    for positions in ([3, 5], [0, 99]):
        deletes = pa.table({"file_path": [data] * 2, "pos": pa.array(positions, pa.int64())})
        add_delete_file(table, DataFileContent.POSITION_DELETES, deletes, tmp_path)
        gone |= set(positions)
        assert wh.sync().counts.rows == 2
        left = set(range(100)) - gone
        assert Counter(wh.table("orders").rows()) == rows_of(table) == Counter((id,) for id in left)
        assert wh.view("total").rows() == [(len(left), sum(left))]
    add_delete_file(table, DataFileContent.EQUALITY_DELETES, pa.table({"id": [7]}), tmp_path)
    with pytest.raises(Unsupported, match="equality deletes"):
        wh.sync()
    assert wh.view("total").rows() == [(96, sum(left))], "what is refused changes nothing"


def test_history_that_is_gone(tmp_path: Path, catalog: SqlCatalog, wh: Any) -> None:
    table = catalog.create_table("sales.orders", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    create(wh, tmp_path, "orders")
    first = table.current_snapshot().snapshot_id
    table.overwrite(pa.table({"id": [2, 3]}))
    table.maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(HistoryGone, match="is gone") as refused:
        wh.sync()
    assert "REBUILD" in str(refused.value.hint)
    wh.sql("REFRESH TABLE orders REBUILD")
    assert sorted(wh.table("orders").rows()) == [(2,), (3,)]
    catalog.drop_table("sales.orders")
    with pytest.raises(SetupError, match="no Iceberg table"):
        wh.sync()
    catalog.create_table("sales.orders", schema=pa.schema([("id", pa.int64())]))
    with pytest.raises(HistoryGone, match="another Iceberg table"):
        wh.sync()


def test_columns(tmp_path: Path, catalog: SqlCatalog, wh: Any) -> None:
    table = catalog.create_table("sales.orders", schema=pa.schema([("Id", pa.int64()), ("key", pa.binary(16))]))
    table.append(pa.table({"Id": [1], "key": pa.array([b"k" * 16], pa.binary(16))}))
    with pytest.raises(Unsupported, match='column "key" has the type fixed_size_binary'):
        create(wh, tmp_path, "orders")
    options = f"OPTIONS (catalog = '{tmp_path}/catalog.db')"
    wh.sql(f"CREATE TABLE named (id BIGINT) USING iceberg {options} LOCATION 'sales.orders'")
    with table.update_schema() as update:
        update.rename_column("key", "name")
        update.add_column("more", table.schema().find_field("Id").field_type)
    table.append(pa.table({"Id": [2], "name": pa.array([b"n" * 16], pa.binary(16)), "more": [5]}))
    wh.sync()
    assert sorted(wh.table("named").rows()) == [(1,), (2,)]
    with pytest.raises(DataError, match="cannot be changed here"):
        wh.sql("INSERT INTO named VALUES (3)")


def test_a_column_that_was_dropped_and_added_again(tmp_path: Path, catalog: SqlCatalog, wh: Any) -> None:
    table = catalog.create_table("sales.orders", schema=pa.schema([("id", pa.int64()), ("n", pa.int64())]))
    table.append(pa.table({"id": [1], "n": [7]}))
    create(wh, tmp_path, "orders")
    kind = table.schema().find_field("n").field_type
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("n")
    with table.update_schema() as update:
        update.add_column("n", kind)
    with pytest.raises(HistoryGone, match='another column is called "n"'):
        wh.sync()
    wh.sql("REFRESH TABLE orders REBUILD")
    assert Counter(wh.table("orders").rows()) == rows_of(table) == {(1, None): 1}


def test_places(tmp_path: Path, catalog: SqlCatalog, wh: Any) -> None:
    table = catalog.create_table("sales.orders", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    wh.sql(f"CREATE TABLE fixed USING iceberg LOCATION '{table.metadata_location}'")
    folder = Path(table.metadata_location.removeprefix("file://")).parent
    (folder / "version-hint.text").write_text(Path(table.metadata_location).name)
    wh.sql(f"CREATE TABLE hinted USING iceberg LOCATION '{folder.parent}'")
    assert wh.table("fixed").rows() == wh.table("hinted").rows() == [(1,)]
    for clause, error in (
        (f"OPTIONS (catalog = '{tmp_path}/none.db') LOCATION 'sales.orders'", "no such catalog"),
        (
            f"OPTIONS (catalog = '{tmp_path}/catalog.db', catalog_name = 'x') LOCATION 'sales.orders'",
            "no Iceberg table",
        ),
        (f"OPTIONS (catalog = '{tmp_path}/catalog.db') LOCATION 'orders; DROP'", "namespace and name"),
        (f"LOCATION '{tmp_path}'", "no version-hint.text"),
    ):
        with pytest.raises((SetupError, SourceError, Unsupported), match=error):
            wh.sql(f"CREATE TABLE wrong USING iceberg {clause}")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(Unsupported, match="for Iceberg"):
        wh.sql(f"CREATE TABLE wrong USING delta OPTIONS (catalog = 'x') LOCATION '{tmp_path}'")


def test_a_configured_catalog(tmp_path: Path, catalog: SqlCatalog, wh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table("sales.orders", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    create = "CREATE TABLE orders USING iceberg OPTIONS (catalog_name = 'default') LOCATION 'sales.orders'"
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(SetupError, match='no Iceberg catalog is called "default"'):
        wh.sql(create)
    (tmp_path / ".pyiceberg.yaml").write_text(
        f"catalog:\n  default:\n    type: sql\n    uri: sqlite:///{tmp_path}/catalog.db\n    token: aSecretToken\n"
        "  remote:\n    uri: http://127.0.0.1:9/aSecretToken\n    token: aSecretToken\n"
    )
    wh.sql(create)
    table.delete(EqualTo("id", 1))
    wh.sync()
    assert wh.table("orders").rows() == [(2,)]
    with pytest.raises(tidemill.TidemillError) as refused:
        wh.sql("CREATE TABLE t USING iceberg OPTIONS (catalog_name = 'remote') LOCATION 'sales.orders'")
    assert "aSecretToken" not in refused.value.render()
    assert "aSecretToken" not in "".join(map(str, wh.sql("SHOW TABLES").rows()))
    with pytest.raises(Unsupported, match="namespace and name"):
        wh.sql("CREATE TABLE t USING iceberg OPTIONS (catalog_name = 'default') LOCATION 'lake/orders'")
