"""A foreign key costs what the change costs, however many rows there are."""

from __future__ import annotations

import time
from statistics import median

import tidemill


def microseconds(rows: int) -> float:
    """The median time of an epoch that brings or takes one child or one parent, in tables of so many rows."""
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE parents (id INT PRIMARY KEY, name VARCHAR(9))")
        wh.sql("CREATE TABLE children (id INT PRIMARY KEY, parent INT REFERENCES parents, n INT CHECK (n > 0))")
        wh.apply({"parents": [(1, (i, "x")) for i in range(rows)], "children": [(1, (i, i, 1)) for i in range(rows)]})
        parent, child = (rows, "new"), (rows, rows, 1)
        steps = [("parents", 1, parent), ("children", 1, child), ("children", -1, child), ("parents", -1, parent)]
        spent = []
        for table, weight, row in steps * 120:
            start = time.process_time()
            wh.apply({table: [(weight, row)]})
            spent.append(time.process_time() - start)
        return 1e6 * median(spent[len(spent) // 2 :])  # the first few look rows up in the store


def test_no_epoch_scans_a_table() -> None:
    few, many = microseconds(1_000), microseconds(50_000)
    # To look at 50,000 rows takes a hundred times as long as such an epoch.
    assert many < 6 * few
