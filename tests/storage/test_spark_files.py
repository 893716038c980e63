"""Files cross between Spark and the store without a change: every type, both ways."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemill.changes.arrow import from_arrow
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.folder_writer import map_id
from tidemill.storage.segments import stored_schema, with_epoch
from tidemill.storage.shared_staging import SharedStaging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS = (
    Field("b", t.BOOLEAN),
    Field("i", t.INT),
    Field("l", t.BIGINT),
    Field("d", t.Decimal(12, 2)),
    Field("w", t.Decimal(38, 4)),
    Field("f", t.DOUBLE),
    Field("o.s", t.STRING),
    Field("day", t.DATE),
    Field("at", t.TIMESTAMP),
    Field("a", t.Array(t.Struct((Field("x", t.BIGINT), Field("y", t.STRING))))),
    Field("r", t.Struct((Field("x", t.Decimal(5, 1)), Field("y", t.Array(t.TIMESTAMP))))),
)
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)
LONG_AGO = datetime.datetime(1583, 1, 1, 0, 0, 0, 1)
FULL = (
    True,
    -1,
    2**62,
    Decimal("12.50"),
    Decimal("-12345678901234567890.1234"),
    float("inf"),
    "ä\n",
    datetime.date(1600, 1, 1),
    MOMENT,
    ((1, "x"), None, (None, None)),
    (Decimal("1.5"), (MOMENT, None)),
)
ROWS = ZSet({FULL: 3, (None,) * len(FIELDS): 1, (*FULL[:8], LONG_AGO, (), None): -1})


@pytest.mark.spark
@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS"])
def test_every_type_survives_a_round_trip(spark: SparkSession, tmp_path: Path, timestamps: str) -> None:
    with FolderStore.open(tmp_path / "warehouse") as store:
        store.commit(Epoch(1, {"ours": ChangeSet.of(ROWS.items(), FIELDS)}))
        frame = spark.read.parquet(*(str(run.file) for run in store.runs("ours")))
        staged = store.staging("theirs")
        spark.conf.set("spark.sql.parquet.outputTimestampType", timestamps)
        frame.write.mode("append").parquet(str(staged))
        handed = ChangeSet.of_files(sorted(staged.glob("*.parquet")), FIELDS, rows=frame.count())
        store.commit(Epoch(2, {"theirs": handed}))
        store.vacuum(keep=1)
        store.compact({"theirs": Map("theirs", FIELDS)})
        assert ZSet.summed(from_arrow(store.read("theirs", FIELDS), FIELDS)) == ROWS


MORE = (
    Field("tiny", t.TINYINT),
    Field("small", t.SMALLINT),
    Field("single", t.FLOAT),
    Field("bytes", t.BINARY),
    Field("local", t.TIMESTAMP_NTZ),
    Field("m", t.Map(t.STRING, t.Array(t.BIGINT))),
)
MORE_FULL = (-128, 32767, 0.5, b"\x00\xff", MOMENT, (("k", (1, None)), ("z", None)))


@pytest.mark.spark
def test_every_type_survives_tasks_that_fetch_and_put_files(spark: SparkSession, tmp_path: Path) -> None:
    """As on machines that do not share a disk, but for the store, which is a disk here."""
    from tidemill.runtimes.spark.execution.remote_files import read_fetched, write_shared

    fields, rows = (*FIELDS, *MORE), ZSet({(*FULL, *MORE_FULL): 3, (None,) * len(FIELDS + MORE): 1})
    with FolderStore.open(tmp_path / "warehouse") as store:
        shared = SharedStaging(tmp_path / "warehouse" / "maps", map_id("theirs", {}), 1)
        table = ChangeSet.of(rows.items(), fields).arrow()
        ours = shared.write([with_epoch(table, 1)], stored_schema(fields))
        assert ours is not None
        frame = read_fetched(spark, store, [shared.file(ours)], fields)
        handed = write_shared(frame, store, shared, fields)
        assert sum(handed.values()) == len(table)
        store.commit(Epoch(1, {"theirs": ChangeSet.of_files(list(handed), fields, len(table))}))
        assert ZSet.summed(from_arrow(store.read("theirs", fields), fields)) == rows
