"""What a warehouse must show after each step of a conversation, computed once for all strategies and runtimes.

The net changes are those that the file states. Rows of views are the evaluator's, rows of tables are kept as a Z-set;
where a statement of SQL changes them, a warehouse without views says what it made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.answers import Answers, Bags, differ, empty_duckdb, inner
from tests.conversation import Conversation, Step, parse_row, read
from tests.ways import opened
from tidemill import Warehouse
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.model.types import Field

Pairs = dict[str, list[tuple[int, Row]]]


@dataclass(frozen=True)
class Moment:
    """A step with what it does to tables, as rows in their order, and what must be seen after it."""

    step: Step
    rows: list[tuple[str, int, Row]]
    changes: Bags
    tables: Bags
    views: Bags


@dataclass(frozen=True)
class Expected:
    """A conversation and what must be seen after each of its steps."""

    conversation: Conversation
    moments: list[Moment]
    answers: Answers

    def fields(self, name: str) -> tuple[Field, ...]:
        return self.answers.fields(name)


@cache
def expected(path: Path) -> Expected:
    """The moments of a golden file."""
    conversation, answers = read(path), Answers()
    with _dml(conversation) as warehouse:
        moments = [_moment(step, answers, warehouse, conversation) for step in conversation.steps]
    return Expected(conversation, moments, answers)


@contextmanager
def _dml(conversation: Conversation) -> Iterator[Warehouse | None]:
    """A warehouse for tables alone, where a file has statements that change them."""
    if any(step.sql for step in conversation.steps):
        with opened("held") as warehouse:
            yield warehouse
    else:
        yield None


def _moment(step: Step, answers: Answers, warehouse: Warehouse | None, conversation: Conversation) -> Moment:
    with at(conversation, step):
        rows = [
            (line.relation, line.weight, parse_row(line.text, answers.fields(line.relation))) for line in step.changes
        ]
        if not step.error:
            _take(step, rows, answers, warehouse)
        tables = {name: ZSet(answers.rows[name]) for name, table in answers.tables.items() if table.kept}
        return Moment(step, rows, _stated(step, answers), tables, answers.evaluator())


def _take(step: Step, rows: list[tuple[str, int, Row]], answers: Answers, warehouse: Warehouse | None) -> None:
    if step.declare:
        (statement,) = parse(step.declare)
        assert isinstance(statement, CreateTable)
        answers.declare(statement.table)
    if step.clock:
        answers.set_clock(step.clock)
    for name, query in step.views:
        answers.define(name, query, step.partitions.get(name))
    for table, weight, row in rows:
        answers.rows[table].update_by(ZSet({row: weight}))
    if warehouse is not None:
        for text in filter(None, (step.declare, step.sql)):
            warehouse.sql(text)
        if rows:
            warehouse.apply(together(rows))
        if step.sql:
            kept = [name for name, table in answers.tables.items() if table.kept]
            answers.rows |= {
                name: ZSet.of(inner(warehouse.table(name).rows(), answers.fields(name), name)) for name in kept
            }


def _stated(step: Step, answers: Answers) -> Bags:
    """The net change of each view that is watched: of new ones their first rows, else of all that there are."""
    if step.error:
        return {}
    stated = {name: ZSet() for name in [name for name, _ in step.views] or answers.queries}
    for line in step.expected:
        stated[line.relation].add(parse_row(line.text, answers.fields(line.relation)), line.weight)
    return stated


def together(rows: list[tuple[str, int, Row]]) -> Pairs:
    """Changes of several tables as ``Warehouse.apply`` takes them."""
    pairs: Pairs = {}
    for table, weight, row in rows:
        pairs.setdefault(table, []).append((weight, row))
    return pairs


def require_duckdb_agrees(path: Path) -> None:
    """DuckDB's answers to the same queries are the evaluator's, after every step."""
    conversation, answers = read(path), Answers()
    with _dml(conversation) as warehouse, empty_duckdb() as duckdb:
        for step in conversation.steps:
            moment = _moment(step, answers, warehouse, conversation)
            with at(conversation, step):
                for name, rows in answers.duckdb(duckdb).items():
                    difference = differ(rows, moment.views[name], answers.fields(name))
                    assert not difference, f"{name} is not what DuckDB says:\n{difference}"


@contextmanager
def at(conversation: Conversation, step: Step) -> Iterator[None]:
    """Whatever goes wrong says at which line of which file."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in {conversation.path.name}, line {step.number}")
        raise
