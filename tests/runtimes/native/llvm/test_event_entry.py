"""Events by machine code: values of every kind, one at a time or as columns, and a bad one refused alone."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtimes.native.llvm.compiled import stage_of, started
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import ArithmeticFault, BadValue, NullViolation
from tidemill.runtimes.native.llvm.stage.event_entry import EventBuffer, EventEntry
from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage

EVERYTHING = """CREATE STREAM t (k INT, n BIGINT NOT NULL, price DECIMAL(8,2), wide DECIMAL(30,3), x DOUBLE,
                                 name STRING, flag BOOLEAN, day DATE, at TIMESTAMP, unused STRING)"""
GROUPS = """SELECT k, price, wide, x, name, flag, day, at, SUM(n) AS s
            FROM t GROUP BY k, price, wide, x, name, flag, day, at"""


@pytest.fixture(autouse=True)
def _exact() -> Iterator[None]:
    with decimal.localcontext(EXACT):
        yield


def entry_of(ddl: str, sql: str) -> tuple[EventEntry, LlvmStage, EventBuffer]:
    stage, tables = stage_of(ddl, sql, "delta")
    runner = started(stage, tables)
    events = EventBuffer(1 << 16)
    (name,) = tables
    return EventEntry(tables[name], [runner], events, _never), runner, events


def _never() -> None:
    raise AssertionError("the tape is full")


VALUES: dict[str, list[Any]] = {
    "k": [None, 0, -7, 2**31 - 1],
    "n": [0, 1, -(2**63), 2**63 - 1],
    "price": [None, 3, -3, "1.5", "-0.01", "999999.99", Decimal("1E+2"), Decimal("-12.30"), "+1", ".5", "5."],
    "wide": [None, 10**20, Decimal("-123456789012345678901234567.001"), "0.001"],
    "x": [None, 1.5, -0.0, float("nan"), float("inf"), 3],
    "name": [None, "", "ann", "Zoë \N{GRINNING FACE}", "a\0b"],
    "flag": [None, True, False],
    "day": [
        None,
        datetime.date.min,
        datetime.date.max,
        datetime.date(1970, 3, 1),
        datetime.date(2000, 2, 29),
        "2024-02-29",
    ],
    "at": [
        None,
        datetime.datetime(2024, 2, 29, 12, 30, 59, 5),
        datetime.datetime.max,
        datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        datetime.datetime(2024, 1, 1, fold=1),
        "1969-12-31T23:59:59.999999",
    ],
    "unused": [None, "any"],
}


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(*(st.sampled_from(values) for values in VALUES.values())), min_size=1, max_size=6))
def test_values_mean_what_apply_says(rows: list[tuple[Any, ...]]) -> None:
    entry, runner, _ = ENTRY()
    convert = row_coercer(entry.table.fields, "t")
    expected: dict[tuple[Any, ...], int] = {}
    for row in rows:
        entry.call(+1, *row)
        k, n, price, wide, x, name, flag, day, at, _ = convert(row)
        key = (k, price, wide, x, name, flag, day, at)
        expected[key] = expected.get(key, 0) + n
    try:
        if any(not -(2**63) <= total < 2**63 for total in expected.values()):
            with pytest.raises(ArithmeticFault):
                runner.emit()
        else:
            assert runner.emit().zset() == ZSet({(*key, total): 1 for key, total in expected.items()})
    finally:
        runner.rollback()


def _once(make: Callable[[], Any]) -> Callable[[], Any]:
    made: list[Any] = []

    def get() -> Any:
        if not made:
            made.append(make())
        made[0][2].rewind()
        return made[0]

    return get


ENTRY = _once(lambda: entry_of(EVERYTHING, GROUPS))

GOOD: dict[str, Any] = dict(zip(VALUES, (1, 1, 1, 1, 1.0, "a", True, "2024-01-01", "2024-01-01", "u"), strict=True))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("k", 2**31), ("k", "1"), ("k", True), ("n", 2**63), ("n", 1.5), ("price", 10**6),
        ("price", "1e9"), ("price", ""), ("price", "-"), ("price", "1_000"), ("price", "1.2.3"),
        ("price", Decimal("NaN")), ("x", "1"), ("name", 5), ("name", "\ud800"),
        ("flag", 1), ("day", "2024-02-30"), ("at", 5),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(column: str, value: Any) -> None:
    entry, runner, events = ENTRY()
    with pytest.raises(BadValue, match="is not a value of type"):
        entry.call(+1, *{**GOOD, column: value}.values())
    assert events.used == 0
    assert not len(runner)


def test_what_is_no_event_is_refused() -> None:
    entry, runner, _ = ENTRY()
    with pytest.raises(BadValue, match="takes a weight and then k, n"):
        entry.call(+1, 1)
    for weight in ("1", True, 1.0, 2**63):
        with pytest.raises(BadValue, match="is not a weight"):
            entry.call(weight, *GOOD.values())
    with pytest.raises(NullViolation):
        entry.call(+1, *{**GOOD, "n": None}.values())
    assert not len(runner)


def test_an_event_that_fails_is_refused_alone() -> None:
    entry, runner, events = entry_of(
        "CREATE STREAM t (k INT, n BIGINT)", "SELECT k, SUM(10 / n) AS s FROM t GROUP BY k"
    )
    for n in (1, 2, 5):
        entry.call(+1, 7, n)
        with pytest.raises(ArithmeticFault, match="division by zero") as raised:
            entry.call(+1, 7, 0)
        assert raised.value.where == 'view "v", t (7, 0)'
    assert events.used == 3 * entry.size
    assert events.relations() == {"t"}
    assert runner.emit().zset() == ZSet({(7, 17.0): 1})


def test_a_shut_tape_lets_an_epoch_begin() -> None:
    stage, tables = stage_of("CREATE STREAM t (k INT)", "SELECT k, COUNT(*) AS n FROM t GROUP BY k", "delta")
    runner, events, begun = started(stage, tables), EventBuffer(256), []

    def begin() -> None:
        begun.append(events.used)
        events.close_until_epoch()
        events.open()

    entry = EventEntry(tables["t"], [runner], events, begin)
    events.close_until_epoch()
    for _ in range(20):
        entry.call(+1, 1)
    assert begun[0] == 0
    assert len(begun) > 1
    assert runner.emit().zset() == ZSet({(1, 20): 1})


def test_an_entry_that_is_retired_when_an_epoch_begins_takes_nothing_in() -> None:
    stage, tables = stage_of("CREATE STREAM t (k INT)", "SELECT k, COUNT(*) AS n FROM t GROUP BY k", "delta")
    runner, events = started(stage, tables), EventBuffer(256)

    def refuse() -> None:
        raise BadValue("out of date")

    events.close_until_epoch()
    entry = EventEntry(tables["t"], [runner], events, lambda: entry.retire(refuse))
    with pytest.raises(BadValue, match="out of date"):
        entry.call(+1, 1)
    assert not len(runner)


BOOK = """CREATE STREAM bids (broker BIGINT NOT NULL, price DECIMAL(12,2) NOT NULL, volume BIGINT NOT NULL);
          CREATE STREAM asks (broker BIGINT NOT NULL, price DECIMAL(12,2) NOT NULL, volume BIGINT NOT NULL)"""
SPREAD = """SELECT b.broker, SUM(a.volume - b.volume) AS s FROM bids b, asks a
            WHERE b.broker = a.broker AND a.price - b.price > 10 GROUP BY b.broker"""


CHEAP = """SELECT SUM(b.volume) AS s FROM bids b, asks a WHERE b.broker = a.broker
           AND b.price < 0.1 * (SELECT SUM(b2.price) FROM bids b2 WHERE b2.broker = a.broker)"""
MATCHES = """SELECT a.broker, b.price, SUM(a.volume) AS s FROM bids b, asks a
             WHERE b.broker = a.broker GROUP BY a.broker, b.price"""


@pytest.mark.parametrize("sql", [SPREAD, CHEAP, MATCHES])
@pytest.mark.parametrize("large", [False, True])
def test_mixed_events_as_columns_are_those_events(monkeypatch: pytest.MonkeyPatch, sql: str, large: bool) -> None:
    """Whether or not events are looked ahead."""
    monkeypatch.setattr("tidemill.runtimes.native.llvm.stage.llvm_stage.LARGE_STATE", -1 if large else 1 << 60)
    stage, tables = stage_of(BOOK, sql)
    one, other, third = (started(stage, tables) for _ in range(3))
    rows = [(number % 3, Decimal(number * 7 % 40).quantize(Decimal("0.01")), number) for number in range(60)]
    events = [("bids" if number % 5 else "asks", row, 1) for number, row in enumerate(rows)]
    events += [(name, row, -1) for name, row, _ in events[::2]]
    for name, row, weight in events:
        one.fire(name, ChangeSet.of([(row, weight)], tables[name].fields))
        one.recompute_pending()
    columns = {
        name: to_arrow([(row, weight) for of, row, weight in events if of == name], tables[name].fields)
        for name in tables
    }
    other.run([name for name, _, _ in events], columns)
    assert one.emit().zset() == other.emit().zset() != ZSet()
    # By their places among the tables, and with events that the stage does not read in between.
    places = np.array([place for name, _, _ in events for place in (1 + list(tables).index(name), 0)], dtype=np.uint8)
    third.run(places, {"noise": pa.table({"n": range(len(events))}), **columns})
    assert third.emit().zset() == one.emit().zset()


def test_a_bad_row_among_columns_is_named() -> None:
    stage, tables = stage_of("CREATE STREAM t (n BIGINT)", "SELECT SUM(10 / n) AS s FROM t", "delta")
    runner = started(stage, tables)
    with pytest.raises(ArithmeticFault) as raised:
        runner.run(["t", "t"], {"t": pa.table({"n": [5, 0]})})
    assert raised.value.where == 'view "v", t (0,)'
