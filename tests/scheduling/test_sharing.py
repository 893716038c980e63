"""Views that share what they keep of a feed: the same rows as views that each keep their own, whatever is dropped."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions import tables_and_views
from tidemill.engine.refresh import scheduler

QUERIES = {
    "a": "SELECT k, SUM(n) AS n FROM s[i-5 .. i] GROUP BY k",
    "b": "SELECT k, SUM(n) AS m FROM s[i-2 .. i] GROUP BY k HAVING SUM(n) > 3",
    "c": "SELECT k, MAX(n) AS n FROM s[i-3 .. i] GROUP BY k",
    "d": "SELECT k, MAX(n) AS n FROM s[i-6 .. i] GROUP BY k",
    "e": "SELECT k, SUM(n) AS n FROM s[i-1 .. i] GROUP BY k",
}

METHODS = {"c": "panes", "d": "panes"}
"""The methods of windows that would else be made of their rows alone."""


def define(wh: tidemill.Warehouse, kind: str, *names: str, more: str = "") -> None:
    wh.sql(f"CREATE {kind} IF NOT EXISTS s (ts TIMESTAMP, k INT, n INT) PARTITION BY ts EVERY 1 MINUTE {more}")
    for name in names:
        method = f"WITH (method = '{METHODS[name]}')" if name in METHODS else ""
        wh.sql(f"CREATE MATERIALIZED VIEW {name} {method} AS UPDATE {name}[i] AS {QUERIES[name]}")


def shares(wh: tidemill.Warehouse) -> dict[str, set[str]]:
    """Whose stages views have in the place of their own."""
    views = wh._engine.catalog.views
    return {
        name: {stage.partition("/")[0] for stage in view.shares.values()} for name, view in views.items() if view.shares
    }


def rows(wh: tidemill.Warehouse) -> dict[str, Counter[tuple[object, ...]]]:
    return {name: Counter(wh.view(name).rows()) for name in wh.views()}


class Feeder:
    """Random rows of a few minutes, late ones among them, some of which go again."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._rows: list[tuple[str, int, int]] = []

    def changes(self) -> list[tuple[int, tuple[str, int, int]]]:
        pick = self._random
        come = [(f"2026-01-01 00:{pick.randrange(12):02}:00", pick.randrange(4), pick.randrange(9)) for _ in range(4)]
        gone = [self._rows.pop(pick.randrange(len(self._rows))) for _ in range(2) if self._rows and pick.random() < 0.5]
        self._rows += come
        return [*((+1, row) for row in come), *((-1, row) for row in gone)]


NATIVE = {"runtime": "native", "backend": "python"}


def follow(wh: tidemill.Warehouse, alone: tidemill.Warehouse, feeder: Feeder) -> None:
    for _ in range(4):
        changes = {"s": feeder.changes()}
        wh.apply(changes)
        alone.apply(changes)
        assert rows(wh) == rows(alone)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[tidemill.Warehouse]:
    """A warehouse without shared stages."""
    with tidemill.open(":memory:", **NATIVE) as wh:
        with monkeypatch.context() as patch:
            patch.setattr(tables_and_views, "share_stages", lambda view, *_: view)
            define(wh, "STREAM", *QUERIES)
        assert shares(wh) == {}
        yield wh


def test_the_same_rows_as_alone(alone: tidemill.Warehouse, tmp_path: Path) -> None:
    feeder = Feeder(4)
    with tidemill.open(tmp_path, **NATIVE) as wh:
        define(wh, "STREAM", *QUERIES)
        found = shares(wh)
        assert found["b"] == found["e"] == {"a"} and "c" in found["d"]
        assert not [size for size in wh.view("b").sizes() if "groups" in size.map]
        follow(wh, alone, feeder)
        for one in (wh, alone):
            one.sql("DROP VIEW a")
        follow(wh, alone, feeder)
        assert shares(wh)["e"] == {"b"} and "c" in shares(wh)["d"]
        assert "shares" in wh.view("e").explain()
    with tidemill.open(tmp_path, **NATIVE) as wh:
        follow(wh, alone, feeder)
        for one in (wh, alone):
            one.sql("DROP VIEW c; DROP VIEW b")
        follow(wh, alone, feeder)
        assert shares(wh) == {}


def test_what_is_forgotten_is_forgotten_once(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = "LATENESS 5 MINUTES RETAIN 10 MINUTES"
    with tidemill.open(":memory:", **NATIVE) as alone, tidemill.open(":memory:", **NATIVE) as wh:
        define(wh, "STREAM", "a", "b", more=limits)
        monkeypatch.setattr(tables_and_views, "share_stages", lambda view, *_: view)
        define(alone, "STREAM", "a", "b", more=limits)
        for minute in range(3, 90, 3):
            times = [f"2026-01-01 {at // 60:02}:{at % 60:02}:00" for at in (minute, minute - 2)]
            changes = {"s": [(+1, (at, minute % 5, minute)) for at in times]}
            wh.apply(changes)
            alone.apply(changes)
            assert rows(wh) == rows(alone)
        for one in (wh, alone):
            one.compact()
        for name in wh.views():
            kept = {size.map: size.entries for size in alone.view(name).sizes()}
            assert all(kept[size.map] == size.entries for size in wh.view(name).sizes())
        assert 0 < max(size.entries for size in wh.view("a").sizes() if "groups" in size.map) < 20


def test_views_that_have_seen_something_else_do_not_share() -> None:
    with tidemill.open(":memory:", **NATIVE) as wh:
        define(wh, "STREAM", "a")
        wh.apply({"s": Feeder(1).changes()})
        define(wh, "STREAM", "b")
        wh.sql(f"CREATE MATERIALIZED VIEW e WITH (refresh = 'scheduled') AS UPDATE e[i] AS {QUERIES['e']}")
        assert shares(wh) == {}


def test_a_family_has_its_turn_together_until_one_of_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that cannot be refreshed leaves with a copy of what it shared, and comes back right once it can be."""
    queries = QUERIES | {"c": "SELECT k, 10 / SUM(n) AS n FROM s[i-2 .. i] GROUP BY k"}
    names = ("a", "c", "b", "e")
    monkeypatch.setattr(scheduler, "backoff_seconds", lambda tries: 0.0)
    with tidemill.open(":memory:", **NATIVE) as wh:
        define(wh, "TABLE")
        for name in names:
            text = f"UPDATE {name}[i] AS {queries[name]}"
            wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'scheduled') AS {text}")
        assert set(shares(wh)) == {"b", "c", "e"}
        row = ("2026-01-01 00:05:00", 1)
        wh.apply({"s": [(+1, (*row, 5))]})
        assert wh._engine.scheduler.turn(limit=1) == ["a", "b", "c", "e"]
        assert wh.view("e").refresh() == wh.epoch == 2
        wh.apply({"s": [(+1, (*row, -5))]})
        assert wh._engine.scheduler.turn() == ["a", "b", "c", "e"]
        assert set(wh.troubles()) == {"c"}
        assert wh.view("e").rows() and all(wh.view(name).verify() for name in "abe")
        wh.apply({"s": [(+1, (*row, 2))]})
        wh.schedule()
        assert wh.troubles() == {} == shares(wh)
        assert all(wh.view(name).verify() and wh.view(name).staleness().epochs == 0 for name in names)


def test_a_family_that_has_missed_too_much_is_built_again() -> None:
    with tidemill.open(":memory:", **NATIVE) as wh:
        define(wh, "TABLE")
        for name in ("a", "b"):
            wh.sql(
                f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'scheduled') AS UPDATE {name}[i] AS {QUERIES[name]}"
            )
        feeder = Feeder(9)
        for _ in range(3):
            wh.apply({"s": feeder.changes()})
        wh.vacuum(keep=1)
        assert shares(wh) == {"b": {"a"}}
        assert wh.schedule() == ["a", "b"]
        assert shares(wh) == {}
        wh.apply({"s": feeder.changes()})
        assert wh.schedule() == ["a", "b"]
        assert wh.view("a").verify() and wh.view("b").verify()


def test_a_view_that_is_built_again_is_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a new version keeps one view in another way, those that shared with it are built again as well."""
    with tidemill.open(tmp_path, **NATIVE) as wh:
        define(wh, "TABLE", "a", "b", "e")
        wh.apply({"s": Feeder(2).changes()})
        before = rows(wh)
    told = View.fingerprint.fget
    assert told is not None
    monkeypatch.setattr(View, "fingerprint", property(lambda view: "new" if view.name == "a" else told(view)))
    with tidemill.open(tmp_path, **NATIVE) as wh:
        assert shares(wh) == {}
        assert rows(wh) == before
        wh.apply({"s": Feeder(3).changes()})
        assert all(wh.view(name).verify() for name in wh.views())
