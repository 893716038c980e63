"""Predicted seconds of epochs: which way is the cheapest follows from the sizes of the change and of the data."""

from __future__ import annotations

import pytest

import tidemill
from tidemill.compiler.choose_recomputation import cheapest, reason_to_recompute
from tidemill.compiler.statistics.epoch_costs import EpochModel, on_spark
from tidemill.compiler.statistics.sizes import RelationSize

ORDERS, LINES = 1_500_000, 6_000_000


@pytest.fixture(scope="module")
def model() -> EpochModel:
    """The model of a join that is grouped, over tables of the size of TPC-H's at scale 1."""
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, day DATE);"
            "CREATE TABLE lines (id BIGINT PRIMARY KEY, ordered BIGINT, price BIGINT);"
            "CREATE MATERIALIZED VIEW v AS SELECT o.day, SUM(l.price) AS total FROM orders o JOIN lines l "
            "ON l.ordered = o.id GROUP BY o.day"
        )
        program = wh._engine.state.catalog.view("v").program
    orders = RelationSize(float(ORDERS), {"id": float(ORDERS), "day": 2_500.0})
    lines = RelationSize(float(LINES), {"id": float(LINES), "ordered": float(ORDERS), "price": 1e6})
    return EpochModel(program, {"orders": orders, "lines": lines})


def way(model: EpochModel, share: float, cores: int = 2) -> str:
    """The way of an epoch that changes this share of both tables."""
    costs, changed = on_spark(cores), {"orders": share * ORDERS, "lines": share * LINES}
    ways = {"driver": costs.driver, "tasks": costs.tasks, "frames": costs.frames}
    seconds = {name: model.by_triggers(changed, one) for name, one in ways.items()}
    best, _ = cheapest({name: ways[name].start + one for name, one in seconds.items()})
    again = model.again(ORDERS + LINES + sum(changed.values()), costs.again)
    return "again" if reason_to_recompute(seconds[best], again) else best


def test_the_way_follows_from_the_share_of_rows_that_change(model: EpochModel) -> None:
    found = [way(model, share) for share in (1e-6, 1e-3, 0.01, 0.05, 1.0)]
    assert found[0] == "driver"
    assert found[2] == "tasks"
    assert found[-1] == "again"
    assert [name for name, before in zip(found, ["", *found], strict=False) if name != before] == [
        "driver",
        "tasks",
        "again",
    ]


def test_triggers_cost_what_changes_and_queries_what_is_stored(model: EpochModel) -> None:
    costs = on_spark(2)
    few, many = ({"lines": rows} for rows in (1_000.0, 1_000_000.0))
    assert model.by_triggers(many, costs.tasks) == pytest.approx(1_000 * model.by_triggers(few, costs.tasks))
    assert model.by_triggers(many, costs.frames) < 20 * model.by_triggers(few, costs.frames)
    assert model.by_triggers(few, costs.frames) > 0.5 * model.by_triggers(few, costs.tasks) + costs.frames.trigger


def test_more_cores_share_all_but_the_work_of_the_driver(model: EpochModel) -> None:
    few, many = on_spark(2), on_spark(16)
    changed = {"lines": 1e6}
    assert few.driver == many.driver
    for two, sixteen in ((few.tasks, many.tasks), (few.frames, many.frames)):
        assert model.by_triggers(changed, sixteen) < model.by_triggers(changed, two)
    assert model.again(1e8, many.again) < model.again(1e8, few.again) / 4


def test_a_slide_of_time_partitions_is_the_work_of_the_driver() -> None:
    """As DataFrames it is several queries, one after the other, however few its rows are."""
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(
            "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) PARTITION BY ts EVERY 1 MINUTE;"
            "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS total FROM s [WINDOW 60 MINUTES] GROUP BY k"
        )
        model = EpochModel(wh._engine.state.catalog.view("v").program, {"s": RelationSize(1e6, {"k": 1e5})})
    costs, slide = on_spark(2), {"s": 100_000.0}
    ways = {"driver": costs.driver, "frames": costs.frames}
    best, reason = cheapest({name: one.start + model.by_triggers(slide, one) for name, one in ways.items()})
    assert best == "driver", reason
    assert model.by_triggers({"s": 1.0}, costs.frames) > 8 * costs.frames.trigger
