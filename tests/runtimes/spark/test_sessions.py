"""Sessions on Spark: what an epoch adds to the map of sessions, beside the native runtime and the evaluator."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from random import Random

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from tests.answers import Answers, differ
from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.scalars import Column, Named, column
from tidemill.algebra.relational.relations import Project, Scan, Window
from tidemill.algebra.relational.walk import walk
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Field
from tidemill.program.maps import map_fields
from tidemill.program.stages import SessionEmission
from tidemill.runtimes.spark.lowering.multiset_aggregates import MultisetChange
from tidemill.runtimes.spark.lowering.partitions import OldAndNewRows, lower_window
from tidemill.runtimes.spark.lowering.sessions import lower_session_change
from tidemill.runtimes.spark.lowering.sql_text import quote
from tidemill.runtimes.spark.lowering.stages import lower_stored_map_change
from tidemill.runtimes.spark.lowering.window_functions import WindowSpec

VISITS = Table(
    "visits",
    (
        Field("who", t.STRING),
        Field("at", t.TIMESTAMP),
        Field("pages", t.BIGINT),
        Field("price", t.Decimal(10, 2)),
        Field("spent", t.DOUBLE),
    ),
)

SUMS = """SELECT {0}session_window AS s, COUNT(*) AS n, SUM(pages) AS p FROM visits
  GROUP BY {0}session_window(at, '10 minutes')"""


def visit(chance: Random) -> Row:
    return (
        chance.choice(("ann", "bob", None)),
        datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=chance.randint(0, 200)),
        chance.choice((None, 1, 5)),
        Decimal(chance.randint(-99, 99)).scaleb(-2),
        chance.choice((0.25, 1.5)),
    )


def change_of(chance: Random, rows: ZSet) -> ZSet:
    change = ZSet.of(visit(chance) for _ in range(chance.randint(0, 12)))
    held = sorted(rows.expand(), key=repr)
    for row in chance.sample(held, min(len(held), chance.choice((0, 2, 12)))):
        change.add(row, -1)
    return change


@pytest.mark.parametrize("by", ["who, ", ""])
def test_the_sql_adds_what_the_native_runtime_changes(by: str) -> None:
    """The text that Spark is asked, translated for DuckDB, says how the map of sessions changes."""
    relation = translate(SUMS.format(by), {"visits": VISITS.fields}, name="v").relation
    program = compile_view("v", relation, {"visits": VISITS}, "delta")
    emission = program.stages[0].finish
    assert isinstance(emission, SessionEmission)
    maps = {map_.name: map_ for map_ in program.stages[0].maps}
    harness, chance, rows = Harness(program, {"visits": VISITS}), Random(1), ZSet()
    harness.load()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("CREATE MACRO unix_micros(instant) AS epoch_us(instant)")
    columns = [f.name for f in map_fields(maps[emission.source])]
    log: ChangeSet | None = None
    for _ in range(12):
        change = change_of(chance, rows)
        rows = rows + change
        stored = harness.run({"visits": change})
        moved = harness.runtime.commit()
        harness.store.commit(Epoch(harness.store.epoch + 1, {**stored, **moved}))
        instants = moved.get(emission.source)
        if instants is None:
            continue
        connection.register("moved", instants.arrow())
        connection.register("stored", (instants if log is None else log).arrow())
        texts = lower_session_change(
            emission,
            MultisetChange(maps[emission.source], "moved", None if log is None else "stored"),
            maps[emission.kept],
        )
        total = lower_stored_map_change(texts, maps[emission.kept])
        found = connection.execute(sqlglot.transpile(total, read="spark", write="duckdb")[0]).fetchall()
        assert sorted(repr(tuple(map(_instant, row))) for row in found) == sorted(
            repr((*row, weight)) for row, weight in moved[emission.kept].pairs() if weight or any(row[-3:])
        )
        parts = [*([] if log is None else log.pairs()), *instants.pairs()]
        log = ChangeSet.of(parts, map_fields(maps[emission.source]))
        assert [*columns, WEIGHT] == log.arrow().column_names


@pytest.mark.parametrize("gap", ["'10 minutes'", "CASE pages WHEN 1 THEN '30 minutes' WHEN 5 THEN '2 minutes' END"])
def test_the_sql_of_rows_with_their_sessions(gap: str) -> None:
    """The text for aggregates that are no sums, translated for DuckDB, finds the sessions of the evaluator."""
    query = f"SELECT who, session_window AS s, MAX(pages) AS p FROM visits GROUP BY who, session_window(at, {gap})"
    relation = translate(query, {"visits": VISITS.fields}, name="v").relation
    (window,) = (node for node in walk(relation) if isinstance(node, Window))
    chance = Random(4)
    rows = evaluate(window.input, {"visits": ZSet.of(visit(chance) for _ in range(80))})
    columns = tuple(quote(f.name) for f in window.input.fields)
    connection = duckdb.connect()
    connection.execute("CREATE MACRO unix_micros(instant) AS epoch_us(instant)")
    connection.execute("CREATE MACRO timestamp_micros(micros) AS make_timestamp(micros)")
    given = pa.Table.from_pylist(
        [
            dict(
                zip([*(f.name for f in window.input.fields), "the sign", "the copies"], (*row, 1, weight), strict=True)
            )
            for row, weight in rows.items()
        ]
    )
    connection.register("given", given)
    order = {quote(term.scalar.name) for term in window.order if isinstance(term.scalar, Column)}
    place = WindowSpec(("`the sign`", "`visits.who`"), window.order, [one for one in columns if one not in order])
    text = lower_window(window, OldAndNewRows("given", columns, place), None)  # type: ignore[arg-type]
    found = connection.execute(sqlglot.transpile(text, read="spark", write="duckdb")[0]).fetchall()
    shown = {(*row[:-2], tuple(row[-2].values())): row[-1] for row in found}
    assert shown == expected_of(window, rows)


def expected_of(window: Window, rows: ZSet) -> dict[Row, int]:
    """The rows with their sessions, as the evaluator has them."""
    given = Scan("given", "given", window.input.fields)
    renamed = Project(
        given, tuple(Named(f.name, column(g)) for f, g in zip(window.input.fields, given.fields, strict=True))
    )
    return dict(evaluate(replace(window, input=renamed), {"given": rows}))


def _instant(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


@pytest.mark.spark
@pytest.mark.parametrize(
    "query",
    [
        SUMS.format("who, "),
        SUMS.format(""),
        """SELECT who, session_window.start AS a, session_window.end AS b, SUM(price) AS p, AVG(spent) AS x FROM visits
          WHERE pages IS NOT NULL GROUP BY who, session_window(at, '10 minutes') HAVING COUNT(*) > 1""",
        """SELECT who, session_window AS s, COUNT(*) AS n, SUM(spent) AS x FROM visits
          GROUP BY who, session_window(at, CASE pages WHEN 1 THEN '30 minutes' WHEN 5 THEN '2 minutes' END)""",
    ],
)
def test_sessions_are_kept_fresh_on_spark(drive, query):
    chance = Random(2)
    view = drive([VISITS], query)
    view.load()
    for _ in range(5):
        view.apply(visits=list(change_of(chance, view.rows["visits"]).items()))


GAPS = (
    "CASE pages WHEN 1 THEN '30 minutes' WHEN 5 THEN '2 minutes' END",
    "concat(pages, IF(price > 0, ' minutes', ' seconds'))",
    "make_interval(0, 0, 0, 0, 0, pages - 2)",
    "CASE WHEN price > 0.3 THEN '-1 hours' WHEN price > 0 THEN 'soon' ELSE '20 minutes 3 seconds' END",
)


@pytest.mark.spark
def test_sessions_with_gaps_of_their_rows_are_those_of_spark(interpreted_spark):
    """Random rows, as the evaluator has them and as Spark itself does."""
    chance, known = Random(3), Answers()
    known.declare(VISITS)
    known.rows["visits"] = ZSet.of((*row[:2], row[2] and chance.randint(0, 9), *row[3:]) for row in visits(chance, 150))
    for number, gap in enumerate(GAPS):
        query = f"SELECT who, session_window AS s, COUNT(*) AS n FROM visits GROUP BY who, session_window(at, {gap})"
        known.define(f"v{number}", query)
    expected = known.evaluator()
    for name, rows in known.spark(interpreted_spark).items():
        assert len(rows) > 5, "there are several sessions"
        assert differ(rows, expected[name], known.fields(name)) == ""


def visits(chance: Random, count: int) -> list[Row]:
    """Visits over a longer time, some of them without one."""
    found = []
    for _ in range(count):
        row = visit(chance)
        at = None if chance.random() < 0.05 else row[1] + datetime.timedelta(hours=chance.randint(0, 90))
        found.append((row[0], at, *row[2:]))
    return found
