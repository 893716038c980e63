"""Views with much in common keep it once, whenever they were created, and show what they would show alone."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

import tidemill
from tidemill.engine.definitions import planning
from tidemill.model.errors import NameTaken

TABLES = """CREATE TABLE t (id INT, k INT, n INT); CREATE TABLE u (k INT PRIMARY KEY, m INT)"""
JOINED = "SELECT u.m, SUM(t.n) AS total, COUNT(*) AS c FROM t JOIN u ON t.k = u.k GROUP BY u.m"
RENAMED = "SELECT b.m, SUM(a.n) AS total, COUNT(*) AS c FROM t a JOIN u b ON a.k = b.k GROUP BY b.m"
OVER_MEAN = """SELECT t.id, x.total FROM t JOIN (SELECT k, SUM(n) AS total FROM t GROUP BY k) x ON t.k = x.k
    WHERE t.n {} x.total / 3"""
QUERIES = (
    JOINED,
    RENAMED,
    OVER_MEAN.format(">"),
    OVER_MEAN.format("<"),
    "SELECT u.m, MAX(t.n) AS most, COUNT(DISTINCT t.n) AS c FROM t JOIN u ON t.k = u.k GROUP BY u.m",
    "SELECT u.m, MAX(t.n) AS most FROM t JOIN u ON t.k = u.k GROUP BY u.m HAVING COUNT(*) > 1",
    "SELECT DISTINCT k FROM t WHERE n > 2",
    "SELECT id, n FROM t ORDER BY n DESC, id LIMIT 3",
    "SELECT id, SUM(n) OVER (PARTITION BY k ORDER BY n, id) AS so_far FROM t",
    "SELECT t.id, u.m FROM t LEFT JOIN u ON t.k = u.k",
)
OPTIONS = ("", "", "", "WITH (strategy = 'viewlet')", "WITH (strategy = 'recompute')", "WITH (refresh = 'deferred')")


def shares(wh: tidemill.Warehouse) -> dict[str, dict[str, str]]:
    """The stages that views have in the place of their own."""
    return {name: dict(view.shares) for name, view in wh._engine.catalog.views.items() if view.shares}


def create(wh: tidemill.Warehouse, query: str, *names: str, options: str = "") -> None:
    for name in names:
        wh.sql(f"CREATE MATERIALIZED VIEW {name} {options} AS {query}")


@pytest.mark.parametrize("query", QUERIES)
def test_a_view_shares_nothing_with_one_of_its_name(query: str) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(TABLES)
        create(wh, query, "v")
        with pytest.raises(NameTaken, match='"v" exists already'):
            create(wh, query, "v")
        wh.apply({"t": [(1, (1, 1, 5)), (1, (2, 1, 7))], "u": [(1, (1, 3))]})
        assert wh.view("v").verify()


def check(wh: tidemill.Warehouse) -> None:
    """See that every view shows what the evaluator computes, and that its changes lead to its rows."""
    for name in wh.views():
        wh.view(name).refresh()
        assert wh.view(name).verify(against="evaluator"), name
        if wh._engine.catalog.view(name).columns_since:  # its first changes had other columns
            continue
        told = Counter[tuple[object, ...]]()
        for weight, row in wh.view(name).changes():
            told[row] += weight
        assert told == Counter(wh.view(name).rows()), name


def fill(wh: tidemill.Warehouse) -> None:
    wh.sql(TABLES)
    wh.apply({"u": [(1, (k, k % 3)) for k in range(8)], "t": [(1, (i, i % 9, i * 5 % 13)) for i in range(60)]})


class History:
    """Random statements and epochs: views come, go, are replaced and altered between the changes of their tables."""

    def __init__(self, wh: tidemill.Warehouse, seed: int) -> None:
        self.wh, self._random = wh, random.Random(seed)
        self._rows: list[tuple[int | None, ...]] = []
        self._number = 0
        wh.sql(TABLES)
        wh.apply({"u": [(1, (k, k % 3)) for k in range(5)]})

    def step(self) -> None:
        pick = self._random
        for act in pick.choices((self._create, self._drop, self._alter, self._read), (5, 4, 1, 1), k=2):
            act()
        come = [self._row() for _ in range(pick.randrange(1, 6))]
        gone = [self._rows.pop(pick.randrange(len(self._rows))) for _ in range(2) if self._rows and pick.random() < 0.7]
        self._rows += come
        self.wh.apply({"t": [*((1, row) for row in come), *((-1, row) for row in gone)]})
        if pick.random() < 0.3:
            self.wh.sql(f"UPDATE u SET m = {pick.choice(('NULL', 0, 1, 2))} WHERE k = {pick.randrange(5)}")

    def _row(self) -> tuple[int | None, ...]:
        pick = self._random
        return pick.randrange(6), pick.choice((None, 0, 1, 2, 3, 4)), pick.choice((None, *range(-3, 9)))

    def _create(self) -> None:
        query, options = self._random.choice(QUERIES), self._random.choice(OPTIONS)
        if self._random.random() < 0.1 and (old := self._unread()):
            self.wh.sql(f"CREATE OR REPLACE MATERIALIZED VIEW {old} {options} AS {query}")
            return
        self._number += 1
        create(self.wh, query, f"v{self._number}", options=options)

    def _read(self) -> None:
        """A view over a view."""
        if views := self.wh.views():
            read = self._random.choice(views)
            column = self.wh.view(read).fields[0].name
            self._number += 1
            create(self.wh, f"SELECT {column}, COUNT(*) AS c FROM {read} GROUP BY {column}", f"v{self._number}")

    def _unread(self) -> str | None:
        views = self.wh._engine.catalog.views
        read = {name for view in views.values() for name in view.inputs}
        return self._random.choice([*(name for name in views if name not in read), None])

    def _drop(self) -> None:
        if name := self._unread():
            self.wh.sql(f"DROP VIEW {name}")

    def _alter(self) -> None:
        current = [view.name for view in self.wh._engine.catalog.views.values() if not view.refresh.deferred]
        if current:
            strategy = self._random.choice(("auto", "viewlet", "delta"))
            self.wh.sql(f"ALTER VIEW {self._random.choice(current)} SET (strategy = '{strategy}')")


@pytest.mark.turns("backend")
@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_views_that_come_and_go_are_right_whatever_they_share(backend: str) -> None:
    with tidemill.open(":memory:", runtime="native", backend=backend) as wh:
        history, shared = History(wh, 3), 0
        for _ in range(24):
            history.step()
            shared += bool(shares(wh))
            check(wh)
    assert shared > 12


def test_views_that_come_and_go_are_right_when_the_warehouse_is_opened_again(tmp_path: Path) -> None:
    history, before, shared = None, dict[str, dict[str, str]](), 0
    for _ in range(3):
        with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
            assert shares(wh) == before
            history = history or History(wh, 5)
            history.wh = wh
            for _ in range(5):
                history.step()
            check(wh)
            before = shares(wh)
            shared += bool(before)
    assert shared >= 2


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_an_equal_view_that_is_created_later_keeps_nothing_but_its_rows(backend: str) -> None:
    with tidemill.open(":memory:", runtime="native", backend=backend) as wh:
        create_first = f"{TABLES}; CREATE MATERIALIZED VIEW a AS {JOINED}"
        wh.sql(create_first)
        wh.apply({"u": [(1, (k, k % 3)) for k in range(8)], "t": [(1, (i, i % 9, i)) for i in range(60)]})
        create(wh, RENAMED, "b", "c")
        assert shares(wh) == {"b": {"b": "a"}, "c": {"c": "a"}}
        assert wh.view("a").sizes() and not wh.view("b").sizes()
        assert "shares" not in wh.view("a").explain().splitlines()[1]
        assert "shared with  b, c" in wh.view("a").explain()
        assert "shares       a: kept once for all views that need it" in wh.view("b").explain()
        told = wh.subscribe("b", timeout=0)
        wh.sql("DELETE FROM t WHERE k = 1; UPDATE u SET m = 5 WHERE k = 2")
        check(wh)
        wh.sql("DROP VIEW a")
        assert shares(wh) == {"c": {"c": "b"}} and not wh.view("c").sizes()
        wh.sql("DELETE FROM t WHERE k = 3")
        assert [batch.epoch for batch in told] == [2, 3, 4]
        assert Counter(wh.at(2).view("b").rows()) != Counter(wh.view("b").rows())
        check(wh)
        wh.sql("DROP VIEW b; DELETE FROM t WHERE k = 4")
        check(wh)


def test_stages_before_the_last_are_shared_too() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        fill(wh)
        create(wh, OVER_MEAN.format(">"), "more")
        wh.sql("DELETE FROM t WHERE k = 1")
        create(wh, OVER_MEAN.format("<"), "less")
        assert shares(wh) == {"less": {"less/1": "more/1"}}
        assert [size.map for size in wh.view("less").sizes()] == []
        wh.sql("UPDATE t SET n = n + 4 WHERE k = 2")
        check(wh)
        wh.sql("DROP VIEW more; UPDATE t SET n = n + 4 WHERE k = 3")
        check(wh)
        assert [size.map for size in wh.view("less").sizes()] == ["less/1/groups"]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (JOINED, "WITH (refresh = 'deferred')"),
        (JOINED, "WITH (runtime = 'native')"),
        (JOINED, "WITH (strategy = 'viewlet')"),
        (JOINED, "WITH (serve = 'read', strategy = 'joingraph')"),
        (f"{JOINED} HAVING COUNT(*) > 1", ""),
        (JOINED.replace("total", "other"), ""),
    ],
)
def test_views_that_are_kept_in_another_way_or_at_another_time_do_not_share(query: str, options: str) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        fill(wh)
        create(wh, JOINED, "a")
        create(wh, query, "b", options=options)
        assert shares(wh) == {}


def test_what_a_function_computed_before_is_not_shared() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        fill(wh)
        wh.register_function("twice", lambda n: 2 * n, arguments=["INT"], returns="INT", strict=True)
        create(wh, "SELECT k, SUM(twice(n)) AS n FROM t GROUP BY k", "a", "b")
        assert shares(wh) == {}


def test_views_over_streams_share_until_the_first_row_has_come() -> None:
    query = """SELECT s.id, x.total FROM s JOIN (SELECT k, SUM(n) AS total FROM s GROUP BY k) x ON s.k = x.k"""
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE STREAM s (id INT, k INT, n INT)")
        create(wh, query, "a")
        create(wh, f"{query} WHERE s.n > 1", "b")
        assert shares(wh) == {"b": {"b/1": "a/1"}}
        wh.apply({"s": [(1, (i, i % 2, i)) for i in range(4)]})
        create(wh, query, "c")
        assert "c" not in shares(wh)
        assert wh.view("c").rows() == [] and len(wh.view("a").rows()) == 4 and len(wh.view("b").rows()) == 2


def test_equal_views_are_planned_anew_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of the first one is that of the second, too, whose state is free."""
    monkeypatch.setattr(planning, "LEAST", 100)
    pairs = "SELECT a.k, COUNT(*) AS n FROM t a JOIN t b ON a.k = b.k GROUP BY a.k"
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(TABLES)
        create(wh, pairs, "a", "b")
        assert shares(wh) == {"b": {"b": "a"}}
        wh.apply({"t": [(1, (i, i % 3, i)) for i in range(120)]})
        plans = [wh._engine.catalog.view(name).plan for name in "ab"]
        assert plans[0].strategies == {"a": "viewlet"}
        assert shares(wh) == {"b": {"b": "a"}}
        wh.sql("DELETE FROM t WHERE id = 7")
        check(wh)


def test_an_epoch_calls_few_functions_more_for_an_equal_view() -> None:
    def calls(names: str) -> int:
        count = 0

        def note(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        with tidemill.open(":memory:", runtime="native", backend="python") as wh:
            fill(wh)
            create(wh, JOINED, *names)
            wh.apply({"t": [(1, (i, i % 9, i)) for i in range(50)]})
            sys.setprofile(note)
            try:
                wh.apply({"t": [(1, (i, i % 9, i)) for i in range(50, 100)]})
            finally:
                sys.setprofile(None)
        return count

    assert calls("ab") < 1.15 * calls("a")
