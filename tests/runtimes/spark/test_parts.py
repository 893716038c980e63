"""Top-k and windows kept fresh by the Spark runtime: touched parts, before and after, beside the evaluator."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Literal
from tidemill.algebra.relational.relations import Scan, TopK, Window
from tidemill.algebra.relational.windows import WHOLE, Frame, WindowCall
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.stages import Program

pytestmark = pytest.mark.spark

SCORES = Table(
    "scores",
    (
        Field("team", t.STRING),
        Field("points", t.INT),
        Field("cost", t.Decimal(10, 2)),
        Field("share", t.DOUBLE),
        Field("day", t.DATE),
        Field("at", t.TIMESTAMP),
    ),
)
SCAN = Scan("scores", "s", SCORES.fields)
TEAM, POINTS, COST, SHARE, DAY, AT = (Column(f"s.{f.name}", f.type) for f in SCORES.fields)
BY_TEAM = (TEAM,)
RISING = (SortOrder(POINTS),)
FALLING = (SortOrder(POINTS, descending=True, nulls_first=False),)
RUNNING = Frame(False, None, 0)
NOON = datetime.datetime(2024, 1, 1, 12)


def score(team: str | None, points: int | None, hours: int = 0) -> tuple[object, ...]:
    if points is None:
        return (team, None, None, None, None, None)
    at = NOON + datetime.timedelta(hours=hours)
    return (team, points, Decimal(points) / 4, points / 10, at.date() + datetime.timedelta(days=points), at)


EPOCHS = (
    [(score("a", 1), 1), (score("a", 2), 2), (score("a", 2, 1), 1), (score("a", None), 2), (score("b", 7), 1)],
    [(score("a", 3, 30), 1), (score(None, 5), 1), (score(None, None), 1), (score("a", 2), -1)],
    [(score("a", 3, 30), -1), (score("b", 7), -1), (score("a", 9), 3), (score("a", 2), 1)],
    [(score("a", 9), -3), (score("a", 2), -2), (score("a", 2, 1), -1), (score("a", None), -2), (score("a", 1), -1)],
    [(score("a", 4), 1), (score("b", 4), 2)],
)


def follow(view):
    view.load()
    for epoch in EPOCHS:
        view.apply(scores=epoch)
    assert view.shown
    program = Program("v", view.program.stages)
    assert view.runtime.answer(program).zset() == view.shown, "a query that is asked once has the same rows"


@pytest.mark.parametrize(
    ("partition", "limit", "offset", "ties"),
    [
        ((), 2, 1, False),
        (BY_TEAM, 3, 0, False),
        (BY_TEAM, None, 1, False),
        (BY_TEAM, 0, 0, True),
        (BY_TEAM, 1, 0, True),
        (BY_TEAM, 2, 1, True),
    ],
)
def test_top_k(drive, partition, limit, offset, ties):
    view = drive([SCORES], TopK(SCAN, partition, FALLING, limit, offset, ties))
    view.load()
    for epoch in EPOCHS:
        view.apply(scores=epoch)
    assert bool(view.shown) == (limit != 0)


def call(function: str, *arguments: object, of: t.Type = t.INT, frame: Frame = WHOLE, **others: object) -> WindowCall:
    return WindowCall(f"w_{function}", function, arguments, of, frame, **others)


def test_functions_of_the_place_of_a_row(drive):
    calls = (
        call("row_number"),
        call("rank"),
        call("dense_rank"),
        call("percent_rank", of=t.DOUBLE),
        call("cume_dist", of=t.DOUBLE),
        call("ntile", Literal(3, t.INT)),
        call("lag", DAY, Literal(1, t.INT), Literal(None, t.DATE), of=t.DATE),
        call("lead", SHARE, Literal(2, t.INT), Literal(-1.0, t.DOUBLE), of=t.DOUBLE),
    )
    follow(drive([SCORES], Window(SCAN, BY_TEAM, FALLING, calls)))


@pytest.mark.parametrize(
    ("order", "frame"),
    [
        (RISING, RUNNING),
        (FALLING, RUNNING),
        (RISING, Frame(True, -1, 1)),
        (RISING, Frame(True, 1, None)),
        (FALLING, Frame(False, -1, 2)),
        ((SortOrder(DAY),), Frame(False, -1, 0)),
        ((SortOrder(AT),), Frame(False, -3_600_000_000, 0)),
        ((SortOrder(COST, descending=True),), Frame(False, Decimal("-0.25"), Decimal("0.25"))),
        ((), WHOLE),
        ((), RUNNING),
    ],
    ids=str,
)
def test_aggregates_and_values_of_a_frame(drive, order, frame):
    big = t.BIGINT
    calls = (
        WindowCall("n", "count", (), big, frame),
        WindowCall("m", "count", (POINTS,), big, frame),
        WindowCall("s", "sum", (POINTS,), big, frame),
        WindowCall("a", "avg", (POINTS,), t.DOUBLE, frame),
        WindowCall("ds", "sum", (COST,), t.Decimal(20, 2), frame),
        WindowCall("da", "avg", (COST,), t.Decimal(14, 6), frame),
        WindowCall("low", "min", (DAY,), t.DATE, frame),
        WindowCall("high", "max", (SHARE,), t.DOUBLE, frame),
        WindowCall("first", "first_value", (AT,), t.TIMESTAMP, frame),
        WindowCall("last", "last_value", (AT,), t.TIMESTAMP, frame),
        WindowCall("known", "last_value", (POINTS,), t.INT, frame, ignore_nulls=True),
    )
    follow(drive([SCORES], Window(SCAN, BY_TEAM, order, calls)))


def test_sessions(drive):
    span = t.Struct((Field("start", t.TIMESTAMP), Field("end", t.TIMESTAMP)))
    session = WindowCall("w", "session_window", (AT, Literal(1_800_000_000, t.BIGINT)), span)
    view = drive([SCORES], Window(SCAN, BY_TEAM, (SortOrder(AT),), (session,)))
    view.load()
    view.apply(scores=[(score("a", 1, hours), 1) for hours in (0, 3, 4)])
    late = (*score("a", 1)[:5], NOON + datetime.timedelta(minutes=30))
    assert len(view.apply(scores=[(late, 2)])) == 3, "the first session is longer, and has another row"
    view.apply(scores=[(score("a", 1, 3), -1), (score("b", 1), 2)])
    view.apply(scores=[(score("a", 1), -1)])


def test_what_has_no_exact_sql_is_left_to_workers(drive):
    calls = (
        WindowCall("s", "sum", (SHARE,), t.DOUBLE, RUNNING),
        WindowCall("second", "nth_value", (DAY, Literal(2, t.INT)), t.DATE, RUNNING),
    )
    follow(drive([SCORES], Window(SCAN, BY_TEAM, RISING, calls)))


def test_large_results_are_written_by_spark(drive, bulk):
    bulk(1)
    follow(drive([SCORES], Window(SCAN, BY_TEAM, RISING, (call("row_number"),))))


def test_parts_that_are_not_touched_are_not_looked_at(drive):
    view = drive([SCORES], Window(SCAN, BY_TEAM, RISING, (call("row_number"),)))
    view.load()
    view.apply(scores=[(score("a", 1), 1), (score("b", 1), 1)])
    first = score("b", 0)
    assert view.apply(scores=[(first, 1)]) == ZSet({(*first, 1): 1, (*score("b", 1), 1): -1, (*score("b", 1), 2): 1})
