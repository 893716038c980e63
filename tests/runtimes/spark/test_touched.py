"""Which relations a bulk change picks rows from, and that all triggers share the picks."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from tidemill.algebra.expressions.scalars import Column
from tidemill.model import types as t
from tidemill.model.types import Field
from tidemill.program.maps import RingField
from tidemill.program.statements import Query, RelationLoop, Version
from tidemill.runtimes.spark.execution.temporary_views import TemporaryViews
from tidemill.runtimes.spark.lookup.touched_rows import MIN_ROWS_PER_CHANGE, RowSelection, TouchedRows
from tidemill.storage.memory_store import MemoryStore

ID = Field("id", t.BIGINT)
ORDERS = RelationLoop("orders", "o", Version.CHANGE, (ID,))
LINES = RelationLoop("lines", "l", Version.STATE, (ID,), lookup=(("id", Column("o.id", t.BIGINT)),))
QUERY = Query((ORDERS, LINES), ())


def touched(work: int, rows: int) -> TouchedRows:
    def session() -> NoReturn:
        raise AssertionError("noting what to pick needs no Spark")

    found = TouchedRows(TemporaryViews(MemoryStore(), lambda name: (ID,), session), lambda name: rows)
    found.expect(work)
    return found


def bind(source: RelationLoop) -> str:
    return f"{source.relation}_{source.version.value}"


def test_rows_are_picked_from_relations_much_larger_than_the_change() -> None:
    assert touched(work=10, rows=10 * MIN_ROWS_PER_CHANGE + 1).pick(QUERY, LINES, bind) is not None
    assert touched(work=10, rows=10 * MIN_ROWS_PER_CHANGE).pick(QUERY, LINES, bind) is None
    assert touched(work=0, rows=100).pick(QUERY, LINES, bind) is None


def test_a_change_and_a_scan_are_taken_whole() -> None:
    picks = touched(work=1, rows=100)
    assert picks.pick(QUERY, ORDERS, bind) is None
    assert picks.pick(QUERY, RelationLoop("lines", "l", Version.STATE, (ID,)), bind) is None


def test_lookups_by_the_same_columns_share_a_pick() -> None:
    picks = touched(work=1, rows=100)
    other = RelationLoop("lines", "l", Version.STATE, (ID, Field("what", t.STRING)), LINES.lookup)
    assert picks.pick(QUERY, LINES, bind) == picks.pick(Query((ORDERS, other), ()), other, bind)


def test_two_conditions_on_one_column_are_not_picked_by() -> None:
    twice = RelationLoop("lines", "l", Version.STATE, (ID,), lookup=(*LINES.lookup, *LINES.lookup))
    assert touched(work=1, rows=100).pick(Query((ORDERS, twice), ()), twice, bind) is None


def test_the_sums_of_a_map_are_selected_with_its_keys() -> None:
    sums = replace(LINES, values=(RingField("sum_0", t.BIGINT),))
    selection = RowSelection("lines", ("id",), "touched")
    selection.include(sums, "SELECT id FROM orders")
    assert selection.columns == {"id", "sum_0"}
