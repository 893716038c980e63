"""One-off queries and recomputation of many rows: DuckDB answers in this process, and Spark is not started for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tidemill
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.choose import COLUMN_WORK
from tidemill.engine.epochs.placement import Placement
from tidemill.model.errors import ArithmeticFault, Unsupported
from tidemill.serving.cli.app import app

ROWS = 210_000
"""Row count for which the runtime would be Spark, where the size of the work chooses it (see ``no_spark``)."""

BY_DUCKDB = "DuckDB, by the view's translation"


class SparkStarted(AssertionError):
    """Something has asked for Spark."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is not there: whoever asks for it fails."""

    def started(placement: Placement) -> None:
        raise SparkStarted

    monkeypatch.setattr(Placement, "session", property(started))
    monkeypatch.setattr("tidemill.compiler.choose.NATIVE_WORK", ROWS - 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "wh"


@pytest.fixture
def wh(folder: Path) -> Iterator[tidemill.Warehouse]:
    with _filled(folder, ROWS) as warehouse:
        yield warehouse


@contextmanager
def _filled(folder: Path, count: int) -> Iterator[tidemill.Warehouse]:
    with tidemill.open(folder) as warehouse:
        warehouse.sql("CREATE TABLE t (id BIGINT, k INT, v DECIMAL(12,2), x DOUBLE)")
        warehouse.sql("CREATE TABLE names (k INT, name STRING)")
        numbers = np.arange(count)
        rows = pa.table(
            {
                "id": pa.array(numbers, pa.int64()),
                "k": pa.array(numbers % 7, pa.int32()),
                "v": pa.array(numbers % 1000, pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
                "x": pa.array(numbers / 2),
            }
        )
        names = pa.table({"k": pa.array(range(5), pa.int32()), "name": ["a", "b", "c", "d", None]})
        warehouse.apply({"t": rows.slice(0, count // 2), "names": names})  # a change of all rows would be Spark's
        warehouse.apply({"t": rows.slice(count // 2)})
        yield warehouse


def test_a_grouped_query(wh: tidemill.Warehouse) -> None:
    found = wh.sql("SELECT k, COUNT(*) AS n, MAX(id) AS last FROM t WHERE k < 2 GROUP BY k ORDER BY k").rows()
    assert found == [(k, len(range(k, ROWS, 7)), range(k, ROWS, 7)[-1]) for k in (0, 1)]


def test_a_join(wh: tidemill.Warehouse) -> None:
    found = wh.sql("SELECT n.name, COUNT(*) AS n FROM t JOIN names n ON t.k = n.k GROUP BY n.name").rows()
    assert sorted(found, key=str) == sorted(
        ((name, len(range(k, ROWS, 7))) for k, name in enumerate(["a", "b", "c", "d", None])), key=str
    )


def test_of_a_query_with_a_limit_few_rows_come(wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = []
    ask = Placement.answer_in_columns

    def counted(*arguments: Any) -> ChangeSet:
        answered.append(ask(*arguments))
        return answered[-1]

    monkeypatch.setattr(Placement, "answer_in_columns", counted)
    found = wh.sql("SELECT k, id FROM t ORDER BY k DESC, id LIMIT 2 OFFSET 1").rows()
    assert found == [(6, 13), (6, 20)]
    assert [len(one) for one in answered] == [3]


def test_changed_rows_are_read_as_they_are_now(wh: tidemill.Warehouse) -> None:
    wh.sql("UPDATE t SET k = 100 WHERE id = 5")
    wh.sql("DELETE FROM t WHERE id = 6")
    assert wh.sql("SELECT id, k FROM t WHERE id BETWEEN 4 AND 7 ORDER BY id").rows() == [(4, 4), (5, 100), (7, 0)]
    assert wh.sql("SELECT COUNT(*) AS n FROM t").rows() == [(ROWS - 1,)]


def test_a_view_that_is_not_stored_is_read(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TABLE few (k INT)")
    wh.sql(
        "CREATE MATERIALIZED VIEW made WITH (strategy = 'joingraph', serve = 'read') AS "
        "SELECT f.k, n.name FROM few f JOIN names n ON f.k = n.k"
    )
    wh.apply({"few": [(1, (1,))]})
    found = wh.sql("SELECT m.name, COUNT(*) AS n FROM t JOIN made m ON t.k = m.k GROUP BY m.name").rows()
    assert found == [("b", len(range(1, ROWS, 7)))]


def test_an_error_has_its_usual_words() -> None:
    small = "CREATE TABLE u (a BIGINT); INSERT INTO u VALUES (9223372036854775807)"
    with tidemill.open(":memory:") as other:
        other.sql(small)
        with pytest.raises(ArithmeticFault) as expected:
            other.sql("SELECT a + 1 AS n FROM u").rows()
        other.apply({"u": pa.table({"a": pa.array(range(2 * COLUMN_WORK), pa.int64())})})
        with pytest.raises(ArithmeticFault) as found:
            other.sql("SELECT a + 1 AS n FROM u").rows()
    assert str(found.value) == str(expected.value)


def test_without_a_translation_a_runtime_is_asked(wh: tidemill.Warehouse) -> None:
    with pytest.raises(SparkStarted):
        wh.sql("SELECT SUM(x) AS n FROM t")


def test_what_duckdb_answers_is_not_compiled(wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(*arguments: object, **options: object) -> None:
        raise AssertionError("the query was compiled")

    monkeypatch.setattr("tidemill.engine.epochs.reading.reader.compile_view", compiled)
    assert wh.sql("SELECT COUNT(*) AS n FROM t").rows() == [(ROWS,)]
    with pytest.raises(AssertionError, match="was compiled"):
        wh.sql("SELECT SUM(x) AS n FROM t")


def test_a_stream_beside_many_rows_is_refused(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE STREAM s (k INT)")
    for text in ("SELECT COUNT(*) AS n FROM t JOIN s ON t.k = s.k", "SELECT k FROM s"):
        with pytest.raises(Unsupported, match='the stream "s" cannot be queried'):
            wh.sql(text)


def test_few_rows_stay_native(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*arguments: object) -> None:
        raise AssertionError("DuckDB was asked")

    monkeypatch.setattr(Placement, "answer_in_columns", asked)
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql("CREATE TABLE u (a BIGINT); CREATE MATERIALIZED VIEW w AS SELECT a FROM u WHERE a > 2")
        warehouse.apply({"u": [(1, (number,)) for number in range(5)]})
        assert warehouse.sql("SELECT COUNT(*) AS n FROM u").rows() == [(5,)]
        assert warehouse.view("w").verify().oracle == "the evaluator"


VIEWS = {
    "sums": "SELECT k, COUNT(*) AS n, SUM(v) AS total, AVG(v) AS mean FROM t GROUP BY k",
    "above": "SELECT n.name, s.total FROM sums s LEFT JOIN names n ON s.k = n.k",
}


@pytest.fixture
def viewed(wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> tidemill.Warehouse:
    """The warehouse with views; filled in this process, as Spark is not there."""
    monkeypatch.setattr("tidemill.compiler.choose.NATIVE_WORK", 10 * ROWS)
    for name, query in VIEWS.items():
        wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return wh


def test_views_are_verified_by_duckdb(viewed: tidemill.Warehouse) -> None:
    viewed.sql("DELETE FROM t WHERE id < 3")
    for found in (*viewed.verify(), *viewed.verify(against="duckdb")):
        assert found and found.oracle == BY_DUCKDB, found
    assert {row[0] for row in viewed.view("above").recompute()} == {"a", "b", "c", "d", None}


def test_a_wrong_view_is_found(viewed: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = viewed._engine.reader
    columns = reader.columns

    def damaged(name: str, *arguments: object, **options: object) -> pa.Table:
        table = columns(name, *arguments, **options)  # type: ignore[arg-type]
        return table.slice(1) if name == "sums" else table

    monkeypatch.setattr(reader, "columns", damaged)
    found = viewed.view("sums").verify()
    assert not found and len(found.missing) == 1 and not found.extra


def test_a_deferred_view_is_verified_as_of_its_epoch(viewed: tidemill.Warehouse) -> None:
    viewed.sql("CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    viewed.sql("DELETE FROM t WHERE id < 3")
    found = viewed.view("late").verify()
    assert found and found.oracle == BY_DUCKDB


def test_small_views_are_verified_by_duckdb_where_it_is_asked_for() -> None:
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql("CREATE TABLE u (a BIGINT, x DOUBLE); CREATE MATERIALIZED VIEW w AS SELECT a FROM u WHERE a > 2")
        warehouse.sql("CREATE MATERIALIZED VIEW y AS SELECT a, SUM(x) AS n FROM u GROUP BY a")
        warehouse.apply({"u": [(1, (number, 1.5)) for number in range(5)]})
        assert warehouse.view("w").verify("duckdb").oracle == BY_DUCKDB
        with pytest.raises(Unsupported, match='view "y" cannot be verified against DuckDB') as refused:
            warehouse.view("y").verify("duckdb")
        assert "SUM of DOUBLE" in str(refused.value.detail)


def test_the_command_line(viewed: tidemill.Warehouse, folder: Path) -> None:
    viewed.close()
    told = CliRunner().invoke(app, ["verify", "sums", "--against", "duckdb", "--warehouse", str(folder)])
    assert told.exit_code == 0, told.output
    assert f"equal to recomputation by {BY_DUCKDB}" in told.output


PAST_QUERIES = [
    "SELECT k, COUNT(*) AS n, MAX(id) AS last FROM t GROUP BY k",
    "SELECT n.name, COUNT(*) AS n FROM t JOIN names n ON t.k = n.k GROUP BY n.name",
    "SELECT id, k FROM t WHERE id BETWEEN 4 AND 7",
    "SELECT COUNT(*) AS n FROM t LEFT JOIN made m ON t.k = m.k WHERE m.name IS NULL",
    "SELECT id FROM t ORDER BY k DESC, id LIMIT 3 OFFSET 1",
]


@pytest.fixture
def past(folder: Path) -> Iterator[tidemill.Warehouse]:
    """No more rows than DuckDB is asked for: the evaluator, which is asked as well, takes its time for each."""
    with _filled(folder, 2 * COLUMN_WORK) as warehouse:
        yield warehouse


def test_an_earlier_epoch_is_queried_in_columns(past: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB has the answers of the evaluator, and of the epoch itself, for a table, a view and one that is made."""
    wh = past
    wh.sql(
        "CREATE MATERIALIZED VIEW made WITH (strategy = 'joingraph', serve = 'read') AS "
        "SELECT f.k, n.name FROM names f JOIN names n ON f.k = n.k"
    )
    epochs = {}
    for statement in (
        "UPDATE t SET k = 3 WHERE id = 5",
        "DELETE FROM t WHERE id IN (6, 8)",
        "INSERT INTO t SELECT id + 100000000, k, v, x FROM t WHERE id < 3",
        "DELETE FROM names WHERE k = 1",
    ):
        wh.sql(statement)
        epochs[wh.epoch] = [wh.sql(query).rows() for query in PAST_QUERIES]
    assert len(epochs) == 4
    asked: list[ChangeSet] = []
    ask = Placement.answer_in_columns

    def noted(*arguments: Any) -> ChangeSet:
        asked.append(ask(*arguments))
        return asked[-1]

    monkeypatch.setattr(Placement, "answer_in_columns", noted)
    for epoch, answers in epochs.items():
        for query, then in zip(PAST_QUERIES, answers, strict=True):
            assert sorted(wh.at(epoch).sql(query).rows(), key=str) == sorted(then, key=str), query
    assert len(asked) == len(epochs) * len(PAST_QUERIES)
    monkeypatch.setattr(Placement, "answers_in_columns", lambda *arguments: False)
    first = next(iter(epochs))
    for query, then in zip(PAST_QUERIES, epochs[first], strict=True):
        assert sorted(wh.at(first).sql(query).rows(), key=str) == sorted(then, key=str), query
    assert len(asked) == len(epochs) * len(PAST_QUERIES)
