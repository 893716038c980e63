"""Views of patterns under everything that can happen to a row: kept by steps of the machine, equal to recomputation."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

import tidemill
from tidemill.algebra.matching import search
from tidemill.algebra.matching.partial_matches import MatchBuilder
from tidemill.algebra.matching.search import Matcher
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native.operators.match import MatchStateIndex

TABLE = "CREATE TABLE s (ts INT, k STRING, x INT);"

RISE = "a.x < 3 AND b[i].x >= b[i-1].x"
"""Conditions of the pattern (a, b+): something low, then values that do not fall."""

QUERIES = {
    "by_key": f"""SELECT ts, k, count(*) AS n, sum(b.x) AS total
        FROM s PATTERN (a, b+) ORDER BY ts WHERE {RISE} GROUP BY k""",
    "strict": f"""SELECT ts, k, count(*) AS n
        FROM s PATTERN (a, b+) ORDER BY ts STRICT WHERE {RISE} GROUP BY k""",
    "next": f"""SELECT ts, k, max(b.x) AS top
        FROM s PATTERN (a, b+) ORDER BY ts SKIP TILL NEXT MATCH WHERE {RISE} GROUP BY k""",
    "every_start": """SELECT ts, k, first(a.ts) AS since
        FROM s PATTERN (a, b, c) ORDER BY ts SKIP TILL NEXT MATCH AFTER MATCH SKIP TO NEXT ROW
        WHERE a.x < b.x AND c.x < a.x GROUP BY k""",
    "any": """SELECT ts, k, a.ts AS since, b.x AS mid
        FROM s PATTERN (a, b, c) ORDER BY ts SKIP TILL ANY MATCH
        WHERE a.x = 0 AND b.x > 2 AND c.x = 1 GROUP BY k""",
    "average": """SELECT ts, k, avg(d.x) AS mean, last(d.x) AS x
        FROM s PATTERN (a?, d+, (e | f)*) ORDER BY ts
        WHERE a.x = 4 AND d[i].x > avg(d[..i-1].x) AND e.x < 2 AND f.x > last(d.x) GROUP BY k""",
    "v_shape": """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES first(down.ts) AS since, last(up.ts) AS until, count(*) AS n, match_number() AS number
        PATTERN (strt down+ up+) DEFINE down AS x < PREV(x), up AS x > PREV(x)) m""",
    "all_rows": """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES classifier() AS c, sum(x) AS so_far, FINAL sum(x) AS total
        ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST b PATTERN (a b{1,3}? c)
        DEFINE b AS b.x > a.x, c AS c.x < LAST(b.x)) m""",
    "ahead": """SELECT k, n FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES count(*) AS n AFTER MATCH SKIP TO NEXT ROW PATTERN (a+) DEFINE a AS x < NEXT(x, 2)) m""",
    "single": "SELECT ts, k, x FROM s PATTERN (a) ORDER BY ts AFTER MATCH SKIP TO NEXT ROW WHERE a.x > 0 GROUP BY k",
    "shortest": """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES count(*) AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (a*?) DEFINE a AS x > 2) m""",
    "empty": """SELECT k, n, c FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES count(*) AS n, classifier() AS c PATTERN (a*) DEFINE a AS x > 2) m""",
}


COMPILED = {
    "by_key": QUERIES["by_key"],
    "runs": """SELECT ts, k, count(*) AS n, sum(x) AS total, first(a.ts) AS since, max(x) AS top
        FROM s PATTERN (a, b, c, d+) ORDER BY ts WHERE a.x > 0 AND b.x > 0 AND c.x > 0 AND d.x > 0 GROUP BY k""",
    "v_shape_each": """SELECT ts, k, strt.x AS high, min(down.x) AS low
        FROM s PATTERN (strt, down+, up+) ORDER BY ts WHERE down.x < PREV(down.x) AND up.x > PREV(up.x) GROUP BY k""",
    "v_shape_once": QUERIES["v_shape"].replace(", match_number() AS number", ""),
    "once": """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES first(ts) AS since, last(ts) AS until
        PATTERN (a b*) DEFINE a AS x > 1, b AS b.x > 0) m""",
}
"""Patterns that run as machine code."""


def opened(*names: str, backend: str = "python") -> Warehouse:
    warehouse = tidemill.open(":memory:", runtime="native", backend=backend)
    warehouse.sql(TABLE)
    for name in names:
        warehouse.sql(f"CREATE MATERIALIZED VIEW {name} AS {(QUERIES | COMPILED)[name]}")
    return warehouse


def draw_row(draw: random.Random, moment: int) -> tuple[Any, ...]:
    return draw.choice([moment, moment, moment, draw.randint(0, moment + 1), None]), *draw_values(draw)


def draw_values(draw: random.Random) -> tuple[Any, ...]:
    return draw.choice(["p", "q", None]), draw.choice([0, 1, 1, 2, 3, 4, None])


def draw_epoch(draw: random.Random, moment: int, held: list[Any]) -> list[tuple[int, Any]]:
    """Rows that come last, late or twice, and rows that go."""
    changes = [(draw.choice([1, 1, 1, 2]), draw_row(draw, moment)) for _ in range(draw.randint(1, 3))]
    if held and draw.random() < 0.4:
        changes.append((-1, draw.choice(held)))
    return changes


CASES = [*((name, "python") for name in QUERIES), *((name, "llvm") for name in COMPILED)]


@pytest.mark.parametrize(("name", "backend"), CASES)
def test_views_of_patterns_stay_equal_to_recomputation(
    name: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(name)
    shown = 0
    for every in (2, 16):
        monkeypatch.setattr(Matcher, "every", every)
        with opened(name, backend=backend) as warehouse:
            assert backend == "python" or "compiled with LLVM" in warehouse.sql(f"EXPLAIN VIEW {name}")[0][0]
            held: list[Any] = []
            for moment in range(30):
                changes = draw_epoch(draw, moment, held)
                warehouse.apply({"s": changes})
                for weight, row in changes:
                    held.extend([row] * weight) if weight > 0 else held.remove(row)
                check = warehouse.view(name).verify()
                assert check.ok, (moment, changes, check)
            shown += len(warehouse.view(name).rows())
    assert shown > 0


FAILING = [*((name, "python") for name in ("by_key", "v_shape", "next")), *((name, "llvm") for name in COMPILED)]


@pytest.mark.parametrize(("name", "backend"), FAILING)
def test_an_epoch_that_fails_leaves_the_machine_where_it_stood(
    name: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Matcher, "every", 2)
    draw = random.Random(f"{name} fails")
    with opened(name, backend=backend) as warehouse:
        warehouse.sql("CREATE MATERIALIZED VIEW later AS SELECT k, 1 / (max(x) - 9) AS y FROM s GROUP BY k")
        for moment in range(60):
            rows = [(1, (moment, *draw_values(draw)))]
            if moment % 3 == 0:
                late = [(1, (draw.randint(0, moment), *draw_values(draw))) for _ in range(3)]
                with pytest.raises(ArithmeticFault):
                    warehouse.apply({"s": [*late, (1, (moment, "p", 9))]})
            warehouse.apply({"s": rows})
            assert warehouse.view(name).verify().ok


@pytest.mark.parametrize("name", [*QUERIES, *COMPILED])
def test_a_search_that_is_not_known_begins_where_no_run_goes_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart, before every epoch."""
    monkeypatch.setattr(search, "FEWEST_ROWS", 1)
    monkeypatch.setattr(MatchStateIndex, "take", lambda self, prefix: None)
    draw = random.Random(f"{name} restarts")
    with opened(name) as warehouse:
        held: list[Any] = []
        for moment in range(25):
            changes = draw_epoch(draw, moment, held)
            warehouse.apply({"s": changes})
            for weight, row in changes:
                held.extend([row] * weight) if weight > 0 else held.remove(row)
            assert warehouse.view(name).verify().ok, (moment, changes)
        assert warehouse.view(name).rows()


TIMED = {
    "each": """SELECT ts, k, sum(x) AS total FROM s PATTERN (b+) WITHIN INTERVAL 5 SECONDS
        WHERE b.x > 0 AND b.x < 4 GROUP BY k""",
    "once": """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES first(x) AS since, last(x) AS until PATTERN (a{2}) WITHIN INTERVAL 2 SECONDS) m""",
    "unmatched": """SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES match_rowtime() AS t, stddev(x) AS d, count(DISTINCT x) AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS
        PATTERN (^ a b+ | c{2} $) WITHIN INTERVAL 7 SECONDS DEFINE a AS x > 1, b AS b.x <= a.x) m""",
}


@pytest.mark.parametrize("name", TIMED)
def test_runs_end_in_time_whatever_the_back_end(name: str) -> None:
    draw, begin = random.Random(name), datetime(2024, 1, 1)
    for _ in range(4):
        with tidemill.open(":memory:", runtime="native", backend="llvm") as warehouse:
            warehouse.sql("CREATE TABLE s (ts TIMESTAMP, k STRING, x INT)")
            warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {TIMED[name]}")
            held: list[Any] = []
            for moment in range(15):
                drawn = draw_epoch(draw, moment, [])
                changes = [(n, (None if t is None else begin + timedelta(seconds=t), *more)) for n, (t, *more) in drawn]
                changes += [(-1, draw.choice(held))] if held and draw.random() < 0.4 else []
                warehouse.apply({"s": changes})
                for weight, row in changes:
                    held.extend([row] * weight) if weight > 0 else held.remove(row)
                assert warehouse.view("v").verify().ok, (moment, changes)
            assert warehouse.view("v").rows()


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_a_view_of_a_pattern_survives_a_restart(tmp_path: Any, backend: str) -> None:
    with tidemill.open(str(tmp_path / "w"), runtime="native", backend=backend) as warehouse:
        warehouse.sql(TABLE + f"CREATE MATERIALIZED VIEW v AS {QUERIES['by_key']}")
        warehouse.apply({"s": [(1, (moment, "p", moment)) for moment in range(5)]})
    with tidemill.open(str(tmp_path / "w"), runtime="native", backend=backend) as warehouse:
        warehouse.apply({"s": [(1, (5, "p", 5))]})
        assert warehouse.view("v").verify().ok
        assert (5, "p", 6, 15) in warehouse.view("v").rows()


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("(a, b, c, d+) ORDER BY ts WHERE a.x > 1 AND b.x > 1 AND c.x > 1 AND d.x > 1", True),
        # Rows that end all runs are those that no run can take, and which begin none.
        ("(a, b{2,}) ORDER BY ts WHERE a.x = 2 AND b[1].x > a.x AND b[i].x > b[i-1].x", False),
    ],
)
def test_the_first_row_after_a_restart_costs_the_run_that_it_belongs_to(
    pattern: str, matches: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"SELECT ts, k, count(*) AS n FROM s PATTERN {pattern} GROUP BY k"
    with tidemill.open(str(tmp_path / "w"), runtime="native", backend="python") as warehouse:
        warehouse.sql(TABLE + f"CREATE MATERIALIZED VIEW v AS {query}")
        warehouse.apply({"s": [(1, (moment, "p", moment % 9)) for moment in range(3_000)]})
    tried = 0
    take = MatchBuilder.take

    def counted(self: MatchBuilder, *arguments: Any) -> Any:
        nonlocal tried
        tried += 1
        return take(self, *arguments)

    with tidemill.open(str(tmp_path / "w"), runtime="native", backend="python") as warehouse:
        monkeypatch.setattr(MatchBuilder, "take", counted)
        warehouse.apply({"s": [(1, (3_000, "p", 5)), (1, (2_000, "p", 0))]})
        assert tried < 6_000  # from the earlier of the two rows on
        warehouse.apply({"s": [(1, (3_001, "p", 5))]})
        monkeypatch.undo()
        assert warehouse.view("v").verify().ok
    with tidemill.open(str(tmp_path / "w"), runtime="native", backend="python") as warehouse:
        monkeypatch.setattr(MatchBuilder, "take", counted)
        tried = 0
        warehouse.apply({"s": [(1, (3_002, "p", 5))]})
        assert tried < 60
        monkeypatch.undo()
        assert warehouse.view("v").verify().ok
        assert ((3_002, "p", 4) in warehouse.view("v").rows()) == matches


def test_a_change_costs_the_rows_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    take = MatchBuilder.take

    def counted(self: MatchBuilder, *arguments: Any) -> Any:
        nonlocal tried
        tried += 1
        return take(self, *arguments)

    monkeypatch.setattr(MatchBuilder, "take", counted)
    with opened("by_key") as warehouse:
        warehouse.apply({"s": [(1, (moment, "p", moment % 7)) for moment in range(3_000)]})
        for changes, most in [
            ([(1, (3_000, "p", 5))], 4),
            ([(1, (1_500, "p", 0))], 400),
            ([(-1, (0, "p", 0)), (-1, (1, "p", 1))], 400),
            ([(-1, (1_500, "p", 0)), (1, (1_500, "p", 9))], 400),
            ([(1, (3_001, "p", 5))], 4),
        ]:
            tried = 0
            warehouse.apply({"s": changes})
            assert tried <= most
            assert warehouse.view("by_key").verify().ok
