"""Views are planned anew once their tables have grown or have become others, and nobody notices."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import tidemill
from benchmarks.choose.drift import EPOCHS, skewing
from tidemill.engine.definitions import planning
from tidemill.engine.refresh.fill import ViewFiller
from tidemill.model.errors import Unsupported

PEOPLE = "CREATE TABLE people (id INT PRIMARY KEY, region INT)"
PAIRS = """CREATE MATERIALIZED VIEW pairs {options} AS SELECT a.region, COUNT(*) AS n
           FROM people a JOIN people b ON a.region = b.region GROUP BY a.region"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred rows are enough to look at a plan again."""
    monkeypatch.setattr(planning, "LEAST", 100)


def load(warehouse: tidemill.Warehouse, start: int, count: int) -> None:
    warehouse.apply({"people": [(1, (i, i % 3)) for i in range(start, start + count)]})


def move_all(warehouse: tidemill.Warehouse, turn: int, count: int) -> None:
    """Move the first ``count`` people to the next region, which leaves as many in each."""
    gone, come = ([(i, (i + moves) % 3) for i in range(count)] for moves in (turn, turn + 1))
    warehouse.apply({"people": [*((-1, row) for row in gone), *((1, row) for row in come)]})


def looks(warehouse: tidemill.Warehouse) -> list[str]:
    """The times when the plan of a view was looked at, as EXPLAIN has them."""
    return re.findall(r"in epoch \d+, after [\d,]+", warehouse.view("pairs").explain())


def strategy(warehouse: tidemill.Warehouse, view: str = "pairs") -> str:
    return warehouse._engine.catalog.view(view).program.stages[-1].strategy


def test_a_view_is_planned_anew_when_its_tables_have_grown(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as warehouse:
        warehouse.sql(PEOPLE)
        warehouse.sql(PAIRS.format(options=""))
        follower = warehouse.subscribe("pairs", timeout=0)
        load(warehouse, 0, 50)
        assert strategy(warehouse) == "delta"
        load(warehouse, 50, 60)
        assert strategy(warehouse) == "viewlet"
        assert "planned anew" in warehouse.view("pairs").explain()
        load(warehouse, 200, 3)
        assert [batch.epoch for batch in follower] == [1, 2, 3]
        warehouse.verify()
        rows = sorted(warehouse.view("pairs").rows())
    with tidemill.open(tmp_path / "w", runtime="native") as warehouse:
        assert strategy(warehouse) == "viewlet"
        assert sorted(warehouse.view("pairs").rows()) == rows
        load(warehouse, 300, 3)
        warehouse.verify()


@pytest.mark.parametrize("options", ["WITH (strategy = 'delta')", "WITH (refresh = 'deferred')"])
def test_who_names_a_strategy_keeps_it_and_late_views_wait(options: str) -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(PEOPLE)
        warehouse.sql(PAIRS.format(options=options))
        load(warehouse, 0, 120)
        assert strategy(warehouse) == "delta"
        assert "planned anew" not in warehouse.view("pairs").explain()


def test_a_plan_that_cannot_take_over_is_told_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Unsupported("there is no room")

    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(PEOPLE)
        warehouse.sql(PAIRS.format(options=""))
        with monkeypatch.context() as patch:
            patch.setattr(ViewFiller, "fill_replanned", refuse)
            load(warehouse, 0, 120)
        assert (strategy(warehouse), warehouse.epoch) == ("delta", 1)
        assert "in epoch 1, after 120 changed rows: in vain, there is no room" in warehouse.view("pairs").explain()
        load(warehouse, 200, 3)
        warehouse.verify()


def test_plans_are_looked_at_when_tables_grow_and_not_at_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(PEOPLE)
        warehouse.sql(PAIRS.format(options=""))
        planner = warehouse._engine.planner
        looked: list[str] = []
        monkeypatch.setattr(planner, "_replan", lambda view: looked.append(view.name))
        load(warehouse, 0, 120)
        for turn in range(20):
            load(warehouse, 200 + turn, 1)
        assert looked == ["pairs"]
        load(warehouse, 3_000, 1200)
        assert looked == ["pairs", "pairs"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_view_is_planned_anew_when_its_rows_have_become_others(durable: bool, tmp_path: Path) -> None:
    drift, after = skewing(2_000), skewing(2_000).after()
    with tidemill.open(tmp_path / "w" if durable else ":memory:", runtime="native") as warehouse:
        warehouse.sql(drift.declarations)
        warehouse.apply(drift.base)
        warehouse.sql(f"CREATE MATERIALIZED VIEW answer AS {drift.query}")
        follower = warehouse.subscribe("answer", timeout=0)
        start, seen = warehouse.epoch, Counter(warehouse.view("answer").rows())
        history = {}
        for epoch in drift.shifts():
            assert strategy(warehouse, "answer") == "delta"
            number = warehouse.apply(epoch)
            history[number] = sorted(warehouse.view("answer").rows())
        assert (strategy(warehouse, "answer"), warehouse.epoch) == ("viewlet", start + EPOCHS)
        assert warehouse.statistics("t")["t"].columns["g"].statistics.distinct == 20
        decided = f"in epoch {start + EPOCHS}, after 4,000 changed rows: planned anew, from "
        assert decided in warehouse.view("answer").explain()
        warehouse.verify()
        for _ in range(3):
            number = warehouse.apply(next(after))
            history[number] = sorted(warehouse.view("answer").rows())
        warehouse.verify()
        for batch in follower:
            for weight, row in batch.changes:
                seen[row] += weight
            assert sorted((+seen).elements()) == history.pop(batch.epoch), batch.epoch
            assert sorted(warehouse.at(batch.epoch).view("answer").rows()) == sorted((+seen).elements())
        assert history == {}


def test_a_plan_that_is_kept_is_looked_at_after_twice_as_many_changes(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as warehouse:
        warehouse.sql(PEOPLE)
        load(warehouse, 0, 300)
        warehouse.sql(PAIRS.format(options=""))
        assert strategy(warehouse) == "viewlet"
        for turn in range(4):
            move_all(warehouse, turn, 300)
        assert looks(warehouse) == ["in epoch 2, after 300", "in epoch 4, after 600"]
    with tidemill.open(tmp_path / "w", runtime="native") as warehouse:
        for turn in range(4, 7):
            move_all(warehouse, turn, 300)
        assert looks(warehouse) == ["in epoch 2, after 300", "in epoch 4, after 600", "in epoch 8, after 1,200"]
        warehouse.verify()


def test_decisions_are_logged_with_their_candidates_and_stored_with_the_view(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as warehouse:
        warehouse.sql(PEOPLE)
        warehouse.sql(PAIRS.format(options=""))
        warehouse.sql("CREATE MATERIALIZED VIEW ids WITH (strategy = 'delta') AS SELECT id FROM people")
        (first,) = warehouse.plans("Pairs")["pairs"]
        assert (first.epoch, first.cause, first.chosen, first.measured) == (0, "created", "delta", None)
        load(warehouse, 0, 120)
        warehouse.sql("ALTER VIEW pairs SET (strategy = 'joingraph')")
    with tidemill.open(tmp_path / "w", runtime="native") as warehouse:
        created, grown, altered = warehouse.plans()["pairs"]
        assert created.measured is not None and created.measured > 0
        assert (grown.epoch, grown.cause, grown.chosen) == (1, "after 120 changed rows", "viewlet for pairs")
        by = {one.strategy: one for one in grown.candidates}
        assert by.keys() == {"delta", "viewlet", "joingraph"}
        assert grown.visits == pytest.approx(by["viewlet"].visits) and by["viewlet"].visits < by["delta"].visits
        assert f"from {by['delta'].visits:,.0f} predicted visits a change to {grown.visits:,.0f}" in grown.reason
        assert (altered.cause, altered.chosen, altered.candidates) == ("altered", "joingraph", ())
        load(warehouse, 300, 3)
        result = warehouse.sql("SHOW PLANS FOR pairs")
        shown = [dict(zip(result.columns, row, strict=True)) for row in result]
        assert [one["epoch"] for one in shown] == [0, 1, 1]
        assert shown[2]["measured_us"] > 0 and shown[1]["candidates"] == "; ".join(map(str, grown.candidates))
        assert {row[0] for row in warehouse.sql("SHOW PLANS")} == {"pairs", "ids"}
        warehouse.sql(PAIRS.format(options="").replace("CREATE", "CREATE OR REPLACE"))
        assert [one.cause for one in warehouse.plans("pairs")["pairs"]] == ["created"]
