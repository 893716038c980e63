"""Lake tables whose columns change: refused, added, or whatever they are, with all rows compared."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import IntegerType, LongType, StringType

import tidemill
from tests import forked_children
from tests.lake.delta_history import FEED, rows_of
from tidemill.model.errors import Unsupported
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE


def created(wh: Any, where: str, mode: str) -> None:
    wh.sql(f"CREATE TABLE t USING delta OPTIONS (on_schema_change = '{mode}') LOCATION '{where}'")
    wh.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, SUM(n) AS n FROM t GROUP BY g")
    wh.sql("CREATE MATERIALIZED VIEW every AS SELECT * FROM t")


def taken(wh: Any, where: str) -> None:
    """The rows are those of the lake table, and the views are right."""
    names = [f.name for f in DeltaTable(where).schema().fields]
    order = [names.index(f.name) for f in wh.table("t").fields]
    wanted = Counter(tuple(row[place] for place in order) for row in rows_of(where).elements())
    assert Counter(wh.table("t").rows()) == wanted
    assert all(one.ok for one in wh.verify())


def first(where: str, feed: bool = False) -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "g": ["a", "b", "a"], "n": pa.array([1, 2, 3], pa.int32())})
    write_deltalake(where, rows, configuration={FEED: "true"} if feed else None)


def merged(where: str, **columns: list[Any]) -> None:
    write_deltalake(where, pa.table(columns), mode="append", schema_mode="merge")


@pytest.mark.parametrize("feed", [False, True])
@pytest.mark.parametrize("mode", ["add", "rebuild"])
def test_added_columns(tmp_path: Path, mode: str, feed: bool) -> None:
    where, path = str(tmp_path / "lake"), tmp_path / "w"
    first(where, feed)
    with tidemill.open(path, runtime="native", backend="python") as wh:
        created(wh, where, mode)
        wh.sql("SELECT 1")
        merged(where, id=[4], g=["c"], more=["x"], other=[2.5])
        DeltaTable(where).update(updates={"more": "'y'"}, predicate="id = 1")
        wh.sync()
        assert [f.name for f in wh.table("t").fields] == ["id", "g", "n", "more", "other"]
        assert [f.name for f in wh.view("every").fields] == ["id", "g", "n"]
        taken(wh, where)
        wh.sql("CREATE MATERIALIZED VIEW news AS SELECT more, COUNT(*) AS c FROM t GROUP BY more")
        DeltaTable(where).delete("id = 2")
        DeltaTable(where).update(updates={"more": "'z'"}, predicate="g = 'a'")
        wh.sync()
        taken(wh, where)
    with tidemill.open(path, runtime="native", backend="python") as wh:
        merged(where, id=[5], g=["a"], more=["y"], last=[True])
        wh.sync()
        taken(wh, where)


def overwritten(where: str, **columns: Any) -> None:
    write_deltalake(where, pa.table(columns), mode="overwrite", schema_mode="overwrite")


def test_other_columns_are_only_rebuilt(tmp_path: Path) -> None:
    where = str(tmp_path / "lake")
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        first(where)
        created(wh, where, "add")
        overwritten(where, id=[1], g=["a"], n=[5])
        with pytest.raises(Unsupported, match="columns of lake table"):
            wh.sync()
        assert len(wh.table("t").rows()) == 3


def test_rebuilt(tmp_path: Path) -> None:
    where = str(tmp_path / "lake")
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        first(where)
        created(wh, where, "rebuild")
        overwritten(where, id=[1, 9], g=["a", "b"], n=[1 << 40, 5])  # INT becomes BIGINT: wider
        wh.sync()
        taken(wh, where)
        overwritten(where, g=["a", "b"], n=[7, 5], extra=["x", None])
        with pytest.raises(Unsupported) as refused:
            wh.sync()
        assert refused.value.detail == "It is read by every."
        wh.sql("DROP VIEW every")
        wh.sync()
        assert [f.name for f in wh.table("t").fields] == ["g", "n", "extra"]
        taken(wh, where)
        overwritten(where, g=["a"], n=[7], extra=[4])  # another type, which nothing reads
        wh.sync()
        taken(wh, where)


def test_iceberg(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.t", schema=pa.schema([("id", pa.int64()), ("n", pa.int32())]))
    table.append(pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([7, 8], pa.int32())}))
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        for name, mode in (("added", "add"), ("any", "rebuild")):
            options = f"catalog = '{tmp_path}/catalog.db', on_schema_change = '{mode}'"
            wh.sql(f"CREATE TABLE {name} USING iceberg OPTIONS ({options}) LOCATION 'sales.t'")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(id) AS s FROM added")
        with table.update_schema() as update:
            update.add_column("more", StringType())
        more = pa.table({"id": pa.array([3], pa.int64()), "n": pa.array([9], pa.int32()), "more": ["x"]})
        table.append(more)
        wh.sync()
        expected = Counter({(1, 7, None): 1, (2, 8, None): 1, (3, 9, "x"): 1})
        assert Counter(wh.table("added").rows()) == Counter(wh.table("any").rows()) == expected
        table.delete("id = 1")
        wh.sync()
        assert Counter(wh.table("added").rows()) == Counter({(2, 8, None): 1, (3, 9, "x"): 1})
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.update_column("n", LongType())
            update.delete_column("more")
            update.add_column("less", IntegerType())
        table.append(pa.table({"id": [4], "n": [10], "less": pa.array([1], pa.int32())}))
        with pytest.raises(Unsupported, match="columns of lake table"):
            wh.sync("added")
        wh.sync("any")
        assert Counter(wh.table("any").rows()) == Counter({(2, 8, None): 1, (3, 9, None): 1, (4, 10, 1): 1})
        assert wh.view("v").verify().ok
    catalog.close()


def live(folder: Path) -> None:
    """Take a version with other columns, for a crash test to cut short."""
    where = str(folder / "lake")
    if not DeltaTable.is_deltatable(where):
        first(where)
    with tidemill.open(folder / "w", runtime="native", backend="python") as wh:
        if "t" not in wh.tables():
            wh.sql(f"CREATE TABLE t USING delta OPTIONS (on_schema_change = 'rebuild') LOCATION '{where}'")
            wh.sql("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS c FROM t GROUP BY g")
        if DeltaTable(where).version() == 0:
            merged(where, id=[4], g=["c"], more=["x"])
        wh.sync()
        if DeltaTable(where).version() == 1:
            overwritten(where, id=[1, 2], g=["a", "c"], n=["text", "text"])
        wh.sync()


@pytest.mark.parametrize("passing", ["lake-altered:1", "lake-altered:2", "after-alter:2", "before-alter:2"])
def test_killed_on_the_way(tmp_path: Path, passing: str) -> None:
    died = forked_children.run("tests.lake.test_schema_change", tmp_path, timeout=60, **{FAULT_VARIABLE: passing})
    assert died.returncode == -signal.SIGKILL, died.stderr
    live(tmp_path)
    with tidemill.open(tmp_path / "w", runtime="native", read_only=True) as wh:
        taken(wh, str(tmp_path / "lake"))


if __name__ == "__main__":
    live(Path(sys.argv[1]))
