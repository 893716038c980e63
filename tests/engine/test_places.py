"""Paths and URLs of other machines are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import SetupError, StorageError, TidemillError

FOREIGN = [
    "hdfs://name/shop",
    "hdfs:/shop",
    "kafka://broker/topic",
    "http://host/shop",
    "jdbc:postgresql://host/db",
    "file://otherhost/shop",
    "DBFS:/shop",
]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("place", FOREIGN)
def test_other_machines_are_refused(here: Path, place: str) -> None:
    with pytest.raises(SetupError, match="cannot be used|on another machine"):
        tidemill.open(place)
    with tidemill.open(":memory:") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        with pytest.raises(SetupError, match="cannot be used|on another machine"):
            wh.sql(f"CREATE FEED f INTO t FROM '{place}'")
        with pytest.raises(SetupError, match="cannot be used|on another machine"):
            wh.load("t", place)
        assert list(wh.sql("SHOW FEEDS")) == []
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("place", ["s3a://bucket/shop", "s3://bucket/shop"])
def test_files_of_object_stores_are_not_read(here: Path, place: str) -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        for attempt in (lambda: wh.sql(f"CREATE FEED f INTO t FROM '{place}'"), lambda: wh.load("t", place)):
            with pytest.raises(SetupError, match="cannot be used"):
                attempt()
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "place", ["s3://key:geheim@bucket/shop", "s3://bucket/shop?secret=geheim", "gs://u:geheim@b/x"]
)
def test_credentials_are_no_part_of_an_address(here: Path, place: str) -> None:
    with pytest.raises(SetupError, match="nothing else") as caught:
        tidemill.open(place)
    assert "geheim" not in caught.value.render()


def test_known_file_systems_are_named(here: Path) -> None:
    with pytest.raises(SetupError) as caught:
        tidemill.open("ftp://me:geheim@host/shop")
    assert caught.value.hint == "Known are folders of this machine, file://, s3://, gs://, az://, abfss://."
    assert "geheim" not in caught.value.render()
    with pytest.raises(SetupError, match="hdfs") as caught:
        tidemill.open("hdfs://name/shop")
    assert "Java" in caught.value.render()


@pytest.mark.parametrize("place", ["", " ", "a\0b", ":mem:", ":memory :"])
def test_no_name_is_refused(here: Path, place: str) -> None:
    with pytest.raises(TidemillError):
        tidemill.open(place)
    assert list(here.iterdir()) == []


def test_a_url_of_this_machine_is_its_path(here: Path) -> None:
    for url in (f"file://{here}/my%20shop", f"file:{here}/my%20shop", f"file://localhost{here}/my%20shop"):
        tidemill.open(url).close()
    assert [path.name for path in here.iterdir()] == ["my shop"]
    (here / "in").mkdir()
    with tidemill.open("a:b") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        assert wh.sql(f"CREATE FEED f INTO t FROM 'file://{here}/in'").message == "created feed f"
        assert wh.sql("SHOW FEEDS")[0][2] == str(here / "in")
        told = wh.sql("CREATE FEED g INTO t FROM 'inn'").message
        assert told == f"created feed g; its folder is not there yet: {here / 'inn'}"


def test_a_warehouse_is_a_folder_of_its_own(here: Path) -> None:
    (here / "file").write_text("mine")
    (here / "documents").mkdir()
    (here / "documents" / "letter.txt").write_text("mine")
    with pytest.raises(StorageError, match="this is a file"):
        tidemill.open("file")
    with pytest.raises(StorageError, match="not a warehouse"):
        tidemill.open("documents")
    with tidemill.open("wh") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        with pytest.raises(SetupError, match="this is a file"):
            wh.sql("CREATE FEED f INTO t FROM 'file'")
    assert (here / "file").read_text() == "mine"
    assert [path.name for path in (here / "documents").iterdir()] == ["letter.txt"]
