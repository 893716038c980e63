"""Background builds as users see them: statements, progress, pause, resume, cancel, failures and refusals."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import tidemill
from tests.builds.stepping import _stepping, step, step_to_end
from tidemill import Warehouse
from tidemill.model.errors import NameTaken, StillBuilding, TidemillError, UnknownName, Unsupported

__all__ = ["_stepping"]

SUMS = "SELECT b, COUNT(*) AS n, SUM(a) AS s FROM t GROUP BY b"


def load(warehouse: Warehouse, rows: int = 40) -> None:
    """A table with so many rows."""
    warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, b INT, a INT)")
    warehouse.apply({"t": [(1, (number, number % 5, number)) for number in range(rows)]})


def begin(warehouse: Warehouse, name: str = "v", query: str = SUMS) -> None:
    """Begin to build a view."""
    warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (build = 'background') AS {query}")


def test_by_its_thread(tmp_path: Path) -> None:
    """Two builds, two writers and a reader at once, in one process."""
    with tidemill.open(tmp_path, runtime="native") as wh:
        load(wh, 5_000)

        def write(first: int) -> None:
            for number in range(first, first + 30):
                wh.apply(
                    {
                        "t": [
                            (1, (number, number % 5, 1)),
                            (-1, (number - 10_000, (number - 10_000) % 5, number - 10_000)),
                        ]
                    }
                )

        begin(wh)
        begin(wh, "top", "SELECT b, MAX(a) AS m FROM t GROUP BY b HAVING COUNT(*) > 3")
        writers = [threading.Thread(target=write, args=(first,)) for first in (10_000, 11_000)]
        for writer in writers:
            writer.start()
        told: list[str] = []
        assert wh.builds.wait(progress=lambda status: told.append(str(status)), timeout=60)
        for writer in writers:
            writer.join()
        assert told and told[0].startswith("v: ")
        assert all(one.ok for one in wh.verify("v", "top"))
        wh.apply({"t": [(1, (20_000, 9, 9))]})
        assert (9, 1, 9) in wh.view("v").rows()
        assert len(wh.builds) == 0 and not list((tmp_path / "builds").iterdir())


def test_until_it_is_built(stepping: None) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        load(wh)
        begin(wh)
        assert wh.sql("SHOW BUILDS").rows()[0][:2] == ("v", "waiting")
        step(wh, 5)
        name, state, rows, total, rate, left, behind, reason = wh.sql("SHOW BUILDS").rows()[0]
        assert (name, state, total, behind, reason) == ("v", "filling", 40, 0, None)
        assert 0 < rows < 40 and rate > 0 and left > 0
        for statement in (
            "SELECT * FROM v",
            "EXPLAIN VIEW v",
            "DROP VIEW v",
            "REFRESH VIEW v",
            "CREATE MATERIALIZED VIEW over AS SELECT n FROM v",
        ):
            with pytest.raises(StillBuilding, match="still being built"):
                wh.sql(statement)
        with pytest.raises(NameTaken):
            wh.sql("CREATE TABLE v (a INT)")
        assert "exists already" in wh.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS v AS {SUMS}").message
        assert wh.sql("SHOW VIEWS").rows() == [("v", "delta", "native", "building", *[None] * 5)]
        assert "building" in repr(wh.sql("SHOW VIEWS"))
        described = dict(row[:2] for row in wh.sql("DESCRIBE EXTENDED v").rows())
        assert described["s"] == "bigint" and described["Build"].startswith("v: filling")
        assert wh.sql("SHOW CREATE VIEW v").rows()[0][0].endswith(f"WITH (build = 'background') AS {SUMS}")
        step_to_end(wh)
        assert wh.view("v").verify().ok
        assert wh.sql("SHOW BUILDS").rows() == []


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE t",
        "DROP TABLE t CASCADE",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t ADD COLUMN c INT",
        "ALTER TABLE t RENAME TO q",
    ],
)
def test_its_tables_stay(stepping: None, statement: str) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        load(wh)
        begin(wh)
        with pytest.raises(Unsupported) as refused:
            wh.sql(statement)
        assert refused.value.detail == "It is read by v, which is being built."
        step_to_end(wh)
        assert wh.view("v").verify().ok


def test_pause_resume_cancel(stepping: None, tmp_path: Path) -> None:
    with tidemill.open(tmp_path, runtime="native") as wh:
        load(wh)
        begin(wh)
        step(wh, 5)
        wh.sql("PAUSE BUILD v")
        (paused,) = wh.builds
        assert 0 < paused.rows < paused.total == wh.sql("SELECT COUNT(*) FROM t").rows()[0][0]
        assert step_to_end(wh) == 0
    with tidemill.open(tmp_path, runtime="native") as wh:
        assert [*wh.builds] == [paused]  # the rows that it has taken in are known without its folder
        wh.apply({"t": [(1, (100, 1, 1)), (-1, (3, 3, 3))]})
        with pytest.raises(StillBuilding, match="paused"):
            wh.view("v")
        wh.sql("RESUME BUILD v")
        step(wh, 3)
        assert next(iter(wh.builds)).rows >= 12  # those from before are not taken in again
        step_to_end(wh)
        assert wh.view("v").verify().ok
        begin(wh, "w")
        step(wh, 5)
        wh.sql("CANCEL BUILD w")
        assert not len(wh.builds) and not list((tmp_path / "builds").iterdir())
        with pytest.raises(UnknownName, match="no table or view"):
            wh.view("w")
        with pytest.raises(UnknownName, match="no build"):
            wh.builds.pause("w")
        begin(wh, "w", "SELECT id FROM t WHERE a > 3")
        step_to_end(wh)
        assert all(one.ok for one in wh.verify())


def test_a_bad_row_stops_it_until_it_is_corrected(stepping: None) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        load(wh)
        begin(wh, "v", "SELECT b, SUM(1000 / (a - 7)) AS s FROM t GROUP BY b")
        step_to_end(wh)
        (status,) = wh.builds
        assert status.state == "failed" and "zero" in status.reason
        with pytest.raises(StillBuilding, match="zero"):
            wh.builds.wait("v")
        wh.apply({"t": [(-1, (7, 2, 7)), (1, (7, 2, 8))]})  # a writer is not refused
        wh.builds.resume("v")
        step_to_end(wh)
        assert wh.view("v").verify().ok


def test_what_came_before_and_after(stepping: None, tmp_path: Path) -> None:
    """It begins at the epoch that it was taken over as of; before that it did not exist."""
    with tidemill.open(tmp_path, runtime="native") as wh:
        load(wh)
        begin(wh)
        for number in range(100, 140):
            wh.apply({"t": [(1, (number, 1, 1))]})
            step(wh)
        step_to_end(wh)
        created = wh._engine.catalog.view("v").created
        with pytest.raises(TidemillError, match="did not exist"):
            wh.at(created - 1).view("v")
        counts = {epoch: sum(n for _, n, _ in wh.at(epoch).view("v").rows()) for epoch in range(created, wh.epoch + 1)}
        assert counts == {epoch: 39 + epoch for epoch in counts}
        assert sum(weight * row[1] for weight, row in wh.view("v").changes(since=created)) == wh.epoch - created
        assert sum(weight * row[1] for weight, row in wh.view("v").changes()) == 39 + wh.epoch


DEFERRED = "CREATE MATERIALIZED VIEW v WITH (build = 'background', refresh = 'deferred') AS " + SUMS


def test_a_deferred_view(stepping: None, tmp_path: Path) -> None:
    with tidemill.open(tmp_path, runtime="native") as wh:
        load(wh)
        wh.sql(DEFERRED)
        step_to_end(wh)
        assert wh.view("v").staleness().epochs == 0
        wh.apply({"t": [(1, (100, 1, 1))]})
        assert wh.view("v").staleness().epochs == 1
        wh.view("v").refresh()
        assert wh.view("v").verify().ok


REFUSED = {
    "computed again as a whole": "CREATE MATERIALIZED VIEW v WITH (build = 'background', strategy = 'recompute') AS "
    + SUMS,
    'reads the stream "s"': "CREATE MATERIALIZED VIEW v WITH (build = 'background') AS SELECT a FROM s",
    "option static": "CREATE MATERIALIZED VIEW v WITH (build = 'background', static = 't') AS " + SUMS,
    "serve = 'subscribe'": """CREATE MATERIALIZED VIEW v WITH (build = 'background', strategy = 'joingraph',
        serve = 'subscribe') AS SELECT x.id FROM t AS x JOIN t AS y ON x.id = y.b""",
    "LATENESS": "CREATE MATERIALIZED VIEW v WITH (build = 'background') AS SELECT a FROM late",
    "refers to itself": "CREATE MATERIALIZED VIEW v WITH (build = 'background') AS SELECT id FROM tree",
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str, stepping: None) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        load(wh)
        wh.sql("CREATE STREAM s (a INT)")
        wh.sql("CREATE TABLE late (ts TIMESTAMP, a INT) PARTITION BY ts EVERY 1 HOUR LATENESS 1 HOUR")
        wh.sql("CREATE TABLE tree (id INT PRIMARY KEY, up INT REFERENCES tree (id)) APPEND ONLY")
        with pytest.raises(Unsupported) as refused:
            wh.sql(REFUSED[why])
        assert refused.value.what == 'view "v" cannot be built in the background'
        assert why in (refused.value.detail or "")
        assert not len(wh.builds)


def test_options_and_replacements(stepping: None) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        load(wh)
        with pytest.raises(Unsupported, match='cannot be built "soon"'):
            wh.sql(f"CREATE MATERIALIZED VIEW v WITH (build = 'soon') AS {SUMS}")
        wh.sql(f"CREATE MATERIALIZED VIEW v AS {SUMS}")
        with pytest.raises(Unsupported, match="cannot be replaced in the background"):
            wh.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (build = 'background') AS {SUMS}")


def test_functions_and_views_in_sql_stay(stepping: None, tmp_path: Path) -> None:
    with tidemill.open(tmp_path, runtime="native") as wh:
        load(wh)
        wh.sql("CREATE VIEW positive AS SELECT * FROM t WHERE a > 3")
        begin(wh, "v", SUMS.replace("FROM t", "FROM positive"))
        with pytest.raises(Unsupported, match="used by v"):
            wh.sql("DROP VIEW positive")
        step(wh, 5)
    with tidemill.open(tmp_path, runtime="native") as wh:
        step_to_end(wh)
        assert wh.view("v").verify().ok


def test_over_views_and_equal_views(stepping: None, tmp_path: Path) -> None:
    with tidemill.open(tmp_path, runtime="native") as wh:
        load(wh)
        wh.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        begin(wh, "over", "SELECT n, COUNT(*) AS groups FROM sums GROUP BY n")
        begin(wh, "same")
        wh.apply({"t": [(1, (100, 1, 1)), (-1, (3, 3, 3))]})
        step_to_end(wh)
        wh.apply({"t": [(1, (101, 1, 1)), (-1, (4, 4, 4))]})
        assert all(one.ok for one in wh.verify())
    with tidemill.open(tmp_path, runtime="native") as wh:
        wh.apply({"t": [(1, (102, 1, 1))]})
        assert all(one.ok for one in wh.verify())


def test_a_view_that_it_reads_is_replaced(stepping: None) -> None:
    """Replacing it is refused; were it done all the same, the build takes in the difference."""
    with tidemill.open(":memory:", runtime="native") as wh:
        load(wh)
        wh.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        begin(wh, "over", "SELECT SUM(s) AS s FROM sums")
        changed = f"CREATE OR REPLACE MATERIALIZED VIEW sums AS {SUMS.replace('GROUP', 'WHERE a > 9 GROUP')}"
        with pytest.raises(Unsupported, match="being built"):
            wh.sql(changed)
        step(wh, 6)
        held = dict(wh._engine.catalog.builds)
        wh._engine.catalog.builds.clear()
        wh.sql(changed)
        wh._engine.catalog.builds.update(held)
        step_to_end(wh)
        assert wh.view("over").rows() == [(sum(range(10, 40)),)]


def test_a_reader_sees_it_come(tmp_path: Path) -> None:
    with tidemill.open(tmp_path, runtime="native") as wh:
        load(wh)
        wh.sql("CREATE TABLE other (a INT)")
        begin(wh)
        with tidemill.open(tmp_path, read_only=True) as reader:
            assert [one.state for one in reader.builds] in (["waiting"], [])
        assert wh.builds.wait("v", timeout=30)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with tidemill.open(tmp_path, read_only=True) as reader:
                if "v" in reader.views():
                    assert reader.view("v").verify().ok
                    return
        raise AssertionError("the view does not come")
