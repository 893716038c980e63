"""Join graphs as machine code: walks give the rows of the join, whatever they know ahead, and know it rightly."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from tests.runtimes.native.llvm.compiled import tables_of
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.model.errors import ArithmeticFault, OutOfBudget
from tidemill.model.schema import Table
from tidemill.program.maps import Map, map_fields
from tidemill.program.stages import Stage
from tidemill.runtimes.native.llvm.codegen.memory import Memory
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.stage import llvm_stage
from tidemill.runtimes.native.llvm.stage.emit_stage import emit_stage
from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage
from tidemill.runtimes.native.python.compile import compile_stage

DDL = """
CREATE STREAM r (a INT, b BIGINT, u STRING);
CREATE STREAM s (b BIGINT, c BIGINT NOT NULL, x DECIMAL(20, 2));
CREATE STREAM t (c BIGINT, d INT, y BOOLEAN);
CREATE STREAM e (x BIGINT NOT NULL, y BIGINT NOT NULL);
"""
TABLES = tables_of(DDL)

VIEWS = {
    "chain": "SELECT r.a, r.u, t.d, t.y FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c",
    "star": "SELECT r.a, s.x, t.d FROM s JOIN r ON r.b = s.b JOIN t ON s.c = t.c JOIN e ON s.c = e.x",
    "one key": "SELECT r.a, s.c, e.y FROM r JOIN s ON r.b = s.b JOIN e ON r.b = e.x",
    "self": "SELECT e1.x, e3.y FROM e e1 JOIN e e2 ON e1.y = e2.x JOIN e e3 ON e2.y = e3.x",
    "long": "SELECT a.x, d.y FROM e a JOIN e b ON a.y = b.x JOIN e c ON b.y = c.x JOIN e d ON c.y = d.x",
    "cycle": "SELECT e1.x, e2.x AS y FROM e e1 JOIN e e2 ON e1.y = e2.x JOIN e e3 ON e2.y = e3.x AND e3.y = e1.x",
    "path filter": "SELECT r.a, t.d FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c AND r.a < t.d",
    "whole key": "SELECT r.a, t.d FROM r JOIN e ON r.b = e.x JOIN t ON t.c = e.x",
    "computed": "SELECT r.a + t.d AS n, s.x * 2 AS x, r.u FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c WHERE s.c > 0",
    "cast": "SELECT r.b, t.y FROM r JOIN t ON r.a = t.c",
    "cross": "SELECT r.a, t.d FROM r, t",
    "groups": "SELECT r.a, COUNT(*) AS n, SUM(t.d) AS m FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c GROUP BY r.a",
}
SIGHTS = ["none", "local", "global"]
SEEN = [(view, sight) for view in VIEWS for sight in (SIGHTS if view in ("chain", "star", "cycle") else SIGHTS[2:])]


@dataclass
class Kept:
    """A store that holds what epochs did to the maps of a stage."""

    tables: Mapping[str, Table]
    changes: dict[str, list[pa.Table]] = field(default_factory=dict)

    def stored(self, map_: Map) -> pa.Table:
        empty = ChangeSet.of((), map_fields(map_)).arrow()
        return pa.concat_tables([empty, *self.changes.get(map_.name, ())])

    def rows(self, relation: str) -> ChangeSet:
        return ChangeSet.of((), self.tables[relation].fields)


class View:
    """A view over streams, kept by machine code alone, and what its relations hold."""

    def __init__(self, sql: str, lookahead: str = "global", serve: str = "subscribe") -> None:
        self.relation, self.stages = _program(sql, lookahead, serve)
        self.memory = Memory()
        self.strings = StringDictionary(self.memory)
        self.kept = Kept(TABLES)
        self.contents = {name: ZSet() for name in TABLES}
        self.total = ZSet()
        self.open()

    def open(self) -> None:
        """Start from what is stored."""
        (only,) = self.stages
        finish = compile_stage(only, _fields).finish
        self.runner = LlvmStage(emit_stage(only, _fields), finish, self.kept, self.memory, self.strings)
        self.runner.prepare()
        self.runner.settle()

    def fire(self, changes: Mapping[str, ZSet]) -> None:
        for name, change in changes.items():
            if name in self.runner.code.inputs:
                self.runner.fire(name, ChangeSet.of(change.items(), _fields(name)))

    def apply(self, changes: Mapping[str, ZSet]) -> ChangeSet:
        """One epoch."""
        self.fire(changes)
        found = self.runner.emit()
        for name, moved in self.runner.changes():
            self.kept.changes.setdefault(name, []).append(moved.arrow())
        self.runner.settle()
        self.total += found.zset()
        for name, change in changes.items():
            self.contents[name] += change
        return found

    def expected(self) -> ZSet:
        return evaluate(self.relation, self.contents)


def _fields(name: str) -> Any:
    return TABLES[name].fields


@cache
def _program(sql: str, lookahead: str, serve: str) -> tuple[Relation, tuple[Stage, ...]]:
    relation = translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation
    program = compile_view("v", relation, TABLES, "joingraph", lookahead=lookahead, serve=serve)
    return relation, program.stages


def _rows(rng: random.Random) -> Iterator[tuple[str, Row]]:
    few = [None, 0, 1, 2, 3, 4]
    while True:
        yield "r", (rng.choice(few), rng.choice(few), rng.choice([None, "x", "y"]))
        yield "s", (rng.choice(few), rng.randrange(5), rng.choice([None, Decimal("1.25"), Decimal(10**15)]))
        yield "t", (rng.choice(few), rng.choice(few), rng.choice([None, True, False]))
        yield "e", (rng.randrange(6), rng.randrange(6))


def _change(rng: random.Random, contents: Mapping[str, ZSet], size: int) -> dict[str, ZSet]:
    """Rows that come, some of them twice or in great numbers, and rows that go."""
    found = {name: ZSet() for name in contents}
    fresh = _rows(rng)
    for _ in range(size):
        for _ in range(rng.randrange(1, 5)):
            name, row = next(fresh)
        there = sorted(contents[name].items(), key=repr)
        if there and rng.random() < 0.45:
            row, weight = rng.choice(there)
            found[name] += ZSet({row: -weight if rng.random() < 0.8 else 1})
        else:
            found[name] += ZSet({row: rng.choice([1, 1, 1, 2, 500])})
    return found


@pytest.mark.parametrize(("view", "lookahead"), SEEN)
def test_walks_give_the_rows_of_the_join(view: str, lookahead: str) -> None:
    rng = random.Random(view)
    kept = View(VIEWS[view], lookahead)
    for epoch in range(40):
        size = rng.choice([1, 1, 2, 6])
        if rng.random() < 0.2:
            kept.fire(_change(rng, kept.contents, 4))
            kept.runner.rollback()
        if epoch == 25:
            kept.open()
        kept.apply(_change(rng, kept.contents, size))
        assert kept.total == kept.expected(), epoch
        if epoch % 5 == 0:
            assert kept.runner.produce().zset() == kept.expected(), epoch


@pytest.mark.parametrize("view", VIEWS)
def test_events_that_are_looked_ahead_give_the_same(view: str) -> None:
    rng = random.Random(view)
    kept = View(VIEWS[view])
    with patch.object(llvm_stage, "LARGE_STATE", -1):
        for _ in range(8):
            change = _change(rng, kept.contents, 40)
            events = [(name, row, weight) for name, rows in change.items() for row, weight in rows.items()]
            rng.shuffle(events)
            tables = {
                name: ChangeSet.of([(row, weight) for other, row, weight in events if other == name], _fields(name))
                for name in kept.runner.code.inputs
            }
            order = [name for name, _, _ in events if name in tables]
            kept.runner.run(order, {name: rows.arrow() for name, rows in tables.items()})
            for name, rows in change.items():
                kept.contents[name] += rows
            kept.total += kept.runner.emit().zset()
            kept.runner.settle()
            assert kept.total == kept.expected()


def _edges(pairs: list[tuple[int, int]], weight: int = 1) -> dict[str, ZSet]:
    return {"e": ZSet(dict.fromkeys(pairs, weight))}


def test_what_leads_nowhere_is_followed_once() -> None:
    view = View("SELECT a.x, c.y FROM e a JOIN e b ON a.y = b.x JOIN e c ON b.y = c.x")
    # A thousand ways lead from 1 to dead ends, and everybody who comes to 1 would try them all.
    view.apply(_edges([(1, 100 + n) for n in range(1000)]))
    assert view.runner.skipped == 0
    view.apply(_edges([(0, 1)]))
    view.apply(_edges([(-1, 1)]))
    assert view.runner.skipped >= 1000
    assert view.runner.dead_ends == 1000
    view.apply(_edges([(500, 7777)]))  # one of them leads somewhere now
    assert view.total == view.expected() == ZSet({(0, 7777): 1, (-1, 7777): 1})
    before = view.runner.skipped
    view.apply(_edges([(-2, 1)]))
    assert view.runner.skipped - before == 999
    assert view.runner.dead_ends == 1000
    assert view.total == view.expected()


def test_the_dead_come_alive_from_the_far_end_of_a_chain() -> None:
    hops = ["SELECT a.x, f.y FROM e a"]
    hops += [f"JOIN e {next_} ON {last}.y = {next_}.x" for last, next_ in zip("abcde", "bcdef", strict=True)]
    view = View(" ".join(hops))
    for edge in [(4, 5), (3, 4), (2, 3), (1, 2), (0, 1)]:
        view.apply(_edges([edge]))
    view.apply(_edges([(0, 1)]))  # walks from here, in vain, and marks on its way back
    assert view.total == ZSet()
    view.apply(_edges([(5, 6)]))
    assert view.total == view.expected() == ZSet({(0, 6): 2})
    view.apply(_edges([(5, 6)], -1))
    view.apply(_edges([(0, 1)]))
    view.apply(_edges([(5, 7)]))
    assert view.total == view.expected() == ZSet({(0, 7): 3})


def test_what_an_epoch_marks_is_right_after_its_rollback() -> None:
    view = View("SELECT a.x, c.y FROM e a JOIN e b ON a.y = b.x JOIN e c ON b.y = c.x")
    view.apply(_edges([(1, 2), (2, 3), (0, 1)]))
    view.fire(_edges([(2, 3)], -1))
    view.fire(_edges([(7, 1), (8, 1)]))  # finds that (1, 2) is dead by now
    view.runner.rollback()
    view.apply(_edges([(9, 1)]))
    assert view.total == view.expected() == ZSet({(0, 3): 1, (9, 3): 1})


def test_weights_that_no_byte_can_hold() -> None:
    view = View("SELECT a.x, b.y FROM e a JOIN e b ON a.y = b.x")
    for weight in (127, 1, -256, 128 + 2**40):
        view.apply(_edges([(1, 2)], weight))
        view.apply(_edges([(0, 1)], 3))
        assert view.total == view.expected()
    view.apply(_edges([(11, 3)], 2**62))
    with pytest.raises(ArithmeticFault, match="weight"):
        view.fire(_edges([(5, 11)], 2**8))
    view.runner.rollback()
    view.apply(_edges([(6, 11)], 1))
    assert view.total == view.expected()


def test_rows_that_cancel_within_an_epoch_are_not_handed_on() -> None:
    view = View("SELECT a.x, b.y FROM e a JOIN e b ON a.y = b.x")
    view.apply(_edges([(1, n) for n in range(10, 15)]))
    view.fire(_edges([(0, 1)]))
    view.fire(_edges([(0, 1)], -1))
    view.fire(_edges([(2, 1)]))
    found = view.runner.emit()
    assert sorted(found.pairs()) == [((2, n), 1) for n in range(10, 15)]


def test_what_was_handed_on_stays_as_it_was() -> None:
    view = View("SELECT a.x, b.y FROM e a JOIN e b ON a.y = b.x")
    view.apply(_edges([(1, n) for n in range(2000)]))
    changes = [view.apply(_edges([(-n, 1)])) for n in range(1, 6)]
    for n, change in enumerate(changes, 1):
        assert change.zset() == ZSet({(-n, m): 1 for m in range(2000)})
    table = changes.pop(0).arrow()
    del changes, change
    view.apply(_edges([(-9, 1)]))
    view.runner.free()
    assert set(table.column("x").to_pylist()) == {-1}


def test_a_list_of_a_record_costs_little_more_than_its_columns() -> None:
    view = View("SELECT a.x, b.y FROM e a JOIN e b ON a.y = b.x")
    count = 50_000
    pairs = np.arange(count)
    table = pa.table({"x": pairs // 100, "y": pairs % 1000 + 10**6, "_weight": np.ones(count, np.int64)})
    view.runner.run(np.zeros(count, np.uint8), {"e": table})
    for _ in range(2):  # an epoch in which nothing happens gives the journal back
        view.runner.settle()
    (entries, bytes_), *_ = view.runner.sizes().values()
    assert entries == count
    assert bytes_ < 130 * count


def test_a_refused_list_leaves_everything_as_it_was() -> None:
    view = View("SELECT a.x, b.y FROM e a JOIN e b ON a.y = b.x")
    view.apply(_edges([(1, n) for n in range(100)]))
    view.memory.allow(10_000)
    with pytest.raises(OutOfBudget):
        view.fire(_edges([(2, n) for n in range(5000)]))
    view.runner.rollback()
    view.memory.allow(None)
    view.apply(_edges([(0, 1)]))
    assert view.total == view.expected()


def test_rows_of_a_graph_that_is_only_read() -> None:
    view = View(VIEWS["groups"], serve="read")
    rng = random.Random(5)
    for _ in range(15):
        assert not view.apply(_change(rng, view.contents, 8)).pairs()
        used = view.memory.used
        assert view.runner.produce().zset() == view.expected()
        assert view.memory.used == used
