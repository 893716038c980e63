"""Lookups that are made together: each key is fetched once, whoever asks for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidemill.changes.arrow import to_arrow
from tidemill.changes.batch import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.native.base import ColumnBase, Places
from tidemill.runtimes.native.layered import Layered
from tidemill.runtimes.native.runtime import Lookup
from tidemill.runtimes.spark import ahead

LINES = Table(
    "lines", (Field("id", t.BIGINT), Field("line", t.INT), Field("what", t.STRING)), primary_key=("id", "line")
)
ROWS = [((1, 1, "nut"), 1), ((1, 2, "bolt"), 1), ((2, 1, "nut"), 1), ((3, 1, "saw"), 1)]
ID, KEY = (0,), (0, 1)


class Counted(ColumnBase):
    """A base that remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__(to_arrow(ROWS, LINES.fields), LINES.fields)
        self.asked: list[tuple[Places, set[Row]]] = []

    def fetch(self, positions: Places, keys: Collection[Row], columns: Places) -> list[tuple[Row, int]]:
        self.asked.append((columns, set(keys)))
        return super().fetch(positions, keys, columns)


def large() -> tuple[Counted, Layered]:
    base = Counted()
    return base, Layered(base, len(LINES.fields))


def test_keys_of_many_lookups_are_one_fetch() -> None:
    base, lines = large()
    lookups = [Lookup(lines, ID, {(1,)}, (0, 2)), Lookup(lines, ID, {(1,), (2,)}, (0, 2))]
    ahead.fetch(lookups)
    assert base.asked == [((0, 2), {(1,), (2,)})]
    assert lookups[1].rows()[2] == [((2, None, "nut"), 1)]
    assert len(base.asked) == 1


def test_whole_rows_serve_those_who_want_few_columns() -> None:
    base, lines = large()
    few = Lookup(lines, ID, {(1,), (2,)}, (0, 2))
    ahead.fetch([few, Lookup(lines, ID, {(1,)})])
    assert base.asked == [((0, 1, 2), {(1,)}), ((0, 2), {(2,)})]
    assert few.rows()[1] == [((1, 1, "nut"), 1), ((1, 2, "bolt"), 1)]
    assert len(base.asked) == 2


def test_routines_go_on_step_by_step_with_what_they_found() -> None:
    base, lines = large()

    def routine() -> Iterator[Lookup]:
        first = Lookup(lines, ID, {(1,)})
        yield first
        yield Lookup(lines, ID, {(row[1] + 1,) for row, _ in first.rows()[1]})

    for lookups in ahead.steps([routine(), routine()]):
        ahead.fetch(lookups)
    assert [keys for _, keys in base.asked] == [{(1,)}, {(2,), (3,)}]


def test_a_fault_is_left_to_the_trigger() -> None:
    _, lines = large()

    def faulty() -> Iterator[Lookup]:
        yield Lookup(lines, ID, {(1,)})
        raise ArithmeticFault("division by zero")

    assert [len(lookups) for lookups in ahead.steps([faulty()])] == [1]


def test_a_check_goes_by_the_part_of_its_key_that_others_look_up() -> None:
    _, lines = large()
    change = ChangeSet.of([((1, 1, "nut"), -1), ((2, 5, "saw"), 1)], LINES.fields)
    others = [Lookup(lines, ID, {(1,), (2,), (3,)}, (0, 2))]
    assert ahead.lookup_of_check(LINES, change, lines, others).positions == ID
    assert ahead.lookup_of_check(LINES, change, lines, [Lookup(lines, ID, {(1,)})]).positions == KEY
    assert ahead.lookup_of_check(LINES, change, lines).keys == {(1, 1), (2, 5)}
