"""Tables with a primary key as columns and a compiled index: what is plainly right, and never anything else."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
import pytest

import tidemill
from tests.runtimes.native.llvm.table_contents import TableContents
from tidemill.changes.arrow import to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.errors import DataError, DuplicateKey
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.integrity import check_change
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.table import llvm_table
from tidemill.runtimes.native.llvm.table.llvm_table import LlvmTable

TABLE = Table(
    "orders",
    (
        Field("n", t.BIGINT),
        Field("id", t.BIGINT, nullable=False),
        Field("line", t.STRING, nullable=False),
        Field("price", t.DOUBLE),
        Field("tags", t.Array(t.STRING)),
    ),
    primary_key=("id", "line"),
)


class Model:
    """The rows of the table, held as plainly as can be."""

    def __init__(self) -> None:
        self.rows = ZSet()
        self.memory = Memory(None)
        self.used: set[LlvmTable] = set()
        contents = TableContents(self.read)
        self.table = LlvmTable(TABLE, contents, self.memory, StringDictionary(self.memory), self.used)

    def read(self) -> ChangeSet:
        """As a store would: some rows have come and gone."""
        gone = (9, 99, "x", 0.5, None)
        return ChangeSet.of([(gone, 1), *self.rows.items(), (gone, -1)], TABLE.fields)

    def accepts(self, net: ZSet) -> bool:
        def rows_with(key: Row) -> Iterator[tuple[Row, int]]:
            return ((row, weight) for row, weight in self.rows.items() if row[1:3] == key)

        try:
            check_change(TABLE, net, self.rows.weight, rows_with)
        except DataError:
            return False
        return True


def change_of(pairs: list[tuple[Row, int]], columns: bool) -> ChangeSet:
    if columns:
        return ChangeSet.of_arrow(to_arrow(pairs, TABLE.fields), TABLE.fields)
    return ChangeSet.of(pairs, TABLE.fields)


def random_row(draw: random.Random) -> Row:
    values = (None, 1, 2), (1, 2, 3), ("a", "b"), (None, 0.5, math.nan), (None, (), ("u",), ("u", None))
    return tuple(draw.choice(choices) for choices in values)


def random_change(draw: random.Random, held: ZSet) -> list[tuple[Row, int]]:
    pairs: list[tuple[Row, int]] = []
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        old = draw.choice(list(held)) if held and draw.random() < 0.7 else random_row(draw)
        kind = draw.random()
        if kind < 0.4:
            pairs.append((random_row(draw), draw.choice((1, 1, 1, 1, 2, 0))))
        elif kind < 0.7:
            pairs.append((old, draw.choice((-1, -1, -1, -2))))
        else:
            pairs += [(old, -1), ((draw.choice((None, 1, 2)), *old[1:]), 1)]
    draw.shuffle(pairs)
    return pairs


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("columns", [True, False], ids=["columns", "rows"])
def test_accepts_what_is_right_and_nothing_else(seed: int, columns: bool) -> None:
    draw, model = random.Random(seed), Model()
    accepted = 0
    for _ in range(400):
        pairs = random_change(draw, model.rows)
        net = ZSet.summed(pairs)
        taken = model.table.take(change_of(pairs, columns))
        if taken:
            accepted += 1
            assert len(net) == len(pairs), f"a row comes and goes in {pairs}"
            assert model.accepts(net), f"{pairs} is wrong for {model.rows}"
        elif model.accepts(net):
            model.table.free()  # as when the rows change behind its back
        if taken and draw.random() < 0.2:
            model.table.rollback()
        elif taken or model.accepts(net):
            model.rows.update_by(net)
        if draw.random() < 0.8:
            model.table.settle()
        elif taken:
            model.table.free()
    assert accepted > 40


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "rows"])
def test_inserts_updates_and_deletes_are_plain(columns: bool) -> None:
    model = Model()
    ann, bob = (1, 1, "a", 0.5, ("u",)), (None, 2, "a", None, None)
    for pairs in (
        [(ann, 1), (bob, 1)],
        [((2, *ann[1:]), 1), (ann, -1)],
        [(bob, -1), ((2, *ann[1:]), -1)],
        [(ann, 1)],
    ):
        assert model.table.take(change_of(pairs, columns))
        model.table.settle()
        model.rows.update_by(ZSet.summed(pairs))


def test_rows_that_come_back_as_they_were_are_left_out() -> None:
    fields = (Field("id", t.BIGINT, nullable=False), Field("name", t.STRING), Field("price", t.DOUBLE))
    memory = Memory(None)
    table = LlvmTable(
        Table("items", fields, primary_key=("id",)),
        TableContents(lambda: ChangeSet.of([((1, "a", 0.5), 1), ((2, None, None), 1), ((3, "c", 1.5), 1)], fields)),
        memory,
        StringDictionary(memory),
        set(),
    )

    def taken(*pairs: tuple[Row, int]) -> ZSet | None:
        found = table.take(ChangeSet.of_arrow(to_arrow(pairs, fields), fields))
        table.settle()
        return None if found is None else found.zset()

    same, null, changed = (1, "a", 0.5), (2, None, None), (3, "d", 1.5)
    assert taken((same, -1), (null, -1), ((3, "c", 1.5), -1), (same, 1), (null, 1), (changed, 1)) == ZSet(
        {(3, "c", 1.5): -1, changed: 1}
    )
    assert taken((same, -1), (same, 1)) == ZSet()
    assert taken((same, -1), (same, 1), (same, 1)) is None, "its key comes twice"
    assert taken((same, -1), (same, -1), (same, 1)) is None, "it leaves twice"
    assert taken((same, -1), (same, 1), ((1, "b", 0.5), 1)) is None, "another row comes under its key"
    assert taken((same, -1), ((1, "b", 0.5), 1)) == ZSet({same: -1, (1, "b", 0.5): 1})


def test_two_changes_of_an_epoch_are_undone_together() -> None:
    model = Model()
    first, second = (1, 1, "a", 0.5, None), (1, 2, "a", 0.5, None)
    assert model.table.take(change_of([(first, 1)], columns=True))
    model.table.settle()
    model.rows.update_by(ZSet({first: 1}))
    assert model.table.take(change_of([(first, -1)], columns=True))
    assert model.table.take(change_of([(second, 1)], columns=False))
    model.table.rollback()
    assert not model.table.take(change_of([(first, 1)], columns=True))
    assert not model.table.take(change_of([(second, -1)], columns=True))
    assert model.table.take(change_of([(second, 1)], columns=True))


def test_many_rows_that_left_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_table, "MANY_LEFT", 10)
    model = Model()
    for number in range(30):
        old, new = (number, 1, "a", 0.5, None), (number + 1, 1, "a", 0.5, None)
        pairs = [(new, 1)] if number == 0 else [(old, -1), (new, 1)]
        assert model.table.take(change_of(pairs, columns=number % 2 == 0))
        model.rows.update_by(ZSet.summed(pairs))
        model.table.settle()
        assert model.table._now[0] <= 12


def test_no_room_leaves_the_table_as_it_was() -> None:
    model = Model()
    model.memory.allow(200_000)
    rows = [((n, n, "a", 0.5, None), 1) for n in range(20_000)]
    assert not model.table.take(change_of(rows, columns=True))
    assert model.table.take(change_of(rows[:10], columns=True))


def test_numbers_of_rows_survive_a_growing_table() -> None:
    model = Model()
    draw = np.random.default_rng(1)
    for number in range(60):
        keys = range(1000 * number, 1000 * number + int(draw.integers(1, 400)))
        pairs: list[tuple[Row, int]] = [((key, key, "k", float(key), None), 1) for key in keys]
        some = list(model.rows)[:: max(len(model.rows) // 7, 1)]
        pairs += [(row, -1) for row in some]
        assert model.table.take(change_of(pairs, columns=number % 3 > 0))
        model.rows.update_by(ZSet.summed(pairs))
        model.table.settle()


def test_a_change_that_is_not_plain_is_still_followed() -> None:
    """A row that comes and goes in one change sends the whole change to the slow check; its other rows must stay."""
    with tidemill.open(":memory:", backend="llvm") as wh:
        wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
        wh.apply({"t": [(1, (1, 1)), (1, (2, 2))]})
        wh.apply({"t": [(1, (3, 1)), (-1, (3, 1)), (1, (4, 4)), (-1, (1, 1))]})
        with pytest.raises(DuplicateKey):
            wh.apply({"t": [(1, (4, 5))]})
        wh.apply({"t": [(1, (1, 9)), (-1, (4, 4))]})
        assert sorted(wh.table("t").rows()) == [(1, 9), (2, 2)]


@pytest.mark.parametrize("columns", [False, True])
def test_rows_are_found_by_key(columns: bool) -> None:
    model = Model()
    rows = [(n, n, line, 0.5, None) for n in range(5) for line in ("a", "b")]
    assert model.table.take(change_of([(row, 1) for row in rows], columns))
    model.table.settle()
    assert model.table.find([(3, "b"), (7, "a"), (3, "nowhere")]) == {(3, "b"): (3, 3, "b", 0.5, None)}
    assert model.table.take(change_of([((3, 3, "b", 0.5, None), -1), ((1, 3, "b", 1.5, None), 1)], columns))
    model.table.settle()
    assert model.table.find({(3, "b")}) == {(3, "b"): (1, 3, "b", 1.5, None)}
    assert model.table.find([]) == {}
