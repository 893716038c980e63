"""CSV files as people have them: separators, no header, quotes, NULLs, dates, compression, patterns of names."""

from __future__ import annotations

import datetime as dt
import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.model.errors import BadValue, InvalidArgument, SetupError, TidemillError, Unsupported

ROWS = [(1, "ann", Decimal("1.50"), dt.date(2024, 2, 29)), (2, None, None, None)]


@pytest.fixture
def wh() -> Any:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, name STRING, price DECIMAL(8, 2), day DATE)")
        yield warehouse


PLAIN = "id,name,price,day\n1,ann,1.5,2024-02-29\n2,,,\n"

TEXTS: list[tuple[str, str, dict[str, str]]] = [
    ("a.csv", PLAIN, {}),
    ("a.csv", PLAIN.replace(",", ";"), {}),
    ("a.tsv", PLAIN.replace(",", "\t"), {}),
    ("a.tsv", PLAIN, {}),
    ("a.csv", PLAIN.replace(",", "|"), {}),
    ("a.txt", PLAIN.replace(",", "\t"), {}),
    ("a", PLAIN.replace(",", ":"), {"sep": ":"}),
    ("a.csv", PLAIN.replace(",", "\t"), {"sep": "\\t"}),
    ("a.csv", "1;ann;1.5;2024-02-29\n2;;;\n", {"header": "false"}),
    ("a.csv", "1,ann,1.5,2024-02-29\n2,NA,NA,NA\n", {"header": "FALSE", "nullValue": "NA"}),
    ("a.csv", "day,id,name,price\n29.02.2024,1,'ann','1.5'\n,2,,\n", {"dateFormat": "dd.MM.yyyy", "quote": "'"}),
    ("a.dat", '{"id": 1, "name": "ann", "price": 1.5, "day": "2024-02-29"}\n{"id": 2}\n', {}),
]


@pytest.mark.parametrize(("name", "text", "options"), TEXTS)
@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
def test_texts(wh: Any, tmp_path: Path, name: str, text: str, options: dict[str, str], compression: str) -> None:
    file = tmp_path / f"{name}{compression}"
    with pa.output_stream(str(file), compression={".gz": "gzip", ".zst": "zstd"}.get(compression)) as out:
        out.write(text.encode())
    taken = wh.load("t", file, options=options)
    assert sorted(wh.table("t").rows()) == ROWS and str(taken.counts) == "2 rows from 1 file"


def test_patterns_and_folders_of_partitions(wh: Any, tmp_path: Path) -> None:
    wh.sql("CREATE TABLE s (id INT, year INT, region STRING)")
    for year, region, number in ((2023, "eu", 1), (2024, "eu", 2), (2024, "us", 3)):
        folder = tmp_path / f"year={year}" / f"region={region}"
        folder.mkdir(parents=True)
        (folder / "part.csv").write_text(f"id\n{number}\n")
    wh.load("s", tmp_path / "year=*" / "region=eu" / "*.csv")
    assert sorted(wh.table("s").rows()) == [(1, 2023, "eu"), (2, 2024, "eu")]
    wh.load("s", str(tmp_path / "year=2024"), mode="append")
    assert str(wh.load("s", str(tmp_path / "**" / "*.csv")).counts) == "3 rows from 3 files"
    assert str(wh.load("s", tmp_path / "*", options={"header": "true"}).counts) == "3 rows from 3 files"
    (tmp_path / "year=2024" / "region=us" / "plain.csv").write_text("7\n")
    wh.load("s", tmp_path / "year=2024" / "region=us" / "pl?in.csv", options={"header": "false"})
    assert (7, 2024, "us") in wh.table("s").rows()
    with pytest.raises(SetupError, match="no file fits the pattern"):
        wh.load("s", tmp_path / "*.parquet")


def test_parquet_by_its_first_bytes(wh: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "price": [1.005]}), tmp_path / "data")
    wh.load("t", tmp_path / "data")
    assert wh.table("t").rows() == [(1, None, Decimal("1.01"), None)]


def test_modes(wh: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(PLAIN)
    wh.load("t", file)
    file.write_text("id,name\n2,bob\n3,eve\n")
    wh.load("t", file, mode="upsert")
    assert sorted(row[:2] for row in wh.table("t").rows()) == [(1, "ann"), (2, "bob"), (3, "eve")]
    wh.load("t", file, mode="overwrite")
    assert sorted(row[:2] for row in wh.table("t").rows()) == [(2, "bob"), (3, "eve")]
    with pytest.raises(InvalidArgument, match="no mode"):
        wh.load("t", file, mode="replace")


@pytest.mark.parametrize(
    ("text", "options", "error", "what"),
    [
        ("id;day\n1;31.02.2024\n", {"dateFormat": "dd.MM.yyyy"}, BadValue, r"a\.csv:2, t\.day"),
        ("id,price\n1,2\n2,x\n", {}, BadValue, r"'x' is not a value of type DECIMAL\(8,2\)\n.*a\.csv:3, t\.price"),
        ("1,2\n", {"header": "false"}, BadValue, "2 cells for 4 columns"),
        ("id\n1\n", {"sep": ";;"}, InvalidArgument, "one character"),
        ("id\n1\n", {"header": "perhaps"}, InvalidArgument, "true or false"),
        ("id\n1\n", {"mode": "x"}, InvalidArgument, 'no option "mode"'),
        ("id\n1\n", {"dateFormat": "nonsense"}, InvalidArgument, ""),
    ],
)
def test_what_is_refused(
    wh: Any, tmp_path: Path, text: str, options: dict[str, str], error: type[TidemillError], what: str
) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(error, match=what or None):
        wh.load("t", tmp_path / "a.csv", options=options)
    assert wh.table("t").rows() == []


def test_a_damaged_file_is_named(wh: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(PLAIN.encode() * 99)[:60])
    with pytest.raises(TidemillError, match=r"a\.csv\.gz"):
        wh.load("t", tmp_path / "a.csv.gz")
    (tmp_path / "a.xml").write_text("<a/>")
    with pytest.raises(Unsupported, match="no reader"):
        wh.load("t", tmp_path / "a.xml")


def test_a_feed_has_the_same_options(wh: Any, tmp_path: Path) -> None:
    wh.sql(f"CREATE FEED f INTO t FROM '{tmp_path}' OPTIONS (sep = ';', header = 'false', nullvalue = '-')")
    (tmp_path / "a.csv").write_text("1;ann;-;-\n")
    wh.sync("f")
    assert wh.table("t").rows() == [(1, "ann", None, None)]
    with pytest.raises(InvalidArgument, match="one character"):
        wh.sql(f"CREATE FEED g INTO t FROM '{tmp_path}/g' OPTIONS (sep = 'ab')")
