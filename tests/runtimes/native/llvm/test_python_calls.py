"""Stages whose expressions have no native form: compiled all the same, by epochs and by single events."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.model.errors import ArithmeticFault, SetupError
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary

VIEWS = {
    "named": "SELECT upper(k) AS u, SUM(n) AS t, COUNT(*) AS c FROM s WHERE k LIKE '%a%' OR k < 'c' GROUP BY upper(k)",
    "summed": "SELECT length(k) AS l, SUM(CAST(v AS INT)) AS t FROM s GROUP BY length(k)",
    "shown": "SELECT round(n / 3.0, 1) AS q, concat(k, '-', n) AS c FROM s WHERE k RLIKE '^[a-c]'",
}

TEXTS = ["a", "ab", "banana", "c", "cc", "ä", "Zed", None, "x%y"]

Event = tuple[str | None, str | None, int | None]


def drawn(count: int, seed: int) -> Iterator[Event]:
    """Events, of which one in a hundred has a text that is no number."""
    draw = random.Random(seed)
    for _ in range(count):
        value = "none" if draw.random() < 0.01 else draw.choice(["1", "22", "-3", None])
        yield draw.choice(TEXTS), value, draw.choice([None, 1, 2, 7])


@pytest.fixture(params=["STREAM", "TABLE"])
def warehouse(request: pytest.FixtureRequest) -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", backend="llvm") as wh:
        wh.sql(f"CREATE {request.param} s (k STRING, v STRING, n INT)")
        for name, query in VIEWS.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield wh


def rows_of(wh: tidemill.Warehouse) -> dict[str, list[Any]]:
    return {name: sorted(wh.view(name).rows(), key=repr) for name in VIEWS}


def expected(events: list[Event]) -> dict[str, list[Any]]:
    """The rows of all views by the Python back end, after the same events."""
    with tidemill.open(":memory:", backend="python") as wh:
        wh.sql("CREATE TABLE s (k STRING, v STRING, n INT)")
        wh.apply({"s": [(1, event) for event in events]})
        for name, query in VIEWS.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert not [str(found) for found in wh.verify() if not found]
        return rows_of(wh)


def test_all_views_are_compiled(warehouse: tidemill.Warehouse) -> None:
    for name in VIEWS:
        assert "compiled with LLVM" in warehouse.sql(f"EXPLAIN VIEW {name}")[0][0]


def test_epochs(warehouse: tidemill.Warehouse, random_seed: int) -> None:
    """An epoch with a text that is no number is refused, names its row, and leaves everything as it was."""
    kept: list[Event] = []
    events = list(drawn(600, random_seed))
    for start in range(0, 600, 40):
        some = events[start : start + 40]
        if any(value == "none" for _, value, _ in some):
            with pytest.raises(ArithmeticFault, match="'none' cannot be cast from STRING to INT") as refused:
                warehouse.apply({"s": [(1, event) for event in some]})
            assert "'none'" in str(refused.value.where)
        else:
            warehouse.apply({"s": [(1, event) for event in some]})
            kept += some
    assert rows_of(warehouse) == expected(kept)


def test_single_events(warehouse: tidemill.Warehouse, random_seed: int) -> None:
    """An event that is refused is left out, and those around it stay."""
    kept: list[Event] = []
    feed = warehouse.feed("s")
    for event in drawn(400, random_seed):
        try:
            feed(1, *event)
            warehouse.flush()
            kept.append(event)
        except ArithmeticFault:
            assert event[1] == "none"
    assert rows_of(warehouse) == expected(kept)


def test_an_interrupted_epoch(warehouse: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interruption within a call ends the epoch as itself; the next one finds all as it was."""
    events: list[Event] = [("a", "1", 1), ("banana", None, None)]
    warehouse.apply({"s": [(1, event) for event in events]})

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StringDictionary, "value", interrupted)
        with pytest.raises(KeyboardInterrupt):
            warehouse.apply({"s": [(1, ("berry", "5", 4))]})
    warehouse.apply({"s": [(1, ("cherry", "6", 5))]})
    assert rows_of(warehouse) == expected([*events, ("cherry", "6", 5)])


def test_functions_of_users_and_functions_given_to_functions() -> None:
    """A function that is registered again is called from then on. A parameter may have the name of a column."""
    with tidemill.open(":memory:", backend="llvm") as wh:
        wh.register_function("named", lambda text, n: f"{text} {n}", arguments=["STRING", "INT"], returns="STRING")
        wh.sql("CREATE TABLE t (x STRING, n INT, a ARRAY<INT>)")
        own = "SELECT named(x, n) AS who, COUNT(*) AS c FROM t GROUP BY named(x, n)"
        given = "SELECT x, size(filter(a, x -> x > n)) AS more, transform(a, x -> x + n) AS moved FROM t"
        grouped = "SELECT x, exists(transform(array(COUNT(*)), x -> x * 2), y -> y > 3) AS many FROM t GROUP BY x"
        for name, query in {"own": own, "given": given, "grouped": grouped}.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            assert "compiled with LLVM" in wh.sql(f"EXPLAIN VIEW {name}")[0][0]
        rows = [("a", 1, [1, 2, 3]), ("a", 2, []), ("b", None, [None, 5]), (None, 3, None), ("a", 1, [4])]
        wh.apply({"t": [(1, row) for row in rows]})
        assert not [str(found) for found in wh.verify() if not found]
        assert sorted(wh.view("own").rows())[:2] == [("None 3", 1), ("a 1", 2)]
        wh.register_function("named", lambda text, n: f"{text}!", arguments=["STRING", "INT"], returns="STRING")
        wh.apply({"t": [(1, ("a", 1, [1]))]})
        assert ("a!", 1) in wh.view("own").rows()


def test_a_function_that_is_not_registered(tmp_path: Path) -> None:
    """The epoch is refused with what is missing, and applied once it is there."""
    with tidemill.open(tmp_path, backend="llvm") as wh:
        wh.register_function("twice", lambda n: 2 * n, arguments=["INT"], returns="INT")
        wh.sql("CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW v AS SELECT twice(n) AS m FROM t")
        wh.sql("INSERT INTO t VALUES (1)")
    with tidemill.open(tmp_path, backend="llvm") as wh:
        with pytest.raises(SetupError, match='"twice" is not registered'):
            wh.sql("INSERT INTO t VALUES (2)")
        wh.register_function("twice", lambda n: 2 * n, arguments=["INT"], returns="INT")
        wh.sql("INSERT INTO t VALUES (3)")
        assert sorted(wh.view("v").rows()) == [(2,), (6,)]
