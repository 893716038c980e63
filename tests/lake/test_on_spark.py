"""Lake tables in a warehouse whose views Spark computes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tidemill
from tests.lake.delta_history import VECTORS, mark_rows, rows_of
from tidemill.sources.lake.marked_rows import positions_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_changes_are_taken(tmp_path: Path, spark: SparkSession) -> None:
    lake, out = str(tmp_path / "orders"), str(tmp_path / "out")
    rows = pa.table({"id": range(40), "k": [n % 4 for n in range(40)]})
    write_deltalake(lake, rows, configuration={VECTORS: "true"})
    with tidemill.open(tmp_path / "w", runtime="spark", spark=spark) as wh:
        wh.sql(f"CREATE TABLE orders (PRIMARY KEY (id)) USING delta LOCATION '{lake}'")
        options = f"publish = 'delta', location = '{out}'"
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT k, COUNT(*) AS n FROM orders GROUP BY k")
        wh.sync()
        ((file,),) = [DeltaTable(lake).file_uris()]
        mark_rows(lake, {Path(file).name: positions_of(pa.array([False] * 3))})
        write_deltalake(lake, pa.table({"id": [100, 101], "k": [4, 0]}), mode="append")
        assert wh.sync().counts.rows == 5
        assert Counter(wh.table("orders").rows()) == rows_of(lake)
        assert sorted(wh.view("v").rows()) == [(0, 10), (1, 9), (2, 9), (3, 10), (4, 1)]
        assert rows_of(out) == Counter(wh.view("v").rows()) and all(wh.verify())
