"""State that is left in the store: the first changes after opening look up what they touch, and read nothing else."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill
from tidemill import Warehouse
from tidemill.changes.arrow import from_arrow
from tidemill.model.errors import DuplicateKey, TidemillError
from tidemill.runtimes.native import runtime_state
from tidemill.runtimes.native.state import group_ends, snapshot, stored_lookups
from tidemill.storage import runs
from tidemill.storage.mapped import lookup_costs

TABLES = """
    CREATE TABLE item (id BIGINT PRIMARY KEY, kind STRING, price DECIMAL(10, 2), day DATE, owner INT);
    CREATE TABLE owner (id INT PRIMARY KEY, name STRING);
    CREATE TABLE loose (kind STRING, n INT, x DOUBLE);
"""

VIEWS = {
    "ends": "SELECT kind, COUNT(*) AS n, MIN(price) AS least, MAX(price) AS most FROM item GROUP BY kind",
    "ends_of_all": "SELECT MIN(price) AS least, MAX(day) AS latest, MIN(kind) AS first FROM item",
    "sums": "SELECT day, kind, SUM(price) AS price, COUNT(owner) AS n FROM item GROUP BY day, kind",
    "joined": """SELECT o.name, i.kind, COUNT(*) AS n, MAX(i.day) AS latest FROM item i JOIN owner o ON i.owner = o.id
        GROUP BY o.name, i.kind""",
    "first": """SELECT kind, id, price FROM (SELECT kind, id, price, ROW_NUMBER() OVER (PARTITION BY kind
        ORDER BY price, id) AS place FROM item) AS ranked WHERE place <= 2""",
    "doubles": "SELECT kind, SUM(x) AS x, COUNT(DISTINCT n) AS n, MIN(x) AS least FROM loose GROUP BY kind",
    "others": "SELECT i.id, l.n FROM item i LEFT JOIN loose l ON i.kind = l.kind WHERE i.owner IS NULL",
}

Change = dict[str, list[tuple[int, tuple[Any, ...]]]]


class History:
    """Random changes of the tables that are possible, with many at the ends of their groups."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.items: dict[int, tuple[Any, ...]] = {}
        self.owners: dict[int, tuple[Any, ...]] = {}
        self.loose: list[tuple[Any, ...]] = []

    def change(self, rows: int) -> Change:
        """A change of this many rows."""
        change: Change = {"item": [], "owner": [], "loose": []}
        for _ in range(rows):
            self.random.choice([self._item, self._item, self._item, self._owner, self._loose])(change)
        return {name: part for name, part in change.items() if part}

    def _kind(self) -> str | None:
        return self.random.choice(["a", "a", "a", "b", "é", None])

    def _item(self, change: Change) -> None:
        draw = self.random
        if self.items and draw.random() < 0.5:
            by_price = sorted(self.items.values(), key=lambda row: (row[2] is None, row[2] or 0))
            old = draw.choice([by_price[0], by_price[-1], draw.choice(by_price)])
            del self.items[old[0]]
            change["item"].append((-1, old))
            if draw.random() < 0.5:
                return
            key = old[0]
        else:
            key = draw.choice([key for key in range(-5, 400) if key not in self.items])
        price = draw.choice([None, *([draw.randrange(-30, 60)] * 9)])
        day = draw.choice([None, f"2026-01-{draw.randrange(1, 9):02}"])
        row = (key, self._kind(), price, day, draw.choice([None, 1, 2, 3, 4]))
        self.items[key] = row
        change["item"].append((+1, row))

    def _owner(self, change: Change) -> None:
        key = self.random.randrange(1, 5)
        if key in self.owners:
            change["owner"].append((-1, self.owners.pop(key)))
        else:
            self.owners[key] = (key, self.random.choice(["ann", "bob", None]))
            change["owner"].append((+1, self.owners[key]))

    def _loose(self, change: Change) -> None:
        if self.loose and self.random.random() < 0.4:
            change["loose"].append((-1, self.loose.pop(self.random.randrange(len(self.loose)))))
        else:
            row = (self._kind(), self.random.randrange(4), self.random.choice([0.25, 1e17, -1e17, None, 2.5]))
            self.loose.append(row)
            change["loose"].append((+1, row))


def require_fresh(wh: Warehouse) -> None:
    for name, query in VIEWS.items():
        kept, right = Counter(map(tuple, wh.view(name).rows())), Counter(map(tuple, wh.sql(query)))
        assert kept == right, name


def opened(path: Path | str) -> Warehouse:
    return tidemill.open(path, runtime="native", backend="python")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Tables of a few rows are treated as large ones are, in files of a few row groups."""
    monkeypatch.setattr(stored_lookups, "LOOKUP_ROWS", 1)
    monkeypatch.setattr(group_ends, "END_ENTRIES", 1)
    monkeypatch.setattr(group_ends, "SMALL_GROUP", 0)
    monkeypatch.setattr(runs, "ROW_GROUP", 16)
    monkeypatch.setattr(runs, "PARQUET_OPTIONS", runs.PARQUET_OPTIONS | {"row_group_size": 16})
    return monkeypatch


@pytest.mark.turns("lookup_rows")
@pytest.mark.parametrize("lookup_rows", [30, 8, 1e-9])
@pytest.mark.parametrize("resident", [0, 200_000])
def test_random_histories_of_warehouses_that_are_opened_again(
    tmp_path: Path, random_seed: int, small: pytest.MonkeyPatch, lookup_rows: float, resident: int
) -> None:
    """Rows come, change and leave; the warehouse is closed, compacted and vacuumed, and refuses some epochs."""
    small.setattr(stored_lookups, "LOOKUP_ROWS", lookup_rows)
    small.setattr(stored_lookups, "KEY_ROWS", 0 if lookup_rows < 1 else 1)
    small.setattr(runtime_state, "RESIDENT_ROWS", resident)
    history = History(random_seed)
    small.setattr(lookup_costs, "WORTH", history.random.choice([0.0, 0.01, 1.0]))
    wh = opened(tmp_path)
    wh.sql(TABLES)
    for name, query in VIEWS.items():
        wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    wh.apply(history.change(60))
    try:
        for step in range(30):
            draw = history.random.random()
            if draw < 0.25:
                wh.close()
                wh = opened(tmp_path)
            elif draw < 0.3:
                wh.compact()
            elif draw < 0.35:
                wh.vacuum(1)
                require_fresh(wh)
            if history.items and history.random.random() < 0.2:
                refuse(wh, history)
            wh.apply(history.change(history.random.choice([1, 1, 1, 2, 6])))
            if step % 8 == 7:
                require_fresh(wh)
        require_fresh(wh)
    finally:
        wh.close()


def refuse(wh: Warehouse, history: History) -> None:
    """An epoch that changes much, and has a key that is there."""
    key = history.random.choice(list(history.items))
    gone = history.random.choice(list(history.items.values()))
    loose = [(+1, ("a", 1, 0.5))]
    with pytest.raises(TidemillError):
        wh.apply({"loose": loose, "item": [(-1, gone), (+1, (gone[0], "a", -99, None, 1)), (-2, history.items[key])]})
    with pytest.raises(DuplicateKey):
        wh.apply({"loose": loose, "item": [(+1, (key, "other", 99, None, 2))]})


def test_the_first_change_reads_few_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tables, groups and multisets of thousands of rows, only the touched ones and the ends become tuples."""
    with opened(tmp_path) as wh:
        wh.sql(TABLES)
        wh.apply({"owner": [(+1, (i, f"o{i}")) for i in range(5_000)]})
        rows = [(i, f"k{i % 3}", i % 4_999, f"2026-01-{1 + i % 28:02}", i % 5_000) for i in range(60_000)]
        wh.apply({"item": [(+1, row) for row in rows]})
        for name in ("ends", "ends_of_all", "sums", "joined"):
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    made: list[int] = []

    def counted(table: pa.Table, fields: Any) -> Any:
        made.append(table.num_rows)
        return from_arrow(table, fields)

    for module in (snapshot, group_ends, runtime_state):
        monkeypatch.setattr(module, "from_arrow", counted)
    with opened(tmp_path) as wh:
        wh.apply({"item": [(+1, (60_000, "k1", -5, "2026-02-01", 7)), (-1, rows[4_998])]})
        held = wh._engine.placement.native._state
        loaded = {place: len(map_.entries) for maps in held.held_maps.values() for place, map_ in maps.items()}
        assert max(loaded.values()) < 1_000, loaded
        assert all(contents.stored is not None for contents in held._contents.values())
        assert sum(made) < 1_000
        for name in ("ends", "ends_of_all", "joined"):
            assert Counter(map(tuple, wh.view(name).rows())) == Counter(map(tuple, wh.sql(VIEWS[name]))), name


def test_the_ends_of_a_group_are_loaded_until_they_have_gone(small: pytest.MonkeyPatch) -> None:
    """MIN and MAX stay right while all values at an end leave, one after the other."""
    with opened(":memory:") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        wh.sql("CREATE MATERIALIZED VIEW ends AS SELECT MIN(v) AS least, MAX(v) AS most FROM t")
        wh.apply({"t": [(+1, (i, i)) for i in range(40)]})
        runtime = wh._engine.placement.native
        for i in range(39):
            if i % 3 == 0:
                runtime.free()
            wh.apply({"t": [(-1, (i, i))]})
            assert wh.view("ends").rows() == [(i + 1, 39)]
        wh.apply({"t": [(+1, (1, 50)), (+1, (2, -50))]})
        assert wh.view("ends").rows() == [(-50, 50)]
