"""Validity: the instants that are computed of a condition, compared with the condition at clocks around them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conditions import disjunction
from tidemill.algebra.expressions.scalars import Column, Literal, Scalar
from tidemill.algebra.relational.relations import Filter
from tidemill.algebra.relational.walk import columns_in, walk
from tidemill.compiler.analysis.validity import FIRST, LAST, NotAnInterval, Validity, not_null, validity
from tidemill.compiler.frontends.sql.query.time_filters import ClockReads
from tidemill.compiler.frontends.translate import translate
from tidemill.model.clocks import Clock
from tidemill.model.errors import Unsupported
from tidemill.model.types import DATE, INT, TIMESTAMP, TIMESTAMP_NTZ, Field

FIELDS = (
    Field("ts", TIMESTAMP),
    Field("day", DATE),
    Field("local", TIMESTAMP_NTZ),
    Field("other", TIMESTAMP),
    Field("n", INT),
)
NOW = "clock.now"

CONDITIONS = [
    "ts > now() - INTERVAL 1 HOUR",
    "ts >= now() - INTERVAL 1 HOUR",
    "ts + INTERVAL 2 DAYS > current_timestamp",
    "now() - INTERVAL 1 HOUR - INTERVAL 2 MINUTES < ts",
    "ts < now() AND other > now()",
    "day >= current_date - INTERVAL 7 DAYS",
    "day >= current_date - 7",
    "day > date_sub(current_date(), 7)",
    "day > dateadd(DAY, -3, current_date)",
    "ts > current_date - 7",
    "ts >= current_date - 7",
    "ts > date_sub(now(), 3)",
    "day > now()",
    "day <= now()",
    "local > now()",
    "ts > timestampadd(HOUR, -3, now())",
    "ts > current_date - INTERVAL 1 MONTH",
    "ts > now() - INTERVAL '1' MONTH",
    "ts >= now() - INTERVAL '1' MONTH",
    "ts < now() + INTERVAL '1' MONTH",
    "ts <= now() + INTERVAL '1' MONTH",
    "ts > now() - INTERVAL 1 YEAR",
    "day > add_months(current_date, -1)",
    "day >= add_months(current_date, 1)",
    "now() BETWEEN other AND ts",
    "CAST(now() AS DATE) = day",
    "day = current_date",
    "ts = now()",
    "now() - ts < INTERVAL 1 HOUR",
    "now() - ts <= INTERVAL 1 HOUR",
    "datediff(current_date, day) < 7",
    "datediff(current_date, day) <= 7",
    "current_date - day < INTERVAL 7 DAYS",
    "current_date - day <= INTERVAL 7 DAYS",
    "ts > now() - make_dt_interval(n)",
    "ts > now() - INTERVAL 1 HOUR * n",
    "NOT (ts < now())",
    "NOT (now() >= ts OR n < 3)",
    "NOT (now() < ts AND n = 3)",
    "other IS NULL OR other > now()",
    "n > 3 OR now() < ts",
    "other IS NULL OR now() >= other AND now() < ts",
    "now() < ts OR now() < other",
    "now() > ts OR now() > other OR n = 2",
    "n = 1 OR (n = 2 AND now() < ts)",
]


def condition_of(text: str) -> Scalar:
    """A condition over the columns, and the clock as a column."""
    relation = translate(f"SELECT n FROM t WHERE {text}", {"t": FIELDS}, "v", clock=ClockReads(Clock("wall").relation))
    (found,) = (node for node in walk(relation.relation) if isinstance(node, Filter))
    return found.condition


def is_valid(found: Validity, row: Mapping[str, Any], now: datetime) -> bool:
    since, until = ([evaluate_scalar(bound, row) for bound in some] for some in (found.since, found.until))
    kept = all(evaluate_scalar(test, row) is True for test in not_null(found.bounds))
    assert kept == (None not in (*since, *until))
    return kept and all(at <= now for at in since) and all(now < at for at in until)


def random_row(rng: random.Random, near: datetime) -> dict[str, Any]:
    def instant() -> datetime | None:
        moved = near + timedelta(days=rng.randint(-40, 40))
        exact = moved + timedelta(microseconds=rng.randrange(86_400_000_000))
        return rng.choice([None, moved, exact, exact, exact])

    day = instant()
    values: dict[str, Any] = {
        "ts": instant(),
        "local": instant(),
        "other": instant(),
        "n": rng.choice([None, 1, 2, 3, 4]),
    }
    values["day"] = None if day is None else day.date()
    return {f"t.{name}": value for name, value in values.items()}


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_is_true_between_its_instants(text: str, random_seed: int) -> None:
    rng, condition = random.Random(f"{random_seed} {text}"), condition_of(text)
    found = validity(condition, NOW)
    assert NOW not in {name for bound in found.bounds for name in columns_in(bound)}
    for _ in range(40):
        near = datetime(rng.choice([2023, 2024]), rng.randint(1, 12), 1) + timedelta(days=rng.randint(0, 30))
        row = random_row(rng, near)
        instants = [evaluate_scalar(bound, row) for bound in found.bounds]
        clocks = [near + timedelta(microseconds=rng.randrange(-(10**13), 10**13)) for _ in range(5)]
        for at in instants:
            if at is not None and FIRST < at < LAST:
                clocks += [at, at - timedelta(microseconds=1)]
        for now in clocks:
            wanted = evaluate_scalar(condition, {**row, NOW: now}) is True
            assert is_valid(found, row, now) == wanted, f"{row} at {now}: {instants}"


def test_what_lies_beyond_the_last_timestamp_is_never_reached() -> None:
    for text in ("ts > now() - INTERVAL 1 HOUR", "ts >= now() - INTERVAL 1 HOUR", "ts >= now()", "day >= current_date"):
        found = validity(condition_of(text), NOW)
        row = {"t.ts": LAST, "t.day": date.max}
        assert all(evaluate_scalar(bound, row) >= datetime(9999, 12, 31) for bound in found.until)
    early = validity(condition_of("ts < now() + INTERVAL 1 HOUR"), NOW)
    assert next(evaluate_scalar(bound, {"t.ts": FIRST}) for bound in early.since) <= FIRST + timedelta(microseconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "ts <> now()",
        "ts <=> now()",
        "date_trunc('HOUR', now()) < ts",
        "now() > now() - INTERVAL 1 HOUR",
        "ts < now() OR other > now()",
        "CAST(now() AS STRING) > '2024'",
        "CASE WHEN ts > now() THEN true ELSE false END",
        "ts - now() > INTERVAL 1 HOUR",
        "ts IN (now())",
    ],
)
def test_other_conditions_are_not_understood(text: str) -> None:
    with pytest.raises(Unsupported) as refused:
        condition_of(text)
    assert refused.value.detail
    assert "v:1:" in str(refused.value.where)


def test_a_condition_without_a_comparison_says_why() -> None:
    with pytest.raises(NotAnInterval, match="no comparison"):
        validity(Column(NOW, TIMESTAMP), NOW)
    twice = disjunction([condition_of(f"{side} now()") for side in ("ts <", "other >")])
    with pytest.raises(NotAnInterval, match="more than once"):
        validity(twice, NOW)


def test_a_constant_is_a_bound_of_every_row() -> None:
    found = validity(condition_of("now() < TIMESTAMP '2024-05-01 00:00:00'"), NOW)
    assert found == Validity(until=(Literal(datetime(2024, 5, 1), TIMESTAMP, typed=True),))
