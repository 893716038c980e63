"""Programs that read their own maps: sums multiplied with sums, nested aggregates, range sums and seeks."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.program import examples
from tests.program.examples import Example
from tests.program.interpret import Interpreter
from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.native import runtime_state
from tidemill.runtimes.native.state import ordered_sums

EXAMPLES: list[Callable[[], Example]] = [examples.example_2, examples.figure_4, examples.vwap, examples.axf]

VALUES: dict[str, list[Any]] = {
    "xch": [Decimal("0.2500"), Decimal("1.5000"), Decimal("-2.0000")],
    "qty": [-40, 30, 60, 101],
    "volume": [0, 1, 3, 40],
}
BY_TYPE: dict[type[t.Type], list[Any]] = {
    t.BigInt: [1, 2, 1500, 3000],
    t.Decimal: [Decimal("10.00"), Decimal("9.50"), Decimal("12.25"), Decimal("-1.00")],
    t.String: ["ann", "bob"],
}


@cache
def value_of(field: Field) -> st.SearchStrategy[Any]:
    known = st.sampled_from(VALUES.get(field.name) or BY_TYPE[type(field.type)])
    return st.none() | known if field.nullable else known


@cache
def row_of(table: Table) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*map(value_of, table.fields))


def epochs_of(example: Example) -> st.SearchStrategy[Any]:
    """Epochs of moves: a row that arrives, or with a number one of those there that leaves, up to three times."""
    moves = [
        st.tuples(st.just(n), row_of(table), st.none() | st.integers(0, 30)) for n, table in example.tables.items()
    ]
    return st.lists(st.lists(st.tuples(st.one_of(moves), st.integers(1, 3)), max_size=6), max_size=6)


def changes_of(moves: list[Any], contents: dict[str, ZSet]) -> dict[str, ZSet]:
    changes: dict[str, ZSet] = {}
    for (name, row, number), times in moves:
        change = changes.setdefault(name, ZSet())
        held = sorted((contents[name] + change).items(), key=repr)
        if number is None:
            change.add(row, times)
        elif held:
            leaving, there = held[number % len(held)]
            change.add(leaving, -min(times, there))
    return changes


def advance(harness: Harness, contents: dict[str, ZSet], moves: list[Any]) -> ZSet:
    changes = changes_of(moves, contents)
    result = harness.apply(changes)
    for name, change in changes.items():
        contents[name].update_by(change)
    return result


@pytest.mark.parametrize("make", EXAMPLES, ids=lambda make: make.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_example_is_kept_fresh(make: Callable[[], Example], data: st.DataObject) -> None:
    with patch.object(ordered_sums, "MIN_BLOCK", 2):
        check_fresh(make(), data)


@pytest.mark.parametrize("make", EXAMPLES, ids=lambda make: make.__name__)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_example_is_kept_fresh_over_columns(make: Callable[[], Example], data: st.DataObject) -> None:
    """Maps that statements read are in memory, however many rows they have."""
    with patch.object(runtime_state, "RESIDENT_ROWS", -1):
        check_fresh(make(), data)


def check_fresh(example: Example, data: st.DataObject) -> None:
    contents = {name: ZSet.of(data.draw(st.lists(row_of(table), max_size=5))) for name, table in example.tables.items()}
    harness, oracle = Harness(example.program, example.tables), Interpreter(example.program, example.tables, contents)
    harness.seed(contents)
    total = harness.load()
    oracle.load()
    assert total == oracle.rows == evaluate(example.relation, contents)
    for moves in data.draw(epochs_of(example)):
        changes = changes_of(moves, contents)
        oracle.run(changes)
        total += advance(harness, contents, moves)
        assert total == oracle.rows == evaluate(example.relation, contents)


@pytest.mark.parametrize("make", EXAMPLES, ids=lambda make: make.__name__)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_maps_and_what_follows_them_survive_a_rollback_and_a_restart(
    make: Callable[[], Example], data: st.DataObject
) -> None:
    example = make()
    contents = {name: ZSet() for name in example.tables}
    harness = Harness(example.program, example.tables)
    total = harness.load()
    for moves in data.draw(epochs_of(example)):
        lost = changes_of(data.draw(epochs_of(example).map(lambda epochs: epochs[0] if epochs else [])), contents)
        harness.run(lost)
        harness.runtime.rollback()
        total += advance(harness, contents, moves)
        assert total == evaluate(example.relation, contents)
    again = Harness(example.program, example.tables, store=harness.store)
    for moves in data.draw(epochs_of(example)):
        total += advance(again, contents, moves)
        assert total == evaluate(example.relation, contents)
