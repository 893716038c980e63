"""Views published as lake tables: another engine reads there what the view shows at an epoch, whatever happens."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import tidemill
from tests.lake import delta_history
from tests.lake.publishing import (
    FORMATS,
    MODES,
    catalog_of,
    options,
    rows_of,
    table_of,
)
from tidemill.model.errors import NameTaken, UnknownName, Unsupported
from tidemill.sources.lake.publication import key_index


@pytest.fixture
def wh() -> Iterator[Any]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        yield warehouse


@pytest.mark.parametrize("write", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("format", FORMATS)
def test_from_one_lake_table_to_others(
    tmp_path: Path, random_seed: int, wh: Any, format: str, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "INDEXED_ROWS", 4)
    lake = delta_history.DeltaHistory(tmp_path / "orders", random.Random(random_seed), "on", [])
    wh.sql(f"CREATE TABLE orders USING delta LOCATION '{lake.path}'")
    query = "SELECT region, score, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region, score"
    for mode in MODES:
        given = options(tmp_path, format, mode, mode=mode, write=write, compact_files=3)
        wh.sql(f"CREATE MATERIALIZED VIEW {mode} WITH ({given}) AS {query}")
    for _ in range(6):
        lake.step()
        wh.sync()
        for mode in MODES:
            found = table_of(tmp_path, format, mode)
            assert found is not None and rows_of(found) == Counter(wh.view(mode).rows()), f"seed {random_seed}"


@pytest.mark.parametrize("format", FORMATS)
def test_only_what_changed_is_merged(tmp_path: Path, wh: Any, format: str) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options(tmp_path, format, 'out')}) AS SELECT id, n FROM t")
    wh.apply({"t": [(1, (id, 0)) for id in range(100_000)]})
    first = wh.publish()
    assert first == {"v": 1} and first.rows == 100_000
    wh.apply({"t": [(-1, (3, 0)), (1, (3, 1)), (-1, (4, 0)), (1, (-1, 0))]})
    wh.sql("CREATE TABLE other (id INT)")
    second = wh.publish("v")
    assert second == {"v": 2} and second.rows == 3 and second.bytes < first.bytes / 8
    again = wh.publish()
    assert again == second and (again.rows, again.bytes) == (0, 0)
    assert again.tables["v"].version == second.tables["v"].version
    wh.sql("INSERT INTO other VALUES (1)")
    assert wh.publish() == {"v": 3}, "an epoch that does not change the view is shown too"
    assert shown(tmp_path, format, "out") == Counter(wh.view("v").rows())
    described = dict(row[:2] for row in wh.sql("DESCRIBE TABLE v").rows())
    assert described["Provider"] == format and "epoch 3, 0 changed rows" in described["Last commit"]
    if format == "iceberg":
        assert catalog_of(tmp_path).load_table("sales.out").metadata_location.endswith(".gz.metadata.json")


def test_a_catalog_and_its_folder_are_made(tmp_path: Path, wh: Any) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    given = options(tmp_path / "new" / "folder", "iceberg", "out")
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({given}) AS SELECT id FROM t")
    wh.apply({"t": [(1, (5,))]})
    wh.publish()
    assert shown(tmp_path / "new" / "folder", "iceberg", "out") == {(5,): 1}


@pytest.mark.parametrize("format", FORMATS)
def test_a_view_that_is_refused_does_not_hold_up_others(tmp_path: Path, wh: Any, format: str) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    for name in ("a", "b", "c"):
        wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH ({options(tmp_path, format, name)}) AS SELECT id, n FROM t")
    wh.publish()
    other = pa.schema([("x", pa.int64())])
    if format == "delta":
        (tmp_path / "a").rename(tmp_path / "moved")
        DeltaTable.create(str(tmp_path / "a"), other)
    else:
        catalog_of(tmp_path).drop_table("sales.a")
        catalog_of(tmp_path).create_table("sales.a", other)
    wh.apply({"t": [(1, (1, 5))]})
    with pytest.raises(NameTaken) as refused:
        wh.publish()
    assert 'View "a" is not published. Published are: b, c.' in str(refused.value.detail)
    assert shown(tmp_path, format, "b") == shown(tmp_path, format, "c") == Counter([(1, 5)])


def shown(folder: Path, format: str, name: str) -> Counter[tuple[Any, ...]]:
    """The rows of a published table."""
    found = table_of(folder, format, name)
    assert found is not None
    return rows_of(found)


@pytest.mark.parametrize("format", FORMATS)
def test_keys_of_every_type(tmp_path: Path, wh: Any, format: str) -> None:
    types = {
        "d": "DOUBLE",
        "a": "ARRAY<INT>",
        "s": "STRUCT<x: INT>",
        "b": "BINARY",
        "ts": "TIMESTAMP",
        "e": "DECIMAL(9,2)",
    }
    wh.sql(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in types.items())})")
    for name in types:
        given = options(tmp_path, format, name, epochs_table="off")
        wh.sql(
            f"CREATE MATERIALIZED VIEW v_{name} WITH ({given}) AS SELECT {name}, COUNT(*) AS n FROM t GROUP BY {name}"
        )
    nan = (float("nan"), [1, None], {"x": None}, b"\0", datetime(2020, 1, 1), Decimal("1.50"))
    rows = (nan, (None,) * 6, nan, (float("inf"), [], {"x": 2}, b"", None, None), (None,) * 6, (-0.0, *nan[1:]))
    for row in rows:
        wh.apply({"t": [(1, row)]})
        wh.publish()
    wh.apply({"t": [(-1, nan), (1, (0.0, *nan[1:]))]})
    wh.publish()
    for name in types:
        found = table_of(tmp_path, format, name)
        assert found is not None
        counts = sorted(found.column("n").to_pylist())
        assert counts == sorted(n for _, n in wh.view(f"v_{name}").rows()), name


@pytest.mark.parametrize("format", FORMATS)
def test_compaction_changes_no_rows(tmp_path: Path, wh: Any, format: str) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    given = options(tmp_path, format, "out", compact_files=4, epochs_table="off")
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({given}) AS SELECT id, n FROM t")
    wh.apply({"t": [(1, (id, 0)) for id in range(200)]})
    wh.publish()
    files = []
    for number in range(12):
        wh.apply({"t": [(-1, (number, 0)), (1, (number, 1)), (1, (1000 + number, 0))]})
        wh.publish()
        assert shown(tmp_path, format, "out") == Counter(wh.view("v").rows())
        files.append(data_files(tmp_path, format, "out"))
        if format == "delta" and number == 6:
            DeltaTable(str(tmp_path / "out")).create_checkpoint()  # the files with their vectors are read from it
    assert max(files) <= 8, files
    wh.apply({"t": [(-1, (id, 0)) for id in range(12, 200)]})
    for _ in range(2):  # more rows are marked as deleted than there are: all are written anew
        wh.apply({"t": [(-1, (1000, 0)), (1, (1000, 0))]})
        wh.sql("UPDATE t SET n = n + 1 WHERE id = 1")
        wh.publish()
    assert data_files(tmp_path, format, "out") <= 2
    assert shown(tmp_path, format, "out") == Counter(wh.view("v").rows())


@pytest.mark.parametrize("format", FORMATS)
def test_vacuum(tmp_path: Path, wh: Any, format: str) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    given = options(tmp_path, format, "out", compact_files=3, vacuum="0 seconds", epochs_table="off")
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({given}) AS SELECT id, n FROM t")
    wh.apply({"t": [(1, (id, 0)) for id in range(500)]})
    wh.publish()
    for number in range(9):
        wh.apply({"t": [(-1, (number, 0)), (1, (number, 1))]})
        wh.publish()
    assert shown(tmp_path, format, "out") == Counter(wh.view("v").rows())
    root = tmp_path / ("out" if format == "delta" else "sales/out")
    kept = [file for file in root.rglob("*") if file.suffix in (".parquet", ".bin")]
    assert len(kept) <= 2 * data_files(tmp_path, format, "out"), kept


def data_files(folder: Path, format: str, name: str) -> int:
    """The number of data files of a published table, and of its delete files."""
    if format == "delta":
        return len(DeltaTable(str(folder / name)).file_uris())
    return len(catalog_of(folder).load_table(f"sales.{name}").inspect.files())


@pytest.mark.parametrize("format", FORMATS)
def test_versions_that_belong_together(tmp_path: Path, wh: Any, format: str) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT)")
    queries = {
        "sums": "SELECT g, SUM(id) AS s FROM t GROUP BY g",
        "counts": "SELECT g, COUNT(*) AS n FROM t GROUP BY g",
    }
    for name, query in queries.items():
        wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH ({options(tmp_path, format, name)}) AS {query}")
    wh.apply({"t": [(1, (1, 1)), (1, (2, 1))]})
    wh.publish()
    wh.apply({"t": [(1, (3, 1))]})
    wh.publish("sums")  # counts is behind
    recorded = table_of(tmp_path, format, "_tidemill_epochs")
    assert recorded is not None
    newest = duckdb.sql("SELECT epoch FROM recorded GROUP BY epoch HAVING COUNT(*) = 2 ORDER BY epoch DESC LIMIT 1")
    ((epoch,),) = newest.fetchall()
    assert epoch == 1
    together = {row["view"]: row["version"] for row in recorded.to_pylist() if row["epoch"] == epoch}
    at = {view: table_of(tmp_path, format, view, version) for view, version in together.items()}
    assert [rows_of(found) for found in at.values() if found is not None] == [{(1, 3): 1}, {(1, 2): 1}]
    before = recorded.num_rows
    wh.publish("sums")
    again = table_of(tmp_path, format, "_tidemill_epochs")
    assert again is not None and again.num_rows == before == 3


@pytest.mark.parametrize("format", FORMATS)
def test_published_and_read_again(tmp_path: Path, wh: Any, format: str) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options(tmp_path, format, 'out', compact_files=3)}) AS SELECT * FROM t")
    wh.apply({"t": [(1, (id, 0)) for id in range(50)]})
    wh.publish()
    place = f"OPTIONS (catalog = '{tmp_path}/catalog.db')" if format == "iceberg" else ""
    location = "sales.out" if format == "iceberg" else tmp_path / "out"
    wh.sql(f"CREATE TABLE back USING {format} {place} LOCATION '{location}'")
    for number in range(5):
        wh.apply({"t": [(-1, (number, 0)), (1, (number, 1)), (-1, (40 + number, 0))]})
        wh.publish()
        wh.sync("back")
        assert sorted(wh.table("back").rows()) == sorted(wh.view("v").rows())


def test_published_in_a_configured_catalog(tmp_path: Path, wh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    options = "publish = 'iceberg', catalog_name = 'prod', location = 'sales.out'"
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT * FROM t")
    wh.apply({"t": [(1, (id, 0)) for id in range(5)]})
    with pytest.raises(tidemill.TidemillError, match='no Iceberg catalog is called "prod"'):
        wh.publish()
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "http://127.0.0.1:9/aSecretToken")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__TOKEN", "aSecretToken")
    with pytest.raises(tidemill.TidemillError) as refused:
        wh.publish()
    assert "aSecretToken" not in refused.value.render()
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"file://{tmp_path}")
    wh.publish()
    wh.apply({"t": [(-1, (3, 0)), (1, (3, 7))]})
    assert wh.publish() == {"v": 2}
    found = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db").load_table("sales.out")
    assert rows_of(found.scan().to_arrow()) == Counter(wh.view("v").rows())


@pytest.mark.parametrize("format", FORMATS)
def test_somebody_else_deletes_rows(tmp_path: Path, wh: Any, format: str) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options(tmp_path, format, 'out')}) AS SELECT id, n FROM t")
    wh.apply({"t": [(1, (id, 0)) for id in range(10)]})
    wh.publish()
    if format == "delta":
        DeltaTable(str(tmp_path / "out")).delete("id < 5")
    else:
        catalog_of(tmp_path).load_table("sales.out").delete("id < 5")
    wh.apply({"t": [(-1, (1, 0)), (1, (1, 1))]})
    wh.publish()
    assert shown(tmp_path, format, "out") == Counter(wh.view("v").rows())


def test_every_n_epochs(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        given = options(tmp_path, "delta", "out", publish_every="3 epochs")
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({given}) AS SELECT DISTINCT a FROM t")
        turn = wh._engine.publications._publish_due
        wh._engine.publications.drop("v")
        seen = []
        for number in range(7):
            wh.apply({"t": [(1, (number,))]})
            turn("v")
            seen.append(len(shown(tmp_path, "delta", "out")))
        assert seen == [1, 1, 1, 4, 4, 4, 7]


@pytest.mark.parametrize("format", FORMATS)
def test_duplicates_and_one_row(tmp_path: Path, wh: Any, format: str) -> None:
    wh.sql("CREATE TABLE t (a INT)")
    wh.sql(f"CREATE MATERIALIZED VIEW one WITH ({options(tmp_path, format, 'one')}) AS SELECT SUM(a) AS s FROM t")
    given = options(tmp_path, format, "twice", mode="snapshot")
    wh.sql(f"CREATE MATERIALIZED VIEW twice WITH ({given}) AS SELECT a FROM t")
    for rows in ([(3, (7,))], [(-1, (7,)), (2, (8,))], [(-2, (7,)), (-2, (8,))]):
        wh.apply({"t": rows})
        wh.publish()
        for view in ("one", "twice"):
            assert shown(tmp_path, format, view) == Counter(wh.view(view).rows())


def test_changes_that_are_no_longer_kept(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        for mode in ("merge", "changes"):
            given = options(tmp_path, "delta", mode, mode=mode)
            wh.sql(f"CREATE MATERIALIZED VIEW {mode} WITH ({given}) AS SELECT id FROM t")
        wh.publish()
        for id in range(3):
            wh.apply({"t": [(1, (id,))]})
        wh.vacuum()
        assert wh.publish("merge") == {"merge": 3}
        assert shown(tmp_path, "delta", "merge") == {(0,): 1, (1,): 1, (2,): 1}
        with pytest.raises(tidemill.TidemillError, match="no longer kept"):
            wh.publish("changes")


@pytest.mark.parametrize("format", FORMATS)
def test_a_location_has_one_view(tmp_path: Path, wh: Any, format: str) -> None:
    wh.sql("CREATE TABLE t (a INT)")
    create = f"MATERIALIZED VIEW v WITH ({options(tmp_path, format, 'out')}) AS SELECT DISTINCT a FROM t"
    wh.sql(f"CREATE {create}")
    with pytest.raises(NameTaken, match="published there"):
        wh.sql(f"CREATE {create.replace(' v ', ' w ')}")
    wh.apply({"t": [(1, (1,))]})
    wh.publish()
    wh.sql(f"CREATE OR REPLACE {create.replace('SELECT DISTINCT a', 'SELECT DISTINCT a + 1 AS b, 1 AS n')}")
    wh.publish()
    assert shown(tmp_path, format, "out") == {(2, 1): 1}, "a view that was replaced is published anew"
    with tidemill.open(":memory:", runtime="native") as other:
        other.sql("CREATE TABLE t (a INT)")
        other.sql(f"CREATE {create}")
        other.publish()
    wh.apply({"t": [(1, (2,))]})
    with pytest.raises(NameTaken, match="another view"):
        wh.publish()
    if format == "delta":
        write_deltalake(str(tmp_path / "theirs"), pa.table({"a": [1]}))
    else:
        theirs = catalog_of(tmp_path).create_table("sales.theirs", pa.schema([("a", pa.int64())]))
        theirs.append(pa.table({"a": [1]}))
    wh.sql(f"CREATE MATERIALIZED VIEW x WITH ({options(tmp_path, format, 'theirs')}) AS SELECT DISTINCT a FROM t")
    with pytest.raises(NameTaken, match="cannot be published here"):
        wh.publish("x")
    assert shown(tmp_path, format, "theirs") == {(1,): 1}


@pytest.mark.parametrize(
    ("given", "query", "error"),
    [
        ("publish = parquet, location = 'x'", "SELECT a FROM t", "cannot be published as"),
        ("publish = delta", "SELECT a FROM t", "no location"),
        ("location = 'x'", "SELECT a FROM t", "not published"),
        ("publish = delta, location = 'x', mode = 'some'", "SELECT a FROM t", "mode"),
        ("publish = delta, location = 'x'", "SELECT a FROM t", "identify its rows"),
        ("publish = delta, location = 'x', publish_every = 'now'", "SELECT DISTINCT a FROM t", "option publish_every"),
        ("publish = delta, location = 'x'", "SELECT DISTINCT TIME'10:00:00' AS a FROM t", "no such type"),
        ("publish = delta, location = 'x'", "SELECT a, COUNT(*) FROM t GROUP BY a", "name"),
        ("publish = delta, location = 's3://key:hush@x/y'", "SELECT DISTINCT a FROM t", "credentials"),
        ("publish = iceberg, location = 'a.b'", "SELECT DISTINCT a FROM t", "has no catalog"),
        ("publish = iceberg, location = 'b', catalog = 'c.db'", "SELECT DISTINCT a FROM t", "namespace and name"),
        ("publish = delta, location = 'x', catalog = 'c.db'", "SELECT DISTINCT a FROM t", "is for Iceberg"),
        ("publish = delta, location = 'x', write = 'twice'", "SELECT DISTINCT a FROM t", "by write"),
        ("publish = delta, location = 'x', compact_files = '1'", "SELECT DISTINCT a FROM t", "cannot compact"),
        ("publish = delta, location = 'x', publish_every = '0 epochs'", "SELECT DISTINCT a FROM t", "publish_every"),
        ("publish = delta, location = 'x', publication = 'y'", "SELECT DISTINCT a FROM t", "unknown option"),
    ],
)
def test_refused(wh: Any, given: str, query: str, error: str) -> None:
    wh.sql("CREATE TABLE t (a INT)")
    with pytest.raises(Unsupported) as refused:
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({given}) AS {query}")
    assert error in str(refused.value) or error in str(refused.value.detail)
    assert wh.views() == ()


def test_places_that_belong_to_others(wh: Any, tmp_path: Path) -> None:
    (tmp_path / "read").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "read" / "a.parquet")
    write_deltalake(str(tmp_path / "theirs"), pa.table({"a": [1]}))
    wh.sql(f"CREATE TABLE folder USING parquet LOCATION '{tmp_path / 'read'}'")
    wh.sql(f"CREATE TABLE theirs USING delta LOCATION '{tmp_path / 'theirs'}'")
    published = "publish = 'delta', location = '{}', mode = 'snapshot'"
    view = f"CREATE MATERIALIZED VIEW {{}} WITH ({published}) AS SELECT a FROM folder"
    wh.sql(view.format("v", tmp_path / "lake" / "spend"))
    for place in (
        "lake/spend",
        "lake/spend/eu",
        "lake",
        "lake/_tidemill_epochs",
        "_tidemill_epochs",
        "read",
        "read/v",
        "theirs",
    ):
        with pytest.raises(NameTaken):
            wh.sql(view.format("w", tmp_path / place))
        assert wh.views() == ("v",)
    wh.sql(view.format("w", tmp_path / "lake" / "spends"))
    assert set(wh.publish().tables) == {"v", "w"}
    with pytest.raises(NameTaken, match="around or in it"):
        wh.sql(f"ALTER VIEW w SET (location = '{tmp_path / 'lake' / 'spend' / 'w'}')")


def test_published_by_itself(tmp_path: Path) -> None:
    where = str(tmp_path / "out")
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        given = options(tmp_path, "delta", "out", publish_every="continuous")
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({given}) AS SELECT DISTINCT a FROM t")
        wh.apply({"t": [(1, (1,))]})
        for _ in range(200):
            if DeltaTable.is_deltatable(where) and shown(tmp_path, "delta", "out") == {(1,): 1}:
                break
            time.sleep(0.05)
        assert shown(tmp_path, "delta", "out") == {(1,): 1}
        with pytest.raises(UnknownName):
            wh.publish("t")
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        assert list(wh.troubles()) == ["v"]
        wh.sql("DROP VIEW v")
    with tidemill.open(tmp_path / "w", runtime="native", read_only=True) as wh, pytest.raises(tidemill.TidemillError):
        wh.publish()
