"""A strategy is one declaration, which options, errors, EXPLAIN and the comparison of costs read."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tidemill
from tests.compiler.shop import TABLES, relation_of
from tidemill.compiler.compare_strategies import compare_strategies
from tidemill.compiler.delta.triggers import first_order_stage
from tidemill.compiler.passes import compile_view
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.compiler.strategies import STRATEGIES
from tidemill.compiler.strategies.strategy import NotAccepted, Reason, StageContext, Strategy, StrategyOption
from tidemill.model.errors import Unsupported
from tidemill.program.stages import Stage

JOIN = "SELECT c.name, o.amount FROM orders o JOIN customers c ON c.id = o.customer"


def toy(draft: StageDraft, context: StageContext) -> Stage:
    """First-order deltas under another name, but not for groups."""
    if draft.map is not None:
        raise NotAccepted("toys do not count")
    stage = first_order_stage(draft, context.keys, context.streams, "toy")
    return replace(stage, note=f"painted {context.options['paint']}")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    declaration = Strategy(
        "toy",
        toy,
        missing="no toy",
        options=(StrategyOption("paint", ("red", "blue"), default="red", refusal="Only toys are painted."),),
        reason=lambda _: Reason("TOY", "it is fun"),
        is_compared=lambda _: True,
        supports_streams=False,
    )
    monkeypatch.setitem(STRATEGIES, "toy", declaration)


def test_explain_shows_its_name_reason_and_note() -> None:
    with tidemill.open() as warehouse:
        warehouse.sql("CREATE TABLE orders (id INT PRIMARY KEY, day INT)")
        warehouse.sql(
            "CREATE MATERIALIZED VIEW plain WITH (strategy = 'toy', paint = 'blue') AS SELECT day FROM orders"
        )
        counted = "SELECT day, COUNT(*) n FROM orders GROUP BY day"
        warehouse.sql(f"CREATE MATERIALIZED VIEW days WITH (strategy = 'toy') AS {counted}")
        plain, days = warehouse.view("plain").explain(), warehouse.view("days").explain()
    assert "plain: incremental, toy, O(1)" in plain
    assert "why: TOY, it is fun" in plain
    assert "note: painted blue" in plain
    assert "days: incremental, delta, O(1)" in days
    assert "note: no toy, since toys do not count" in days


def test_errors_list_it_and_its_option() -> None:
    with tidemill.open() as warehouse:
        warehouse.sql("CREATE TABLE orders (id INT PRIMARY KEY, day INT)")
        with pytest.raises(Unsupported, match="unknown option") as caught:
            warehouse.sql("CREATE MATERIALIZED VIEW v WITH (hue = 'red') AS SELECT day FROM orders")
    assert caught.value.hint is not None
    assert "paint: red or blue, for strategy toy" in caught.value.hint
    assert "partition, toy;" in caught.value.hint
    with pytest.raises(Unsupported, match="unknown strategy") as caught:
        compile_view("v", relation_of(JOIN), TABLES, "magic")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith('"partition", "toy".')


def test_values_of_its_option_are_checked() -> None:
    with pytest.raises(Unsupported, match='unknown paint "green"') as caught:
        compile_view("v", relation_of(JOIN), TABLES, "toy", paint="green")
    assert caught.value.hint == 'Use one of "red", "blue".'
    with pytest.raises(Unsupported, match='strategy "delta"') as caught:
        compile_view("v", relation_of(JOIN), TABLES, "delta", paint="blue")
    assert (caught.value.detail, caught.value.hint) == ("Only toys are painted.", "Add strategy = 'toy'.")
    with pytest.raises(Unsupported, match='option "sound"'):
        compile_view("v", relation_of(JOIN), TABLES, "toy", sound="loud")


def test_streams_are_refused_as_it_declares() -> None:
    with pytest.raises(Unsupported, match='cannot use strategy "toy"'):
        compile_view("v", relation_of("SELECT page FROM clicks"), TABLES, "toy")


def test_its_cost_is_compared() -> None:
    lines = compare_strategies("v", relation_of(JOIN), TABLES, Statistics({"customers": 100, "orders": 1_000}))
    assert lines[0].startswith("delta, viewlet, joingraph or toy, as predicted from")
    assert lines[4].split()[0] == "toy"
