"""Random histories of tables with keys, some of them APPEND ONLY: views that rely on that stay right."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

import tidemill
from tests import ways
from tests.generators import History, TableSpec
from tests.writer import Col


def table(name: str, *columns: str, append_only: bool = False, **references: str) -> TableSpec:
    fields = tuple(Col(column, "number") for column in (*columns, *references))
    return TableSpec(name, fields, "id" in columns, False, append_only, tuple(references.items()))


TABLES = [
    table("a", "id", "x", append_only=True),
    table("b", "id", "y", append_only=True, a="a", up="b"),
    table("c", "z", append_only=True, b="b", a="a"),
    table("m", "id", "x"),
    table("k", "n", m="m", b="b"),
]

VIEWS = {
    "rows": "SELECT a.x, b.y, c.z FROM a JOIN b ON b.a = a.id JOIN c ON c.b = b.id",
    "sums": "SELECT a.x, SUM(b.y * c.z) AS s FROM a JOIN b ON b.a = a.id JOIN c ON c.b = b.id GROUP BY a.x",
    "both": "SELECT a.x, COUNT(*) AS n FROM a JOIN c ON c.a = a.id JOIN b ON c.b = b.id AND b.a = a.id GROUP BY a.x",
    "up": "SELECT one.id, two.y FROM b AS one JOIN b AS two ON one.up = two.id",
    "highest": "SELECT three.y, COUNT(*) AS n FROM b AS one JOIN b AS two ON one.up = two.id "
    "JOIN b AS three ON two.up = three.id GROUP BY three.y",
    "loose": "SELECT a.id, SUM(b.y) AS s FROM a JOIN b ON b.y = a.id GROUP BY a.id",
    "moves": "SELECT m.x, SUM(k.n * b.y) AS s FROM m JOIN k ON k.m = m.id JOIN b ON k.b = b.id GROUP BY m.x",
    "ends": "SELECT a.x, MIN(b.y) AS l, MAX(b.y) AS h FROM a JOIN b ON b.a = a.id GROUP BY a.x",
    "whole": "SELECT MIN(z) AS l, MAX(z + 1) AS h, COUNT(*) AS n FROM c WHERE z IS NOT NULL",
    "moved": "SELECT k.b, MAX(k.n) AS h FROM k JOIN b ON k.b = b.id GROUP BY k.b",
    "outer_rows": "SELECT a.id, b.id AS b FROM a LEFT JOIN b ON b.a = a.id",
    "missing": "SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.a = a.id)",
}

OPTIONS = {
    "delta": "strategy = 'delta'",
    "late": "strategy = 'delta', refresh = 'deferred'",
    "viewlet": "strategy = 'viewlet'",
    "naive": "strategy = 'viewlet', depth = 'naive'",
    "base": "strategy = 'viewlet', depth = '1'",
    "joingraph": "strategy = 'joingraph'",
    "auto": "strategy = 'auto', optimize = 'latency'",
}

LEFT_OUT = VIEWS.keys() - {"loose", "whole", "missing"}
"""The views of which some trigger has nothing to do, by a foreign key to a table that is APPEND ONLY."""


def created(wh: tidemill.Warehouse, names: list[str], kinds: Iterable[str]) -> list[str]:
    views = [(name, kind) for name in names for kind in kinds]
    for name, kind in views:
        wh.sql(f"CREATE MATERIALIZED VIEW {name}_{kind} WITH ({OPTIONS[kind]}) AS {VIEWS[name]}")
    return [f"{name}_{kind}" for name, kind in views]


def require_right(wh: tidemill.Warehouse, views: list[str]) -> None:
    for view in views:
        found = wh.view(view).verify()
        assert found.ok, found


@pytest.mark.turns("way", 2)
@pytest.mark.parametrize("way", [*ways.NATIVE, "stored"])
@pytest.mark.parametrize(("seeds", "epochs"), [(1, 8), pytest.param(30, 40, marks=pytest.mark.long)])
def test_histories(way: str, seeds: int, epochs: int, random_seed: int) -> None:
    for seed in range(random_seed, random_seed + seeds):
        dice = Random(seed)
        with ways.opened(way) as wh:
            for spec in TABLES:
                wh.sql(f"CREATE TABLE {spec.sql()}")
            history = History(dice.choice, TABLES)
            kinds = OPTIONS if way == "held" else ("delta", "late", "viewlet")
            names = list(VIEWS) if way != "llvm" or seeds > 1 else ["sums", "moved", "up", "ends"]
            views = created(wh, names[::2], kinds)
            for number in range(epochs):
                if number == epochs // 2:
                    views += created(wh, names[1::2], kinds)
                wh.apply(history.epoch(5))
                if number % 3 == 2:
                    wh.sql("; ".join(f"REFRESH VIEW {view}" for view in views if view.endswith("_late")))
                require_right(wh, views if number % 3 == 2 else [v for v in views if not v.endswith("_late")])


@pytest.mark.parametrize("kind", ["delta", "viewlet"])
def test_what_is_left_out(kind: str) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        for spec in TABLES:
            wh.sql(f"CREATE TABLE {spec.sql()}")
        created(wh, list(VIEWS), [kind])
        used = {name for name in VIEWS if "APPEND ONLY" in wh.view(f"{name}_{kind}").explain()}
        assert used == LEFT_OUT
        shown = wh.view(f"rows_{kind}").explain()
        assert "new rows of a meet no row of b, by its foreign key (a): a is APPEND ONLY" in shown
        assert "new rows of b meet no row of c, by its foreign key (b): b is APPEND ONLY" in shown


def test_no_child_is_kept_in_memory_for_its_parents() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        for spec in TABLES:
            wh.sql(f"CREATE TABLE {spec.sql()}")
        created(wh, ["rows"], ["delta"])
        assert "a change of a costs O(1): it changes no row" in wh.view("rows_delta").explain()
        assert wh._engine.pipeline["rows_delta"].looked_up == {"a", "b"}


@pytest.mark.parametrize("way", ways.NATIVE)
def test_one_value_of_each_group_is_kept(way: str) -> None:
    dice = Random(1)
    with ways.opened(way) as wh:
        wh.sql("CREATE TABLE t (g INT, x INT) APPEND ONLY; CREATE TABLE u (g INT, x INT)")
        for name in "tu":
            wh.sql(f"CREATE MATERIALIZED VIEW v{name} AS SELECT g, MIN(x) AS l, MAX(x) AS h FROM {name} GROUP BY g")
        for _ in range(6):
            rows = [(1, (dice.randrange(5), dice.randrange(1000))) for _ in range(50)]
            wh.apply({"t": rows, "u": rows})
        assert held_entries(wh, "vt") == 15 < held_entries(wh, "vu")
        assert "O(1): MIN is the one value that is kept, since nothing is deleted" in wh.view("vt").explain()
        assert sorted(wh.view("vt").rows()) == sorted(wh.view("vu").rows())


@pytest.mark.parametrize("way", ways.NATIVE)
def test_a_top_k_keeps_its_rows(way: str) -> None:
    dice = Random(3)
    with ways.opened(way) as wh:
        wh.sql("CREATE TABLE t (g INT, x INT) APPEND ONLY; CREATE TABLE u (g INT, x INT)")
        for name in "tu":
            wh.sql(
                f"CREATE MATERIALIZED VIEW v{name} AS SELECT g, x FROM (SELECT g, x, ROW_NUMBER() OVER "
                f"(PARTITION BY g ORDER BY x DESC) AS n FROM {name}) AS s WHERE n <= 2"
            )
            wh.sql(f"CREATE MATERIALIZED VIEW w{name} AS SELECT x FROM {name} ORDER BY x LIMIT 3 OFFSET 2")
        for _ in range(8):
            rows = [(dice.choice([1, 1, 2]), (dice.choice([None, 1, 2]), dice.randrange(100))) for _ in range(9)]
            wh.apply({"t": rows, "u": rows})
            for name in "vw":
                assert sorted(wh.view(f"{name}t").rows(), key=repr) == sorted(wh.view(f"{name}u").rows(), key=repr)
        entries = {name: held_entries(wh, name) for name in ("vt", "vu", "wt", "wu")}
        assert entries["vt"] <= 9 < entries["vu"] and entries["wt"] <= 5 < entries["wu"]
        assert "the first 2 rows of a partition, which are all that is kept" in wh.view("vt").explain()


def held_entries(wh: tidemill.Warehouse, view: str) -> int:
    placed = wh._engine.pipeline[view]
    return sum(count for count, _ in placed.runtime.sizes(placed.program.stages[-1]).values())


@pytest.mark.parametrize("way", ways.NATIVE)
def test_what_grows_is_told_view_by_view(way: str) -> None:
    dice = Random(2)
    with ways.opened(way) as wh:
        wh.sql("CREATE TABLE t (g INT, x INT) APPEND ONLY; CREATE TABLE u (g INT, y INT) APPEND ONLY")
        wh.sql("CREATE MATERIALIZED VIEW a AS SELECT t.g, x + y AS z FROM t JOIN u ON t.g = u.g WHERE x > 0")
        wh.sql("CREATE MATERIALIZED VIEW b AS SELECT g, z FROM a UNION ALL SELECT g, x FROM t")
        wh.sql("CREATE MATERIALIZED VIEW c AS SELECT g, SUM(z) AS z FROM b GROUP BY g")
        wh.sql("CREATE MATERIALIZED VIEW d AS SELECT g, z FROM b WHERE g NOT IN (SELECT y FROM u)")
        for name in "abcd":
            wh.sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT MAX(z) AS h, MIN(z) AS l FROM {name}")
        for _ in range(8):
            rows = [(1, (dice.randrange(3), dice.randrange(-9, 9))) for _ in range(4)]
            wh.apply({"t": rows[:3], "u": rows[3:]})
            require_right(wh, ["of_a", "of_b", "of_c", "of_d"])
        assert [name for name in "abcd" if "greatest value_0 only" in wh.view(f"of_{name}").explain()] == ["a", "b"]


def test_the_page_on_keys_shows_what_explain_says() -> None:
    page = (Path(__file__).parents[2] / "docs/design/keys.md").read_text()
    _, sql, _, shown, *_ = page.split("```")
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(sql.removeprefix("sql"))
        explained = wh.view("sums").explain().splitlines()
        assert [line for line in shown.strip().splitlines() if line not in explained] == []


@pytest.mark.parametrize("rows", [10, 30_000])
def test_a_view_over_rows_that_are_there_keeps_one_value_of_each_group(rows: int) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (g INT, x INT) APPEND ONLY")
        wh.apply({"t": [(1, (i % 3, i * 7 % 1000)) for i in range(rows)]})
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT g, MIN(x) AS l FROM t GROUP BY g")
        assert "keeps map v/bag_0_least[t.g, value_0]: 3 stored" in wh.view("v").explain()
        wh.apply({"t": [(1, (0, -1)), (1, (1, 2000)), (1, (None, 4)), (1, (None, None))]})
        assert wh.view("v").verify().ok
