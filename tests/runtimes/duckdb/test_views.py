"""Views that have a translation: DuckDB's rows are the evaluator's, for all golden files and for generated views."""

from __future__ import annotations

from collections import Counter
from functools import cache

import hypothesis
import pytest

from tests.answers import Answers
from tests.generators import Scenario, many_views, scenarios
from tests.matrix.cases import FILES
from tests.matrix.expected import expected
from tests.runtimes.duckdb.asked import asked
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.walk import walk_all
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.runtimes.duckdb.relations import _NODES
from tidemill.runtimes.duckdb.sql_text import NotLowered
from tidemill.runtimes.runtime import NotAnswered

LEAST_ACCEPTED = 280
"""Least number of views of golden files that have a translation: it may only rise."""

GENERATED = 200
"""Views that are drawn by a seed over one history."""


def _compared(answers: Answers, counts: Counter[str], seen: set[type]) -> list[str]:
    """The views whose rows differ between the evaluator and DuckDB."""
    known = dict(answers.rows) | answers.clock_rows()
    fields = {name: answers.fields(name) for name in (*answers.tables, *answers.queries)}
    fields |= {name: clock.fields for name, clock in answers.clocks.items()}
    wrong = []
    for name, relation in answers.relations.items():
        known[name] = evaluate(push_down_filters(relation), known)
        try:
            rows = asked(relation, known, fields).zset()
        except NotAnswered as error:
            counts["not translated" if isinstance(error, NotLowered) else "an error"] += 1
            continue
        counts["answered"] += 1
        seen.update(map(type, walk_all(relation)))
        if rows != known[name]:
            wrong.append(f"{answers.queries[name]}\n  {rows}\n  {known[name]}")
    return wrong


@cache
def _golden() -> tuple[Counter[str], set[type], list[str]]:
    counts: Counter[str] = Counter()
    seen: set[type] = set()
    wrong = [f"{path.name}: {fault}" for path in FILES for fault in _compared(expected(path).answers, counts, seen)]
    return counts, seen, wrong


def test_golden_files() -> None:
    counts, _, wrong = _golden()
    print(dict(counts))
    assert not wrong, "\n".join(wrong)
    assert counts["answered"] >= LEAST_ACCEPTED


def test_every_node_is_in_a_golden_file() -> None:
    assert not _NODES.keys() - _golden()[1]


def _played(scenario: Scenario) -> Answers:
    """The tables of a scenario after all of its changes, and its views."""
    answers = Answers()
    for table in scenario.tables:
        (statement,) = parse(f"CREATE TABLE {table.sql()}")
        assert isinstance(statement, CreateTable)
        answers.declare(statement.table)
    for epoch in scenario.epochs:
        for name, changes in epoch.items():
            answers.rows[name].update_by(ZSet.summed((row, weight) for weight, row in changes))
    # A stream may bring more deletions than rows; a relation that is read has none below zero.
    answers.rows = {name: ZSet({row: n for row, n in rows.items() if n > 0}) for name, rows in answers.rows.items()}
    for name, query in scenario.views:
        answers.define(name, query)
    return answers


def test_many_generated_views(random_seed: int) -> None:
    counts: Counter[str] = Counter()
    wrong = _compared(_played(many_views(random_seed, GENERATED)), counts, set())
    print(dict(counts))
    assert not wrong, "\n".join(wrong)
    assert counts["answered"] > GENERATED // 4


@hypothesis.settings(max_examples=30)
@hypothesis.given(scenarios())
def test_small_generated_views(scenario: Scenario) -> None:
    hypothesis.note(repr(scenario))
    assert not _compared(_played(scenario), Counter(), set())


@pytest.mark.parametrize("empty", ["r", "s", "t"])
def test_generated_views_over_an_empty_table(empty: str, random_seed: int) -> None:
    answers = _played(many_views(random_seed + 1, GENERATED // 4))
    answers.rows[empty] = ZSet()
    wrong = _compared(answers, Counter(), set())
    assert not wrong, "\n".join(wrong)
