"""After opening, changes look up what they touch, until reading all rows is cheaper than going on so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import tidemill

ROWS, CHANGED = 400_000, 1_500


def updates(first: int) -> list[tuple[int, tuple[int, int]]]:
    """New values for rows, from ``first`` on: the old ones are three times their number."""
    rows = range(first, first + CHANGED)
    return [(-1, (row, 3 * row)) for row in rows] + [(1, (row, 3 * row + 1)) for row in rows]


def is_read(wh: tidemill.Warehouse) -> bool:
    """True once machine code has all rows of the table."""
    return wh._engine.state.placement.native._backends.ready_table("t") is not None


def test_a_large_table_is_read_once_lookups_have_cost_as_much(tmp_path: Path) -> None:
    with tidemill.open(tmp_path, runtime="native") as wh:
        wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT n % 10 AS k, COUNT(*) AS c, SUM(n) AS s FROM t GROUP BY n % 10")
        wh.apply({"t": pa.table({"id": np.arange(ROWS), "n": 3 * np.arange(ROWS)})})
    read = []
    for _ in range(2):  # the second time there are runs with deletions, whose rows are summed as they are read
        with tidemill.open(tmp_path, runtime="native") as wh:
            for _ in range(4):
                wh.apply({"t": updates(CHANGED * len(read))})
                read.append(is_read(wh))
            assert all(wh.verify())
    assert read == 2 * [False, True, True, True]
    with tidemill.open(tmp_path, runtime="native") as wh:
        moved = CHANGED * len(read)
        assert wh.sql("SELECT COUNT(*), SUM(n) FROM t").rows() == [(ROWS, 3 * ROWS * (ROWS - 1) // 2 + moved)]
