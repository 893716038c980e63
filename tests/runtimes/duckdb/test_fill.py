"""Views that are filled by DuckDB: maps and rows are those of the native runtime, and later changes go on from them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal, localcontext
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidemill
from tests.answers import differ, inner
from tests.generators import Scenario, many_views
from tests.matrix.cases import FILES, drawn
from tests.matrix.expected import Expected, Moment, at, expected, together
from tests.matrix.programs import compiling_once
from tests.runtimes.duckdb.asked import connection
from tests.ways import opened
from tidemill.algebra.aggregates.function import MultisetEnd
from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler import choose
from tidemill.engine.epochs.placement import Placement
from tidemill.model.errors import ArithmeticFault
from tidemill.program.stages import PartitionEmission, Stage
from tidemill.runtimes.duckdb import fill
from tidemill.runtimes.duckdb.sql_text import NotLowered
from tidemill.runtimes.runtime import FilledStage, NotAnswered, ReadTable, Runtime

LEAST_FILLED = 520
"""Least number of stages of golden files that DuckDB fills: it may only rise."""

NOTHING = ChangeSet.of((), ())


class Comparing:
    """Loads each stage in both ways, and notes what differs."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.wrong: list[str] = []

    def fill(
        self, placement: Placement, runtime: Runtime, stage: Stage, work: int, read: ReadTable
    ) -> FilledStage | None:
        """As ``Placement.fill_in_columns``, after the native runtime has loaded the stage."""
        assert runtime is placement.native
        try:
            filled = fill.fill_stage(stage, read)
        except NotAnswered as error:
            self.counts["not translated" if isinstance(error, NotLowered) else "an error"] += 1
            self.reasons[str(error)[:60]] += 1
            return None
        rows = placement.native.load(stage)
        runner = placement.native._backends.runner(stage.name)
        with localcontext(EXACT):
            loaded = dict(placement.native._state.changes(stage) if runner is None else runner.changes())
        if stage.reader is None:
            self._compare(stage.name, filled.rows, rows)
        for map_ in stage.maps:
            found, wanted = (maps.get(map_.name, NOTHING) for maps in (filled.maps, loaded))
            self._compare(map_.name, *(_first_rows(stage, map_.name, rows) for rows in (found, wanted)))
        self.counts["filled"] += 1
        placement.native.leave_in_store(stage)
        return filled

    def _compare(self, name: str, filled: ChangeSet, loaded: ChangeSet) -> None:
        if len(filled.zset()) != len(filled) or filled.zset() != loaded.zset():
            self.wrong.append(f"{name}: {filled.pairs()[:9]} is not {loaded.pairs()[:9]}")


def _first_rows(stage: Stage, name: str, rows: ChangeSet) -> ChangeSet:
    """The entries of a map, without those that a stage without deletions does not read: copies of rows, and of a
    multiset of which one end is read all others."""
    finish, end = stage.finish, next(map_.end for map_ in stage.maps if map_.name == name)
    if end is not None:
        return _ends(rows, end)
    if not isinstance(finish, PartitionEmission) or finish.kept_rows is None or finish.source != name:
        return rows
    return ChangeSet.of([(row, min(weight, finish.kept_rows)) for row, weight in rows.pairs()], rows.fields)


def _ends(rows: ChangeSet, end: MultisetEnd) -> ChangeSet:
    """The least or greatest value of each group, once; the value is the last key, and NULL is none."""
    groups: dict[Row, list[Any]] = {}
    for row, _ in rows.pairs():
        if row[-1] is not None:
            groups.setdefault(row[:-1], []).append(row[-1])
    choose = min if end is MultisetEnd.LEAST else max
    return ChangeSet.of([((*key, choose(values, key=order_key)), 1) for key, values in groups.items()], rows.fields)


@pytest.fixture
def comparing(monkeypatch: pytest.MonkeyPatch) -> Comparing:
    """All views are filled in columns, however few rows there are."""
    comparing = Comparing()
    monkeypatch.setattr(choose, "COLUMN_WORK", -1)
    monkeypatch.setattr(fill, "connected", lambda limit: nullcontext(connection()))
    monkeypatch.setattr(Placement, "fill_in_columns", lambda placement, *given: comparing.fill(placement, *given))
    return comparing


def _play(told: Expected, way: str) -> None:
    """A conversation whose views are created when most of it is over."""
    late, definitions = 2 * len(told.moments) // 3, list[str]()
    with opened(way) as wh:
        for place, moment in enumerate(told.moments):
            if moment.step.error:
                continue
            with at(told.conversation, moment.step):
                definitions += moment.step.definitions("delta")
                _take(wh, moment)
                if place >= late:
                    for definition in definitions:
                        wh.sql(definition)
                    definitions.clear()
                    _check(wh, told, moment)


def _take(wh: tidemill.Warehouse, moment: Moment) -> None:
    for text in filter(None, (moment.step.declare, moment.step.sql)):
        wh.sql(text)
    if moment.step.clock:
        wh.advance_clock(moment.step.clock)
    if moment.rows:
        wh.apply(together(moment.rows))


def _check(wh: tidemill.Warehouse, told: Expected, moment: Moment) -> None:
    for name, rows in moment.views.items():
        found = ZSet.of(inner(wh.view(name).rows(), told.fields(name), name))
        difference = differ(rows, found, told.fields(name))
        assert not difference, f"{name} is wrong:\n{difference}"


def _has_streams(path: Path) -> bool:
    """Whether a golden file has streams, whose earlier rows a view does not see."""
    return not all(table.kept for table in expected(path).answers.tables.values())


@pytest.mark.parametrize("parts", [3, pytest.param(1, marks=pytest.mark.long)])
def test_golden_files(comparing: Comparing, parts: int, random_seed: int) -> None:
    """One of so many golden files, others in each run."""
    with compiling_once():
        for path in drawn(FILES, parts, random_seed):
            if not _has_streams(path):
                _play(expected(path), "held")
    print(dict(comparing.counts), comparing.reasons.most_common(40), sep="\n")
    assert not comparing.wrong, "\n".join(comparing.wrong)
    assert comparing.counts["filled"] >= (LEAST_FILLED if parts == 1 else 1)


GENERATED = 15
"""Views that are drawn by a seed over one history."""


def _scenario_of_tables(seed: int) -> Scenario:
    """The first scenario from a seed on that has no streams, since these keep no rows for a view to be filled from."""
    scenarios = (many_views(number, GENERATED) for number in count(seed))
    return next(scenario for scenario in scenarios if not any(table.stream for table in scenario.tables))


@pytest.mark.turns("way")
@pytest.mark.parametrize("way", ["held", "llvm"])
def test_generated_views(comparing: Comparing, way: str, random_seed: int) -> None:
    """Views over tables that have rows; changes after that find the state that was left in the store."""
    scenario = _scenario_of_tables(random_seed)
    with opened(way) as wh:
        for table in scenario.tables:
            wh.sql(f"CREATE TABLE {table.sql()}")
        for epoch in scenario.epochs[:3]:
            wh.apply(epoch)
        for (name, query), strategy in zip(scenario.views, scenario.strategies, strict=True):
            wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query}")
        for epoch in scenario.epochs[3:]:
            wh.apply(epoch)
        wrong = [str(found) for found in wh.verify() if not found]
    print(dict(comparing.counts), comparing.reasons.most_common(20), sep="\n")
    assert not wrong and not comparing.wrong, "\n".join([*wrong, *comparing.wrong])
    assert comparing.counts["filled"]


LARGE = 9_999_999_999_999_999_999_999_999_999_999_999_999
"""The greatest number of 37 digits."""

TABLES = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, n INT, b BIGINT, d DECIMAL(12,2), w DECIMAL(38,1), x DOUBLE)",
    "CREATE TABLE u (k STRING, m BIGINT)",
)

EDGES: dict[str, str] = {
    "grouped": "SELECT k, COUNT(*) AS c, COUNT(n) AS cn, SUM(n) AS s, SUM(d) AS sd, AVG(d) AS ad, AVG(b) AS ab, "
    "AVG(n) AS an FROM t GROUP BY k",
    "whole": "SELECT COUNT(*) AS c, SUM(d) AS s, AVG(n) AS a, MAX(b) AS m FROM t",
    "nobody": "SELECT COUNT(*) AS c, SUM(d) AS s, MIN(k) AS m FROM t WHERE n > 1000000",
    "large": "SELECT k, SUM(w) AS s, COUNT(DISTINCT w) AS c FROM t WHERE id % 2 = 0 GROUP BY k",
    "once": "SELECT DISTINCT k, n FROM t",
    "ends": "SELECT k, MIN(d) AS least, MAX(x) AS most, MIN(k) AS word, MAX(n) AS n FROM t GROUP BY k "
    "HAVING COUNT(*) > 1",
    "top": "SELECT k, id, x FROM t ORDER BY x DESC, id LIMIT 3",
    "ranked": "SELECT id, RANK() OVER (PARTITION BY k ORDER BY n) AS r FROM t",
    "repeated": "SELECT k FROM u UNION ALL SELECT k FROM t",
    "left_join": "SELECT t.id, u.m FROM t LEFT JOIN u ON t.k = u.k",
    "full_join": "SELECT t.id, u.k, u.m FROM t FULL JOIN u ON t.k = u.k AND u.m > 1",
    "existing": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "absent": "SELECT id FROM t WHERE n NOT IN (SELECT m FROM u WHERE m IS NOT NULL)",
    "rest": "SELECT k FROM t EXCEPT ALL SELECT k FROM u",
    "both": "SELECT k FROM t INTERSECT ALL SELECT k FROM u",
    "numbers": "SELECT x, -x AS y, COUNT(*) AS c FROM t GROUP BY x, -x",
    "above": "SELECT g.k, g.sd, u.m FROM grouped g JOIN u ON g.k = u.k",
    "quotient": "SELECT k, SUM(d * n) / SUM(d) AS mean, MAX(n) AS most, "
    "upper(COALESCE(k, 'none')) || COUNT(*) AS named FROM t GROUP BY k HAVING SUM(d) <> 0",
    "whole_quotient": "SELECT 100.00 * SUM(CASE WHEN k LIKE 'a%' THEN d ELSE 0 END) / SUM(d) AS share FROM t",
    "no_quotient": "SELECT SUM(d) / SUM(d) AS one, COUNT(*) AS c FROM t WHERE id < 0",
    "double_sum": "SELECT k, SUM(x) AS s FROM t GROUP BY k",
}


def _rows_at_the_edges() -> dict[str, list[tuple[int, tuple[Any, ...]]]]:
    """NULLs, equal rows, NaN, both zeros, and numbers at the ends of their types."""
    wide = Decimal(LARGE) / 10
    kinds = [
        ("a", 1, 2**63 - 1, Decimal("-9999999999.99"), wide, 0.0),
        ("a", None, -(2**63), Decimal("9999999999.99"), -wide, -0.0),
        (None, -5, 0, None, None, math.nan),
        (None, -5, None, Decimal("0.01"), wide, None),
        ("é", 2**31 - 1, 7, Decimal("0.00"), wide, math.inf),
        ("z", -(2**31), 7, Decimal("12.50"), wide, -math.inf),
    ]
    rows = [(place, *kinds[place % len(kinds)]) for place in range(20)]
    others = [(2, ("a", 1)), (1, ("a", 5)), (1, (None, 1)), (3, ("é", None)), (1, ("y", 4))]
    return {"t": [(1, row) for row in rows], "u": others}


@pytest.fixture
def edges() -> Iterator[tidemill.Warehouse]:
    with opened("held") as wh:
        for table in TABLES:
            wh.sql(table)
        with localcontext(prec=60):
            wh.apply(_rows_at_the_edges())
        wh.sql("UPDATE t SET n = 3, d = d / 2 WHERE id IN (2, 7, 13)")
        wh.sql("DELETE FROM t WHERE id = 5")
        yield wh


def test_edges(comparing: Comparing, edges: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[str] = []
    by_evaluator = fill._Filling._evaluated

    def noted(filling: Any, query: Any) -> Any:
        evaluated.append(filling._stage.name)
        return by_evaluator(filling, query)

    monkeypatch.setattr(fill._Filling, "_evaluated", noted)
    for name, query in EDGES.items():
        edges.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'delta') AS {query}")
    print(dict(comparing.counts), dict(comparing.reasons), sep="\n")
    assert not comparing.wrong, "\n".join(comparing.wrong)
    assert set(comparing.reasons) == {"SUM of DOUBLE"}
    assert evaluated == ["quotient", "whole_quotient", "no_quotient"]
    edges.sql("DELETE FROM t WHERE id IN (0, 3, 4)")
    edges.sql("INSERT INTO u VALUES ('z', 2), (NULL, 3)")
    assert not [str(found) for found in edges.verify() if not found]


def test_views_over_no_rows(comparing: Comparing) -> None:
    with opened("held") as wh:
        for table in TABLES:
            wh.sql(table)
        for name, query in EDGES.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert not comparing.wrong, "\n".join(comparing.wrong)
        wh.apply(_rows_at_the_edges())
        assert not [str(found) for found in wh.verify() if not found]


FAULTS = {
    "SUM of BIGINT": "SELECT SUM(b) AS s FROM t WHERE b > 0",
    "SUM of DECIMAL(38,1)": "SELECT SUM(w) AS s FROM t WHERE w > 0",
    "SUM of 39 digits in 128 bits": f"SELECT SUM(CAST({6 * 10**36} AS DECIMAL(38,1))) AS s FROM t WHERE id IN (0, 4)",
    "SUM of a product": "SELECT SUM(w * 10) AS s FROM t WHERE w > 0",
    "division": "SELECT k, n / (id - 7) AS q FROM t",
    "arithmetic": "SELECT b + 1 AS c FROM t",
    "the second stage": "SELECT SUM(s) AS s FROM (SELECT k, MAX(b) AS s FROM t GROUP BY k) WHERE s > 100",
}


@pytest.mark.parametrize("query", FAULTS.values(), ids=FAULTS)
def test_faults_have_their_usual_words(edges: tidemill.Warehouse, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edges.sql("UPDATE t SET b = 9223372036854775807 WHERE id IN (0, 4)")
    edges.sql("UPDATE t SET w = 9999999999999999999999999999999999999.9 WHERE w > 0")
    found = []
    for least in (choose.COLUMN_WORK, -1):
        monkeypatch.setattr(choose, "COLUMN_WORK", least)
        with pytest.raises(ArithmeticFault) as raised:
            edges.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        found.append(str(raised.value))
        assert edges.epoch == 5
    assert found[0] == found[1]
    edges.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS c FROM t GROUP BY k")
    assert edges.view("v").verify()


def test_rows_that_are_repeated_too_often_stay_native(comparing: Comparing) -> None:
    with opened("held") as wh:
        wh.sql(TABLES[1])
        wh.apply({"u": [(10**12, ("a", 1)), (1, ("b", 2))]})
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS c FROM u GROUP BY k")
        assert sorted(wh.view("v").rows()) == [("a", 10**12), ("b", 1)]
    assert comparing.counts == {"an error": 1}


def test_rows_that_are_repeated_are_counted(comparing: Comparing) -> None:
    with opened("held") as wh:
        wh.sql(TABLES[1])
        wh.apply({"u": [(1000, ("a", 1)), (1, ("b", 2))]})
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(m) AS s FROM u GROUP BY k")
        wh.sql("CREATE MATERIALIZED VIEW w AS SELECT k FROM u")
        wh.apply({"u": [(-999, ("a", 1))]})
        assert sorted(wh.view("v").rows()) == [("a", 1), ("b", 2)]
        assert sorted(wh.view("w").rows()) == [("a",), ("b",)]
    assert not comparing.wrong and comparing.counts == {"filled": 2}


def _many(first: int, last: int) -> pa.Table:
    numbers = np.arange(first, last)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "k": pa.array(numbers % 100, pa.int64()),
            "d": pa.array(numbers % 1000, pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
        }
    )


MANY = {
    "sums": "SELECT k, COUNT(*) AS c, SUM(d) AS s, MAX(d) AS m FROM t GROUP BY k",
    "joined": "SELECT n.name, SUM(t.d) AS s FROM t JOIN names n ON t.k = n.k GROUP BY n.name",
    "plain": "SELECT id, d FROM t WHERE k = 7",
    "staged": "SELECT n.name, t.id FROM names n LEFT JOIN t ON t.k = n.k AND t.d > 900",
}


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the stages that DuckDB has filled."""
    names: list[str] = []
    ask = Placement.fill_in_columns

    def noted(placement: Placement, runtime: Runtime, stage: Stage, *given: Any) -> FilledStage | None:
        found = ask(placement, runtime, stage, *given)
        names.extend([] if found is None else [stage.name])
        return found

    monkeypatch.setattr(Placement, "fill_in_columns", noted)
    return names


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_many_rows_in_files(tmp_path: Path, filled: list[str], backend: str) -> None:
    """Views over more rows than the threshold; their state is read from the store by the first change."""
    with tidemill.open(tmp_path, backend=backend) as wh:
        wh.sql(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT, d DECIMAL(12,2)); "
            "CREATE TABLE names (k BIGINT, name STRING)"
        )
        wh.apply({"t": _many(0, 15_000), "names": [(1, (k, f"n{k % 7}")) for k in range(90)]})
        wh.sql("UPDATE t SET d = d + 1 WHERE id % 1000 = 7")
        for name, query in MANY.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert {name.partition("/")[0] for name in filled} == set(MANY)
        assert all(wh.verify())
        wh.sql("DELETE FROM t WHERE id % 100 = 7; UPDATE names SET name = 'other' WHERE k < 5")
        wh.apply({"t": _many(15_000, 15_500)})
        assert all(wh.verify())
    with tidemill.open(tmp_path, backend=backend) as wh:
        wh.sql("DELETE FROM t WHERE id % 10 = 3")
        assert all(wh.verify())


def test_a_deferred_view_catches_up_or_is_filled_again(tmp_path: Path, filled: list[str]) -> None:
    with tidemill.open(tmp_path) as wh:
        wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT, d DECIMAL(12,2))")
        wh.apply({"t": _many(0, 15_000)})
        wh.sql(f"CREATE MATERIALIZED VIEW sums WITH (refresh = 'deferred') AS {MANY['sums']}")
        wh.sql("DELETE FROM t WHERE k = 3")
        wh.view("sums").refresh()
        assert all(wh.verify()) and filled == ["sums"]
        wh.sql("DELETE FROM t WHERE k = 4")
        wh.vacuum()
        wh.view("sums").refresh()
        assert all(wh.verify()) and filled == ["sums", "sums"]
        wh.sql("DELETE FROM t WHERE id < 500")
        wh.view("sums").refresh()
        assert all(wh.verify()) and filled == ["sums", "sums"]


def _filled_maps(monkeypatch: pytest.MonkeyPatch, query: str, rows: pa.Table) -> dict[str, ChangeSet]:
    """The maps of a view over a table that DuckDB has filled; it is right, and stays so while rows come and go."""
    maps: dict[str, ChangeSet] = {}
    ask = Placement.fill_in_columns

    def noted(*given: Any) -> FilledStage | None:
        filled = ask(*given)
        assert filled is not None
        maps.update(filled.maps)
        return filled

    monkeypatch.setattr(Placement, "fill_in_columns", noted)
    with opened("held") as wh:
        wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT, v BIGINT)")
        wh.apply({"t": rows})
        first = rows.slice(0, 1).to_pylist()[0]
        for weight in (-1, +1):  # the table has rows that have gone
            wh.apply({"t": [(weight, tuple(first.values()))]})
        wh.apply({"t": [(+1, (-9, 0, -9))]})
        wh.apply({"t": [(-1, (-9, 0, -9))]})
        wh.sql(f"CREATE MATERIALIZED VIEW view AS {query}")
        assert sorted(wh.view("view").rows()) == sorted(wh.sql(query))
        least = min(rows.to_pylist(), key=lambda row: row["v"] if row["v"] is not None else 1 << 60)
        for change in ([(-1, tuple(least.values()))], [(+1, (-1, 0, -5)), (+1, (-2, 0, -5))], [(-1, (-1, 0, -5))]):
            wh.apply({"t": change})
            assert sorted(wh.view("view").rows()) == sorted(wh.sql(query))
    return maps


@pytest.mark.parametrize("values", [1 << 40, 3])
def test_a_multiset_of_distinct_rows_is_stored_without_grouping(monkeypatch: pytest.MonkeyPatch, values: int) -> None:
    """Where rows repeat, each is stored once with its count; where hardly any do, as they came."""
    monkeypatch.setattr(choose, "COLUMN_WORK", -1)
    monkeypatch.setattr(fill, "UNSUMMED_ROWS", 100)
    monkeypatch.setattr(fill, "SAMPLED_ROWS", 50)
    draw = random.Random(3)
    drawn = [None if draw.random() < 0.1 else draw.randrange(values) for _ in range(496)]
    repeated = [*drawn, *[value for value in drawn if value is not None][:4]]
    rows = pa.table({"id": range(500), "k": [0] * 500, "v": pa.array(repeated, pa.int64())})
    maps = _filled_maps(monkeypatch, "SELECT k, MIN(v) AS least, MAX(v) AS most, COUNT(*) AS n FROM t GROUP BY k", rows)
    (multiset,) = [change for name, change in maps.items() if "groups" not in name]
    assert len(multiset) == (sum(value is not None for value in repeated) if values > 3 else 3)
    assert sum(multiset.zset().values()) == sum(value is not None for value in repeated)


def test_samples_tell_how_many_rows_are_distinct() -> None:
    draw = random.Random(5)
    for values, mostly in ((1 << 40, True), (3_000_000, True), (200_000, False), (100, False)):
        rows = pa.table({"v": [draw.randrange(values) for _ in range(300_000)]})
        assert fill._are_mostly_distinct(rows) is mostly, values


def test_pairs_of_few_rows_are_compared_in_columns(filled: list[str]) -> None:
    """A nested aggregate with two ranges is a join without an equality: a million pairs for a thousand rows."""
    chance = random.Random(2)
    rows = [(i, chance.randrange(100), chance.randrange(1_000), chance.randrange(9)) for i in range(1_010)]
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql("CREATE TABLE bids (id INT PRIMARY KEY, price INT, placed INT, volume INT)")
        warehouse.apply({"bids": [(1, row) for row in rows[:1_000]]})
        warehouse.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT SUM(b.volume) AS total FROM bids b"
            " WHERE 10 > (SELECT COUNT(*) FROM bids s WHERE s.price > b.price AND s.placed < b.placed)"
        )
        assert "v/2" in filled and "v/1" not in filled
        warehouse.apply({"bids": [*((1, row) for row in rows[1_000:]), *((-1, row) for row in rows[:5])]})
        assert warehouse.view("v").verify()
