"""A warehouse in S3, through the interface of users: an S3 server on this machine answers the requests."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tests.serving.test_cli import Tidemill
from tidemill.model.errors import LockHeld, SetupError, StorageError
from tidemill.storage.filesystem.objects.bucket import open_address
from tidemill.storage.filesystem.objects.requests import RepeatedRequests

SECRET = "aSecretThatNobodyMayRead"
SHOP = "s3://bucket/shop"
TOTALS = "CREATE MATERIALIZED VIEW totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    yield f"http://{host}:{port}"
    moto.stop()


@pytest.fixture(autouse=True)
def bucket(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A new bucket, named by the environment as AWS does."""
    given = {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "TIDEMILL_CACHE": str(tmp_path / "cache"),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    for method, place in (("POST", "moto-api/reset"), ("PUT", "bucket")):
        urllib.request.urlopen(urllib.request.Request(f"{server}/{place}", method=method)).read()
    return server


def filled(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount BIGINT)")
    wh.sql(TOTALS)
    for number in range(1, 6):
        wh.apply({"orders": [(+1, (number, "ann" if number % 2 else None, number))]})


def objects() -> RepeatedRequests:
    """All objects of the bucket."""
    return open_address("s3://bucket").system._requests


def test_a_warehouse_lives_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    with tidemill.open(SHOP, runtime="native") as wh:
        filled(wh)
        wh.sql("UPDATE orders SET amount = 10 WHERE id = 1")
        wh.sql("DELETE FROM orders WHERE id = 2")
        assert sorted(wh.view("totals").rows(), key=str) == [("ann", 18), (None, 4)]
        epoch = wh.epoch
    for cache in ("cache", "another machine"):  # where the copies of its files are, and where they are not
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TIDEMILL_CACHE", str(tmp_path / cache))
            with tidemill.open(SHOP, runtime="native") as wh:
                assert wh.epoch == epoch
                assert sorted(wh.view("totals").rows(), key=str) == [("ann", 18), (None, 4)]
                assert all(verification.ok for verification in wh.verify())
                wh.compact()
                assert wh.vacuum() > 0
                assert wh.check_files().strays == ()
                assert wh.at(epoch).table("orders").rows() == wh.table("orders").rows()
    report = tidemill.check(SHOP, full=True)
    assert report.ok, report
    assert report.path == SHOP
    assert report.unknown == ()


def test_a_reader_follows_and_a_second_writer_takes_over(bucket: str) -> None:
    first = tidemill.open(SHOP, runtime="native")
    filled(first)
    with tidemill.open(SHOP, runtime="native", read_only=True) as reader, reader.subscribe("totals") as heard:
        assert len(reader.table("orders").rows()) == 5
        with tidemill.open(SHOP, runtime="native") as second:
            second.apply({"orders": [(+1, (6, "bob", 1))]})
            assert next(iter(heard)).changes == [(+1, ("bob", 1))]
            with pytest.raises(LockHeld, match="taken over") as caught:
                first.apply({"orders": [(+1, (6, "eve", 1))]})
            assert "Open the warehouse again" in caught.value.render()
            with pytest.raises(LockHeld):
                first.close()
        assert (6, "bob", 1) in reader.table("orders").rows()


def test_damage_is_found_and_repaired(bucket: str) -> None:
    with tidemill.open(SHOP, runtime="native") as wh:
        filled(wh)
    name = next(name for name in objects().sizes("") if name.startswith("shop/maps/"))
    objects().replace(name, b"not rows")
    report = tidemill.check(SHOP)
    assert [damage.file for damage in report.damages] == [name.removeprefix("shop/")]
    told = tidemill.repair(SHOP, accept_loss=True)
    assert told.done
    assert tidemill.check(SHOP).ok
    assert any(key.startswith("shop/quarantine/maps/") for key in objects().sizes(""))


def test_secrets_are_nowhere(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidemill.open(SHOP, runtime="native") as wh:
        filled(wh)
        assert SECRET not in repr(wh)
        names = objects().sizes("")
        assert names
        assert not any(SECRET.encode() in objects().get(name) for name in names)
    assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    monkeypatch.setattr("tidemill.storage.filesystem.objects.requests.PAUSES", ())
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StorageError, match="cannot open") as caught:
        tidemill.open(SHOP, runtime="native")
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in repr(error)
        error = error.__cause__ or error.__context__


def test_streams_need_a_folder_for_their_checkpoints(bucket: str) -> None:
    with tidemill.open(SHOP, runtime="native") as wh, pytest.raises(SetupError, match="checkpoints"):
        wh._checkpoint_folder("orders")


def test_a_bucket_that_is_not_there(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.storage.filesystem.objects.requests.PAUSES", ())
    with pytest.raises(StorageError, match="cannot open") as caught:
        tidemill.open("s3://nowhere/shop", runtime="native")
    assert "bucket" in caught.value.render()


def test_the_command_line(bucket: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = Tidemill(capsys, monkeypatch)
    missing = run("show", "-w", SHOP)
    assert (missing.code, missing.out) == (1, "")
    assert "there is no warehouse here" in missing.err
    assert run("sql", "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)", "-w", SHOP).code == 0
    assert len(run("show", "t", "--json", "-w", SHOP).out.splitlines()) == 2
    assert run("check", "-w", SHOP).out.endswith("all checksums match\n")
    assert "bytes freed" in run("vacuum", "-w", SHOP).out


READ_PARTS = """
import pickle, sys
reader, parts = pickle.load(sys.stdin.buffer)
print(sorted(tuple(row.values()) for part in parts for batch in reader.read(part) for row in batch.to_pylist()))
"""


def test_tasks_of_the_data_source_read_with_the_rights_of_the_driver(tmp_path: Path) -> None:
    """Another process, which has no rights of its own, reads the parts that were planned here."""
    pytest.importorskip("pyspark.sql.datasource", reason="Spark has data sources in Python since 4.0")
    from tidemill.engine.data_source.source import TidemillSource

    with tidemill.open(SHOP, runtime="native") as wh:
        filled(wh)
    source = TidemillSource({"warehouse": SHOP, "path": "orders"})
    reader = source.reader(source.schema())
    given = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    given |= {"TIDEMILL_CACHE": str(tmp_path / "elsewhere"), "PYTHONPATH": os.pathsep.join(sys.path)}
    task = [sys.executable, "-c", READ_PARTS]
    parts = pickle.dumps((reader, reader.partitions()))
    read = subprocess.run(task, input=parts, env=given, capture_output=True, check=True)
    assert read.stdout.decode().strip() == str([(n, "ann" if n % 2 else None, n) for n in range(1, 6)])


def test_columns_and_names_change_in_s3() -> None:
    with tidemill.open(SHOP, runtime="native") as wh:
        filled(wh)
        wh.sql(
            "ALTER TABLE orders ADD COLUMN note STRING DEFAULT 'old'; ALTER TABLE orders RENAME COLUMN amount TO price"
        )
        wh.sql("ALTER TABLE orders RENAME TO sales; INSERT INTO sales VALUES (6, 'bob', 6, 'new')")
    with tidemill.open(SHOP, runtime="native") as wh:
        notes = wh.sql("SELECT note, COUNT(*), SUM(price) FROM sales GROUP BY note").rows()
        assert sorted(notes) == [("new", 1, 6), ("old", 5, 15)]
        wh.sql("ALTER TABLE sales ALTER COLUMN note SET NOT NULL; DELETE FROM sales WHERE id = 1")
        wh.compact()
        assert all(one.ok for one in wh.verify())
        assert sorted(wh.at(5).table("sales").rows())[0] == (1, "ann", 1, "old")


def test_copies_within_a_bucket_and_from_and_to_a_disk(bucket: str, tmp_path: Path) -> None:
    with tidemill.open(SHOP, runtime="native") as wh:
        filled(wh)
        rows = sorted(wh.view("totals").rows(), key=str)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMILL_CACHE", str(tmp_path / "no copies"))
        cloned = tidemill.clone(SHOP, "s3://bucket/clone")
        assert cloned.files.linked == cloned.files.files > 0  # the server has copied all of them
        assert tidemill.backup(SHOP, "s3://bucket/backups").files.linked == cloned.files.files
    tidemill.restore("s3://bucket/backups", tmp_path / "disk")
    tidemill.backup(tmp_path / "disk", "s3://bucket/others")
    assert tidemill.backup(tmp_path / "disk", "s3://bucket/others").files.shared == cloned.files.files
    tidemill.restore("s3://bucket/others", "s3://bucket/again")
    for place in ("s3://bucket/clone", tmp_path / "disk", "s3://bucket/again"):
        with tidemill.open(place, runtime="native") as copy:
            assert sorted(copy.view("totals").rows(), key=str) == rows
            copy.apply({"orders": [(+1, (9, "eve", 9))]})
            assert all(copy.verify())
    with tidemill.open(SHOP, runtime="native", read_only=True) as wh:
        assert sorted(wh.view("totals").rows(), key=str) == rows
