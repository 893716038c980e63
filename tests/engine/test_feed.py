"""Events one at a time: a reader sees each, a commit holds many, a bad one is refused alone."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import tidemill
from tidemill.changes.zset import Row
from tidemill.model.errors import ArithmeticFault, BadValue, DataError, MissingRow, Unsupported

DDL = """
    CREATE TABLE bids (id BIGINT PRIMARY KEY, broker STRING, price DECIMAL(10,2));
    CREATE MATERIALIZED VIEW best AS SELECT broker, SUM(price) AS total, COUNT(*) AS n FROM bids GROUP BY broker;
"""


def test_every_look_sees_every_event_before_it() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)
        bid = wh.feed("bids")
        seen = []
        for number in range(1, 4):
            bid(+1, number, "ann", "1.50")
            seen.append(wh.view("best").rows()[0][2])
        assert seen == [1, 2, 3]
        bid(-1, 2, "ann", "1.50")
        assert [row[2] for row in wh.sql("SELECT * FROM best").rows()] == [2]


def test_events_between_two_looks_are_one_epoch() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)
        bid = wh.feed("bids")
        for number in range(100):
            bid(+1, number, "ann", 1)
        assert wh.epoch == 0, "to look at the number commits nothing"
        assert wh.flush() == 1
        assert len(wh.view("best").changes(since=0)) == 1
        assert wh.flush() == 1


def test_a_bad_event_is_refused_alone() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)
        bid = wh.feed("bids")
        bid(+1, 1, "ann", 1)
        with pytest.raises(MissingRow, match="bob"):
            bid(-1, 7, "bob", 1)
        bid(+1, 2, "ann", 1)
        assert [row[2] for row in wh.view("best").rows()] == [2]
        assert wh.epoch == 1


def test_an_event_that_some_view_cannot_show_is_refused_alone() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql("""
            CREATE TABLE t (k INT, n BIGINT);
            CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS total FROM t GROUP BY k;
        """)
        event = wh.feed("t")
        for n in (1, (1 << 63) - 1, 5):
            event(+1, 7, n)
        with pytest.raises(ArithmeticFault):
            wh.flush()
        assert wh.view("v").rows() == [(7, 6)]
        assert wh.table("t").rows() == [(7, 1), (7, 5)]


@pytest.mark.parametrize("event", [(+1, 1, "ann", "dear"), (+1, 1, "ann"), ("+1", 1, "ann", 1), (True, 1, "ann", 1)])
def test_a_value_that_does_not_fit_is_refused_at_once(event: tuple[object, ...]) -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)
        with pytest.raises(BadValue):
            wh.feed("bids")(*event)  # type: ignore[arg-type]
        assert wh.epoch == 0


def test_events_that_miss_a_refused_one_are_refused_and_the_others_stay() -> None:
    """Event 2 overflows the view, event 3 deletes it again, event 4 overflows the view as well, 5 and 6 are right."""
    with tidemill.open(":memory:") as wh:
        wh.sql("CREATE TABLE t (k INT PRIMARY KEY, g STRING, a BIGINT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(a) AS total FROM t GROUP BY g")
        event = wh.feed("t")
        event(+1, 1, "x", 2**63 - 1)
        event(+1, 2, "x", 1)
        event(-1, 2, "x", 1)
        event(+1, 3, "x", 1)
        event(+1, 4, "y", 7)
        event(+1, 5, "y", 8)
        with pytest.raises(ArithmeticFault) as caught:
            wh.flush()
        assert caught.value.detail is not None
        assert '1 later event is refused as well: a row leaves table "t" that is not there' in caught.value.detail
        with pytest.raises(ArithmeticFault):
            wh.flush()
        wh.flush()
        assert sorted(wh.table("t").rows()) == [(1, "x", 2**63 - 1), (4, "y", 7), (5, "y", 8)]
        assert sorted(wh.view("v").rows()) == [("x", 2**63 - 1), ("y", 15)]


def test_closing_commits_what_was_fed(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "wh", runtime="native") as wh:
        wh.sql(DDL)
        wh.feed("bids")(+1, 1, "ann", 1)
    with tidemill.open(tmp_path / "wh", runtime="native") as wh:
        assert [row[2] for row in wh.view("best").rows()] == [1]


def test_threads_may_feed_together() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)

        def work(first: int) -> None:
            bid = wh.feed("bids")
            for number in range(first, first + 200):
                bid(+1, number, "ann", 1)
                if number % 50 == 0:
                    wh.flush()

        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1000, 2000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [row[2] for row in wh.view("best").rows()] == [600]


# ---------------------------------------------------------------------------------------------------- machine code

STREAM = """
    CREATE STREAM ticks (symbol STRING, price DECIMAL(10,2), volume BIGINT);
    CREATE MATERIALIZED VIEW traded AS
      SELECT symbol, SUM(price * volume) AS money, COUNT(*) AS n FROM ticks GROUP BY symbol;
    CREATE MATERIALIZED VIEW busy AS SELECT COUNT(*) AS symbols FROM traded WHERE n > 1;
"""


@pytest.fixture
def stock() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", backend="llvm") as wh:
        wh.sql(STREAM)
        yield wh


def test_a_stream_whose_views_are_compiled_is_fed_by_machine_code(stock: tidemill.Warehouse) -> None:
    tick = stock.feed("ticks")
    assert type(tick).__name__ == "builtin_function_or_method"
    tick(+1, "abc", "1.50", 10)
    tick(+1, "abc", 2, 5)
    tick(+1, "xyz", None, 1)
    assert sorted(stock.view("traded").rows()) == [("abc", Decimal("25.00"), 2), ("xyz", None, 1)]
    assert stock.view("busy").rows() == [(1,)]
    tick(-1, "abc", 2, 5)
    assert stock.view("busy").rows() == [(0,)]
    assert stock.epoch == 2


def test_a_list_and_a_tape_may_take_turns(stock: tidemill.Warehouse) -> None:
    stock.sql("CREATE TABLE names (symbol STRING PRIMARY KEY, name STRING)")
    stock.sql("""
        CREATE MATERIALIZED VIEW named AS
          SELECT n.name, SUM(t.volume) AS volume FROM ticks t JOIN names n ON t.symbol = n.symbol GROUP BY n.name
    """)
    tick, name = stock.feed("ticks"), stock.feed("names")
    for number in range(5):
        tick(+1, f"s{number % 2}", 1, 10)
        name(+1, f"s{number}", f"name {number % 2}")
    assert sorted(stock.view("named").rows()) == [("name 0", 30), ("name 1", 20)]


def test_an_event_that_overflows_is_refused_alone(stock: tidemill.Warehouse) -> None:
    stock.sql("CREATE MATERIALIZED VIEW doubled AS SELECT symbol, SUM(volume * 2) AS v FROM ticks GROUP BY symbol")
    tick = stock.feed("ticks")
    tick(+1, "abc", 1, 4)
    with pytest.raises(ArithmeticFault, match="doubled"):
        tick(+1, "abc", 1, (1 << 63) - 1)
    tick(+1, "abc", 1, 5)
    assert stock.view("doubled").rows() == [("abc", 18)]
    assert stock.view("traded").rows() == [("abc", Decimal("9.00"), 2)]


def test_a_feed_that_is_out_of_date_says_so(stock: tidemill.Warehouse) -> None:
    tick = stock.feed("ticks")
    tick(+1, "abc", 1, 4)
    stock.sql("DROP VIEW busy; DROP VIEW traded")
    stock.sql("CREATE MATERIALIZED VIEW volumes AS SELECT symbol, SUM(volume) AS v FROM ticks GROUP BY symbol")
    new = stock.feed("ticks")
    for volume in (1, 2):
        with pytest.raises(Unsupported, match="out of date"):
            tick(+1, "abc", 1, 4)
        new(+1, "abc", 1, volume)
    assert stock.view("volumes").rows() == [("abc", 3)]


def test_events_in_columns_keep_their_order(stock: tidemill.Warehouse) -> None:
    stock.sql("CREATE STREAM quotes (symbol STRING, price DECIMAL(10,2))")
    stock.sql("""
        CREATE MATERIALIZED VIEW spread AS
          SELECT t.symbol, SUM(t.price - q.price) AS s
          FROM ticks t JOIN quotes q ON t.symbol = q.symbol GROUP BY t.symbol
    """)
    ticks = [(+1, ("abc", "2.00", 1)), (+1, ("abc", "3.00", 1)), (-1, ("abc", "2.00", 1))]
    quotes = [(+1, ("abc", "1.00"))]
    for _ in range(2):
        stock.replay({"ticks": ticks, "quotes": quotes}, ["ticks", "quotes", "ticks", "ticks"])
    assert stock.view("spread").rows() == [("abc", Decimal("8.00"))]
    assert stock.epoch == 1


@pytest.mark.parametrize("backend", ["llvm", "python"])
def test_events_of_tables_can_be_replayed_too(backend: str) -> None:
    with tidemill.open(":memory:", backend=backend) as wh:
        wh.sql(DDL)
        wh.replay({"bids": [(+1, (1, "ann", 1)), (-1, (1, "ann", 1)), (+1, (1, "bob", 2))]}, np.zeros(3, dtype=np.int8))
        assert wh.view("best").rows() == [("bob", Decimal("2.00"), 1)]
        assert wh.table("bids").rows() == [(1, "bob", Decimal("2.00"))]


class KeyedEvents:
    """Random events of two tables, valid one after the other."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.held: dict[int, Row] = {}
        self.events: list[tuple[str, int, Row]] = []

    def add(self, count: int, keys: int) -> None:
        """Append inserts and deletes under so many keys, and a few rows of the table without a key."""
        for _ in range(count):
            key = self.draw.randrange(keys)
            if self.draw.random() < 0.1:
                self.events.append(("notes", 1, (key, self.draw.choice(("a", None)))))
            elif key in self.held:
                self.events.append(("items", -1, self.held.pop(key)))
            else:
                self.held[key] = (key, self.draw.randrange(5), self.draw.choice(("x", "y", None)))
                self.events.append(("items", 1, self.held[key]))

    def arguments(self) -> tuple[dict[str, list[tuple[int, Row]]], list[str]]:
        """As ``replay`` takes them."""
        changes: dict[str, list[tuple[int, Row]]] = {"items": [], "notes": []}
        for table, weight, row in self.events:
            changes[table].append((weight, row))
        return changes, [table for table, _, _ in self.events]


def keyed(backend: str) -> tidemill.Warehouse:
    wh = tidemill.open(":memory:", backend=backend)
    wh.sql("""
        CREATE TABLE items (id BIGINT PRIMARY KEY, grade BIGINT, kind STRING);
        CREATE TABLE notes (item BIGINT, text STRING);
        CREATE MATERIALIZED VIEW graded AS
          SELECT grade, kind, COUNT(*) AS n FROM items i JOIN notes m ON m.item = i.id GROUP BY grade, kind;
    """)
    return wh


@pytest.mark.parametrize("backend", ["llvm", "python"])
@pytest.mark.parametrize("keys", [20, 400, 100_000])
def test_replayed_events_of_tables_are_what_they_are_one_by_one(backend: str, keys: int) -> None:
    history = KeyedEvents(keys)
    history.add(900, keys)
    with keyed(backend) as wh, keyed("python") as other:
        created = wh.epoch
        wh.replay(*history.arguments())
        feeds = {name: other.feed(name) for name in ("items", "notes")}
        for table, weight, row in history.events:
            feeds[table](weight, *row)
        for name in ("items", "notes"):
            assert Counter(wh.table(name).rows()) == Counter(other.table(name).rows())
        assert Counter(wh.view("graded").rows()) == Counter(other.view("graded").rows())
        assert all(wh.verify())
        if keys == 100_000:
            assert wh.epoch - created <= 4, "hardly any of them depends on another"


@pytest.mark.parametrize("place", [0, 70, 500, 899])
def test_of_replayed_events_those_before_a_refused_one_stay(place: int) -> None:
    history = KeyedEvents(3)
    history.add(900, 100_000)
    never = (1_000_000, 1, "never there")
    history.events.insert(place, ("items", -1, never))
    history.events.append(("items", 1, never))  # applied together the two would cancel out
    with keyed("llvm") as wh:
        with pytest.raises(MissingRow):
            wh.replay(*history.arguments())
        came = sum(weight for table, weight, _ in history.events[:place] if table == "items")
        assert len(wh.table("items").rows()) == came
        assert all(wh.verify())


@pytest.mark.parametrize("backend", ["llvm", "python"])
def test_replayed_rows_that_are_put_back_as_they_were_are_one_epoch_with_the_others(backend: str) -> None:
    rows = [(key, key % 5, "x") for key in range(500)]
    other = [row if row[0] % 3 else (row[0], row[1] + 1, None) for row in rows]
    with keyed(backend) as wh:
        wh.apply({"items": [(+1, row) for row in rows], "notes": [(+1, (key, "a")) for key in range(500)]})
        events = [(-1, row) for row in rows] + [(+1, row) for row in other]
        before = wh.epoch
        wh.replay({"items": events}, np.zeros(len(events), np.int8))
        assert wh.epoch == before + 1
        assert Counter(wh.table("items").rows()) == Counter(other)
        assert all(wh.verify())


def test_what_was_fed_to_machine_code_is_on_disk(tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        with tidemill.open(tmp_path / "wh", runtime="native", backend="llvm") as wh:
            if expected == 1:
                wh.sql(STREAM)
            wh.feed("ticks")(+1, "abc", 1, 1)
            assert [row[2] for row in wh.view("traded").rows()] == [expected]


def test_maps_have_sizes(stock: tidemill.Warehouse) -> None:
    tick = stock.feed("ticks")
    for number in range(100):
        tick(+1, f"s{number}", 1, 1)
    (size,) = stock.view("traded").sizes()
    assert (size.map, size.entries) == ("traded/groups", 100)
    assert size.bytes is not None
    assert 100 * 40 < size.bytes < 100_000
    with tidemill.open(":memory:", backend="python") as wh:
        wh.sql(STREAM)
        wh.feed("ticks")(+1, "abc", 1, 1)
        assert [(s.map, s.entries, s.bytes) for s in wh.view("traded").sizes()] == [("traded/groups", 1, None)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("backend", ["llvm", "python"])
def test_a_table_that_never_changes_takes_no_events(backend: str, kind: str) -> None:
    with tidemill.open(":memory:", backend=backend) as wh:
        wh.sql(f"CREATE TABLE nation (k INT PRIMARY KEY, name STRING); CREATE {kind} sales (k INT, n BIGINT)")
        wh.apply({"nation": [(+1, (1, "here"))]})
        wh.sql("""
            CREATE MATERIALIZED VIEW v WITH (strategy = 'viewlet', static = 'nation') AS
              SELECT name, SUM(n) AS n FROM sales s JOIN nation t ON s.k = t.k GROUP BY name
        """)
        with pytest.raises(DataError, match="cannot change"):
            wh.feed("nation")(+1, 2, "there")
        wh.feed("sales")(+1, 1, 5)
        assert wh.view("v").rows() == [("here", 5)]
