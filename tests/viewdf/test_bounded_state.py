"""State of views over streams with LATENESS and RETAIN: flat, while they show what follows from accepted rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidemill
from benchmarks.viewdf.bounded import BOUNDS, QUERIES, START, STREAMS, World, create, differing, entries, step
from tests import ways
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.engine.html_output import Explanation
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = tuple(QUERIES)


@contextmanager
def opened(where: str | Path, backend: str) -> Iterator[Warehouse]:
    with tidemill.open(where, runtime="native", backend=backend) as warehouse:
        yield warehouse


def peak(samples: list[dict[str, int]], kind: str) -> int:
    return max(sample[kind] for sample in samples)


@pytest.mark.parametrize(("backend", "nulls"), [("python", True), ("python", False), ("llvm", True)])
def test_state_is_flat_and_answers_are_exact(backend: str, nulls: bool) -> None:
    world, samples = World(seed=len(backend) + nulls, nulls=nulls), []
    with opened(":memory:", backend) as bounded, opened(":memory:", "python") as whole:
        create(bounded, bounded=True, nulls=nulls)
        create(whole, bounded=False, nulls=nulls)
        for minute in range(120):
            step(world, bounded, whole)
            if minute % 4 == 3:
                bounded.compact()
                samples.append(entries(bounded))
                assert differing(bounded, whole) == [], minute
        held = entries(whole)
    assert any(world.late.values())
    for kind in KINDS:
        early, last = peak(samples[8:18], kind), peak(samples[-8:], kind)
        assert last <= 1.5 * early + 12, (kind, early, last, held[kind])


BY_TIME = {
    "asof": "SELECT a.ts, a.k, a.n, b.n AS m FROM s a ASOF LEFT JOIN r b ON a.k = b.k AND a.ts >= b.ts",
    "asof_after": "SELECT a.ts, a.k, a.n, b.n AS m FROM s a ASOF JOIN r b ON a.k = b.k AND a.ts < b.ts",
    "gaps": "SELECT session_window AS w, k, SUM(n) AS n FROM s WHERE n > 60 "
    "GROUP BY session_window(ts, CASE WHEN n > 80 THEN '4 minutes' ELSE '20 seconds' END), k",
    "open_gaps": "SELECT session_window AS w, k, SUM(n) AS n FROM s "
    "GROUP BY session_window(ts, make_interval(0, 0, 0, 0, 0, 0, n - 20)), k",
    "sessions": "SELECT ts, window_start AS b, window_end AS e, k FROM "
    "SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL 90 SECONDS)",
    "growing": "SELECT window_start AS b, window_end AS e, k, SUM(n) AS n FROM "
    "CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL 1 MINUTE, INTERVAL 3 MINUTES) GROUP BY window_start, window_end, k",
}


@pytest.mark.parametrize(("backend", "nulls"), [("python", True), ("python", False), ("llvm", True)])
def test_joins_and_sessions_by_time_are_exact(backend: str, nulls: bool) -> None:
    """What is known to expire is less here, and may not be more."""
    world = World(seed=11 + nulls, nulls=nulls)
    with opened(":memory:", backend) as bounded, opened(":memory:", "python") as whole:
        for warehouse in (bounded, whole):
            create(warehouse, bounded=warehouse is bounded, nulls=nulls, kinds=())
            for name, query in BY_TIME.items():
                warehouse.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for minute in range(60):
            step(world, bounded, whole)
            if minute % 4 == 3:
                bounded.compact()
                assert differing(bounded, whole, tuple(BY_TIME)) == [], minute
        kept, held = (sum(size.entries for size in one.view("growing").sizes()[:1]) for one in (bounded, whole))
    assert kept < held / 2, "CUMULATE forgets as windows do"


def test_after_restarts_and_checkpoints(tmp_path: Path) -> None:
    """What is forgotten, in memory or in files, is forgotten by whoever opens the folder, and nothing else is."""
    world, samples = World(seed=5), []
    with opened(":memory:", "python") as whole:
        create(whole, bounded=False)
        with opened(tmp_path / "wh", "auto") as bounded:
            create(bounded, bounded=True)
        for session in range(10):
            with opened(tmp_path / "wh", "python" if session % 2 else "llvm") as bounded:
                for _ in range(8):
                    step(world, bounded, whole)
                if session % 3:
                    bounded.compact()
                samples.append(entries(bounded))
                step(world, bounded, whole)
                assert differing(bounded, whole) == [], session
        held = entries(whole)
    assert sum(samples[-1].values()) < sum(held.values()) / 2


def test_the_evaluator_agrees() -> None:
    """What the twin with whole state shows is what the query means."""
    world = World(seed=8)
    with opened(":memory:", "python") as bounded, opened(":memory:", "python") as whole:
        create(bounded, bounded=True)
        create(whole, bounded=False)
        for _ in range(25):
            step(world, bounded, whole)
            bounded.compact()
        known = {name: ZSet.summed((row, 1) for row in whole.table(name).rows()) for name in STREAMS}
        for name, view in whole._engine.catalog.views.items():
            known[name] = evaluate(push_down_filters(view.relation), known)
            assert ZSet.summed((row, 1) for row in whole.view(name).rows()) == known[name], name
        assert differing(bounded, whole) == []


@pytest.mark.spark
def test_spark_forgets_too(spark: SparkSession) -> None:
    """Groups, joins, sessions and LAG, by lookups for the native runtime in files that lose rows."""
    world, kinds = World(seed=3), ("tumbling", "interval_join", "session", "lag", "range")
    with ways.opened("driver", spark) as bounded, opened(":memory:", "python") as whole:
        create(bounded, bounded=True, kinds=kinds)
        create(whole, bounded=False, kinds=kinds)
        for _ in range(4):
            world.minute += 6
            step(world, bounded, whole)
            bounded.compact()
            assert differing(bounded, whole, kinds) == []
        assert sum(entries(bounded).values()) < sum(entries(whole).values())


BY_CLOCK = {
    "recent": "SELECT k, COUNT(*) AS c, MAX(n) AS n FROM s WHERE ts > now() - INTERVAL 10 MINUTES GROUP BY k",
    "to_come": "SELECT ts, k, n FROM s WHERE now() BETWEEN ts + INTERVAL 2 MINUTES AND ts + INTERVAL 7 MINUTES",
    "last_minutes": "SELECT k, SUM(n) AS n, COUNT(*) AS c FROM s [WINDOW 4 MINUTES] GROUP BY k",
    "highest": "SELECT k, MAX(n) AS n FROM s [WINDOW 6 MINUTES SLIDE 2 MINUTES] GROUP BY k",
}


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_what_follows_a_clock_is_bounded(tmp_path: Path, backend: str) -> None:
    """Rows that leave by themselves, and windows that advance without rows: an event clock never goes back."""
    world, samples, kinds = World(seed=21, nulls=False), [], tuple(BY_CLOCK)
    columns, by_minute = "(ts TIMESTAMP NOT NULL, k STRING, n INT)", "PARTITION BY ts EVERY 1 MINUTE"
    with opened(":memory:", "python") as whole:
        whole.sql(f"CREATE TABLE s {columns} {by_minute}; CREATE TABLE r {columns}")
        with opened(tmp_path / "wh", backend) as bounded:
            bounded.sql(f"CREATE STREAM s {columns} {BOUNDS}; CREATE STREAM r {columns} {BOUNDS}")
            for name, query in BY_CLOCK.items():
                whole.sql(f"CREATE MATERIALIZED VIEW {name} WITH (clock = 'event') AS {query}")
                options = "clock = 'event', require = 'bounded'"
                bounded.sql(f"CREATE MATERIALIZED VIEW {name} WITH ({options}) AS {query}")
        for _ in range(16):
            with opened(tmp_path / "wh", backend) as bounded:
                for _ in range(5):
                    step(world, bounded, whole)
                world.minute += world.random.choice([0, 0, 7])
                bounded.compact()
                assert differing(bounded, whole, kinds) == [], world.minute
                samples.append(sum(map(partial(entries_of, bounded), kinds)))
    assert max(samples[-5:]) <= 1.5 * max(samples[3:8])


def test_the_latest_time_of_a_key_needs_no_others() -> None:
    world, name = World(seed=22), "seen"
    query = "SELECT k, MAX(ts) AS last, MIN(ts) AS first, MAX(unix_timestamp(ts)) AS at FROM s GROUP BY k"
    with opened(":memory:", "auto") as bounded, opened(":memory:", "python") as whole:
        for warehouse in (bounded, whole):
            create(warehouse, bounded=warehouse is bounded, kinds=())
            warehouse.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for minute in range(60):
            step(world, bounded, whole)
            if minute % 4 == 3:
                bounded.compact()
                assert differing(bounded, whole, (name,)) == []
        assert entries_of(bounded, name) < 80 < entries_of(whole, name) / 2
        told = "but for the first and the last before that of each k"
        assert told in bounded.view(name).explain()


DECLARED = """
CREATE STREAM s (ts TIMESTAMP, k STRING, n INT) PARTITION BY ts EVERY 1 MINUTE LATENESS 2 MINUTES RETAIN 4 MINUTES;
CREATE STREAM r (ts TIMESTAMP NOT NULL, k STRING, m INT) LATENESS 90 SECONDS ON ts RETAIN 3 MINUTES;
CREATE STREAM u (ts TIMESTAMP, k STRING);
CREATE TABLE t (k STRING PRIMARY KEY, name STRING)
"""


@pytest.fixture
def declared() -> Iterator[Warehouse]:
    with opened(":memory:", "python") as warehouse:
        warehouse.sql(DECLARED)
        yield warehouse


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT window(ts, '5 minutes') AS w, SUM(n) AS n FROM s GROUP BY window(ts, '5 minutes')",
         "forgotten when window.start is more than 9 MINUTES behind s"),
        ("SELECT a.ts FROM s a JOIN r b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL 1 HOUR",
         "forgotten when ts is more than 64 MINUTES behind r and s"),
        ("SELECT k, LAG(n) OVER (PARTITION BY k ORDER BY ts) AS p FROM s",
         "forgotten when ts is more than 4 MINUTES behind s, but for the first and the last before that of each k"),
        ("SELECT session_window.start AS b, MAX(m) AS c FROM r GROUP BY session_window(ts, '1 minute')",
         "forgotten when their session ended more than 3 MINUTES behind r"),
        ("SELECT time_bucket(INTERVAL 5 MINUTES, ts) AS b, SUM(n) AS n FROM s GROUP BY 1",
         "forgotten when b is more than 9 MINUTES behind s"),
        ("SELECT unix_timestamp(ts) DIV 60 AS b, SUM(n) AS n FROM s GROUP BY 1",
         "forgotten when no change can have its b, by s"),
        ("SELECT session_window.start AS b, COUNT(*) AS c FROM r GROUP BY session_window(ts, '1 minute')",
         "forgotten when their session ended more than 3 MINUTES behind r"),
        ("SELECT COUNT(*) AS c FROM s", "one entry"),
        ("SELECT t.name, s.ts FROM s JOIN t ON s.k = t.k",
         "never forgotten: a change of t can reach any of them (declare t"),
        ("SELECT k, SUM(n) AS n FROM s GROUP BY k",
         "never forgotten: nothing ties them to the time of s (group or join by time"),
        ("SELECT u.ts FROM s JOIN u ON s.ts = u.ts", "never forgotten: a change of u can reach any of them (declare u"),
        ("SELECT ts, SUM(n) OVER (PARTITION BY k ORDER BY ts) AS p FROM s",
         "never forgotten: the frame of SUM has no limit"),
    ],
)  # fmt: skip
def test_explain_says_when(declared: Warehouse, query: str, told: str) -> None:
    declared.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    explained = declared.view("v").explain()
    assert isinstance(explained, Explanation) and told in explained
    maps = [map_ for stage in explained.parts()["stages"] for map_ in stage["maps"]]
    assert any(told in map_["expiry"] for map_ in maps)


@pytest.mark.parametrize(
    ("query", "where", "hint"),
    [
        ("SELECT k, SUM(n) AS n FROM s GROUP BY k", r"v/groups\[s.k\]", "Group or join by time"),
        ("SELECT t.name, s.ts FROM s JOIN t ON s.k = t.k", r"v:s\[k, ts\]", "strategy = 'viewlet' and static = 't'"),
        (
            "SELECT window(ts, '1 hour') AS w, COUNT(*) AS c FROM u GROUP BY window(ts, '1 hour')",
            "v/groups",
            "Declare u",
        ),
        ("SELECT k, ts, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM s", "v/rows", "Group or join by time"),
    ],
)
def test_what_grows_for_ever_is_refused(declared: Warehouse, query: str, where: str, hint: str) -> None:
    with pytest.raises(Unsupported, match="grows for ever") as refused:
        declared.sql(f"CREATE MATERIALIZED VIEW v WITH (require = 'bounded') AS {query}")
    assert re.search(where, str(refused.value.where)) and hint in str(refused.value.hint)
    assert "never forgotten" in str(refused.value.detail)
    declared.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    with pytest.raises(Unsupported, match="grows for ever"):
        declared.sql("ALTER VIEW v SET (require = 'bounded')")


def test_what_is_as_large_as_tables_is_allowed(declared: Warehouse) -> None:
    options = "require = 'bounded', strategy = 'viewlet'"
    declared.sql(f"CREATE MATERIALIZED VIEW w WITH ({options}) AS SELECT name, COUNT(*) AS c FROM t GROUP BY name")
    query = "SELECT t.name, s.ts FROM s JOIN t ON s.k = t.k"
    declared.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}, static = 't') AS {query}")


def test_readers_that_have_forgotten_get_no_old_rows(declared: Warehouse) -> None:
    """A view below them is not replaced, stages are not shared with later views, and LATENESS stays."""
    windows = "SELECT window(ts, '5 minutes').start AS w, COUNT(*) AS c FROM {} GROUP BY window(ts, '5 minutes')"
    declared.sql("CREATE MATERIALIZED VIEW all_rows AS SELECT ts, k, n FROM s")
    declared.sql("CREATE MATERIALIZED VIEW some AS SELECT ts, k, n FROM all_rows WHERE n > 3")
    declared.sql(f"CREATE MATERIALIZED VIEW counted AS {windows.format('some')}")
    for minute in range(60):
        declared.apply({"s": [(+1, (START + timedelta(minutes=minute), "a", n)) for n in range(6)]})
    declared.compact()
    assert entries_of(declared, "counted") < 6
    with pytest.raises(Unsupported, match="forgotten what cannot change"):
        declared.sql("CREATE OR REPLACE MATERIALIZED VIEW some AS SELECT ts, k, n FROM all_rows WHERE n > 4")
    declared.sql(f"CREATE MATERIALIZED VIEW again AS {windows.format('some')}")
    declared.sql(f"CREATE MATERIALIZED VIEW top AS SELECT MAX(c) AS c FROM ({windows.format('some')})")
    assert sorted(declared.view("again").rows()) == sorted(declared.view("counted").rows())
    assert declared.view("top").rows() == [(10,)]
    declared.sql(f"CREATE OR REPLACE MATERIALIZED VIEW counted AS {windows.format('some')} HAVING COUNT(*) > 9")
    declared.sql("CREATE OR REPLACE MATERIALIZED VIEW counted AS "
                 + windows.format("some").replace("GROUP", "WHERE n > 4 GROUP"))  # fmt: skip
    assert {count for _, count in declared.view("counted").rows()} == {5}
    with pytest.raises(Unsupported, match="may have forgotten"):
        declared.sql("ALTER STREAM s DROP RETAIN; ALTER STREAM s DROP LATENESS")


def entries_of(warehouse: Warehouse, view: str) -> int:
    return sum(size.entries for size in warehouse.view(view).sizes() if size.map != view)
