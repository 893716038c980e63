"""Delta tables as tables: after each sync rows and views are what other readers make of the newest version."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap
from typer.testing import CliRunner

import tidemill
from tests.lake.delta_history import FEED, DeltaHistory, commit, rows_of, some_rows
from tidemill.engine.remote import lake_tables, staged_rows
from tidemill.model.errors import (
    DataError,
    HistoryGone,
    SetupError,
    SourceError,
    TypeMismatch,
    UnknownName,
    Unsupported,
)
from tidemill.serving.cli.app import app
from tidemill.sources.lake import data_files

VIEWS = {
    "per_region": "SELECT region, COUNT(*) AS n, SUM(amount) AS total, MAX(id) AS last FROM orders GROUP BY region",
    "joined": "SELECT o.id, o.region, r.id AS other FROM orders o JOIN returns r ON o.id = r.id WHERE o.score >= 0.5",
}


@pytest.fixture
def wh() -> Any:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        yield warehouse


def taken(wh: Any, name: str) -> Counter[tuple[Any, ...]]:
    """The rows of a table or view of the warehouse."""
    return Counter(map(_hashable, wh.sql(f"SELECT * FROM {name}").rows()))


def _hashable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(str(value) if isinstance(value, (dict, list)) else value for value in row)


@pytest.mark.parametrize("feed", ["on", "off", "switched"])
@pytest.mark.parametrize("partitions", [[], ["region"]], ids=["plain", "partitioned"])
def test_random_histories(tmp_path: Path, random_seed: int, wh: Any, feed: str, partitions: list[str]) -> None:
    rng = random.Random(random_seed)
    lakes = {name: DeltaHistory(tmp_path / name, rng, feed, partitions) for name in ("orders", "returns")}
    for name, lake in lakes.items():
        wh.sql(f"CREATE TABLE {name} USING delta LOCATION '{lake.path}'")
    for view, query in VIEWS.items():
        wh.sql(f"CREATE MATERIALIZED VIEW {view} AS {query}")
    for _ in range(7):
        for lake in lakes.values():
            for _ in range(rng.randrange(3)):
                lake.step()
        before = wh.epoch
        wh.sync()
        assert wh.epoch <= before + 1, "all lake tables are one epoch"
        other = duckdb.connect()
        for name, lake in lakes.items():
            assert taken(wh, name) == lake.rows(), f"seed {random_seed}"
            other.register(name, pa.table(lake.table.scan()))
        for view, query in VIEWS.items():
            assert taken(wh, view) == Counter(other.sql(query).fetchall()), f"seed {random_seed}"


@pytest.mark.parametrize("feed", ["true", "false"])
def test_only_what_changed_is_applied(tmp_path: Path, wh: Any, feed: str) -> None:
    where = str(tmp_path / "orders")
    rng = random.Random(1)
    for _ in range(3):
        write_deltalake(where, some_rows(rng, 50), mode="append", configuration={FEED: feed})
    assert "150 rows" in wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'").message
    DeltaTable(where).optimize.compact()
    assert wh.sync().counts.rows == 0, "compaction is an empty change"
    assert wh.positions["lake:orders"].startswith("3 ")
    DeltaTable(where).update(updates={"score": "coalesce(score, 0) + 7"}, predicate="id = 3")
    changed = 2 * sum(1 for row in wh.sql("SELECT * FROM orders WHERE id = 3").rows())
    assert 0 < wh.sync().counts.rows <= changed
    epoch = wh.epoch
    assert (wh.sync(), wh.sync("orders")) == (epoch, epoch), "nothing is new"


def test_the_feed_is_read_where_it_is_on(tmp_path: Path, wh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    how = []
    read = lake_tables.LakeTables._read

    def noted(self: Any, *given: Any) -> Any:
        found = read(self, *given)
        how.append(found.change.how if found else None)
        return found

    monkeypatch.setattr(lake_tables.LakeTables, "_read", noted)
    where = str(tmp_path / "orders")
    write_deltalake(where, some_rows(random.Random(2), 50), configuration={FEED: "true"})
    wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'")
    DeltaTable(where).delete("id < 10")
    wh.sync()
    DeltaTable(where).alter.set_table_properties({FEED: "false"})
    DeltaTable(where).delete("id < 20")
    wh.sync()
    assert how == ["all files", "change data feed", "difference of files"]
    assert taken(wh, "orders") == rows_of(where)


def test_types_and_partition_values(tmp_path: Path, wh: Any) -> None:
    where, moment = str(tmp_path / "all types"), datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)
    rows = pa.table(
        {
            "Tiny": pa.array([1, -128], pa.int8()),
            "small": pa.array([None, 3], pa.int16()),
            "whole": pa.array([5, 6], pa.int32()),
            "single": pa.array([0.5, None], pa.float32()),
            "bytes": pa.array([b"\0x", None], pa.binary()),
            "yes": pa.array([True, None]),
            "day": pa.array([date(2024, 2, 29), date(1, 1, 1)]),
            "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "local": pa.array([moment.replace(tzinfo=None), None], pa.timestamp("us")),
            "price": pa.array([Decimal("12.50"), None], pa.decimal128(20, 2)),
            "tags": pa.array([["a", None], []], pa.list_(pa.string())),
            "of": pa.array([{"Name": "x", "n": 1}, None], pa.struct([("Name", pa.string()), ("n", pa.int64())])),
            "pairs": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    write_deltalake(where, rows, partition_by=["day", "price", "at"])
    wh.sql(f"CREATE TABLE t USING delta LOCATION '{where}'")
    naive, nested = moment.replace(tzinfo=None), (["a", None], {"name": "x", "n": 1}, {"k": 1})
    assert wh.sql("SELECT * FROM t ORDER BY whole").rows() == [
        (1, None, 5, 0.5, b"\0x", True, date(2024, 2, 29), naive, naive, Decimal("12.50"), *nested),
        (-128, 3, 6, None, None, None, date(1, 1, 1), None, None, None, [], None, None),
    ]
    DeltaTable(where).delete("whole = 5")
    wh.sync()
    assert len(wh.sql("SELECT * FROM t").rows()) == 1
    wh.sql("DROP TABLE t")
    wh.sql(f"CREATE TABLE t (whole INT, price DECIMAL(20, 2), PRIMARY KEY (whole)) USING delta LOCATION '{where}'")
    assert wh.sql("SELECT * FROM t").rows() == [(6, None)], "some of the columns"
    wh.sql("DROP TABLE t")
    for columns, error in (("whole BIGINT", TypeMismatch), ("hole INT", UnknownName)):
        with pytest.raises(error):
            wh.sql(f"CREATE TABLE t ({columns}) USING delta LOCATION '{where}'")
    assert wh.tables() == ()


def test_deletion_vectors(tmp_path: Path, wh: Any) -> None:
    where = str(tmp_path / "orders")
    write_deltalake(where, pa.table({"id": range(100)}), configuration={"delta.enableDeletionVectors": "true"})
    actions = pa.table(DeltaTable(where).get_add_actions()).to_pylist()[0]
    path, size = actions["path"], actions["size_bytes"]
    wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'")
    wh.sql("CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(id) AS s FROM orders")
    before: dict[str, Any] = {}
    for version, gone in enumerate(([1, 2, 50], [1, 2, 50, 99], [0]), start=1):
        vector = {"deletionVector": deletion_vector(gone)}
        file = {"path": path, "partitionValues": {}, "size": size, "dataChange": True}
        add = {"add": file | vector | {"modificationTime": 1, "stats": '{"numRecords":100}'}}
        commit(where, version, {"remove": file | before | {"deletionTimestamp": 1}}, add)
        before = vector
        wh.sync()
        left = set(range(100)) - set(gone)
        assert wh.view("total").rows() == [(len(left), sum(left))]
        assert {row for (row,) in wh.sql("SELECT id FROM orders").rows()} == left


def deletion_vector(rows: list[int]) -> dict[str, Any]:
    """An inline deletion vector: a bitmap as Delta writes it, in base 85 with the letters of Z85."""
    raw = struct.pack("<IQI", 1681511377, 1, 0) + BitMap(rows).serialize()
    ours = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    theirs = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    text = base64.b85encode(raw + b"\0" * (-len(raw) % 4)).translate(bytes.maketrans(ours, theirs)).decode()
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(raw), "cardinality": len(rows)}


@pytest.mark.parametrize("policy", ["", "OPTIONS (on_history_gone = 'rebuild')"])
def test_vacuumed(tmp_path: Path, wh: Any, policy: str) -> None:
    where = str(tmp_path / "orders")
    write_deltalake(where, some_rows(random.Random(3), 50), configuration={FEED: "false"})
    wh.sql(f"CREATE TABLE orders USING delta {policy} LOCATION '{where}'")
    DeltaTable(where).delete("id < 20")
    DeltaTable(where).vacuum(0, dry_run=False, enforce_retention_duration=False)
    if not policy:
        with pytest.raises(SourceError, match="gone") as refused:
            wh.sync()
        assert refused.value.hint is not None and "REFRESH TABLE orders REBUILD" in refused.value.hint
        wh.sql("REFRESH TABLE orders REBUILD")
    else:
        wh.sync()
    assert taken(wh, "orders") == rows_of(where)


def test_another_table_at_the_same_place(tmp_path: Path, wh: Any) -> None:
    where = tmp_path / "orders"
    write_deltalake(str(where), some_rows(random.Random(4), 5))
    wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'")
    where.rename(tmp_path / "away")
    with pytest.raises(SetupError, match="there is no Delta table"):
        wh.sync()
    write_deltalake(str(where), some_rows(random.Random(5), 5))
    with pytest.raises(SourceError, match="another Delta table"):
        wh.sync()
    wh.sql("REFRESH TABLE orders REBUILD")
    assert taken(wh, "orders") == rows_of(str(where))


def test_changed_columns_are_refused(tmp_path: Path, wh: Any) -> None:
    where = str(tmp_path / "orders")
    write_deltalake(where, pa.table({"id": [1]}))
    wh.sql(f"CREATE TABLE every USING delta LOCATION '{where}'")
    wh.sql(f"CREATE TABLE named (id BIGINT) USING delta LOCATION '{where}'")
    write_deltalake(where, pa.table({"id": [2], "more": [3]}), mode="append", schema_mode="merge")
    with pytest.raises(Unsupported, match="columns of lake table") as refused:
        wh.sync("every")
    assert refused.value.detail == "It was created with no more, and has more BIGINT now."
    wh.sync("named")
    assert taken(wh, "named") == {(1,): 1, (2,): 1}
    write_deltalake(where, pa.table({"id": ["a"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(Unsupported, match="columns of lake table"):
        wh.sync("named")
    assert taken(wh, "named") == {(1,): 1, (2,): 1}, "what is refused changes nothing"


def test_column_mapping(tmp_path: Path, wh: Any) -> None:
    where = tmp_path / "orders"
    rows = pa.table({"c1": [1, 2, 3], "c2": ["a", "b", "a"], "c3": [{"x": 1}] * 3, "c4": [7, 8, 9]})
    write_deltalake(str(where), rows, partition_by=["c2"], configuration={FEED: "true"})
    map_columns(where, 1, c1="Id", c2="g", c3="of", c4="n")
    with pytest.raises(Unsupported, match='column "of" is a STRUCT'):
        wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'")
    wh.sql(f"CREATE TABLE orders (g STRING, id BIGINT, n BIGINT) USING delta LOCATION '{where}'")
    assert taken(wh, "orders") == {("a", 1, 7): 1, ("b", 2, 8): 1, ("a", 3, 9): 1}
    file = next(add for add in pa.table(DeltaTable(str(where)).get_add_actions()).to_pylist() if "c2=b" in add["path"])
    commit(where, 2, {"remove": {"path": file["path"], "dataChange": True, "deletionTimestamp": 1}})
    assert wh.sync().counts.rows == 1
    assert taken(wh, "orders") == {("a", 1, 7): 1, ("a", 3, 9): 1}
    map_columns(where, 3, c1="n", c2="g", c3="of", c4="Id")  # two columns change their names, and no file changes
    with pytest.raises(HistoryGone, match="another column"):
        wh.sync()
    wh.sql("REFRESH TABLE orders REBUILD")
    assert taken(wh, "orders") == {("a", 7, 1): 1, ("a", 9, 3): 1}


def map_columns(where: Path, version: int, **names: str) -> None:
    """Have a Delta table call its columns by other names than its files do."""
    log = (where / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    found = next(json.loads(line)["metaData"] for line in log if '"metaData"' in line)
    schema = json.loads(found["schemaString"])
    for number, field in enumerate(schema["fields"], start=1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
        field["name"] = names[field["name"]]
        for inner in field["type"]["fields"] if isinstance(field["type"], dict) else ():
            inner["metadata"] = {"delta.columnMapping.id": 9, "delta.columnMapping.physicalName": inner["name"]}
    settings = found["configuration"] | {"delta.columnMapping.mode": "name"}
    partitions = [names[name] for name in found["partitionColumns"]]
    found |= {"schemaString": json.dumps(schema), "partitionColumns": partitions, "configuration": settings}
    features = {"readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping", "changeDataFeed"]}
    commit(where, version, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features}, {"metaData": found})


def test_features_that_are_not_known_are_refused(tmp_path: Path, wh: Any) -> None:
    for name, settings, feature in (
        ("mapped", {"delta.columnMapping.mode": "id"}, "columnMapping"),
        ("widened", {}, "typeWidening"),
    ):
        write_deltalake(str(tmp_path / name), pa.table({"id": [1]}))
        log = (tmp_path / name / "_delta_log" / f"{0:020}.json").read_text()
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature]}
        protocol["writerFeatures"] = [feature]
        metadata = next(line for line in log.splitlines() if '"metaData"' in line)
        found = json.loads(metadata)["metaData"] | {"configuration": settings}
        commit(tmp_path / name, 1, {"protocol": protocol}, {"metaData": found})
        with pytest.raises((Unsupported, SourceError)) as refused:
            wh.sql(f"CREATE TABLE t USING delta LOCATION '{tmp_path / name}'")
        assert "mapping" in str(refused.value) or "typeWidening" in str(refused.value)
    assert wh.tables() == ()


def test_rows_are_changed_in_the_lake_alone(tmp_path: Path, wh: Any) -> None:
    where = str(tmp_path / "orders")
    write_deltalake(where, pa.table({"id": [1]}))
    wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'")
    for statement in ("INSERT INTO orders VALUES (2)", "DELETE FROM orders", "UPDATE orders SET id = 3"):
        with pytest.raises(DataError, match="cannot be changed here") as refused:
            wh.sql(statement)
        assert refused.value.hint == "Change that one, and REFRESH TABLE orders."
    for call in (
        lambda: wh.apply({"orders": [(1, (2,))]}),
        lambda: wh.feed("orders"),
        lambda: wh.replay({"orders": [(1, (2,))]}, ["orders"]),
        lambda: wh.sql(f"CREATE FEED f INTO orders FROM '{tmp_path}'"),
    ):
        with pytest.raises(DataError, match="cannot be changed here"):
            call()
    wh.sql("CREATE TABLE own (id INT)")
    with pytest.raises(UnknownName, match="no lake table"):
        wh.sql("REFRESH TABLE own")


def test_keys_are_enforced(tmp_path: Path, wh: Any) -> None:
    where = str(tmp_path / "orders")
    write_deltalake(where, pa.table({"id": [1, 1]}))
    with pytest.raises(DataError, match="primary key"):
        wh.sql(f"CREATE TABLE orders (PRIMARY KEY (id)) USING delta LOCATION '{where}'")
    assert wh.tables() == (), "a table whose first version is refused is not created"
    write_deltalake(where, pa.table({"id": [1, 2]}), mode="overwrite")
    wh.sql(f"CREATE TABLE orders (PRIMARY KEY (id)) USING delta LOCATION '{where}'")
    write_deltalake(where, pa.table({"id": [2]}), mode="append")
    with pytest.raises(DataError, match="primary key"):
        wh.sync()
    DeltaTable(where).delete("id = 2")
    wh.sync()
    assert taken(wh, "orders") == {(1,): 1}


def test_shown_and_described(tmp_path: Path, wh: Any) -> None:
    where = str(tmp_path / "it's")
    write_deltalake(where, pa.table({"id": [1]}))
    path = where.replace("'", "\\'")
    wh.sql(f"CREATE TABLE orders USING delta OPTIONS (sync = 'every 5 minutes') LOCATION '{path}'")
    assert wh.sql("SHOW TABLES").rows() == [("orders", "table", "", "delta", where, "0")]
    assert ("Location", where, None) in wh.sql("DESCRIBE orders").rows()
    assert ("Version", "0", None) in wh.sql("DESCRIBE orders").rows()
    ((statement,),) = wh.sql("SHOW CREATE TABLE orders").rows()
    wh.sql("DROP TABLE orders")
    wh.sql(statement)
    assert wh.sql("SHOW CREATE TABLE orders").rows() == [(statement,)]


def test_several_threads(tmp_path: Path) -> None:
    where = str(tmp_path / "orders")
    write_deltalake(where, pa.table({"id": [0]}))
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'; CREATE TABLE own (id INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT o.id FROM orders o LEFT JOIN own ON o.id = own.id")
        with ThreadPoolExecutor(4) as threads:
            done = [threads.submit(wh.sync) for _ in range(8)]
            done += [threads.submit(wh.apply, {"own": [(1, (id,))]}) for id in range(8)]
            for id in range(1, 6):
                write_deltalake(where, pa.table({"id": [id]}), mode="append")
                done.append(threads.submit(wh.sql, "REFRESH TABLE orders"))
            for one in done:
                one.result()
        assert taken(wh, "orders") == taken(wh, "v") == {(id,): 1 for id in range(6)}


def test_commands(tmp_path: Path) -> None:
    where, run = str(tmp_path / "orders"), CliRunner()
    write_deltalake(where, pa.table({"id": [1]}))
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'")
        wh.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM orders")
    write_deltalake(where, pa.table({"id": [2, 3]}), mode="append")
    synced = run.invoke(app, ["sync", "-w", str(tmp_path / "w")])
    assert synced.output == "epoch 2: 2 rows from 1 file\n"
    assert run.invoke(app, ["sync", "orders", "-w", str(tmp_path / "w")]).output == "epoch 2: 0 rows\n"
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        assert wh.view("n").rows() == [(3,)]
        assert f"orders at version 1 of delta {where}" in wh.view("n").explain()


@pytest.mark.parametrize(
    ("clause", "error"),
    [
        ("USING delta LOCATION 's3://key:hush@lake/x'", "credentials"),
        ("USING delta LOCATION 'abfss://c@a.dfs.core.windows.net/x?sig=hush'", "credentials"),
        ("USING delta LOCATION 'ftp://hush@host/x'", "cannot be used"),
        ("USING orc LOCATION 'x'", "cannot be read"),
        ("USING delta OPTIONS (speed = 1) LOCATION 'x'", "unknown option"),
        ("USING delta OPTIONS (on_schema_change = 'guess') LOCATION 'x'", "on_schema_change"),
        ("(id INT) USING delta OPTIONS (on_schema_change = 'add') LOCATION 'x'", "on_schema_change"),
        ("USING parquet OPTIONS (on_schema_change = 'add') LOCATION 'x'", "on_schema_change"),
        ("USING delta LOCATION 'x' PARTITIONED BY (id)", "OPTIONS and a LOCATION only"),
        ("USING delta LOCATION x", "location was expected"),
        ("USING delta LOCATION ''", "no name"),
        ("USING delta LOCATION 'nowhere'", "there is no Delta table"),
    ],
)
def test_refused(wh: Any, clause: str, error: str) -> None:
    with pytest.raises(tidemill.TidemillError, match=error) as refused:
        wh.sql(f"CREATE TABLE orders {clause}")
    assert "hush" not in refused.value.what + str(refused.value.detail) + str(refused.value.hint)
    assert wh.tables() == ()


def test_a_table_whose_first_version_is_refused_leaves_nothing(tmp_path: Path, wh: Any) -> None:
    where = str(tmp_path / "orders")
    write_deltalake(where, pa.table({"id": [1, 1]}))
    with pytest.raises(tidemill.TidemillError):
        wh.sql(f"CREATE TABLE orders (PRIMARY KEY (id)) USING delta LOCATION '{where}'")
    assert wh.tables() == () and "lake:orders" not in wh.positions
    wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'")
    wh.sql("DROP TABLE orders")
    wh.sql(f"CREATE TABLE orders USING delta LOCATION '{where}'")
    assert wh.table("orders").rows() == [(1,), (1,)], "an earlier table of the name has left its position"


def test_followed(tmp_path: Path) -> None:
    where = str(tmp_path / "orders")
    write_deltalake(where, pa.table({"id": [1]}))
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql(f"CREATE TABLE orders USING delta OPTIONS (sync = continuous) LOCATION '{where}'")
        wh.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM orders")
        with wh.subscribe("n", timeout=20) as changes:
            write_deltalake(where, pa.table({"id": [2]}), mode="append")
            next(iter(changes))
        assert wh.view("n").rows() == [(2,)]
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        assert list(wh.troubles()) == ["orders"], "it does not go on by itself"
        wh.sql("DROP VIEW n; DROP TABLE orders")
        assert not wh.troubles()


@pytest.mark.parametrize("key", ["", "(PRIMARY KEY (id)) "], ids=["rows", "keyed"])
def test_a_first_version_goes_through_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr(staged_rows, "FILE_ROWS", 300)
    monkeypatch.setattr(data_files, "PART_ROWS", 90)
    lake = str(tmp_path / "orders")
    write_deltalake(lake, pa.table({"id": range(1000), "g": [str(n % 7) for n in range(1000)]}))
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(f"CREATE TABLE orders {key}USING delta LOCATION '{lake}'")
        assert wh.taken.rows == 1000 and len(wh._engine.store.runs("orders")) >= 3
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM orders GROUP BY g")
        DeltaTable(lake).delete("id % 3 = 0")
        wh.sync()
        assert taken(wh, "orders") == rows_of(lake) and all(one.ok for one in wh.verify())
    assert len(list((tmp_path / "w").rglob("*.parquet"))) <= 8, "what was staged is gone"
