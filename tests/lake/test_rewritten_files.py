"""Files that were rewritten, as the rows that only one side has."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.changes.arrow import from_arrow, to_arrow
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.errors import BadValue, NullViolation
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import BIGINT, DOUBLE, STRING, Field
from tidemill.sources.lake import rewritten_files
from tidemill.sources.lake.lake_table import together
from tidemill.sources.lake.rewritten_files import Extent, extent_of, net_rows, side_by_side

FIELDS = (Field("id", BIGINT), Field("name", STRING), Field("x", DOUBLE), Field("tags", t.Array(STRING)))
WIDE = Table("wide", FIELDS)
KEYED = Table("keyed", FIELDS, primary_key=("id",))
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([None, "ann", "bob"]),
        st.sampled_from([None, 0.0, math.nan, 2.5]),
        st.sampled_from([None, (), ("a", None)]),
    ),
    max_size=12,
)


def parts_of(rows: Sequence[Row], size: int) -> list[pa.Table]:
    """Rows in parts of some size, as files have them: without weights."""
    parts = [to_arrow([(row, 1) for row in rows[i : i + size]], FIELDS) for i in range(0, len(rows), size)]
    return [part.drop_columns([WEIGHT]) for part in parts]


def net(
    old: Sequence[Row], new: Sequence[Row], size: int, table: Table = WIDE, repeated: Sequence[str] = ()
) -> pa.Table:
    sides = [[_numbered(part, repeated) for part in parts_of(rows, size)] for rows in (old, new)]
    return together(net_rows((sides[0], len(old)), (sides[1], len(new)), table, repeated), table)


def _numbered(part: pa.Table, repeated: Sequence[str]) -> pa.Table:
    """Rows in which some texts are numbers of a dictionary, as of a file that is read so."""
    for name in repeated:
        place = part.column_names.index(name)
        part = part.set_column(place, name, part.column(name).dictionary_encode())
    return part


@given(ROWS, ROWS, st.integers(1, 5), st.booleans(), st.sampled_from([0, 1 << 20]), st.booleans())
def test_the_rows_that_are_left_are_the_difference(
    old: list[Row], new: list[Row], size: int, keyed: bool, held: int, numbered: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewritten_files, "HELD_BYTES", held)
        left = net(old, new, size, KEYED if keyed else WIDE, ["name"] if numbered else ())
    difference = [*((row, 1) for row in new), *((row, -1) for row in old)]
    assert ZSet.summed(from_arrow(left, FIELDS)) == ZSet.summed(difference)


@pytest.mark.parametrize("held", [0, 1 << 30])
@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_that_were_only_rewritten_are_not_left(held: int, shuffled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewritten_files, "HELD_BYTES", held)
    old: list[Row] = [(n, f"name {n % 7}", n / 2, (str(n),)) for n in range(3000)]
    new = [(*row[:2], 0.25, row[3]) if row[0] in (5, 2000) else row for row in old if row[0] != 77]
    if shuffled:
        random.Random(0).shuffle(new)
    assert net(old, new, 256, KEYED).num_rows == 5


def test_rows_without_anything_to_tell_them_apart_are_paired_one_by_one() -> None:
    old: list[Row] = [(1, None, None, None)] * 2000
    assert net(old, old[:-3], 300).num_rows == 3


def test_only_what_is_left_is_checked() -> None:
    strict = Table("strict", (Field("id", BIGINT, nullable=False), Field("code", STRING, length=2)))
    kept = pa.table({"id": [None, 1], "code": ["long", "a"]}, schema=pa.schema([("id", "int64"), ("code", "string")]))
    changed = pa.table({"id": [None, 2], "code": ["long", "b"]}, schema=kept.schema)
    assert together(net_rows(([kept], 2), ([changed], 2), strict), strict).num_rows == 2
    for row, error in (({"id": None, "code": "c"}, NullViolation), ({"id": 3, "code": "longer"}, BadValue)):
        broken = pa.Table.from_pylist([row], kept.schema)
        with pytest.raises(error):
            list(net_rows(([kept], 2), ([kept, broken], 3), strict))


def test_types_of_files_may_differ() -> None:
    old = pa.table({"ID": pa.array([1, 2], pa.int32()), "name": pa.array(["a", "b"], pa.string_view())})
    new = pa.table({"id": [1, 2, 3], "name": pa.array(["a", "c", None], pa.large_string())})
    left = together(net_rows(([old], 2), ([new], 3), WIDE), WIDE)
    changed = {(2, "b", None, None): -1, (2, "c", None, None): 1, (3, None, None, None): 1}
    assert ZSet.summed(from_arrow(left, FIELDS)) == ZSet(changed)


def test_files_are_read_in_the_order_of_the_column_that_tells_them_apart(tmp_path: Path) -> None:
    def written(name: str, ids: range) -> tuple[str, Extent]:
        pq.write_table(pa.table({"Id": ids, "g": np.arange(len(ids)) % 3, "s": ["x"] * len(ids)}), tmp_path / name)
        return name, extent_of(pq.ParquetFile(tmp_path / name))

    old = [written("a", range(20, 30)), written("b", range(10)), written("c", range(10, 20))]
    assert old[0][1] == Extent(10, {"id": (20, 29), "g": (0, 2)})
    assert written("f", range(1000))[1].repeated == {"g", "s"}
    assert side_by_side(old, [written("d", range(15, 30)), written("e", range(15))]) == (["b", "c", "a"], ["e", "d"])
    assert side_by_side([("x", Extent(1)), ("a", Extent(1))], old) == (["x", "a"], ["a", "b", "c"])
