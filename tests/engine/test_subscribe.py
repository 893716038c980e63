"""Subscriptions: in order, resumable, filtered, and bounded for a slow reader."""

from __future__ import annotations

import gc
import math
import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidemill
from tidemill.engine.catalog.new_views.unique_keys import key_of_view
from tidemill.engine.subscriptions.subscription import Subscription
from tidemill.model import errors

TABLES = """
CREATE TABLE follows (who INT, whom INT, PRIMARY KEY (who, whom));
CREATE TABLE posts (id INT PRIMARY KEY, author INT, text STRING);
"""
TIMELINE = "SELECT f.who, p.id, p.text, p.author FROM follows f JOIN posts p ON p.author = f.whom"


@pytest.fixture(params=["both", "subscribe"])
def wh(request: pytest.FixtureRequest) -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        warehouse.sql(TABLES)
        options = f"strategy = 'joingraph', serve = '{request.param}'"
        warehouse.sql(f"CREATE MATERIALIZED VIEW timeline WITH ({options}) AS {TIMELINE}")
        warehouse.apply({"follows": [(1, (who, whom)) for who in range(10) for whom in range(3)]})
        yield warehouse


def post(wh: tidemill.Warehouse, *rows: tuple[int, int, str | None], weight: int = 1) -> int:
    return wh.apply({"posts": [(weight, row) for row in rows]})


def heard(feed: Subscription) -> list[tuple[int, list[tuple[int, tuple[Any, ...]]]]]:
    return [(batch.epoch, sorted(batch)) for batch in feed]


def test_inserts_deletes_and_updates(wh: tidemill.Warehouse) -> None:
    feed = wh.subscribe("timeline", where={"who": 4}, timeout=0)
    post(wh, (1, 0, "a"), (2, 1, "b"))
    wh.sql("UPDATE posts SET text = 'z' WHERE id = 1")
    post(wh, (2, 1, "b"), weight=-1)
    first, second, third = feed
    assert (sorted(first.inserts), first.deletes, first.updates) == ([(4, 1, "a", 0), (4, 2, "b", 1)], [], [])
    assert (second.inserts, second.deletes, second.updates) == ([], [], [((4, 1, "a", 0), (4, 1, "z", 0))])
    assert (third.inserts, third.deletes, third.updates) == ([], [(4, 2, "b", 1)], [])
    assert sorted(second) == [(-1, (4, 1, "a", 0)), (1, (4, 1, "z", 0))]
    assert second.arrow().column_names == ["who", "id", "text", "author", "_weight"]
    assert feed.epoch == wh.epoch


@pytest.mark.parametrize("where", [None, {}, {"who": 3}, {"who": [3, 5], "author": 1}, {"text": None}, {"who": []}])
def test_what_is_heard_live_is_what_is_stored(wh: tidemill.Warehouse, where: dict[str, Any] | None) -> None:
    start = wh.epoch
    feed = wh.subscribe("timeline", where=where, timeout=0)
    small = wh.subscribe("timeline", where=where, timeout=0, form="arrow")
    rng = random.Random(5)
    for number in range(20):
        post(wh, *((100 * number + i, rng.randrange(3), rng.choice(["x", None])) for i in range(rng.choice([1, 30]))))
    live = heard(feed)
    assert live == heard(wh.subscribe("timeline", since=start, where=where, timeout=0)) == heard(small)
    assert [epoch for epoch, _ in live] == [batch.epoch for batch in wh.view("timeline").batches(start, where=where)]
    everything = heard(wh.subscribe("timeline", since=start, timeout=0))
    wanted = {key: value if isinstance(value, list) else [value] for key, value in (where or {}).items()}
    columns = wh.view("timeline").columns
    expected = [
        (epoch, [(w, row) for w, row in rows if all(row[columns.index(c)] in vs for c, vs in wanted.items())])
        for epoch, rows in everything
    ]
    assert live == [(epoch, rows) for epoch, rows in expected if rows]


def test_columns_are_sorted_like_rows(wh: tidemill.Warehouse) -> None:
    """Changes that come as Arrow go to subscribers by another way than tuples do."""
    wh.sql("CREATE STREAM ticks (a INT, b STRING, c DOUBLE)")
    wh.sql("CREATE MATERIALIZED VIEW seen AS SELECT a, b, c FROM ticks")
    filters: list[dict[str, Any]] = [
        {"a": 3},
        {"a": [None, 4]},
        {"b": ["x", None]},
        {"c": math.nan},
        {"c": 0},
        {"a": [1, 2, 3], "b": ["y", "x"]},
        {"a": [1, 3], "b": "x", "c": [0.0, math.nan, None]},
    ]
    feeds = [wh.subscribe("seen", where=where, timeout=0) for where in filters]
    rng = np.random.default_rng(3)
    a = pa.array([None if v == 5 else int(v) for v in rng.integers(0, 6, 500)], pa.int32())
    b = pa.array([("x", "y", None)[v] for v in rng.integers(0, 3, 500)])
    c = pa.array(
        [(0.0, -0.0, math.nan, 1.5, None)[v] for v in rng.integers(0, 5, 500)], pa.float64(), from_pandas=False
    )
    publish_arrow(wh, "seen", pa.table({"a": a, "b": b, "c": c, "_weight": pa.array(np.ones(500, np.int64))}))
    rows = list(zip(a.to_pylist(), b.to_pylist(), c.to_pylist(), strict=True))
    for where, feed in zip(filters, feeds, strict=True):
        (batch,) = feed
        wanted = [row for row in rows if all(passes(row["abc".index(k)], v) for k, v in where.items())]
        assert wanted
        assert batch.arrow().num_rows == len(wanted), where
        assert Counter(map(repr, (r for w, r in batch for _ in range(w)))) == Counter(map(repr, map(plain, wanted)))


def passes(value: Any, wanted: Any) -> bool:
    options = wanted if isinstance(wanted, list) else [wanted]
    return any(plain((value,)) == plain((option,)) or (value != value and option != option) for option in options)


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(0.0 if value == 0 and isinstance(value, float) else value for value in row)


def publish_arrow(wh: tidemill.Warehouse, view: str, table: pa.Table) -> None:
    """Publish a change as machine code does, as columns."""
    from tidemill.changes.changeset import ChangeSet, Epoch

    engine = wh._engine
    change = ChangeSet.of_arrow(table, engine.catalog.view(view).fields)
    engine.epochs.commit(Epoch(engine.store.epoch + 1, {view: change}))()


def test_resuming_loses_and_repeats_nothing(wh: tidemill.Warehouse) -> None:
    start = wh.epoch
    for number in range(50):
        post(wh, (number, number % 3, "x"))
    whole = heard(wh.subscribe("timeline", since=start, timeout=0))
    position, pieces = start, []
    for count in (1, 7, 0, 20, 50):
        with wh.subscribe("timeline", since=position, timeout=0, buffer=30) as feed:
            pieces += [(batch.epoch, sorted(batch)) for batch, _ in zip(feed, range(count), strict=False)]
            # zip asks for one more than it gives, so the position is that of the last batch that was kept.
            position = pieces[-1][0] if pieces else start
    assert pieces == whole[: len(pieces)]
    assert len(pieces) == 50


def test_a_position_passes_epochs_that_have_nothing_for_us(wh: tidemill.Warehouse) -> None:
    feed = wh.subscribe("timeline", where={"who": 99}, timeout=0)
    post(wh, (1, 0, "a"))
    assert list(feed) == []
    assert feed.epoch == wh.epoch
    wh.apply({"follows": [(1, (99, 0))]})
    assert feed.epoch == wh.epoch - 1
    assert next(feed).inserts == [(99, 1, "a", 0)]


def test_a_slow_reader_goes_on_from_the_store(wh: tidemill.Warehouse) -> None:
    slow = wh.subscribe("timeline", timeout=0, buffer=25)
    start = wh.epoch
    for number in range(100):
        post(wh, (number, 0, "x"))
    queue = wh._engine.publisher._views["timeline"]._queue
    assert sum(published.rows for published in queue.values()) <= 25
    post(wh, (1000, 0, "y"))
    assert heard(slow) == heard(wh.subscribe("timeline", since=start, timeout=0))
    assert slow.epoch == wh.epoch
    post(wh, (1001, 0, "y"))
    assert next(slow).epoch == wh.epoch
    assert not queue


def test_who_falls_behind_what_is_kept_is_told(wh: tidemill.Warehouse) -> None:
    slow = wh.subscribe("timeline", timeout=0, buffer=1)
    seen = wh.epoch
    for number in range(30):
        post(wh, (number, 0, "x"))
    wh.vacuum(keep=5)
    with pytest.raises(errors.FellBehind) as caught:
        next(slow)
    assert (caught.value.seen, caught.value.resume) == (seen, wh.epoch - 4)
    assert caught.value.detail
    assert f"since={wh.epoch}" in (caught.value.hint or "")
    with pytest.raises(errors.FellBehind):
        wh.subscribe("timeline", since=seen)
    assert len(list(wh.subscribe("timeline", since=caught.value.resume, timeout=0))) == 4
    with pytest.raises(errors.EpochGone, match="still to come"):
        wh.subscribe("timeline", since=wh.epoch + 1)


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ({"whom": 1}, errors.UnknownName, 'has no column "whom"'),
        ({"who": "ann"}, errors.BadValue, "not a value of type INT"),
        ({"who": [1, "ann"]}, errors.BadValue, "timeline.who"),
        ({"text": 5}, errors.BadValue, "timeline.text"),
    ],
)
def test_wrong_filters_are_refused(wh: tidemill.Warehouse, where: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        wh.subscribe("timeline", where=where)


def test_nested_columns_cannot_be_filtered_by(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW lists AS SELECT who, COLLECT_LIST(whom) AS all FROM follows GROUP BY who")
    with pytest.raises(errors.Unsupported, match="cannot be filtered by"):
        wh.subscribe("lists", where={"all": [1]})
    with pytest.raises(errors.SetupError, match="no form"):
        wh.subscribe("lists", form="json")


def test_many_subscribers_in_threads(wh: tidemill.Warehouse) -> None:
    found: dict[int, list[tuple[int, Any]]] = {}

    def listen(who: int, feed: Subscription) -> None:
        found[who] = [(batch.epoch, row) for batch in feed for _, row in batch]

    feeds = [wh.subscribe("timeline", where={"who": who}, buffer=50) for who in range(10)]
    threads = [threading.Thread(target=listen, args=pair) for pair in enumerate(feeds)]
    for thread in threads:
        thread.start()

    def write(first: int) -> None:
        for number in range(first, first + 40):
            post(wh, (number, number % 3, "x"))

    writers = [threading.Thread(target=write, args=(1000 * k,)) for k in range(3)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    end = wh.epoch
    for feed in feeds:
        deadline = threading.Event()
        for _ in range(200):
            if feed.epoch >= end:
                break
            deadline.wait(0.05)
    wh.close()
    for thread in threads:
        thread.join(10)
    for who in range(10):
        epochs = [epoch for epoch, _ in found[who]]
        assert epochs == sorted(set(epochs))
        assert sorted(row[1] for _, row in found[who]) == sorted(1000 * k + n for k in range(3) for n in range(40))


def test_a_subscription_ends_when_closed_or_dropped_or_forgotten(wh: tidemill.Warehouse) -> None:
    waiting = wh.subscribe("timeline")
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(len(list(waiting))))
    thread.start()
    waiting.close()
    thread.join(10)
    assert ended == [0]
    publications = wh._engine.publisher
    wh.subscribe("timeline")
    gc.collect()
    post(wh, (1, 0, "x"))
    assert not publications._views
    dropped = wh.subscribe("timeline")
    wh.sql("DROP VIEW timeline")
    assert list(dropped) == []


def test_events_that_are_fed_are_heard(wh: tidemill.Warehouse) -> None:
    feed = wh.subscribe("timeline", where={"who": 1}, timeout=0)
    tell = wh.feed("posts")
    tell(+1, 1, 0, "a")
    tell(+1, 2, 1, "b")
    assert sorted(next(feed).inserts) == [(1, 1, "a", 0), (1, 2, "b", 1)]


KEYED = {
    "SELECT id, text FROM posts": (0,),
    "SELECT text, id AS no FROM posts WHERE author > 0": (1,),
    "SELECT text FROM posts": None,
    "SELECT author, COUNT(*) AS n FROM posts GROUP BY author": (0,),
    "SELECT COUNT(*) AS n FROM posts": (),
    "SELECT COUNT(*) AS n FROM posts GROUP BY author": None,
    TIMELINE: (0, 1, 3),
    "SELECT f.who, f.whom, p.id FROM follows f JOIN posts p ON p.author = f.whom": (0, 1, 2),
    "SELECT f.who, p.id FROM follows f JOIN posts p ON p.author = f.whom": None,
    "SELECT f.who, f.whom, p.text FROM follows f JOIN posts p ON p.id = f.whom": (0, 1),
    "SELECT f.who, f.whom, p.text FROM follows f LEFT JOIN posts p ON p.id = f.whom": (0, 1),
    "SELECT p.id, f.who, f.whom FROM posts p LEFT JOIN follows f ON p.author = f.whom": (0, 1, 2),
    "SELECT id FROM posts UNION ALL SELECT who FROM follows": None,
    "SELECT DISTINCT author, text FROM posts": (0, 1),
    "SELECT id, text FROM posts ORDER BY text LIMIT 3": (0,),
    "SELECT id, RANK() OVER (ORDER BY text) AS r FROM posts": (0,),
}


@pytest.mark.parametrize("query", KEYED)
def test_keys(query: str) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(f"{TABLES}; CREATE MATERIALIZED VIEW v AS {query}")
        catalog = wh._engine.catalog
        assert key_of_view(catalog.view("v"), catalog) == KEYED[query]


def test_updates_of_groups_with_nulls_and_without_a_key() -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(TABLES)
        wh.sql("CREATE MATERIALIZED VIEW n AS SELECT author, COUNT(*) AS n FROM posts GROUP BY author")
        wh.sql("CREATE MATERIALIZED VIEW texts AS SELECT author, text FROM posts")
        groups, texts = (wh.subscribe(view, timeout=0) for view in ("n", "texts"))
        post(wh, *((number, None, "x") for number in (1, 2)))  # type: ignore[arg-type]
        wh.apply({"posts": [(1, (3, None, "x")), (1, (4, 7, "x"))]})
        wh.sql("UPDATE posts SET text = 'y' WHERE id = 4")
        next(groups)
        batch = next(groups)
        assert (batch.updates, batch.inserts, batch.deletes) == ([((None, 2), (None, 3))], [(7, 1)], [])
        assert next(texts).inserts == [(None, "x"), (None, "x")]
        next(texts)
        batch = next(texts)
        assert (batch.updates, batch.inserts, batch.deletes) == ([], [(7, "y")], [(7, "x")])


def test_a_reader_beside_the_writer_subscribes_with_filters(tmp_path: Path) -> None:
    with tidemill.open(tmp_path, runtime="native", backend="python") as writer:
        writer.sql(TABLES)
        writer.sql(f"CREATE MATERIALIZED VIEW t WITH (strategy = 'joingraph', serve = 'subscribe') AS {TIMELINE}")
        writer.apply({"follows": [(1, (1, 0)), (1, (2, 0))]})
        with tidemill.open(tmp_path, runtime="native", backend="python", read_only=True) as reader:
            feed = reader.subscribe("t", where={"who": 2}, timeout=10)
            post(writer, (1, 0, "a"))
            post(writer, (2, 0, "b"))
            assert [next(feed).inserts, next(feed).inserts] == [[(2, 1, "a", 0)], [(2, 2, "b", 0)]]


def test_a_view_that_is_built_again_publishes_the_difference() -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(TABLES)
        query = "SELECT author, COUNT(*) AS n FROM posts GROUP BY author"
        wh.sql(f"CREATE MATERIALIZED VIEW n WITH (refresh = 'deferred') AS {query}")
        post(wh, (1, 7, "x"), (2, 8, "x"))
        wh.view("n").refresh()
        feed = wh.subscribe("n", timeout=0)
        post(wh, (3, 7, "y"))
        wh.vacuum()
        wh.view("n").refresh()
        assert [batch.updates for batch in feed] == [[((7, 1), (7, 2))]]
        assert feed.epoch == wh.epoch


def test_a_subscribed_view_that_is_built_again_says_so() -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(TABLES)
        options = "strategy = 'joingraph', serve = 'subscribe', refresh = 'deferred'"
        wh.sql(f"CREATE MATERIALIZED VIEW t WITH ({options}) AS {TIMELINE}")
        feed = wh.subscribe("t", timeout=0)
        wh.apply({"follows": [(1, (1, 0))], "posts": [(1, (1, 0, "a"))]})
        wh.vacuum()
        wh.view("t").refresh()
        with pytest.raises(errors.FellBehind) as caught:
            next(feed)
        again = wh.subscribe("t", since=caught.value.resume, timeout=0)
        assert wh.at(caught.value.resume).view("t").rows() == wh.view("t").rows() == [(1, 1, "a", 0)]
        post(wh, (2, 0, "b"))
        wh.view("t").refresh()
        assert next(again).inserts == [(1, 2, "b", 0)]


def test_one_that_asks_for_nothing_may_leave_last(wh: tidemill.Warehouse) -> None:
    nothing, something = wh.subscribe("timeline", where={"who": []}), wh.subscribe("timeline", where={"who": 1})
    something.close()
    nothing.close()
    post(wh, (1, 0, "a"))
    assert not wh._engine.publisher._views
