"""CREATE OR REPLACE: the new view is built first and swapped in one commit; whatever fails, the old one is whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.changes.changeset import Epoch
from tidemill.engine.definitions.replacing.pinned_view import PinnedView
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.model.errors import (
    ArithmeticFault,
    NameTaken,
    SqlError,
    StorageError,
    TidemillError,
    UnknownName,
    Unsupported,
)
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore

SCRIPT = """
CREATE TABLE t (k INT, n INT);
CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS total FROM t GROUP BY k;
"""
SUMS = [(1, 30), (2, 0)]


@pytest.fixture(params=["memory", "disk"])
def wh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    place = ":memory:" if request.param == "memory" else tmp_path / "w"
    with tidemill.open(place, runtime="native", backend="python") as wh:
        wh.sql(SCRIPT)
        wh.apply({"t": [(1, (1, 10)), (1, (1, 20)), (1, (2, 0))]})
        yield wh


def is_whole(wh: tidemill.Warehouse) -> None:
    """The view is what it was, is maintained, and tells its changes."""
    assert sorted(wh.view("v").rows()) == SUMS
    epoch = wh.apply({"t": [(1, (3, 5))]})
    assert sorted(wh.view("v").rows()) == [*SUMS, (3, 5)]
    assert wh.view("v").changes(since=epoch - 1) == [(1, (3, 5))]
    assert wh.view("v").verify()
    wh.apply({"t": [(-1, (3, 5))]})


REFUSED: dict[str, tuple[str, type[TidemillError]]] = {
    "a table that is not there": ("SELECT * FROM nosuch", UnknownName),
    "a column that is not there": ("SELECT nosuch FROM t", UnknownName),
    "itself": ("SELECT k FROM v", UnknownName),
    "no SQL": ("SELEC 1", SqlError),
    "a division by zero": ("SELECT k, 100 / n AS share FROM t", ArithmeticFault),
    "a sum that overflows": ("SELECT SUM(n + 9223372036854775800L) AS x FROM t", ArithmeticFault),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_view_that_cannot_be_built_leaves_the_old_one(wh: tidemill.Warehouse, case: str) -> None:
    query, error = REFUSED[case]
    with wh.subscribe("v", timeout=0.2) as heard:
        with pytest.raises(error):
            wh.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
        is_whole(wh)
        assert next(iter(heard)).changes == [(1, (3, 5))]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError, OSError])
@pytest.mark.parametrize("place", ["fill", "share", "commit", "append"])
def test_an_interrupt_leaves_the_old_one(
    wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch, place: str, fault: type[BaseException]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise fault

    with monkeypatch.context() as patched:
        if place == "append":
            for store in (FolderStore, MemoryStore):
                patched.setattr(store, "append", fails)
        elif place == "share":
            patched.setattr("tidemill.engine.definitions.tables_and_views.share_stages", fails)
        else:
            patched.setattr(PinnedView if place == "fill" else EpochCommitter, place, fails)
        with pytest.raises((fault, StorageError)):
            wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k FROM t")
    is_whole(wh)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Epoch]:
    """All that is committed from now on."""
    commits: list[Epoch] = []
    commit = EpochCommitter.commit

    def counting(
        self: EpochCommitter,
        epoch: Epoch,
        refreshed: Collection[str] = (),
        then: Callable[[], None] | None = None,
        *,
        ends: bool = True,
    ) -> Callable[[], None]:
        commits.append(epoch)
        return commit(self, epoch, refreshed, then, ends=ends)

    monkeypatch.setattr(EpochCommitter, "commit", counting)
    return commits


def test_one_commit_swaps_them(wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = counted(monkeypatch)
    assert wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT n, COUNT(*) AS c FROM t GROUP BY n").message == (
        "replaced view v"
    )
    assert len(commits) == 1
    assert sorted(wh.view("v").rows()) == [(0, 1), (10, 1), (20, 1)]
    wh.apply({"t": [(1, (9, 10))]})
    assert sorted(wh.view("v").rows()) == [(0, 1), (10, 2), (20, 1)]
    assert wh.view("v").verify()


def test_listeners_of_the_old_one_end(wh: tidemill.Warehouse) -> None:
    with wh.subscribe("v", timeout=5) as heard:
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k FROM t")
        wh.apply({"t": [(1, (9, 9))]})
        assert list(heard) == []


def test_listeners_of_the_same_columns_get_the_difference(wh: tidemill.Warehouse) -> None:
    with wh.subscribe("v", timeout=5) as heard:
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS total FROM t WHERE n <> 10 GROUP BY k")
        assert sorted(next(iter(heard)).changes) == [(-1, (1, 30)), (1, (1, 20))]


def test_columns_that_others_read_stay(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW w AS SELECT SUM(total) AS n FROM v")
    with pytest.raises(Unsupported, match="w reads total"):
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k FROM t")
    is_whole(wh)
    assert wh.view("w").verify()


def test_a_name_that_is_taken_is_left_alone(wh: tidemill.Warehouse) -> None:
    for statement in ("CREATE MATERIALIZED VIEW t AS SELECT 1 AS k", "CREATE OR REPLACE VIEW t AS SELECT 1 AS k"):
        with pytest.raises(SqlError):
            wh.sql(statement)
    with pytest.raises(NameTaken):
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    assert len(wh.table("t")) == 3
    is_whole(wh)


@pytest.mark.parametrize("statement", ["DROP VIEW v", "DROP TABLE other"])
def test_a_drop_that_fails_leaves_what_was_there(
    wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    wh.sql("CREATE TABLE other (a INT); INSERT INTO other VALUES (1)")
    with wh.subscribe("v", timeout=0.2) as heard, monkeypatch.context() as patched:
        patched.setattr(EpochCommitter, "commit_catalog", interrupted)
        with pytest.raises(KeyboardInterrupt):
            wh.sql(statement)
        is_whole(wh)
        assert next(iter(heard)).changes == [(1, (3, 5))]
    assert wh.table("other").rows() == [(1,)]
    wh.sql(statement)


def test_the_new_one_is_there_when_opened_again(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(SCRIPT)
        wh.apply({"t": [(1, (1, 10)), (1, (2, 20))]})
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, MAX(n) AS n FROM t GROUP BY k")
        wh.apply({"t": [(1, (1, 11))]})
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        assert sorted(wh.view("v").rows()) == [(1, 11), (2, 20)]
        assert wh.view("v").verify()


def test_kinds_of_views(wh: tidemill.Warehouse) -> None:
    """One after the other: what is kept for each has the names of what was kept for the one before."""
    joined = "SELECT a.k, b.n FROM t AS a JOIN t AS b ON a.k = b.k"
    graph = "strategy = 'joingraph', serve"
    for options, query in (
        ("", "SELECT k, n FROM t"),
        ("", "SELECT DISTINCT n FROM t"),
        (f"WITH ({graph} = 'read')", joined),
        ("", "SELECT k, MIN(n) AS n FROM t GROUP BY k"),
        (f"WITH ({graph} = 'subscribe')", joined),
        ("WITH (refresh = 'deferred')", "SELECT k, SUM(n) AS n FROM t GROUP BY k HAVING SUM(n) > 1"),
        ("WITH (strategy = 'viewlet')", "SELECT SUM(a.n * b.n) AS n FROM t AS a JOIN t AS b ON a.k = b.k"),
    ):
        wh.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v {options} AS {query}")
        assert wh.view("v").verify()
        wh.apply({"t": [(1, (7, 7))]})
        wh.view("v").refresh()
        assert wh.view("v").verify()


RETAINED = """
CREATE TABLE s (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 MINUTE LATENESS 5 MINUTES RETAIN 1 HOUR;
INSERT INTO s VALUES (TIMESTAMP '2026-01-01 10:00:00', 1), (TIMESTAMP '2026-01-01 10:01:00', 2);
CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS c FROM s;
"""


def test_a_view_with_inner_stages_over_tables_that_forget_rows() -> None:
    """Rows that are left are looked up in stages that were just filled: those have to be there."""
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        for name in ("s", "other"):
            wh.sql(f"CREATE TABLE {name} (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 MINUTE RETAIN 1 HOUR")
            wh.sql(f"INSERT INTO {name} VALUES (TIMESTAMP '2026-01-01 10:00:00', 1)")
        wh.sql("INSERT INTO s VALUES (TIMESTAMP '2026-01-01 10:01:00', 2)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT n FROM s WHERE n NOT IN (SELECT n FROM other)")
        assert wh.view("v").rows() == [(2,)]


def test_tables_that_forget_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of them comes with the same commit: a view that has not seen it would be wrong."""
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql(RETAINED)
        assert wh.view("v").rows() == [(2,)]
        commits = counted(monkeypatch)
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT SUM(n) AS total FROM s")
        assert (wh.view("v").rows(), len(commits)) == ([(3,)], 1)
        wh.sql("INSERT INTO s VALUES (TIMESTAMP '2026-01-01 10:02:00', 4)")
        assert wh.view("v").rows() == [(7,)]
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        assert wh.view("v").rows() == [(7,)]
