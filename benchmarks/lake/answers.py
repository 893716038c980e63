"""Published tables beside the answers of DuckDB, which reads the data files of the lake."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from deltalake import DeltaTable

from benchmarks.lake.lakes import Lake
from benchmarks.tpch.data import TABLES
from benchmarks.tpch.views import VIEWS


def check(published: Mapping[str, Path], lake: Lake) -> None:
    """Raise AssertionError unless all published tables, as delta-rs reads them, are what DuckDB computes.

    DuckDB divides as DOUBLE where Spark rounds to six decimals, as in AVG: such values agree in those, others exactly.
    """
    with duckdb.connect() as connection:
        for name in TABLES:
            files = ", ".join(f"'{file}'" for file in lake.files(name))
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{files}])")
        for name, query in VIEWS.items():
            expected = connection.sql(sqlglot.transpile(query, read="spark", write="duckdb")[0]).to_arrow_table()
            if not same_rows(rows_of(published[name]), expected):
                raise AssertionError(f"published table {name} differs from what DuckDB computes")


def rows_of(table: Path) -> pa.Table:
    """The rows of a Delta table, as delta-rs reads them."""
    return pa.table(DeltaTable(str(table)).scan())


def same_rows(found: pa.Table, expected: pa.Table) -> bool:
    """True if both have the same rows, as multisets; columns of floats in ``expected`` agree in six decimals.

    >>> same_rows(pa.table({"a": [1, 2], "b": [0.5, 2.0]}), pa.table({"a": [2, 1], "b": [2.0, 0.5000000000001]}))
    True
    """
    rounded = [pa.types.is_floating(column.type) for column in expected.columns]
    ours, theirs = _rows(found, rounded), _rows(expected, rounded)
    return len(ours) == len(theirs) and all(
        mine == other and all(map(_close, floats, others))
        for (mine, floats), (other, others) in zip(ours, theirs, strict=True)
    )


def _rows(table: pa.Table, rounded: list[bool]) -> list[tuple[list[str], list[Any]]]:
    """The rows in order: of each the values that are compared as texts, and those that are rounded."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(
        (
            [_text(v) for v, r in zip(row, rounded, strict=True) if not r],
            [v for v, r in zip(row, rounded, strict=True) if r],
        )
        for row in rows
    )


def _text(value: Any) -> str:
    """A text that is the same for integers and decimals of different scales."""
    return repr(Decimal(value).normalize() if isinstance(value, int | Decimal) else value)


def _close(found: Any, expected: Any) -> bool:
    if found is None or expected is None:
        return found is expected
    return math.isclose(float(found), float(expected), rel_tol=1e-9, abs_tol=1e-6)
