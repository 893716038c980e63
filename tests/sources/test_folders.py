"""Folders of files: what they stand for, partitions in their names, and what is skipped or refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import BadValue, SetupError, TidemillError, UnknownName, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.sources.ingest.files import read_files
from tidemill.sources.ingest.nested_records import read_records

SALES = Table(
    "sales",
    (
        Field("id", t.BIGINT, nullable=False),
        Field("day", t.DATE),
        Field("region", t.STRING),
        Field("rate", t.Decimal(5, 2)),
        Field("at", t.TIMESTAMP),
    ),
)


def put(folder: Path, name: str, *ids: int) -> Path:
    """A file of rows that have just an id."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.table({"id": list(ids)}), file)
    elif file.suffix == ".jsonl":
        file.write_text("".join(f'{{"id": {id_}}}\n' for id_ in ids))
    else:
        file.write_text("".join(f"{line}\n" for line in ("id", *ids)))
    return file


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_partitions_are_columns(tmp_path: Path, ending: str) -> None:
    put(tmp_path, f"day=2026-01-01/region=north%2Feast/part-0.{ending}", 1, 2)
    put(tmp_path, f"day=2026-01-02/region=__HIVE_DEFAULT_PARTITION__/part-0.{ending}", 3)
    put(tmp_path, f"DAY=__HIVE_DEFAULT_PARTITION__/region=5/part-0.{ending}", 4)
    put(tmp_path, "_SUCCESS")
    put(tmp_path, "day=2026-01-01/.part-0.crc")
    read = read_files(SALES, [tmp_path])
    assert read.change.zset() == ZSet.of(
        [
            (1, dt.date(2026, 1, 1), "north/east", None, None),
            (2, dt.date(2026, 1, 1), "north/east", None, None),
            (3, dt.date(2026, 1, 2), None, None, None),
            (4, None, "5", None, None),
        ]
    )
    assert (read.files, sorted(path.name for path in read.skipped)) == (3, [".part-0.crc", "_SUCCESS"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_partitions_have_the_type_of_their_column(tmp_path: Path, ending: str) -> None:
    put(tmp_path, f"rate=1.5/at=2026-01-01 10%3A00%3A00/x.{ending}", 1)
    row = (1, None, None, Decimal("1.50"), dt.datetime(2026, 1, 1, 10))
    assert read_files(SALES, [tmp_path]).change.zset() == ZSet.of([row])


def test_one_partition_may_be_named_itself(tmp_path: Path) -> None:
    file = put(tmp_path, "env=prod/day=2026-01-01/x.parquet", 1)
    row = (1, dt.date(2026, 1, 1), None, None, None)
    for path in (file, file.parent):
        assert read_files(SALES, [path]).change.zset() == ZSet.of([row])


def test_plain_folders_are_read_however_deep(tmp_path: Path) -> None:
    put(tmp_path, "2026/01/a.csv", 1)
    put(tmp_path, "2026/b.csv", 2)
    put(tmp_path, "c.csv", 3)
    assert sorted(row[0] for row in read_files(SALES, [tmp_path]).change.zset()) == [1, 2, 3]


def _twice(folder: Path) -> None:
    file = put(folder, "day=2026-01-01/x.csv")
    file.write_text("id,day\n1,2026-01-02\n")


REFUSED: dict[str, tuple[list[str], type[TidemillError], str]] = {
    "nothing": ([], SetupError, "nothing to read"),
    "only markers": (["_SUCCESS", "_delta/x.csv"], SetupError, "nothing to read"),
    "another column": (["week=1/x.csv"], UnknownName, 'no column "week"'),
    "a value that does not fit": (["day=tomorrow/x.csv"], BadValue, "tomorrow"),
    "no value": (["day=/x.csv"], BadValue, "no partition"),
    "files beside partitions": (["day=2026-01-01/x.csv", "y.csv"], BadValue, "in different ways"),
    "two kinds of partitions": (["day=2026-01-01/x.csv", "region=a/y.csv"], BadValue, "in different ways"),
    "a column twice": (["day=2026-01-01/day=2026-01-02/x.csv"], BadValue, "comes twice"),
    "bytes that are no text": (["region=%ff/x.csv"], BadValue, "not UTF-8"),
    "a strange ending": (["day=2026-01-01/x.avro"], Unsupported, "avro"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_not_understood_is_refused(tmp_path: Path, case: str, ending: str) -> None:
    names, error, text = REFUSED[case]
    for name in names:
        put(tmp_path, name.replace(".csv", f".{ending}"), 1)
    with pytest.raises(error, match=text) as caught:
        read_files(SALES, [tmp_path])
    assert str(tmp_path) in str(caught.value.where)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_column_cannot_be_in_the_file_and_in_its_folder(tmp_path: Path, ending: str) -> None:
    put(tmp_path, f"id=7/x.{ending}", 1)
    with pytest.raises(BadValue, match="in the file and in the name of its folder"):
        read_files(SALES, [tmp_path])


def test_rows_of_a_bad_partition_are_set_aside(tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        put(tmp_path / "in", f"day=tomorrow/x.{ending}", 1, 2)
        put(tmp_path / "in", f"day=2026-01-01/x.{ending}", 3)
    read = read_files(SALES, [tmp_path / "in"], reject=tmp_path / "bad.jsonl")
    assert (len(read.change), read.rejected) == (2, 4)
    assert (tmp_path / "bad.jsonl").read_text().count("tomorrow") >= 4


def test_a_link_to_a_folder_is_not_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "x.csv", 1)
    put(tmp_path / "in", "y.csv", 2)
    (tmp_path / "in" / "more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SetupError, match="not all of a folder"):
        read_files(SALES, [tmp_path / "in"])


def test_nested_records_have_no_partitions(tmp_path: Path) -> None:
    put(tmp_path, "day=2026-01-01/x.jsonl", 1)
    with pytest.raises(Unsupported, match="partitioned"):
        list(read_records([tmp_path]))


def test_a_warehouse_counts_what_it_loads(tmp_path: Path) -> None:
    put(tmp_path / "in", "day=2026-01-01/x.parquet", 1, 2)
    put(tmp_path / "in", "day=2026-01-02/x.parquet", 3)
    put(tmp_path / "in", "_SUCCESS")
    with tidemill.open(":memory:") as wh:
        wh.sql("CREATE TABLE sales (id INT, day DATE)")
        taken = wh.load("sales", f"file://{tmp_path}/in")
        assert (taken, str(taken.counts)) == (1, "3 rows from 2 files; skipped _SUCCESS")
        wh.sql("CREATE STREAM s (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 MINUTE LATENESS 1 MINUTE")
        wh.sql("INSERT INTO s VALUES (TIMESTAMP '2026-01-01 10:00:00', 1)")
        late = tmp_path / "late.csv"
        late.write_text("ts,n\n2026-01-01 09:00:00,1\n2026-01-01 10:01:00,1\n")
        assert str(wh.load("s", late).counts) == "2 rows from 1 file, 1 of them late"
        done = wh.sql("INSERT INTO s VALUES (TIMESTAMP '2026-01-01 09:00:00', 1)")
        assert done.message == "1 row change in epoch 4, 1 of them late"
