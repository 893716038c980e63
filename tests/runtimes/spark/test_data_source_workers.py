"""Spark's data source without Spark: its classes are called and pickled as Spark's Python workers do."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.datasource", reason="Spark has data sources in Python since 4.0")

from pyspark.cloudpickle import dumps, loads
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.types import Row, StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

import tidemill
from tests.runtimes.spark.warehouses import bag, churn, make_warehouse, plain
from tidemill.engine.data_source import register as registering
from tidemill.engine.data_source.source import TidemillSource
from tidemill.model.errors import EpochGone, FellBehind, InvalidArgument, LockHeld, SetupError, Unsupported
from tidemill.runtimes.spark.data_source import writers
from tidemill.runtimes.spark.data_source.options import SourceOptions
from tidemill.storage.scans import run_slice, scan_parts


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return make_warehouse(tmp_path / "shop")


def _source(folder: str, relation: str, **options: Any) -> TidemillSource:
    given = {"warehouse": folder, "path": relation, **{name: str(value) for name, value in options.items()}}
    source: TidemillSource = loads(dumps(TidemillSource(CaseInsensitiveDict(given))))
    return source


def _rows(source: TidemillSource, reader: Any, partitions: Iterable[InputPartition]) -> list[Row]:
    """The rows of partitions, each read by another copy of the reader, as Spark would take them."""
    schema, found = source.schema(), []
    for partition in partitions:
        read = loads(dumps(reader)).read(loads(dumps(partition)))
        batches = list(records_to_arrow_batches(read, 10_000, schema, source))
        found += ArrowTableToRowsConversion.convert(pa.Table.from_batches(batches), schema) if batches else []
    return found


def _read(folder: str, relation: str, **options: Any) -> list[Row]:
    source = _source(folder, relation, **options)
    reader: Any = source.reader(source.schema())
    return _rows(source, reader, reader.partitions())


@pytest.mark.parametrize("slice_rows", [10**6, 4])
def test_rows_are_those_of_the_view(folder: str, monkeypatch: pytest.MonkeyPatch, slice_rows: int) -> None:
    monkeypatch.setattr(run_slice, "SLICE_ROWS", slice_rows)
    monkeypatch.setattr(scan_parts, "SLICE_ROWS", slice_rows)
    draw = random.Random(7)
    with tidemill.open(folder, runtime="native") as wh:
        for _ in range(4):
            churn(wh, draw, 3)
            for name in ("t", "v", "g", "made"):
                shown = wh.table(name) if name == "t" else wh.view(name)
                assert bag(_read(folder, name)) == bag(_read(folder, name, fresh=True)) == bag(shown.rows())
            wh.compact()
        middle = wh.epoch - 2
        assert bag(_read(folder, "v", epoch=middle)) == bag(wh.at(middle).view("v").rows())
        assert bag(_read(folder, "made", epoch=middle)) == bag(wh.at(middle).view("made").rows())


def _follow(folder: str, net: Counter[tuple[Any, ...]], at: dict[str, int] | None = None, **options: Any) -> Any:
    """Follow the view to its last epoch; returns the offset and the number of batches."""
    source = _source(folder, "g", changes=True, **options)
    reader: Any = source.streamReader(source.schema())
    reader.prepareForTriggerAvailableNow()
    at, batches = at or reader.initialOffset(), 0
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        for row in _rows(source, reader, reader.partitions(at, end)):
            net[tuple(map(plain, row[:-2]))] += row["_weight"]
        at, batches = end, batches + 1
    return at, batches


def test_streams_sum_to_the_view(folder: str) -> None:
    net: Counter[tuple[Any, ...]] = Counter()
    with tidemill.open(folder, runtime="native") as wh:
        churn(wh, random.Random(1), 3)
        at, batches = _follow(folder, net)
        assert batches == 1 and +net == bag(wh.view("g").rows())
        for limit in ({"maxEpochsPerBatch": 2}, {"maxRowsPerBatch": 1}, {}):
            churn(wh, random.Random(str(limit)), 5)
            at, batches = _follow(folder, net, at, **limit)
            assert +net == bag(wh.view("g").rows()) and not -net
            assert batches == {"maxEpochsPerBatch": 3, "maxRowsPerBatch": 5}.get(next(iter(limit), ""), 1)
        wh.apply({"k": [(1, (77, "elsewhere", 1))]})
        assert _follow(folder, net, at) == (at, 0), "other tables are no batches"
        wh.vacuum()
    with pytest.raises(FellBehind):
        _follow(folder, net, since=1)


def test_what_is_gone_or_not_there_is_refused(folder: str) -> None:
    with tidemill.open(folder, runtime="native") as wh:
        churn(wh, random.Random(1), 3)
        wh.vacuum()
    for options, kind, what in (
        ({"epoch": 1}, EpochGone, "no longer kept"),
        ({"epoch": 99}, EpochGone, "still to come"),
        ({"changes": True}, FellBehind, "no longer kept"),
        ({"colour": "red"}, InvalidArgument, 'no option "colour"'),
    ):
        with pytest.raises(kind, match=what):
            _read(folder, "g", **options)
    with pytest.raises(Unsupported, match="no changes to follow"):
        _read(folder, "made", changes=True)
    with pytest.raises(InvalidArgument, match="a stream has the changes"):
        _source(folder, "g").streamReader(StructType())
    with pytest.raises(Unsupported, match="changed, not replaced"):
        _source(folder, "t").writer(StructType(), overwrite=True)


def test_columns_that_spark_does_not_take_are_named(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT, months INTERVAL YEAR TO MONTH)")
    with pytest.raises(Unsupported, match='column "months" of "t"'):
        _source(str(tmp_path / "w"), "t").schema()


def _write(folder: str, table: str, data: dict[str, list[Any]], **options: Any) -> None:
    writer: Any = loads(dumps(_source(folder, table, **options).writer(StructType(), overwrite=False)))
    halves = pa.table(data).to_batches(max_chunksize=1)
    writer.commit([loads(dumps(writer.write(iter(part)))) for part in (halves[:1], halves[1:], [])])


def test_writes_are_epochs_and_count_once(folder: str) -> None:
    _write(folder, "t", {"n": [100, 101], "_weight": [2, 1]})
    for _ in range(2):
        _write(folder, "t", {"n": [200]}, query="nightly", batch=3)
    _write(folder, "t", {"n": [100], "_weight": [-1]})
    _write(folder, "k", {"id": [1, 5, 5], "v": ["n", "x", "y"], "seq": [5, 1, 2]}, intake="upsert", sequenceBy="seq")
    _write(folder, "k", {"id": [5], "v": ["z"]}, intake="upsert")
    with pytest.raises(InvalidArgument, match="go together"):
        _write(folder, "t", {"n": [1]}, query="nightly")
    with tidemill.open(folder, runtime="native") as wh:
        assert Counter(row[0] for row in wh.table("t").rows()) == {100: 1, 101: 1, 200: 1}
        assert sorted(wh.table("k").rows()) == [(0, "k", 0), (1, "n", 5), (5, "z", None)]
        assert all(wh.verify())
        with pytest.raises(LockHeld):
            _write(folder, "t", {"n": [1]})


class _Task:
    """Message of a task of a streaming query."""

    query = "first"

    @classmethod
    def get(cls) -> type[_Task]:
        return cls

    @classmethod
    def getLocalProperty(cls, name: str) -> str | None:
        return cls.query if name == "sql.streaming.queryId" else None


def test_batches_of_several_queries_count_once_each(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "TaskContext", _Task)
    writer: Any = _source(folder, "t").streamWriter(StructType(), overwrite=False)
    for query, batch in (("first", 0), ("first", 0), ("other", 0), ("first", 0), ("first", 1), ("other", 0)):
        monkeypatch.setattr(_Task, "query", query)
        number = batch + (10 if query == "other" else 0)
        writer.commit([writer.write(iter(pa.table({"n": [number]}).to_batches())), writer.write(iter(()))], batch)
    writer.commit([writer.write(iter(()))], 2)
    with tidemill.open(folder, runtime="native") as wh:
        assert sorted(row[0] for row in wh.table("t").rows()) == [0, 1, 10]
    monkeypatch.setattr(_Task, "query", None)
    with pytest.raises(Unsupported, match="does not tell its id"):
        writer.commit([writer.write(iter(pa.table({"n": [1]}).to_batches()))], 3)


def test_options_are_checked() -> None:
    for options, what in (
        ({}, 'needs the option "warehouse"'),
        ({"warehouse": "w"}, 'needs the option "path"'),
        ({"warehouse": "w", "path": "t", "epoch": "-1"}, 'cannot be "-1"'),
    ):
        with pytest.raises(InvalidArgument, match=what):
            SourceOptions.parse(options)


def test_spark_without_data_sources_is_told_by_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match="no data sources in Python"):
        registering._require_data_sources()


def test_a_warehouse_in_memory_is_not_attached() -> None:
    with tidemill.open(":memory:", runtime="native") as wh, pytest.raises(SetupError, match="in memory"):
        wh._attached.attach(object(), None, wh._engine.committed, "")  # type: ignore[arg-type]
