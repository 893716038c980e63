"""Views, tables and results as polars frames and DuckDB relations, and what has Arrow's stream interface as changes."""

from __future__ import annotations

import builtins
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidemill
from tidemill.model.errors import BadValue, SetupError

ROWS: list[tuple[Any, ...]] = [
    (1, "ann", Decimal("9.50"), dt.datetime(2024, 5, 1, 12), dt.date(2024, 5, 1), [1, None], {"x": 1, "y": "a"}),
    (1, "ann", Decimal("9.50"), dt.datetime(2024, 5, 1, 12), dt.date(2024, 5, 1), [1, None], {"x": 1, "y": "a"}),
    (None,) * 7,
]
COLUMNS = (
    "id INT, who STRING, amount DECIMAL(12, 2), at TIMESTAMP, day DATE, list ARRAY<INT>, pair STRUCT<x: INT, y: STRING>"
)


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as opened:
        opened.sql(f"CREATE TABLE t ({COLUMNS}); CREATE TABLE copy ({COLUMNS})")
        opened.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        opened.apply({"t": [(1, row) for row in ROWS]})
        yield opened


def test_polars_frames_have_the_rows_and_come_back(wh: tidemill.Warehouse) -> None:
    polars = pytest.importorskip("polars", reason="the extra `polars` is not installed")
    for read in (wh.view("v"), wh.table("t"), wh.sql("SELECT * FROM v")):
        frame = read.polars()
        assert (frame.height, frame.columns) == (3, list(read.columns))
        assert frame["amount"].to_list().count(Decimal("9.50")) == 2
    wh.apply({"copy": wh.view("v").polars()})
    assert sorted(map(str, wh.table("copy").rows())) == sorted(map(str, ROWS))
    wh.apply(
        {"copy": polars.DataFrame({"who": polars.Series(["b", "b"], dtype=polars.Categorical), "_weight": [2, 1]})}
    )
    assert [row[1] for row in wh.table("copy").rows()].count("b") == 3
    with pytest.raises(BadValue, match="LazyFrame"):
        wh.apply({"copy": wh.view("v").polars().lazy()})


def test_without_polars_the_error_names_the_extra(wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without_polars(name: str, *given: Any, **named: Any) -> Any:
        if name == "polars":
            raise ModuleNotFoundError(name)
        return found(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without_polars)
    with pytest.raises(SetupError, match=r"tidemill\[polars\]"):
        wh.view("v").polars()


def test_relations_of_duckdb_read_the_rows_and_come_back(wh: tidemill.Warehouse) -> None:
    with duckdb.connect() as connection:
        relation = wh.view("v").duckdb(connection)
        assert relation.aggregate("count(*), sum(amount)").fetchall() == [(3, Decimal("19.00"))]
        wh.apply({"copy": relation.filter("id IS NOT NULL").project("id, who, 2 AS _weight")})
    assert wh.table("copy").rows() == [(1, "ann", None, None, None, None, None)] * 4
    assert wh.table("t").duckdb().count("*").fetchall() == [(3,)]


def test_rows_are_streams_of_arrow_both_ways(wh: tidemill.Warehouse) -> None:
    assert pa.table(wh.view("v")).num_rows == 3
    result = pa.RecordBatchReader.from_stream(wh.sql("SELECT id FROM t WHERE id = 1"))
    assert result.read_all().to_pydict() == {"id": [1, 1]}
    reader = pa.RecordBatchReader.from_stream(wh.table("t"))
    wh.apply({"copy": reader})
    wh.apply({"copy": wh.view("v")})
    assert len(wh.table("copy")) == 6
