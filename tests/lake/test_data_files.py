"""Data files of two versions as weighted rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
import pytest

from tidemill.changes.arrow import from_arrow
from tidemill.model.errors import BadValue, HistoryGone, NullViolation, SourceLost
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, STRING, Field
from tidemill.sources.lake.data_files import DataFile, read_signed
from tidemill.sources.lake.lake_table import together

ORDERS = Table("orders", (Field("id", BIGINT, nullable=False), Field("g", STRING)))


def signed(root: Path, old: dict[str, DataFile], new: dict[str, DataFile], table: Table = ORDERS) -> Counter[Any]:
    """The change from some files to others, summed."""
    parts, _ = read_signed(old, new, table, pa_fs.SubTreeFileSystem(str(root), pa_fs.LocalFileSystem()))
    found: Counter[Any] = Counter()
    for row, weight in from_arrow(together(parts, table), table.fields):
        found[row] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


def test_files_that_one_version_has(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ID": [1, 2, 3], "g": ["a", None, "c"], "other": [0, 0, 0]}), tmp_path / "one")
    pq.write_table(pa.table({"id": pa.array([3, 4], pa.int32())}), tmp_path / "two")
    one, two = DataFile("one"), DataFile("two")
    assert signed(tmp_path, {}, {"1": one}) == {(1, "a"): 1, (2, None): 1, (3, "c"): 1}
    assert signed(tmp_path, {"1": one}, {"1": one}) == {}
    assert signed(tmp_path, {"1": one}, {"2": two}) == {
        (1, "a"): -1,
        (2, None): -1,
        (3, "c"): -1,
        (3, None): 1,
        (4, None): 1,
    }


def test_rows_columns_and_names_of_a_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3], "g": ["wrong"] * 3}), tmp_path / "one")
    told = {"G": pa.scalar("x")}
    kept = DataFile("one", told, pa.array([False, True]))
    assert signed(tmp_path, {}, {"1": kept}) == {(2, "x"): 1, (3, "x"): 1}, "rows beyond the end of a vector count"
    assert signed(tmp_path, {"a": DataFile("one", told)}, {"b": kept}) == {(1, "x"): -1}
    swapped = DataFile("one", names={"g": "nothing", "id": "id"})
    assert signed(tmp_path, {}, {"1": swapped}) == {(1, None): 1, (2, None): 1, (3, None): 1}


def test_a_file_that_marks_other_rows(tmp_path: Path) -> None:
    texts = pa.array(["a", "b", "c"], pa.string_view())  # which Arrow can neither filter nor take
    pq.write_table(pa.table({"id": [1, 2, 3], "g": texts}), tmp_path / "one")

    def kept(*left: bool) -> dict[str, DataFile]:
        return {"1": DataFile("one", kept=pa.array(left, pa.bool_()))}

    assert signed(tmp_path, {}, kept(False)) == {(2, "b"): 1, (3, "c"): 1}
    assert signed(tmp_path, kept(True, False), kept(False)) == {(1, "a"): -1, (2, "b"): 1}
    assert signed(tmp_path, {"1": DataFile("one")}, kept(True, True, True, False)) == {}, "beyond the end of the file"
    region = Table("region", (Field("region", STRING),))
    old, new = (DataFile("one", {"region": pa.scalar("x")}, one) for one in (None, pa.array([False, False])))
    assert signed(tmp_path, {"1": old}, {"1": new}, region) == {("x",): -2}, "no column of the file is needed"


def test_texts_that_repeat(tmp_path: Path) -> None:
    texts = [("a", "b", None)[number % 3] for number in range(5000)]
    pq.write_table(pa.table({"id": range(5000), "g": texts}), tmp_path / "old")
    changed = ["z", *texts[1:4000], "y", *texts[4001:]]
    pq.write_table(pa.table({"id": range(5000), "g": changed}).slice(0, 2500), tmp_path / "new1")
    pq.write_table(pa.table({"id": range(5000), "g": changed}).slice(2500), tmp_path / "new2")
    old, new = {"1": DataFile("old")}, {"2": DataFile("new1"), "3": DataFile("new2")}
    assert signed(tmp_path, old, new) == {(0, "a"): -1, (0, "z"): 1, (4000, "b"): -1, (4000, "y"): 1}
    told = {"3": DataFile("new2", {"G": pa.scalar("y")})}
    assert signed(tmp_path, {"1": DataFile("new2")}, told)[(2501, "y")] == 1


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "no").write_bytes(b"PAR1")
    pq.write_table(pa.table({"g": ["a"]}), tmp_path / "lacks")
    pq.write_table(pa.table({"id": [2**63]}, schema=pa.schema([("id", pa.uint64())])), tmp_path / "large")
    for name, error in (("gone", HistoryGone), ("no", SourceLost), ("lacks", NullViolation), ("large", BadValue)):
        with pytest.raises(error, match=".") as refused:
            signed(tmp_path, {}, {"1": DataFile(name)})
        assert name in str(refused.value.where)
