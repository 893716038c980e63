"""The twelve queries of the DBToaster paper: read, evaluated as DuckDB does, and kept fresh over tables and streams."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.dbtoaster.queries import QUERIES, declarations
from tests.answers import Answers, differ
from tests.program.interpret import Interpreter
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model import types as t
from tidemill.model.schema import Table

VALUES: dict[type[t.Type], st.SearchStrategy[Any]] = {
    t.Int: st.integers(1, 3),
    t.BigInt: st.integers(1, 3),
    t.Decimal: st.sampled_from([Decimal(text) for text in ("-3.00", "0.01", "2.50", "90.00", "2000.00")]),
    t.String: st.sampled_from(["BUILDING", "STEEL"]),
    t.Date: st.sampled_from([datetime.date(1995, 1, 1), datetime.date(1995, 6, 1), datetime.date(1997, 5, 1)]),
}

Move = tuple[str, Row, bool]


def tables_of(query: str, kind: str) -> dict[str, Table]:
    return {s.table.name: s.table for s in parse(declarations(query, kind)) if isinstance(s, CreateTable)}


def relation_of(query: str, tables: dict[str, Table]) -> Relation:
    return translate(QUERIES[query], {name: table.fields for name, table in tables.items()}, name=query).relation


def moves_of(tables: dict[str, Table]) -> st.SearchStrategy[list[Move]]:
    """Rows that arrive, or leave where they are."""
    rows = {name: st.tuples(*(VALUES[type(f.type)] for f in table.fields)) for name, table in tables.items()}
    moves = [st.tuples(st.just(name), row, st.booleans()) for name, row in rows.items()]
    return st.lists(st.one_of(moves), max_size=14)


def weight_of(move: Move, contents: dict[str, ZSet], table: Table) -> int:
    """+1, or -1 for a row that is there, or 0 where its key is taken."""
    name, row, leaves = move
    if contents[name].weight(row) > 0:
        return -1 if leaves or table.primary_key else 1
    positions = table.key_positions
    taken = {tuple(known[i] for i in positions) for known in contents[name]} if positions else set()
    return 0 if tuple(row[i] for i in positions) in taken else 1


def played(tables: dict[str, Table], moves: list[Move], hear: Callable[[str, ZSet], object]) -> dict[str, ZSet]:
    """What the tables hold in the end; ``hear`` is told of every change before it happens."""
    contents = {name: ZSet() for name in tables}
    for move in moves:
        name, row, _ = move
        change = ZSet({row: weight}) if (weight := weight_of(move, contents, tables[name])) else ZSet()
        hear(name, change)
        contents[name] = contents[name] + change
    return contents


@pytest.mark.parametrize("query", QUERIES)
def test_answers_of_duckdb(query: str) -> None:
    tables = tables_of(query, "TABLE")

    @settings(max_examples=15)
    @given(moves_of(tables))
    def same(moves: list[Move]) -> None:
        known = Answers()
        for table in tables.values():
            known.declare(table)
        known.rows |= played(tables, moves, lambda name, change: None)
        known.define(query, QUERIES[query])
        assert differ(known.duckdb()[query], known.evaluator()[query], known.fields(query)) == ""

    same()


@pytest.mark.turns("kind")
@pytest.mark.parametrize(("kind", "strategy"), [("STREAM", "delta"), ("TABLE", "delta"), ("TABLE", "recompute")])
@pytest.mark.parametrize("query", QUERIES)
def test_what_is_emitted_sums_up_to_the_view(query: str, kind: str, strategy: str) -> None:
    tables = tables_of(query, kind)
    relation = relation_of(query, tables)
    program = compile_view(query, relation, tables, strategy)

    @settings(max_examples=10)
    @given(moves_of(tables))
    def kept(moves: list[Move]) -> None:
        running = Interpreter(program, tables, {name: ZSet() for name in tables})
        running.load()
        contents = played(tables, moves, lambda name, change: running.run({name: change}))
        assert running.rows == evaluate(relation, contents)

    kept()
