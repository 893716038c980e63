"""Lake tables in S3: Delta, read and published, Iceberg, and folders of files. A server on this machine answers."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from obstore.store import from_url
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo

import tidemill
from tests.lake.delta_history import FEED, rows_of
from tidemill.model.errors import SetupError, SourceError

SECRET = "aSecretThatNobodyMayRead"

SERVE = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server in a process of its own: deltalake keeps Python's lock while it waits for an answer."""
    with subprocess.Popen([sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new bucket, which the environment has the keys of."""
    given = {"AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": SECRET}
    for name, value in (given | {"AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}).items():
        monkeypatch.setenv(name, value)
    for method, place in (("POST", "moto-api/reset"), ("PUT", "bucket")):
        request(server, method, place)
    return f"{server}/bucket"


def request(server: str, method: str, place: str, content: bytes | None = None) -> None:
    """Ask something of the server."""
    urllib.request.urlopen(urllib.request.Request(f"{server}/{place}", content, method=method)).read()


@pytest.mark.parametrize("feed", ["true", "false"])
def test_from_a_bucket_to_a_bucket(bucket: str, feed: str) -> None:
    lake, out = "s3://bucket/lake/orders", "s3://bucket/lake/totals"
    rows = pa.table({"id": range(20), "g": ["a b", "c/d"] * 10})
    write_deltalake(lake, rows, partition_by=["g"], configuration={FEED: feed})
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(f"CREATE TABLE orders USING delta LOCATION '{lake}'")
        options = f"publish = delta, location = '{out}'"
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT g, SUM(id) AS s FROM orders GROUP BY g")
        for change in ("id < 5", "id = 7"):
            DeltaTable(lake).delete(change)
            wh.sync()
            assert Counter(wh.table("orders").rows()) == rows_of(lake)
            assert Counter(wh.view("v").rows()) == rows_of(out)
        with pytest.raises(tidemill.TidemillError) as refused:
            wh.sql(f"CREATE TABLE nothing USING delta LOCATION '{lake}/nothing'")
        assert SECRET not in refused.value.render()
        assert SECRET not in "".join(map(str, wh.sql("SHOW TABLES").rows()))


def content_of(format: str, rows: list[tuple[int, str]]) -> bytes:
    """A file of these rows."""
    if format == "parquet":
        made = BytesIO()
        ids, names = zip(*rows, strict=True)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int32()), "name": names}), made)
        return made.getvalue()
    if format == "json":
        return "".join(f'{{"id": {id}, "name": "{name}"}}\n' for id, name in rows).encode()
    return "".join(["id,name\n", *(f"{id},{name}\n" for id, name in rows)]).encode()


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_folder_of_objects(bucket: str, format: str) -> None:
    files: dict[str, list[tuple[int, str]]] = {}
    store = from_url("s3://bucket/in", client_options={"allow_http": True})

    def put(name: str, *rows: tuple[int, str]) -> None:
        files[name] = list(rows)
        store.put(name, content_of(format, list(rows)))

    def assert_same(wh: tidemill.Warehouse) -> None:
        day = {"day=1/a": 1, "day=1/b": 1, "day=2/c d": 2}
        expected = Counter((*row, day[name]) for name, rows in files.items() for row in rows)
        assert Counter(wh.table("t").rows()) == expected
        assert all(one.ok for one in wh.verify())

    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        create = f"CREATE TABLE t (id INT, name STRING, day INT) USING {format} LOCATION"
        with pytest.raises(SetupError, match="no such folder"):
            wh.sql(f"{create} 's3://bucket/in'")
        put("day=1/a", (1, "x"), (2, "y"))
        store.put("day=1/_SUCCESS", b"no data")
        request(bucket, "PUT", "in/day=3/", b"")
        wh.sql(f"{create} 's3a://bucket/in/'")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT day, COUNT(*) AS n, SUM(id) AS s FROM t GROUP BY day")
        put("day=1/b", (3, "z"))
        put("day=2/c d", (4, "z"))
        assert wh.sync().counts.files == 2
        assert_same(wh)
        assert wh.sync().counts.files == 0
        put("day=1/a", (1, "x"), (9, "y"))
        wh.sync()
        assert_same(wh)
        store.delete("day=1/b")
        del files["day=1/b"]
        wh.sync()
        assert_same(wh)
        store.put("day=2/e", b"nothing that is readable")
        with pytest.raises(tidemill.TidemillError) as refused:
            wh.sync()
        assert "s3a://bucket/in/day=2/e" in refused.value.render() and SECRET not in refused.value.render()
        store.put("_temporary/0/e", b"being written")
        with pytest.raises(SourceError, match="being written"):
            wh.sync()
        assert_same(wh)


def test_iceberg_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    settings = {"s3.endpoint": bucket.removesuffix("/bucket"), "s3.region": "us-east-1"}
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/c.db", warehouse="s3://bucket/lake", **settings)
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", schema=pa.schema([("id", pa.int64()), ("g", pa.string())]))
    table.append(pa.table({"id": range(6), "g": ["a", "b"] * 3}))
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(f"CREATE TABLE orders USING iceberg OPTIONS (catalog = '{tmp_path}/c.db') LOCATION 'sales.orders'")
        wh.sql(f"CREATE TABLE fixed USING iceberg LOCATION '{table.metadata_location}'")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(id) AS s FROM orders GROUP BY g")
        table.delete(EqualTo("id", 3))
        table.append(pa.table({"id": [10], "g": ["c"]}))
        wh.sync()
        assert sorted(wh.table("orders").rows()) == [(0, "a"), (1, "b"), (2, "a"), (4, "a"), (5, "b"), (10, "c")]
        assert len(wh.table("fixed").rows()) == 6, "a metadata file stays at its version"
        assert all(one.ok for one in wh.verify())
        with pytest.raises(tidemill.TidemillError) as refused:
            wh.sql("CREATE TABLE nothing USING iceberg LOCATION 's3://bucket/lake/nothing'")
        assert SECRET not in refused.value.render()


def test_a_catalog_of_glue(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = bucket.removesuffix("/bucket")
    settings = {"type": "glue", "glue.endpoint": server, "glue.region": "us-east-1", "warehouse": "s3://bucket/lake"}
    catalog = load_catalog("shop", **settings, **{"s3.endpoint": server, "s3.region": "us-east-1"})
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))
    for name, value in settings.items():
        variable = name.upper().replace(".", "__")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__SHOP__{variable}", value)
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE orders USING iceberg OPTIONS (catalog_name = 'shop') LOCATION 'sales.orders'")
        options = "publish = 'iceberg', catalog_name = 'shop', location = 'totals.v', mode = 'snapshot'"
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT SUM(id) AS s FROM orders")
        wh.publish()
        table.delete(EqualTo("id", 2))
        wh.sync()
        assert wh.view("v").rows() == [(4,)]
    assert catalog.load_table("totals.v").scan().to_arrow().to_pylist() == [{"s": 4}]
    assert len(catalog.load_table("totals._tidemill_epochs").scan().to_arrow()) == 2
