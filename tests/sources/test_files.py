"""Files of rows: what they mean, and how a bad row is named or set aside."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import BadValue, NullViolation, SetupError, TidemillError, UnknownName, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.sources.ingest import files
from tidemill.sources.ingest.files import read_file, read_files

ORDERS = Table(
    "orders",
    (
        Field("id", t.BIGINT, nullable=False),
        Field("customer", t.STRING),
        Field("amount", t.Decimal(12, 2)),
        Field("day", t.DATE),
    ),
    primary_key=("id",),
)
ROWS = ZSet.of(
    [
        (1, "ann", Decimal("9.50"), dt.date(2024, 5, 1)),
        (2, "Smith, Bob", None, None),
        (3, "two\nlines", Decimal("-1.00"), dt.date(2024, 5, 2)),
    ]
)
CSV = 'ID,customer,day,amount\n1,ann,2024-05-01,9.50\n2,"Smith, Bob",,\n\n3,"two\nlines",2024-05-02,-1\n'
JSON = """{"id": 1, "customer": "ann", "amount": 9.50, "day": "2024-05-01"}
{"ID": 2, "customer": "Smith, Bob"}

{"id": 3, "customer": "two\\nlines", "amount": "-1.00", "day": "2024-05-02"}
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def write_parquet(folder: Path, name: str, **columns: object) -> Path:
    path = folder / name
    pq.write_table(pa.table(columns), path)
    return path


def loaded(*given: Any, **more: Any) -> ChangeSet:
    """The change that files make."""
    return read_files(*given, **more).change


@pytest.fixture(params=["csv", "crlf", "bom", "json", "parquet"])
def good(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    match request.param:
        case "csv":
            return write(tmp_path, "orders.csv", CSV)
        case "crlf":
            return write(tmp_path, "orders.csv", CSV.replace("\n", "\r\n").replace("two\r\n", "two\n"))
        case "bom":
            return write(tmp_path, "orders.CSV", "\ufeff" + CSV)
        case "json":
            return write(tmp_path, "orders.jsonl", JSON)
    ids, customers, amounts, days = zip(*ROWS, strict=True)
    return write_parquet(tmp_path, "orders.parquet", ID=ids, customer=customers, amount=amounts, day=days)


def test_each_format_holds_the_same_rows(good: Path) -> None:
    assert loaded(ORDERS, [good]).zset() == ROWS


def test_rows_come_in_batches_with_their_first_lines(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BATCH", 2)
    batches = list(read_file(good, ORDERS))
    assert [len(batch.changes) for batch in batches] == [2, 1]
    assert batches[0].first_line < batches[1].first_line
    assert batches[-1].bytes == good.stat().st_size


def test_progress_ends_at_the_size_of_all_files(tmp_path: Path) -> None:
    first = write(tmp_path, "a.csv", "id\n1\n2\n")
    second = write_parquet(tmp_path, "b.parquet", id=[3])
    seen: list[tuple[int, int]] = []
    change = loaded(ORDERS, [first, second], progress=lambda done, total: seen.append((done, total)))
    total = first.stat().st_size + second.stat().st_size
    assert len(change) == 3
    assert seen[-1] == (total, total)


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    write(tmp_path, "part-0.csv", "id\n1\n")
    write(tmp_path, "part-1.csv", "id\n2\n")
    write(tmp_path, "_SUCCESS", "")
    assert loaded(ORDERS, [tmp_path]).zset() == ZSet.of([(1, None, None, None), (2, None, None, None)])


def test_weights_may_stand_in_files(tmp_path: Path) -> None:
    changes = [
        loaded(ORDERS, [write(tmp_path, "w.csv", "id,_weight\n1,-1\n")]),
        loaded(ORDERS, [write(tmp_path, "w.jsonl", '{"id": 1, "_WEIGHT": -1}')]),
        loaded(ORDERS, [write_parquet(tmp_path, "w.parquet", id=[1], _weight=[-1])]),
    ]
    assert all(change.zset() == ZSet({(1, None, None, None): -1}) for change in changes)


def test_nested_values_in_json_and_csv(tmp_path: Path) -> None:
    line = t.Struct((Field("sku", t.STRING), Field("price", t.Decimal(9, 2))))
    table = Table("carts", (Field("id", t.INT), Field("lines", t.Array(line)), Field("paid", t.BOOLEAN)))
    text = '{"id": 1, "lines": [{"sku": "a", "price": 1.10}], "paid": true}'
    cells = 'id,lines,paid\n1,"[{""sku"": ""a"", ""price"": 1.10}]",TRUE\n'
    row = (1, (("a", Decimal("1.10")),), True)
    assert loaded(table, [write(tmp_path, "c.json", text)]).zset() == ZSet.of([row])
    assert loaded(table, [write(tmp_path, "c.csv", cells)]).zset() == ZSet.of([row])


def test_doubles_are_read_from_their_digits(tmp_path: Path) -> None:
    table = Table("t", (Field("x", t.DOUBLE),))
    expected = ZSet.of([(0.1,), (1e300,)])
    assert loaded(table, [write(tmp_path, "d.json", '{"x": 0.1}\n{"x": 1e300}')]).zset() == expected
    assert loaded(table, [write(tmp_path, "d.csv", "x\n0.1\n1e300\n")]).zset() == expected


BAD = [
    ("a.csv", "id,amount\n1,2\nx,3\n", BadValue, "a.csv:3, orders.id", "'x' is not a value of type BIGINT"),
    ("a.csv", "id,amount\n1,20000000000.5\n", BadValue, "a.csv:2, orders.amount", "digits before the point"),
    ("a.csv", 'id,customer\n1,"a\nb"\nx,c\n', BadValue, "a.csv:4, orders.id", "'x'"),
    ("a.csv", "id,amount\n1,2,3\n", BadValue, "a.csv:2", "3 cells for 2 columns"),
    ("a.csv", "id,amount\n,3\n", NullViolation, "a.csv:2, orders.id", "NULL"),
    ("a.csv", "id,colour\n1,red\n", UnknownName, "a.csv", 'no column "colour"'),
    ("a.csv", "id,ID\n1,2\n", BadValue, "a.csv", "twice"),
    ("a.csv", "id\n1_000\n", BadValue, "a.csv:2, orders.id", "'1_000'"),
    ("a.jsonl", '{"id": 1}\n{"id": 2', BadValue, "a.jsonl:2", "not JSON"),
    ("a.jsonl", "[1]", BadValue, "a.jsonl:1", "not a JSON object"),
    ("a.jsonl", '{"id": "1"}', BadValue, "a.jsonl:1, orders.id", "'1' is not a value of type BIGINT"),
    ("a.jsonl", '{"id": 1, "colour": "red"}', UnknownName, "a.jsonl:1", "colour"),
    ("a.parquet", "PAR0", BadValue, "a.parquet", "not Parquet"),
    ("a.xml", "<a/>", Unsupported, "a.xml", "no reader"),
]


@pytest.mark.parametrize(("name", "text", "error", "where", "what"), BAD)
def test_the_first_bad_row_refuses_the_file(
    tmp_path: Path, name: str, text: str, error: type[TidemillError], where: str, what: str
) -> None:
    with pytest.raises(error) as caught:
        loaded(ORDERS, [write(tmp_path, name, text)])
    assert where in str(caught.value.where)
    assert what in caught.value.render()


def test_bytes_that_are_not_utf8_have_a_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("id,customer\n1,ann\n2,Jürgen\n".encode("latin-1"))
    with pytest.raises(BadValue, match=r"latin\.csv:3, orders\.customer"):
        loaded(ORDERS, [path])


def test_a_bad_row_of_parquet_is_counted_from_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BATCH", 2)
    path = write_parquet(tmp_path, "a.parquet", id=[1, 2, 3, 4], amount=["1", "2", "3", "4.x"])
    with pytest.raises(BadValue, match=r"a\.parquet:4, orders\.amount"):
        loaded(ORDERS, [path])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"nothing\.csv"):
        loaded(ORDERS, [tmp_path / "nothing.csv"])


@pytest.mark.parametrize(
    ("name", "text", "bad"),
    [
        ("r.csv", "id,amount\n1,2\nx,3\n3,4\n4,1.2.3\n3,9\n7,1\n", {3: "x,3", 5: "4,1.2.3", 6: "3,9", 7: "7,1"}),
        ("r.jsonl", '{"id":1}\n{"id":"x"}\n{"id":3}\n{\n{"id":3}\n', {2: '{"id":"x"}', 4: "{", 5: '{"id":3}'}),
    ],
)
def test_bad_rows_are_set_aside(tmp_path: Path, name: str, text: str, bad: dict[int, str]) -> None:
    reject = tmp_path / "bad.jsonl"
    change = loaded(ORDERS, [write(tmp_path, name, text)], reject=reject, taken=[(7,)])
    rejects = [json.loads(line) for line in reject.read_text().splitlines()]
    assert sorted(row[0] for row, _ in change.pairs()) == [1, 3]
    assert {row["line"]: row["text"] for row in rejects} == bad
    assert all(row["file"].endswith(name) and row["reason"] for row in rejects)


def test_bad_rows_of_parquet_are_set_aside(tmp_path: Path) -> None:
    reject = tmp_path / "bad.jsonl"
    path = write_parquet(tmp_path, "a.parquet", ID=[1, None, 3, 3], customer=["a", "b", "c", "d"])
    change = loaded(ORDERS, [path], reject=reject)
    rejects = [json.loads(line) for line in reject.read_text().splitlines()]
    assert [row[0] for row, _ in change.pairs()] == [1, 3]
    assert [(row["line"], row["reason"].split(" (")[0]) for row in rejects] == [
        (2, "NULL where a value is required"),
        (4, "the primary key"),
    ]


def test_a_key_that_left_may_come_again(tmp_path: Path) -> None:
    reject = tmp_path / "bad.jsonl"
    path = write(tmp_path, "moves.csv", "id,customer,_weight\n1,ann,-1\n1,bob,1\n")
    change = loaded(ORDERS, [path], reject=reject, taken=[(1,)])
    assert len(change) == 2
    assert reject.read_text() == ""
