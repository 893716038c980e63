"""Rows that Spark's tasks look up in files, and the order in which they are stored."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.runtimes.spark.conftest import Driver
from tidemill.changes.arrow import NAN, to_arrow
from tidemill.changes.zset import Row
from tidemill.model.errors import Corrupt
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, DOUBLE, STRING, Array, Decimal, Field
from tidemill.runtimes.native.state.snapshot import SnapshotLookup
from tidemill.runtimes.spark.execution import job_settings
from tidemill.runtimes.spark.lookup import lookup_task
from tidemill.runtimes.spark.lookup.stored_snapshot import StoredSnapshot, fetch_together
from tidemill.runtimes.spark.sessions.job_counters import Meter
from tidemill.runtimes.spark.sessions.session import given_session
from tidemill.storage.runs import write_table
from tidemill.storage.segments import with_epoch
from tidemill.storage.store import RunFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIELDS = (
    Field("user", BIGINT),
    Field("text", STRING),
    Field("price", Decimal(10, 2)),
    Field("x", DOUBLE),
    Field("tags", Array(STRING)),
)
VALUES: tuple[tuple[Any, ...], ...] = (
    (None, 0, 1, 2, -(2**63)),
    (None, "", "a", "b" * 20),
    (None, decimal.Decimal("0.00"), decimal.Decimal("1.50")),
    (None, 0.0, NAN, 1.5),
    (None, (), ("a",), ("a", "b"), ("b", None)),
)
Pairs = list[tuple[Row, int]]


class Files:
    """Runs of random rows, and a snapshot of them in a session whose jobs are counted."""

    def __init__(self, spark: SparkSession, folder: Path, runs: int = 3) -> None:
        draw = random.Random(5)
        self.described: list[str] = []
        self.meter, self._session = Meter(spark.sparkContext), given_session(spark)
        self.pairs: Pairs = []
        self.runs = []
        for number in range(1, runs + 1):
            rows = [(tuple(draw.choice(values) for values in VALUES), draw.choice([1, -1, 2])) for _ in range(40)]
            table = with_epoch(to_arrow(rows, FIELDS), number)
            write_table(table, folder / f"{number}.parquet")
            prefix = folder / "mapped" / str(number)
            self.runs.append(RunFile(folder / f"{number}.parquet", len(rows), 0, number, number, prefix))
            self.pairs += rows

    @contextmanager
    def session(self, purpose: str) -> Iterator[SparkSession]:
        self.described.append(purpose)
        with self.meter.counting():
            yield self._session

    def snapshot(self, in_order: bool = False) -> StoredSnapshot:
        return StoredSnapshot("m", self.runs, FIELDS, in_order, self.session)

    def under(self, positions: tuple[int, ...], keys: set[Row]) -> list[str]:
        return shown((row, w) for row, w in self.pairs if tuple(row[i] for i in positions) in keys)


def shown(pairs: Iterable[tuple[Row, int]]) -> list[str]:
    return sorted(map(repr, pairs))


@pytest.fixture(params=[0, 1 << 40], ids=["mapped", "small"])
def files(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Files:
    monkeypatch.setattr(lookup_task, "MAPPED_ROWS", request.param)
    return Files(spark, tmp_path)


def test_many_lookups_are_one_job_at_most(files: Files) -> None:
    """By columns of any type, one or several; NULL finds NULLs, and other columns are not read.

    Files that are made once are found by this process, as are rows of runs that are too small for such files.
    """
    whole, some = tuple(range(len(FIELDS))), (0, 2)
    snapshot, draw = files.snapshot(), random.Random(7)
    asked = []
    for positions in [(0,), (1,), (3,), (0, 1), (1, 2, 4), whole]:
        keys = {tuple(row[i] for i in positions) for row, _ in draw.sample(files.pairs, 9)}
        asked.append(SnapshotLookup(snapshot, positions, keys, whole))
    asked += [SnapshotLookup(snapshot, (0,), {(1,), (None,)}, some), SnapshotLookup(snapshot, (0,), set(), whole)]
    for _ in range(2):
        found = fetch_together(asked)
        for lookup, rows in zip(asked[:-2], found, strict=False):
            assert shown(rows) == files.under(lookup.positions, set(lookup.keys)), lookup.positions
        assert shown(found[-2]) == shown(
            ((row[0], None, row[2], None, None), w) for row, w in files.pairs if row[0] in (1, None)
        )
        assert found[-1] == []
    mapped = lookup_task.MAPPED_ROWS == 0
    assert files.meter.read().jobs == int(mapped)
    assert files.described == ["21 lookups in m"] * mapped


def test_mapped_files_are_made_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After that tasks read nothing else, and give rows in order of epochs where that is asked for."""
    monkeypatch.setattr(lookup_task, "MAPPED_ROWS", 0)
    files = Files(spark, tmp_path)
    keys: set[Row] = {(1,), (2,)}
    expected = files.snapshot(in_order=True).fetch((0,), keys, (0, 1, 3))
    made = sorted(file.suffix for file in (tmp_path / "mapped").iterdir())
    assert made == 3 * 5 * [".column"] + 3 * [".index"]
    for run in files.runs:
        run.file.write_bytes(b"")
    files.runs.reverse()
    again = files.snapshot(in_order=True).fetch((0,), keys, (0, 1, 3))
    assert list(map(repr, again)) == list(map(repr, expected)) and again


def test_arrays_are_found_by_their_elements(files: Files) -> None:
    found = files.snapshot().holders(4, ["b", "z"])
    assert shown(found) == shown((row, w) for row, w in files.pairs if "b" in (row[4] or ()))
    assert files.snapshot().holders(4, []) == []


def test_all_rows_need_no_job(files: Files) -> None:
    assert shown(files.snapshot().pairs()) == shown(files.snapshot().fetch((), {()}, (0,))) == shown(files.pairs)
    assert not files.described


def test_files_that_tasks_cannot_read_are_told(files: Files) -> None:
    files.runs[1].file.write_bytes(files.runs[1].file.read_bytes()[:100])
    with pytest.raises(Corrupt, match=r"2\.parquet is damaged"):
        files.snapshot().fetch((0,), {(1,)}, (0,))
    files.runs[1].file.unlink()
    with pytest.raises(Corrupt, match=r"2\.parquet is missing"):
        files.snapshot().fetch((0,), {(1,)}, (0,))


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
