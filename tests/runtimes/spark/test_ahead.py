"""Lookups that are made together: each key is fetched once, whoever asks for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidemill.changes.arrow import to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.native.planned_lookups import PlannedLookup
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.snapshot import ColumnPositions, ColumnSnapshot
from tidemill.runtimes.spark.lookup import prefetch

LINES = Table(
    "lines", (Field("id", t.BIGINT), Field("line", t.INT), Field("what", t.STRING)), primary_key=("id", "line")
)
ROWS = [((1, 1, "nut"), 1), ((1, 2, "bolt"), 1), ((2, 1, "nut"), 1), ((3, 1, "saw"), 1)]
ID, KEY = (0,), (0, 1)


class Counted(ColumnSnapshot):
    """A base that remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__(to_arrow(ROWS, LINES.fields), LINES.fields)
        self.asked: list[tuple[ColumnPositions, set[Row]]] = []

    def fetch(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions
    ) -> list[tuple[Row, int]]:
        self.asked.append((columns, set(keys)))
        return super().fetch(positions, keys, columns)


def large() -> tuple[Counted, OverlaidRelation]:
    base = Counted()
    return base, OverlaidRelation(base, len(LINES.fields))


def test_keys_of_many_lookups_are_one_fetch() -> None:
    base, lines = large()
    lookups = [PlannedLookup(lines, ID, {(1,)}, (0, 2)), PlannedLookup(lines, ID, {(1,), (2,)}, (0, 2))]
    prefetch.prefetch(lookups)
    assert base.asked == [((0, 2), {(1,), (2,)})]
    assert lookups[1].rows()[2] == [((2, None, "nut"), 1)]
    assert len(base.asked) == 1


def test_whole_rows_serve_those_who_want_few_columns() -> None:
    base, lines = large()
    few = PlannedLookup(lines, ID, {(1,), (2,)}, (0, 2))
    prefetch.prefetch([few, PlannedLookup(lines, ID, {(1,)})])
    assert base.asked == [((0, 1, 2), {(1,)}), ((0, 2), {(2,)})]
    assert few.rows()[1] == [((1, 1, "nut"), 1), ((1, 2, "bolt"), 1)]
    assert len(base.asked) == 2


def test_routines_go_on_step_by_step_with_what_they_found() -> None:
    base, lines = large()

    def routine() -> Iterator[PlannedLookup]:
        first = PlannedLookup(lines, ID, {(1,)})
        yield first
        yield PlannedLookup(lines, ID, {(row[1] + 1,) for row, _ in first.rows()[1]})

    for lookups in prefetch.lookup_rounds([routine(), routine()]):
        prefetch.prefetch(lookups)
    assert [keys for _, keys in base.asked] == [{(1,)}, {(2,), (3,)}]


def test_a_fault_is_left_to_the_trigger() -> None:
    _, lines = large()

    def faulty() -> Iterator[PlannedLookup]:
        yield PlannedLookup(lines, ID, {(1,)})
        raise ArithmeticFault("division by zero")

    assert [len(lookups) for lookups in prefetch.lookup_rounds([faulty()])] == [1]


def test_a_check_goes_by_the_part_of_its_key_that_others_look_up() -> None:
    _, lines = large()
    change = ChangeSet.of([((1, 1, "nut"), -1), ((2, 5, "saw"), 1)], LINES.fields)
    others = [PlannedLookup(lines, ID, {(1,), (2,), (3,)}, (0, 2))]
    assert prefetch.key_check_lookup(LINES, change, lines, others).positions == ID
    assert prefetch.key_check_lookup(LINES, change, lines, [PlannedLookup(lines, ID, {(1,)})]).positions == KEY
    assert prefetch.key_check_lookup(LINES, change, lines).keys == {(1, 1), (2, 5)}


def test_rows_that_were_fetched_stay_when_more_are_added() -> None:
    """Of both widths, which share their lists, and under keys that had no rows."""
    base, lines = large()
    for columns in (None, (0, 2)):
        lines.lookup(ID, {(1,), (7,)}, columns)
    lines.extend(ColumnSnapshot(to_arrow([((1, 2, "bolt"), -1), ((7, 1, "axe"), 1)], LINES.fields), LINES.fields))
    found = lines.lookup(ID, {(1,), (7,)})
    assert found == {1: [((1, 1, "nut"), 1), ((1, 2, "bolt"), 1), ((1, 2, "bolt"), -1)], 7: [((7, 1, "axe"), 1)]}
    assert [weight for _, weight in lines.lookup(ID, {(1,)}, (0, 2))[1]] == [1, 1, -1]
    assert len(base.asked) == 1
