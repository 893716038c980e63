"""Random joins under random changes: the triggers of a join graph beside the evaluator."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.shop import changes_of, row_of
from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.walk import scans
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.program.stages import Program

DDL = """
CREATE TABLE r (a INT, b INT, n BIGINT);
CREATE TABLE s (a INT, b INT, n BIGINT);
CREATE TABLE t (a INT, b INT, n BIGINT);
CREATE STREAM e (a INT, b INT, n BIGINT);
"""
TABLES: dict[str, Table] = {s.table.name: s.table for s in parse(DDL) if isinstance(s, CreateTable)}
FIELDS = {name: table.fields for name, table in TABLES.items()}

VIEWS = {
    "chain": "SELECT r.n, s.n AS m, t.n AS o FROM r, s, t WHERE r.b = s.a AND s.b = t.a",
    "star": "SELECT r.n, s.n AS m, t.n AS o FROM r, s, t WHERE r.a = s.a AND r.a = t.a",
    "long chain": "SELECT x.n, z.b FROM r x, s y, t z, s w WHERE x.b = y.a AND y.b = z.a AND z.b = w.a",
    "two columns": "SELECT r.n, s.n AS m FROM r, s WHERE r.a = s.a AND r.b = s.b",
    "self join": "SELECT x.n, y.n AS m FROM r x, r y WHERE x.b = y.a",
    "self join of three": "SELECT x.a, z.b FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a",
    "self join, unlike": "SELECT x.n, y.a AS m FROM r x, r y, s WHERE x.b = y.a AND y.b = s.a AND y.n > 0",
    "triangle": "SELECT r.n, s.n AS m, t.n AS o FROM r, s, t WHERE r.b = s.a AND s.b = t.a AND t.b = r.a",
    "triangles of one": "SELECT COUNT(*) AS n FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
    "inequality": "SELECT r.a, s.b FROM r, s, t WHERE r.a = s.a AND s.b = t.b AND r.n < t.n AND s.n <> t.n",
    "filter that may fail": "SELECT r.a, s.b FROM r, s WHERE r.b = s.a AND r.n + s.n > 2 AND r.b < s.b",
    "cross join": "SELECT r.n, s.n AS m FROM r CROSS JOIN s",
    "cross join with a filter": "SELECT r.a, s.n FROM r, s, t WHERE r.n < s.n AND s.a = t.a",
    "condition on one": "SELECT r.n, s.n AS m FROM r, s WHERE r.a = s.a AND r.n > 1 AND s.b = 2",
    "sums": "SELECT r.a, SUM(s.n) AS m, COUNT(*) AS k, SUM(t.n) AS o FROM r, s, t WHERE r.b = s.a AND r.a = t.a "
    "GROUP BY r.a",
    "global sum": "SELECT SUM(r.n * s.n) AS m, COUNT(r.n) AS k FROM r JOIN s ON r.a = s.a",
    "extremes": "SELECT r.a, MIN(s.n) AS low, MAX(t.n) AS high FROM r, s, t WHERE r.b = s.a AND s.b = t.a GROUP BY r.a",
    "union": "SELECT r.n FROM r, s WHERE r.a = s.a UNION ALL SELECT t.n FROM t, s WHERE t.b = s.b "
    "UNION ALL SELECT n FROM t",
    "distinct": "SELECT DISTINCT r.n FROM r, s WHERE r.a = s.b",
    "stream": "SELECT e.n, r.n AS m FROM e, r, e f WHERE e.a = r.a AND r.b = f.b",
}  # fmt: skip

Moves = list[tuple[str, Row, int | None]]


@pytest.mark.parametrize("view", VIEWS)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_the_view_stays_fresh(view: str, data: st.DataObject) -> None:
    """Rows after every epoch, maps after one that was undone, and all of it when opened again."""
    world = World(view, data)
    for moves in data.draw(epochs_of(world.reads)):
        if data.draw(st.booleans()):
            world.undo(moves)
        if data.draw(st.integers(0, 3)) == 0:
            world.reopen()
        world.advance(moves)


@pytest.mark.parametrize("serve", ["subscribe", "read"])
@pytest.mark.parametrize("view", VIEWS)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_rows_are_made_from_the_members_when_they_are_read(view: str, serve: str, data: st.DataObject) -> None:
    world = World(view, data, serve)
    for moves in data.draw(epochs_of(world.reads)):
        world.harness.apply(world.step(moves))
        assert world.read() == evaluate(world.relation, world.contents)


def test_a_statement_that_fails_leaves_nothing_behind() -> None:
    """The first alias has met the row when the second one divides by zero."""
    sql = "SELECT x.n / y.n AS ratio FROM r x, r y WHERE x.b = y.a"
    harness = Harness(compile_view("v", translate(sql, FIELDS, name="v").relation, TABLES, "joingraph"), TABLES)
    harness.seed({"r": ZSet({(1, 2, 3): 1})})
    harness.load()
    assert harness.apply({"r": ZSet({(2, 3, 2): 1})}) == ZSet({(1.5,): 1})
    before = entries_of(harness)
    with pytest.raises(ArithmeticFault, match="divi"):
        harness.apply({"r": ZSet({(3, 1, 0): 1, (5, 6, 7): 1})})
    assert entries_of(harness) == before
    assert harness.apply({"r": ZSet({(3, 1, 4): 1})}) == ZSet({(0.5,): 1, (4 / 3,): 1})


@cache
def relation_of(view: str) -> Relation:
    return translate(VIEWS[view], FIELDS, name="v").relation


@cache
def program_of(view: str, serve: str) -> Program:
    return compile_view("v", relation_of(view), TABLES, "joingraph", serve=serve)


class World:
    """A view with a join graph, and what the tables hold."""

    def __init__(self, view: str, data: st.DataObject, serve: str = "both") -> None:
        self.relation = relation_of(view)
        self.reads = tuple(sorted(scans(self.relation)))
        self.harness = Harness(program_of(view, serve), TABLES)
        rows = {name: st.lists(row_of(TABLES[name]), max_size=8 * TABLES[name].kept) for name in self.reads}
        self.contents = {name: ZSet.of(data.draw(given)) for name, given in rows.items()}
        self.harness.seed({name: rows for name, rows in self.contents.items() if TABLES[name].kept})
        self.total = self.harness.load()

    def step(self, moves: Moves) -> dict[str, ZSet]:
        """The change that moves are, as the tables then have it."""
        changes = changes_of(moves, self.contents)
        for name, change in changes.items():
            self.contents[name] = self.contents[name] + change
        return changes

    def advance(self, moves: Moves) -> None:
        """One epoch."""
        self.total += self.harness.apply(self.step(moves))
        assert self.total == evaluate(self.relation, self.contents)

    def undo(self, moves: Moves) -> None:
        """An epoch that does not come to its end."""
        before = entries_of(self.harness)
        self.harness.run(changes_of(moves, self.contents))
        self.harness.runtime.rollback()
        assert entries_of(self.harness) == before

    def reopen(self) -> None:
        """The stored maps are all that is needed to go on."""
        before = entries_of(self.harness)
        self.harness = Harness(self.harness.program, TABLES, self.harness.store)
        assert entries_of(self.harness) == before

    def read(self) -> ZSet:
        """The rows of the view, made now."""
        return self.harness.runtime.produce(self.harness.program.stages[-1]).zset()


@cache
@st.composite
def moves_of(draw: st.DrawFn, names: tuple[str, ...]) -> Moves:
    """Rows that come, rows that leave, and rows of which only ``n`` changes, which meet the same others as before."""
    name = draw(st.sampled_from(names))
    row = draw(row_of(TABLES[name]))
    if draw(st.integers(0, 3)) == 0:
        return [
            (name, row, None),
            (name, row, draw(st.integers(0, 20))),
            (name, (*row[:2], draw(st.integers(0, 3))), None),
        ]
    return [(name, row, draw(st.none() | st.integers(0, 20)))]


@cache
def epochs_of(names: tuple[str, ...]) -> st.SearchStrategy[list[Moves]]:
    """Epochs of moves in several tables at once."""
    epoch = st.lists(moves_of(names), max_size=5).map(lambda parts: [move for part in parts for move in part])
    return st.lists(epoch, max_size=5)


def entries_of(harness: Harness) -> dict[str, dict[Row, Any]]:
    """The maps of all stages."""
    compiled = [harness.runtime._compiled[stage.name] for stage in harness.program.stages]
    maps = [harness.runtime._state.maps(stage) for stage in compiled]
    return {name: dict(held.entries) for stage in maps for name, held in stage.items()}
