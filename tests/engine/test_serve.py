"""What a join graph serves: rows when read, changes when they come, or both; in memory, on disk and after reopening."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.engine.epochs.single_events import events
from tidemill.model.errors import EpochGone, Unsupported
from tidemill.runtimes.native import runtime_state

TABLES = """
CREATE TABLE follows (who INT, whom INT);
CREATE TABLE posts (id INT PRIMARY KEY, author INT, text STRING);
"""
QUERY = "SELECT f.who, p.id, p.text FROM follows f JOIN posts p ON p.author = f.whom"
GROUPED = f"SELECT who, COUNT(*) AS n, MAX(text) AS last FROM ({QUERY}) GROUP BY who"
CUBED = "SELECT f.who, SUM(p.author) AS total FROM posts p JOIN follows f ON p.id = f.whom GROUP BY CUBE (f.who)"
SERVES = ("read", "subscribe", "both")


@pytest.fixture(params=["memory", "disk"])
def wh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    path = ":memory:" if request.param == "memory" else tmp_path / "wh"
    with tidemill.open(path, runtime="native", backend="python") as warehouse:
        warehouse.sql(TABLES)
        yield warehouse


def serving(wh: tidemill.Warehouse, serve: str, query: str = QUERY, more: str = "") -> None:
    wh.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'joingraph', serve = '{serve}'{more}) AS {query}")


def follow(wh: tidemill.Warehouse, *pairs: tuple[int, int], weight: int = 1) -> int:
    return wh.apply({"follows": [(weight, pair) for pair in pairs]})


def post(wh: tidemill.Warehouse, *rows: tuple[int, int, str], weight: int = 1) -> int:
    return wh.apply({"posts": [(weight, row) for row in rows]})


def multiset(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(rows)


@pytest.mark.parametrize("query", [QUERY, GROUPED, CUBED], ids=["plain", "grouped", "cubed"])
@pytest.mark.parametrize("serve", SERVES)
def test_rows_are_those_of_the_query(wh: tidemill.Warehouse, serve: str, query: str) -> None:
    follow(wh, (1, 7), (1, 7), (2, 7), (3, 8))
    serving(wh, serve, query)
    post(wh, (1, 7, "a"), (2, 8, "b"))
    post(wh, (3, 7, "c"))
    follow(wh, (2, 7), weight=-1)
    assert multiset(wh.view("v").rows()) == multiset(wh.sql(query).rows())
    assert multiset(wh.sql("SELECT * FROM v").rows()) == multiset(wh.sql(query).rows())
    joined = "SELECT v.who, q.author FROM v JOIN posts q ON q.id = v.who"
    assert multiset(wh.sql(joined).rows()) == multiset(wh.sql(joined.replace("v JOIN", f"({query}) v JOIN")).rows())
    assert wh.view("v").arrow().num_rows == len(wh.view("v"))
    assert wh.view("v").verify()


@pytest.mark.parametrize("serve", SERVES)
def test_rows_as_they_were(wh: tidemill.Warehouse, serve: str) -> None:
    serving(wh, serve)
    follow(wh, (1, 7), (2, 7))
    post(wh, (1, 7, "a"))
    before = wh.epoch
    post(wh, (1, 7, "a"), weight=-1)
    assert multiset(wh.at(before).view("v").rows()) == multiset([(1, 1, "a"), (2, 1, "a")])
    assert wh.at(before).sql("SELECT COUNT(*) AS n FROM v").rows() == [(2,)]
    assert wh.view("v").rows() == []


@pytest.mark.parametrize("serve", SERVES)
def test_upkeep_leaves_the_rows_alone(wh: tidemill.Warehouse, serve: str) -> None:
    serving(wh, serve)
    follow(wh, (1, 7), (2, 7))
    for number in range(200):
        post(wh, (number, 7, "x"))
    post(wh, *((number, 7, "x") for number in range(100)), weight=-1)
    expected = multiset(wh.sql(QUERY).rows())
    wh.compact()
    assert multiset(wh.view("v").rows()) == expected
    wh.vacuum()
    assert multiset(wh.view("v").rows()) == expected
    assert wh.view("v").verify()


def test_a_view_to_be_read_publishes_nothing(wh: tidemill.Warehouse) -> None:
    serving(wh, "read")
    for ask in (lambda: wh.subscribe("v"), lambda: wh.view("v").changes(), lambda: list(wh.view("v").batches())):
        with pytest.raises(Unsupported, match="serve = 'both'"):
            ask()
    with pytest.raises(Unsupported, match='view "w" cannot follow "v"'):
        wh.sql("CREATE MATERIALIZED VIEW w AS SELECT who FROM v")


def test_only_the_maps_are_stored(wh: tidemill.Warehouse) -> None:
    follow(wh, (1, 7))
    post(wh, (1, 7, "a"))
    serving(wh, "read")
    post(wh, (2, 7, "b"))
    assert wh._engine.store.rows("v") == 0
    assert "serve = 'read'" in wh.view("v").explain()
    assert re.search(r"stored rows:? +none", wh.view("v").explain())


def test_a_subscribed_view_keeps_its_last_changes_only(wh: tidemill.Warehouse) -> None:
    follow(wh, (1, 7))
    post(wh, (1, 7, "first"))
    serving(wh, "subscribe", more=", keep = 10")
    for number in range(2, 200):
        post(wh, (number, 7, "x"))
    assert wh.view("v").changes(since=wh.epoch - 1) == [(1, (1, 199, "x"))]
    assert len(wh.view("v").rows()) == 199
    with pytest.raises(EpochGone, match="no longer kept"):
        wh.view("v").changes(since=wh.epoch - 11)
    wh.compact()
    assert len(wh.view("v").changes(since=wh.epoch - 10)) == 10


@pytest.mark.parametrize("size", [1, 11_000], ids=["small", "large"])
def test_what_is_older_is_let_go_of(wh: tidemill.Warehouse, size: int) -> None:
    serving(wh, "subscribe", more=", keep = 10")
    follow(wh, *((who, 7) for who in range(size)))
    for number in range(40):
        post(wh, (number, 7, "x"))
    if size == 1:
        wh._engine.store.runs("v")  # what waits in the log goes to a file
    wh.compact()
    assert 10 * size <= wh._engine.store.rows("v") <= 20 * size
    assert len(wh.view("v").batches(since=wh.epoch - 10)) == 10
    wh.vacuum()
    assert wh._engine.store.rows("v") <= size
    assert wh.view("v").changes(since=wh.epoch) == []


def test_its_first_rows_are_no_change(wh: tidemill.Warehouse) -> None:
    follow(wh, (1, 7))
    post(wh, (1, 7, "first"))
    serving(wh, "subscribe")
    assert wh.view("v").changes(since=wh.epoch) == []
    with pytest.raises(EpochGone):
        wh.view("v").changes(since=wh.epoch - 1)


@pytest.mark.parametrize(("options", "message"), [("keep = 0", "cannot keep"), ("serve = 'read', keep = 5", "no log")])
def test_wrong_options_are_refused(wh: tidemill.Warehouse, options: str, message: str) -> None:
    given = options if "serve" in options else f"serve = 'subscribe', {options}"
    with pytest.raises(Unsupported, match=message):
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'joingraph', {given}) AS {QUERY}")


def test_a_view_over_a_subscribed_one_takes_it_for_a_stream(wh: tidemill.Warehouse) -> None:
    serving(wh, "subscribe")
    wh.sql("CREATE MATERIALIZED VIEW busy AS SELECT who, COUNT(*) AS n FROM v GROUP BY who")
    wh.sql("CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS SELECT COUNT(*) AS n FROM v")
    follow(wh, (1, 7), (2, 7))
    post(wh, (1, 7, "a"), (2, 7, "b"))
    post(wh, (2, 7, "b"), weight=-1)
    assert multiset(wh.view("busy").rows()) == multiset([(1, 1), (2, 1)])
    wh.view("late").refresh()
    assert wh.view("late").rows() == [(2,)]
    with pytest.raises(Unsupported, match='"busy" cannot be verified'):
        wh.view("busy").verify()


@pytest.mark.parametrize("serve", SERVES)
def test_deferred(wh: tidemill.Warehouse, serve: str) -> None:
    serving(wh, serve, more=", refresh = 'deferred'")
    follow(wh, (1, 7))
    post(wh, (1, 7, "a"))
    assert wh.view("v").rows() == []
    before = wh.epoch
    wh.view("v").refresh()
    assert wh.view("v").rows() == [(1, 1, "a")]
    if serve != "read":
        assert wh.view("v").changes(since=before) == [(1, (1, 1, "a"))]
    post(wh, (2, 7, "b"))
    wh.vacuum()
    wh.view("v").refresh()
    assert multiset(wh.view("v").rows()) == multiset([(1, 1, "a"), (1, 2, "b")])
    assert wh.view("v").verify()


@pytest.mark.parametrize("serve", SERVES)
def test_dropped_and_made_again(wh: tidemill.Warehouse, serve: str) -> None:
    serving(wh, serve)
    follow(wh, (1, 7))
    post(wh, (1, 7, "a"))
    wh.sql("DROP VIEW v")
    assert not [name for name in ("v", "v:f", "v:p") if wh._engine.store.rows(name)]
    serving(wh, serve)
    assert wh.view("v").rows() == [(1, 1, "a")]


@pytest.mark.parametrize("serve", SERVES)
def test_reopened(tmp_path: Path, serve: str) -> None:
    with tidemill.open(tmp_path, runtime="native") as wh:
        wh.sql(TABLES)
        serving(wh, serve, more=", keep = 5" if serve == "subscribe" else "")
        follow(wh, (1, 7))
        post(wh, (1, 7, "a"))
        seen = wh.epoch
        post(wh, (2, 7, "b"))
    with tidemill.open(tmp_path, runtime="native", read_only=True) as wh:
        assert multiset(wh.view("v").rows()) == multiset([(1, 1, "a"), (1, 2, "b")])
        assert wh.at(seen).view("v").rows() == [(1, 1, "a")]
        assert wh.view("v").verify()
    with tidemill.open(tmp_path, runtime="native") as wh:
        if serve != "read":
            assert wh.view("v").changes(since=seen) == [(1, (1, 2, "b"))]
        follow(wh, (1, 7), weight=-1)
        assert wh.view("v").rows() == []


@pytest.mark.parametrize("serve", ["read", "subscribe"])
def test_maps_too_large_to_be_resident_are_read_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, serve: str
) -> None:
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        wh.sql(TABLES)
        serving(wh, serve)
        follow(wh, *((who, who % 5) for who in range(50)))
        post(wh, *((number, number % 5, "x") for number in range(40)))
    monkeypatch.setattr(runtime_state, "RESIDENT_ROWS", 10)
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        post(wh, (100, 3, "y"))
        assert multiset(wh.view("v").rows()) == multiset(wh.sql(QUERY).rows())
        assert len(wh.view("v").rows()) == 410


@pytest.mark.spark
@pytest.mark.parametrize("serve", SERVES)
def test_on_spark(tmp_path: Path, serve: str) -> None:
    with tidemill.open(tmp_path, runtime="spark") as wh:
        wh.sql(TABLES)
        follow(wh, (1, 7), (2, 7), (2, 7))
        serving(wh, serve)
        post(wh, (1, 7, "a"))
        seen = wh.epoch
        post(wh, (2, 7, "b"), (3, 8, "c"))
        post(wh, (1, 7, "a"), weight=-1)
        assert multiset(wh.view("v").rows()) == multiset([(1, 2, "b"), (2, 2, "b"), (2, 2, "b")])
        assert multiset(wh.at(seen).view("v").rows()) == multiset([(1, 1, "a"), (2, 1, "a"), (2, 1, "a")])
        assert wh.sql("SELECT COUNT(*) AS n FROM v").rows() == [(3,)]
        assert wh.view("v").verify()
        wh.compact()
        wh.vacuum()
        assert len(wh.view("v").df().collect()) == 3


@pytest.mark.parametrize("query", [QUERY, GROUPED], ids=["plain", "grouped"])
@pytest.mark.parametrize("serve", SERVES)
def test_as_machine_code(tmp_path: Path, serve: str, query: str) -> None:
    with tidemill.open(tmp_path, runtime="native", backend="llvm") as wh:
        wh.sql(TABLES)
        follow(wh, (1, 7), (1, 7), (2, 7), (3, 8))
        serving(wh, serve, query)
        post(wh, (1, 7, "a"), (2, 8, "b"))
        seen, before = wh.epoch, wh.view("v").rows()
        post(wh, (3, 7, "c"))
        follow(wh, (2, 7), weight=-1)
        assert multiset(wh.view("v").rows()) == multiset(wh.sql(query).rows())
        assert multiset(wh.at(seen).view("v").rows()) == multiset(before)
        if serve != "read":
            net = Counter({row: weight for weight, row in wh.view("v").changes(since=seen)})
            net.update(before)
            assert +net == multiset(wh.view("v").rows())
        assert wh.view("v").verify()
    with tidemill.open(tmp_path, runtime="native", backend="llvm") as wh:
        post(wh, (4, 8, "d"))
        assert multiset(wh.view("v").rows()) == multiset(wh.sql(query).rows())


STREAMS = """
CREATE STREAM follows (who INT NOT NULL, whom INT NOT NULL);
CREATE STREAM posts (id INT NOT NULL, author INT NOT NULL)
"""


def test_a_replay_that_publishes_much_closes_its_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "REPLAY_SLICE", 10)
    monkeypatch.setattr(events, "MAX_PENDING_ROWS", 500)
    with tidemill.open(":memory:", runtime="native", backend="llvm") as wh:
        wh.sql(STREAMS)
        serving(wh, "subscribe", "SELECT f.who, p.id FROM follows f JOIN posts p ON p.author = f.whom")
        start = wh.epoch
        heard = wh.subscribe("v", timeout=0)
        follows = [(1, (who, who % 3)) for who in range(60)]
        posts = [(1, (number, number % 3)) for number in range(200)]
        wh.replay({"follows": follows, "posts": posts}, [*["follows"] * 60, *["posts"] * 200])
        wh.flush()
        batches = list(heard)
        assert wh.epoch - start == len(batches) + (wh.epoch - batches[-1].epoch) > 5
        rows = multiset([row for batch in batches for row in batch.inserts])
        assert rows == multiset([(who, number) for _, (who, a) in follows for _, (number, b) in posts if a == b])
        assert max(batch.rows for batch in batches) < 1000


@pytest.mark.parametrize("backend", ["python", "llvm"])
@pytest.mark.parametrize("serve", SERVES)
def test_a_view_that_never_has_rows(serve: str, backend: str) -> None:
    with tidemill.open(":memory:", runtime="native", backend=backend) as wh:
        wh.sql(TABLES)
        serving(wh, serve, f"{QUERY} WHERE f.who IS NULL AND f.who >= f.who")
        wh.apply({"follows": [(1, (1, 7))], "posts": [(1, (1, 7, "a"))]})
        assert wh.view("v").rows() == []
