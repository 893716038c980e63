"""Costs of a changed row for nested aggregates over ordered groups, and the conditions that one descent answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.viewlets.test_paper import program_of
from tidemill.compiler.statistics.costs import CostClass, cost_of_stage
from tidemill.compiler.statistics.predictions import predict
from tidemill.compiler.statistics.sizes import RelationSize
from tidemill.program.reads import touched_of
from tidemill.program.verification.verify import BrokenInvariant, verify

BOOK = "broker BIGINT NOT NULL, price BIGINT NOT NULL, volume BIGINT NOT NULL"
BROKERS = "broker BIGINT PRIMARY KEY, fee BIGINT"
DDL = f"CREATE TABLE bids ({BOOK}); CREATE TABLE asks ({BOOK}); CREATE TABLE brokers ({BROKERS});"

TOTAL = "(SELECT SUM(t.volume) FROM bids t WHERE t.broker = b.broker)"
HIGHER = "FROM bids a WHERE a.broker = b.broker AND a.price > b.price)"
ASKED = "FROM asks a WHERE a.broker = b.broker AND a.price < b.price)"

LOGARITHMIC = {
    "vwap": f"0.25 * {TOTAL} > (SELECT SUM(a.volume) {HIGHER}",
    "coalesced": f"0.25 * {TOTAL} > (SELECT COALESCE(SUM(a.volume), 0) {HIGHER}",
    "grows": f"0.25 * {TOTAL} < (SELECT SUM(a.volume) {HIGHER}",
    "with its own key": f"9 < (SELECT SUM(a.volume) {HIGHER}".replace("a.price > ", "a.price >= "),
    "without a group": f"9 < (SELECT SUM(a.volume) {HIGHER}".replace("a.broker = b.broker AND ", ""),
    "best": f"10 > (SELECT COUNT(*) {HIGHER}",
    "elsewhere": f"10 > (SELECT SUM(a.volume) {ASKED}",
    "exists": f"EXISTS (SELECT 1 {ASKED}",
    "not exists": f"NOT EXISTS (SELECT 1 {ASKED}",
    "a join": """b.price < (SELECT SUM(a.volume * k.fee) FROM asks a, brokers k
        WHERE a.broker = k.broker AND k.broker = b.broker)""",
    "nested": """b.price < (SELECT SUM(a.volume) FROM bids a WHERE a.broker = b.broker
        AND a.price > (SELECT AVG(c.price) FROM bids c WHERE c.broker = a.broker))""",
}
BY_ENTRIES = {
    "compared with the row": f"b.volume > (SELECT COUNT(*) {HIGHER}",
    "average": f"b.volume > (SELECT AVG(a.volume) {HIGHER}",
}
WHOLE = {
    "may fail": f"1 > b.volume / (SELECT COUNT(*) {HIGHER}",
    "no equality": f"b.volume > (SELECT COUNT(*) {HIGHER}".replace("a.broker = b.broker AND ", ""),
}


COSTS = [(LOGARITHMIC, CostClass.LOGARITHMIC), (BY_ENTRIES, CostClass.GROUP), (WHOLE, CostClass.DATA)]


@pytest.mark.parametrize(
    ("condition", "cost"), [pytest.param(c, cost, id=name) for cases, cost in COSTS for name, c in cases.items()]
)
def test_cost_of_a_changed_row(condition: str, cost: CostClass) -> None:
    program = program_of(DDL, f"SELECT SUM(b.volume) AS volume FROM bids b WHERE {condition}")
    assert cost_of_stage(program.stages[-1], program).kind is cost


def test_what_a_row_touches_is_predicted_to_grow_with_the_logarithm() -> None:
    program = program_of(DDL, f"SELECT SUM(b.volume) AS volume FROM bids b WHERE {LOGARITHMIC['vwap']}")
    small, large = (
        predict(program, {"bids": RelationSize(rows, {"broker": 10, "price": rows / 10, "volume": 100})}).work["bids"]
        for rows in (1_000, 100_000)
    )
    assert small < large < 2 * small


def test_a_trigger_for_whole_changes_has_no_parts_that_rows_touch() -> None:
    program = program_of(DDL, f"SELECT SUM(b.volume) AS volume FROM bids b WHERE {LOGARITHMIC['vwap']}")
    (stage,) = program.stages
    (trigger,) = stage.triggers
    assert touched_of(trigger)
    broken = replace(program, stages=(replace(stage, triggers=(replace(trigger, each=False),)),))
    with pytest.raises(BrokenInvariant, match="each of them touches"):
        verify(broken, {})
