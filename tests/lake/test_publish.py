"""Views published as Delta tables: another engine reads there what the view shows at an epoch, whatever happens."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tidemill
from tests import forked_children
from tests.faults import fault_points
from tests.lake import test_crash
from tests.lake.delta_history import DeltaHistory, rows_of
from tests.lake.publishing import EPOCHS, MODES, live, published
from tidemill.model.errors import NameTaken, UnknownName, Unsupported
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

PASSINGS = [f"{point}:{number}" for point in ("lake-write", "lake-written") for number in (1, 2, 3, 5, 9)]
PASSINGS += ["torn-log:2", "torn-log:4"]


@pytest.fixture
def wh() -> Iterator[Any]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        yield warehouse


def test_every_point_is_tried() -> None:
    tried = {passing.partition(":")[0] for passing in (*PASSINGS, *test_crash.PASSINGS)}
    assert tried >= {point for point in fault_points("engine") if point.startswith("lake-")}


@pytest.mark.parametrize("passing", PASSINGS)
def test_killed_at(tmp_path: Path, passing: str) -> None:
    died = forked_children.run("tests.lake.publishing", tmp_path, timeout=60, **{FAULT_VARIABLE: passing})
    assert died.returncode == -signal.SIGKILL, died.stderr
    live(tmp_path)
    with tidemill.open(tmp_path / "w", runtime="native", read_only=True) as wh:
        shown = Counter(wh.view("merge").rows())
        assert {mode: Counter(rows) for mode, rows in published(tmp_path).items()} == dict.fromkeys(MODES, shown)
        epochs = [row["_epoch"] for row in pa.table(DeltaTable(str(tmp_path / "changes")).scan()).to_pylist()]
        assert max(epochs) == wh.epoch == EPOCHS


@pytest.mark.parametrize("mode", ["merge", "snapshot", "changes"])
def test_from_one_lake_table_to_another(tmp_path: Path, random_seed: int, wh: Any, mode: str) -> None:
    lake = DeltaHistory(tmp_path / "orders", random.Random(random_seed), "on", [])
    wh.sql(f"CREATE TABLE orders USING delta LOCATION '{lake.path}'")
    options = f"publish = 'delta', location = '{tmp_path / 'out'}', mode = '{mode}'"
    query = "SELECT region, score, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region, score"
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {query}")
    for _ in range(6):
        lake.step()
        wh.sync()
        shown = Counter(wh.view("v").rows())
        if mode == "changes":
            told: Counter[tuple[Any, ...]] = Counter()
            for (*row, weight, _), times in rows_of(str(tmp_path / "out")).items():
                told[tuple(row)] += weight * times
            assert {row: n for row, n in told.items() if n} == shown, f"seed {random_seed}"
        else:
            assert rows_of(str(tmp_path / "out")) == shown, f"seed {random_seed}"


def test_only_what_changed_is_merged(tmp_path: Path, wh: Any) -> None:
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    where = str(tmp_path / "out")
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH (publish = 'delta', location = '{where}') AS SELECT id, n FROM t")
    wh.apply({"t": [(1, (id, 0)) for id in range(1000)]})
    assert wh.publish() == {"v": 1}
    wh.apply({"t": [(-1, (3, 0)), (1, (3, 1)), (-1, (4, 0))]})
    wh.sql("CREATE TABLE other (id INT)")
    assert wh.publish("v") == wh.publish() == {"v": 2}
    (merged,) = DeltaTable(where).history(1)
    assert (merged["operation"], merged["version"]) == ("MERGE", 1)
    wh.sql("INSERT INTO other VALUES (1)")
    assert wh.publish() == {"v": 3}, "an epoch that does not change the view is shown too"
    assert rows_of(where) == Counter(wh.view("v").rows())


def test_keys_of_every_type(tmp_path: Path, wh: Any) -> None:
    types = {
        "d": "DOUBLE",
        "a": "ARRAY<INT>",
        "s": "STRUCT<x: INT>",
        "b": "BINARY",
        "ts": "TIMESTAMP",
        "e": "DECIMAL(9,2)",
    }
    wh.sql(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in types.items())})")
    for name in types:
        options = f"publish = delta, location = '{tmp_path}/{name}'"
        wh.sql(
            f"CREATE MATERIALIZED VIEW v_{name} WITH ({options}) AS SELECT {name}, COUNT(*) AS n FROM t GROUP BY {name}"
        )
    nan = (float("nan"), [1, None], {"x": None}, b"\0", datetime(2020, 1, 1), Decimal("1.50"))
    for row in (nan, (None,) * 6, nan, (float("inf"), [], {"x": 2}, b"", None, None), (None,) * 6):
        wh.apply({"t": [(1, row)]})
        wh.publish()
    for name in types:
        found = pa.table(DeltaTable(f"{tmp_path}/{name}").scan()).column("n").to_pylist()
        assert sorted(found) == sorted(n for _, n in wh.view(f"v_{name}").rows()), name


def test_duplicates_and_one_row(tmp_path: Path, wh: Any) -> None:
    wh.sql("CREATE TABLE t (a INT)")
    options = f"publish = delta, location = '{tmp_path}/one'"
    wh.sql(f"CREATE MATERIALIZED VIEW one WITH ({options}) AS SELECT SUM(a) AS s FROM t")
    options = f"publish = delta, mode = snapshot, location = '{tmp_path}/twice'"
    wh.sql(f"CREATE MATERIALIZED VIEW twice WITH ({options}) AS SELECT a FROM t")
    for rows in ([(3, (7,))], [(-1, (7,)), (2, (8,))], [(-2, (7,)), (-2, (8,))]):
        wh.apply({"t": rows})
        wh.publish()
        for view in ("one", "twice"):
            assert rows_of(f"{tmp_path}/{view}") == Counter(wh.view(view).rows())


def test_changes_that_are_no_longer_kept(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        for mode in ("merge", "changes"):
            options = f"publish = delta, mode = {mode}, location = '{tmp_path / mode}'"
            wh.sql(f"CREATE MATERIALIZED VIEW {mode} WITH ({options}) AS SELECT id FROM t")
        wh.publish()
        for id in range(3):
            wh.apply({"t": [(1, (id,))]})
        wh.vacuum()
        assert wh.publish("merge") == {"merge": 3}
        assert rows_of(str(tmp_path / "merge")) == {(0,): 1, (1,): 1, (2,): 1}
        with pytest.raises(tidemill.TidemillError, match="no longer kept"):
            wh.publish("changes")


def test_a_location_has_one_view(tmp_path: Path, wh: Any) -> None:
    wh.sql("CREATE TABLE t (a INT)")
    where = str(tmp_path / "out")
    create = f"MATERIALIZED VIEW v WITH (publish = delta, location = '{where}') AS SELECT DISTINCT a FROM t"
    wh.sql(f"CREATE {create}")
    with pytest.raises(NameTaken, match="published there"):
        wh.sql(f"CREATE {create.replace(' v ', ' w ')}")
    wh.apply({"t": [(1, (1,))]})
    wh.publish()
    wh.sql(f"CREATE OR REPLACE {create.replace('SELECT DISTINCT a', 'SELECT DISTINCT a + 1 AS b, 1 AS n')}")
    wh.publish()
    assert rows_of(where) == {(2, 1): 1}, "a view that was replaced is published anew"
    with tidemill.open(":memory:", runtime="native") as other:
        other.sql("CREATE TABLE t (a INT)")
        other.sql(f"CREATE {create}")
        other.publish()
    wh.apply({"t": [(1, (2,))]})
    with pytest.raises(NameTaken, match="another view"):
        wh.publish()
    write_deltalake(str(tmp_path / "theirs"), pa.table({"a": [1]}))
    options = f"publish = delta, location = '{tmp_path}/theirs'"
    wh.sql(f"CREATE MATERIALIZED VIEW x WITH ({options}) AS SELECT DISTINCT a FROM t")
    with pytest.raises(NameTaken, match="cannot be published here"):
        wh.publish("x")
    assert rows_of(str(tmp_path / "theirs")) == {(1,): 1}


@pytest.mark.parametrize(
    ("options", "query", "error"),
    [
        ("publish = parquet, location = 'x'", "SELECT a FROM t", "cannot be published as"),
        ("publish = delta", "SELECT a FROM t", "no location"),
        ("location = 'x'", "SELECT a FROM t", "not published"),
        ("publish = delta, location = 'x', mode = 'some'", "SELECT a FROM t", "mode"),
        ("publish = delta, location = 'x'", "SELECT a FROM t", "identify its rows"),
        ("publish = delta, location = 'x', publish_every = 'now'", "SELECT DISTINCT a FROM t", "sync"),
        ("publish = delta, location = 'x'", "SELECT DISTINCT TIME'10:00:00' AS a FROM t", "no such type"),
        ("publish = delta, location = 'x'", "SELECT a, COUNT(*) FROM t GROUP BY a", "name"),
        ("publish = delta, location = 's3://key:hush@x/y'", "SELECT DISTINCT a FROM t", "credentials"),
        ("publish = delta, location = 'x', publication = 'y'", "SELECT DISTINCT a FROM t", "unknown option"),
    ],
)
def test_refused(wh: Any, options: str, query: str, error: str) -> None:
    wh.sql("CREATE TABLE t (a INT)")
    with pytest.raises(Unsupported) as refused:
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {query}")
    assert error in str(refused.value) or error in str(refused.value.detail)
    assert wh.views() == ()


def test_published_by_itself(tmp_path: Path) -> None:
    where = str(tmp_path / "out")
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        options = f"publish = delta, location = '{where}', publish_every = 'continuous'"
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT DISTINCT a FROM t")
        wh.apply({"t": [(1, (1,))]})
        for _ in range(200):
            if DeltaTable.is_deltatable(where) and rows_of(where) == {(1,): 1}:
                break
            time.sleep(0.05)
        assert rows_of(where) == {(1,): 1}
        with pytest.raises(UnknownName):
            wh.publish("t")
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        assert list(wh.troubles()) == ["v"]
        wh.sql("DROP VIEW v")
    with tidemill.open(tmp_path / "w", runtime="native", read_only=True) as wh, pytest.raises(tidemill.TidemillError):
        wh.publish()
