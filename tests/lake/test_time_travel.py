"""Time travel by versions of lake tables: each version that was taken is that of its epochs, and others are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tidemill
from tidemill.model.errors import EpochGone, InvalidArgument, ParseError, UnknownName, Unsupported


def append(lake: Path, *ids: int) -> None:
    write_deltalake(str(lake), pa.table({"id": list(ids)}), mode="append")


def history(wh: Any, name: str = "orders") -> list[Any]:
    return list(wh.sql(f"DESCRIBE HISTORY {name}").rows())


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "folder"])
def test_versions_are_epochs(tmp_path: Path, stored: bool) -> None:
    place, lake, other = str(tmp_path / "w") if stored else ":memory:", tmp_path / "orders", tmp_path / "items"
    append(lake, 1)
    append(other, 5)
    with tidemill.open(place, runtime="native", backend="python") as wh:
        wh.sql(f"CREATE TABLE orders USING delta LOCATION '{lake}'")
        wh.sql(f"CREATE TABLE items USING delta LOCATION '{other}'")
        wh.sql("CREATE TABLE own (id INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM orders")
        begin = wh.epoch
        wh.sql("INSERT INTO own VALUES (1)")
        for id in (2, 3):
            append(lake, id)
        second = wh.sync()  # version 2; 1 was never taken
        append(other, 6)
        wh.sync()
        DeltaTable(str(lake)).optimize.compact()  # version 3: changes no row
        wh.sync()
        append(lake, 4)
        last = wh.sync()  # version 4, beside version 1 of items

        def ids(version: object) -> list[int]:
            return sorted(row[0] for row in wh.sql(f"SELECT id FROM orders VERSION AS OF {version}").rows())

        assert history(wh) == [
            ("4", last, last),
            ("3", last - 1, last - 1),
            ("2", second, last - 2),
            ("0", 1, second - 1),
        ]
        assert ids("'delta:0'") == [1] and ids("'DELTA:2'") == ids("'delta:3'") == [1, 2, 3]
        assert ids("'delta:4'") == [1, 2, 3, 4] and ids(begin) == [1]
        both = "SELECT COUNT(*) FROM orders VERSION AS OF 'delta:4' a, orders VERSION AS OF 'delta:0' b, own"
        assert list(wh.sql(both).rows()) == [(4,)]
        assert wh.at(lake={"orders": 2}).epoch == second and wh.at(lake={"orders": "4"}).view("v").rows() == [(4,)]
        assert wh.at(lake={"orders": 2, "items": 1}).epoch == second + 1
        with pytest.raises(EpochGone, match="no epoch shows these versions together"):
            wh.at(lake={"orders": 0, "items": 1})
        with pytest.raises(EpochGone, match="version 1 .* never taken") as refused:
            ids("'delta:1'")
        assert f"0 at epochs 1 to {second - 1}, 2 at" in refused.value.render()
        for version, kind, said in (
            ("'iceberg:1'", Unsupported, "is a delta table"),
            ("'delta:'", ParseError, "the number of an epoch"),
            ("-1", ParseError, "VERSION AS OF takes"),
        ):
            with pytest.raises(kind, match=said):
                ids(version)
        with pytest.raises(Unsupported, match="no lake table"):
            wh.sql("SELECT * FROM v VERSION AS OF 'delta:2'")
        with pytest.raises(InvalidArgument):
            wh.at()
        with pytest.raises(UnknownName, match="no lake table"):
            wh.sql("DESCRIBE HISTORY own")
        wh.vacuum(keep=3)
        assert [version for version, *_ in history(wh)] == ["4", "3", "2"]
        assert wh.at(lake={"orders": 2}).epoch == wh.epoch - 2
        wh.sql("DROP VIEW v")
        wh.sql("DROP TABLE orders")
        wh.sql(f"CREATE TABLE orders USING delta LOCATION '{lake}'")
        assert [version for version, *_ in history(wh)] == ["4"], "a table of the same name before it is another"
    if stored:
        with tidemill.open(place, runtime="native", backend="python") as wh:
            assert [version for version, *_ in history(wh)] == ["4"]


def test_a_table_called_history(tmp_path: Path) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE history (id INT)")
        assert wh.sql("DESCRIBE history").rows() == [("id", "int", None)]
