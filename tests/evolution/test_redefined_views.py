"""Views that are not materialized, and functions, in another form: the materialized views that use them follow."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest

import tidemill
from tests import forked_children
from tidemill.model.errors import Unsupported
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

SETUP = """
CREATE TABLE t (k INT, n INT);
CREATE FUNCTION twice(x INT) RETURNS INT RETURN 2 * x;
CREATE VIEW p AS SELECT k, n, twice(n) AS m FROM t WHERE n > 1;
CREATE VIEW q AS SELECT * FROM p;
CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(n) AS n FROM q GROUP BY k;
CREATE MATERIALIZED VIEW top AS SELECT MAX(n) AS n FROM sums;
CREATE MATERIALIZED VIEW count_of AS SELECT k, COUNT(*) AS c FROM p GROUP BY k;
CREATE MATERIALIZED VIEW both AS SELECT s.k, s.n, p.m FROM sums AS s JOIN p ON s.k = p.k;
INSERT INTO t VALUES (1, 1), (1, 2), (2, 3), (2, 4);
"""
REPLACE = "CREATE OR REPLACE VIEW p AS SELECT k, n + 10 AS n, twice(n) AS m FROM t WHERE n > 1"


def is_right(wh: tidemill.Warehouse) -> None:
    for one in wh.verify(against="evaluator"):
        assert one.ok, one


@pytest.fixture(params=["memory", "disk"])
def wh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    place = ":memory:" if request.param == "memory" else tmp_path / "w"
    with tidemill.open(place, runtime="native", backend="python") as opened:
        opened.sql(SETUP)
        yield opened


def test_its_users_are_replaced_with_it_in_one_epoch(wh: tidemill.Warehouse) -> None:
    epoch, rows = wh.epoch, wh.view("both").rows()
    with wh.subscribe("top", timeout=0) as heard:
        assert wh.sql(REPLACE).message == "created view p; replaced sums"  # the others do not read n of p
        assert wh.epoch == epoch + 1
        assert [(batch.epoch, sorted(batch)) for batch in heard] == [(epoch + 1, [(-1, (7,)), (1, (27,))])]
    assert sorted(wh.view("both").rows()) == [(1, 12, 4), (2, 27, 6), (2, 27, 8)]
    assert sorted(wh.at(epoch).view("both").rows()) == sorted(rows)
    is_right(wh)
    wh.sql("INSERT INTO t VALUES (3, 50); DELETE FROM t WHERE n = 2")
    assert wh.view("top").rows() == [(60,)]
    is_right(wh)


def test_a_function_and_a_text_that_another_view_is_compiled_from(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW a AS SELECT k, twice(n) AS m FROM t")
    wh.sql("CREATE MATERIALIZED VIEW b AS SELECT k, 2 * n AS m FROM t")  # the same, so far
    assert wh.sql("ALTER VIEW q AS SELECT k, n FROM p").message == "altered view q"
    said = wh.sql("CREATE OR REPLACE FUNCTION twice(x INT) RETURNS INT RETURN x + 1").message
    assert said == "created function twice; replaced both, a"
    assert sorted(wh.view("a").rows()) == [(1, 2), (1, 3), (2, 4), (2, 5)]
    assert sorted(wh.view("b").rows()) == [(1, 2), (1, 4), (2, 6), (2, 8)]
    wh.sql("INSERT INTO t VALUES (4, 4)")
    is_right(wh)


def test_columns_that_users_need(wh: tidemill.Warehouse) -> None:
    before = wh.epoch
    with pytest.raises(Unsupported, match='View "both" uses it, and cannot follow: there is no column in p called "m"'):
        wh.sql("CREATE OR REPLACE VIEW p AS SELECT k, n FROM t")
    assert (wh.epoch, len(wh.views())) == (before, 4)
    is_right(wh)
    wh.sql("CREATE MATERIALIZED VIEW over_both AS SELECT COUNT(*) AS n FROM both")
    said = wh.sql("ALTER VIEW p AS SELECT k, n FROM t CASCADE").message
    assert said == "altered view p; replaced sums, count_of; dropped both, over_both"
    assert wh.views() == ("sums", "top", "count_of") and wh.epoch == before + 1
    is_right(wh)


def test_readers_of_its_users_keep_the_columns_that_they_see(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW every AS SELECT * FROM q")
    wh.sql("CREATE MATERIALIZED VIEW over_every AS SELECT * FROM every")
    wh.sql("CREATE OR REPLACE VIEW p AS SELECT k, n, twice(n) AS m, 'x' AS z FROM t")
    assert len(wh.view("every").fields) == 4 and len(wh.view("over_every").fields) == 3
    is_right(wh)
    with pytest.raises(Unsupported, match='View "sums" uses it.*top reads n'):
        wh.sql("CREATE OR REPLACE VIEW p AS SELECT k, CAST(n AS STRING) AS n, twice(n) AS m FROM t")
    is_right(wh)


def test_others_that_wait_for_the_lock_are_not_waited_for(wh: tidemill.Warehouse) -> None:
    """Another thread replaces a view that a definition is about to replace, and has the lock of that view."""
    engine, statement = wh._engine, "ALTER VIEW sums AS SELECT k, SUM(n) AS n FROM q WHERE k > 1 GROUP BY k"
    other, suspend = Thread(target=wh.sql, args=(statement,)), engine.definitions.suspend

    def and_let_another_begin(names: Iterable[str]) -> None:
        suspend(names)
        other.start()
        until = time.monotonic() + 60
        while (lock := engine.source_views.alone("sums")).acquire(blocking=False):
            lock.release()
            assert time.monotonic() < until

    with patch.object(engine.definitions, "suspend", and_let_another_begin):
        wh.sql(REPLACE)
    other.join(60)
    assert not other.is_alive() and wh.view("top").rows() == [(27,)] and len(wh.view("sums").rows()) == 1
    is_right(wh)


def test_readers_see_all_of_it_or_nothing(wh: tidemill.Warehouse) -> None:
    """Another thread reads epochs, and rows as of one, while a definition is replaced."""
    engine, before, seen = wh._engine, wh.epoch, list[object]()
    replace = engine.replacements.replace

    def and_look(*given: Any, **named: Any) -> list[str]:
        done = replace(*given, **named)

        def look() -> None:
            seen.extend([wh.epoch, wh.at(before).view("sums").rows(), wh.status().epoch])

        reader = Thread(target=look)
        reader.start()
        reader.join(60)
        return done

    with patch.object(engine.replacements, "replace", and_look):
        rows = wh.view("sums").rows()
        wh.sql(REPLACE)
    assert seen == [before, rows, before] and wh.epoch == before + 1


@pytest.mark.parametrize(
    ("death", "epoch"), [("before-swap:1", 1), ("after-swap:1", 1), ("before-joint", 1), ("after-joint", 2)]
)
def test_killed_on_the_way(tmp_path: Path, death: str, epoch: int) -> None:
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        wh.sql(SETUP)
    died = forked_children.run("tests.evolution.deploying", tmp_path, REPLACE, timeout=60, **{FAULT_VARIABLE: death})
    assert died.returncode == -signal.SIGKILL, died.stderr
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        assert wh.epoch == epoch and wh.view("top").rows() == [(27 if epoch == 2 else 7,)]
        is_right(wh)
        wh.sql(REPLACE)
        assert wh.view("top").rows() == [(27,)]
        is_right(wh)
