"""Rows in the order in which they are looked up: large loads write them so, and few keys then read few pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.runtimes.spark.conftest import Driver
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, STRING, Field
from tidemill.runtimes.spark.driver_runtime import StoredSnapshot
from tidemill.runtimes.spark.execution import job_settings
from tidemill.runtimes.spark.execution.job_counters import Meter
from tidemill.runtimes.spark.execution.session import given_session
from tidemill.storage.runs import write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 400_000
FIELDS = (Field("user", BIGINT), Field("text", STRING))


def test_few_keys_read_few_pages_of_a_sorted_run(spark: SparkSession, tmp_path: Path) -> None:
    """By the column that the run is sorted by; of another one few pages can be skipped, and the same rows are found."""
    random = np.random.default_rng(1)
    texts = [f"{number:016x}" for number in random.permutation(ROWS)]
    ones = np.ones(ROWS, dtype=np.int64)
    table = pa.table({"user": np.arange(ROWS) // 4, "text": texts, "_weight": ones, "_epoch": ones})
    file = tmp_path / "run.parquet"
    write_table(table, file)
    session, meter = given_session(spark), Meter(spark.sparkContext)

    @contextmanager
    def counted() -> Iterator[SparkSession]:
        with meter.counting():
            yield session

    base = StoredSnapshot("m", [file], FIELDS, False, counted)
    found = base.fetch((0,), [(7,), (ROWS,)], (0, 1))
    by_user = meter.read().bytes_read
    assert sorted(found) == sorted(((7, text), 1) for text in texts[28:32])
    assert by_user < file.stat().st_size / 4
    assert sorted(base.fetch((1,), [(row[1],) for row, _ in found], (0, 1))) == sorted(found)
    stored = pq.read_metadata(file)
    texts_bytes = sum(stored.row_group(i).column(1).total_compressed_size for i in range(stored.num_row_groups))
    assert meter.read().bytes_read > 0.9 * texts_bytes > 2 * by_user


def test_members_are_stored_in_the_order_of_the_vertex_that_walks_enter_by(
    drive: Callable[..., Driver], bulk: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that is large, in several files: each has a range of vertex values, and has them in order."""
    monkeypatch.setattr(job_settings, "ROWS_PER_PARTITION", 10)
    bulk(0)
    follower = Table("follower", (Field("follower", BIGINT), Field("user", BIGINT)), kept=False)
    tweet = Table("tweet", (Field("id", BIGINT), Field("user", BIGINT)), kept=False)
    query = "SELECT f.follower, t.id FROM follower f JOIN tweet t ON f.user = t.user"
    view = drive([follower, tweet], query, "joingraph")
    rows = [((number, number * 7 % 10), 1) for number in range(40)]
    view.apply(follower=rows)
    assert len(view.apply(tweet=[((1, 3), 1)])) == 4
    (member,) = (map_ for map_ in view.program.stages[-1].maps if map_.name == "v:f")
    stored = view.store.read(member.name, member.keys)
    assert [f.name for f in member.keys] == ["user", "follower"]
    assert stored.column("user").to_pylist() == sorted(row[1] for row, _ in rows)
