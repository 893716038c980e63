"""Triangles whose relations are kept in heavy and light parts: beside the evaluator, and by what a change costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import sqrt
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.graphivm.triangles import lines_run
from tests.runtimes.native.harness import Harness
from tests.runtimes.native.joingraph.test_random_joins import FIELDS, TABLES, entries_of
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.walk import scans
from tidemill.changes.zset import ZSet
from tidemill.compiler.delta import degree_partition
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.program.joins import DegreeRole

CYCLE = "FROM r, s, t WHERE r.b = s.a AND s.b = t.a AND t.b = r.a"
VIEWS = {
    "count": f"SELECT COUNT(*) AS c {CYCLE}",
    "sums": f"SELECT COUNT(t.n) AS c, SUM(r.n) AS x, SUM(r.n * s.n) AS y, SUM(s.n - t.n) AS z, SUM(r.a) AS a {CYCLE}",
    "product of three": f"SELECT SUM(r.n * s.n * t.n) AS x {CYCLE}",
    "conditions": f"SELECT COUNT(*) AS c, SUM(s.n) AS x {CYCLE} AND r.n > 0 AND t.a <> 1",
    "one relation": "SELECT COUNT(*) AS c, SUM(x.n * y.n) AS m FROM r x, r y, r z "
    "WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
    "one relation twice": "SELECT COUNT(*) AS c FROM r x, s, r y WHERE x.b = s.a AND s.b = y.b AND y.a = x.a",
}


@contextmanager
def least_threshold(least: int) -> Iterator[None]:
    """With a low threshold few rows make a value heavy."""
    with patch.object(degree_partition, "LEAST_THRESHOLD", least):
        yield


def harness_of(sql: str, strategy: str = "joingraph") -> Harness:
    return Harness(compile_view("v", translate(sql, FIELDS, name="v").relation, TABLES, strategy), TABLES)


numbers = st.integers(0, 2) | st.integers(0, 6) | st.none()
rows = st.tuples(numbers, numbers, st.integers(0, 3) | st.none())
epochs = st.lists(
    st.dictionaries(st.sampled_from("rst"), st.lists(st.tuples(rows, st.booleans()), max_size=8), max_size=3),
    max_size=5,
)


@pytest.mark.parametrize("view", VIEWS)
@settings(max_examples=5, deadline=None)
@given(first=st.lists(rows, max_size=10), given=epochs, reopens=st.integers(0, 7))
def test_the_view_stays_fresh(view: str, first: list[Any], given: list[dict[str, Any]], reopens: int) -> None:
    """Rows that come and go in several tables at once, after a view that is filled; undone, and opened again."""
    relation = translate(VIEWS[view], FIELDS, name="v").relation
    read = scans(relation)
    with least_threshold(2):
        harness = harness_of(VIEWS[view])
    contents = {name: ZSet.of(first) for name in read}
    harness.seed(contents)
    total = harness.load()
    assert total == evaluate(relation, contents)
    for number, moves in enumerate(given):
        changes = {name: _change(contents[name], moves[name]) for name in moves if name in read}
        before = entries_of(harness)
        harness.run(changes)
        harness.runtime.rollback()
        assert entries_of(harness) == before
        if number == reopens:
            harness = Harness(harness.program, TABLES, harness.store)
        contents = {name: kept + changes.get(name, ZSet()) for name, kept in contents.items()}
        total += harness.apply(changes)
        assert total == evaluate(relation, contents)
        _require_parts(harness)


def _change(contents: ZSet, moves: list[tuple[Any, bool]]) -> ZSet:
    """Rows that come, and rows that leave if they are there."""
    change = ZSet()
    for row, leaves in moves:
        left = contents + change
        present = sorted(left, key=repr)
        change += ZSet({present[hash(row) % len(present)]: -1}) if leaves and present else ZSet({row: 1})
    return change


def _require_parts(harness: Harness) -> None:
    """Light values have fewer rows than twice the threshold, heavy ones at least half; each row is in its part."""
    maps = entries_of(harness)
    least = 2
    threshold = maps["v/threshold/size"].get((), [0, 0])[1] + least
    for stage in harness.program.stages:
        if stage.degrees is not DegreeRole.PARTITION:
            continue
        alias = stage.name.removeprefix("v/parts_")
        degrees = maps[f"{stage.name}/degrees"]
        values = maps[f"{stage.name}/heavy"]
        assert set(values.values()) <= {1}
        for value, count in degrees.items():
            assert (2 * count >= threshold) if value in values else (count < 2 * threshold)
        held = sum(_weight(entry) for part in ("light", "heavy") for entry in maps[f"v/{part}_{alias}"].values())
        assert held == sum(degrees.values())


def _weight(entry: Any) -> int:
    return int(entry[0] if isinstance(entry, tuple) else entry)


def test_values_become_heavy_and_light_again() -> None:
    """Twice the threshold makes a value heavy, and less than half of it light; in between it stays what it is."""
    harness = harness_of(VIEWS["count"])
    harness.load()
    sizes = []
    for rows_left in (15, 16, 15, 4, 3, 4, 15, 16):
        held = sum(entries_of(harness)["v/parts_r/rows"].values())
        move = {(1, i, 0): (1 if rows_left > held else -1) for i in range(*sorted((held, rows_left)))}
        harness.apply({"r": ZSet(move)})
        sizes.append((rows_left, len(entries_of(harness)["v/heavy_r"])))
    assert sizes == [(15, 0), (16, 16), (15, 15), (4, 4), (3, 0), (4, 0), (15, 0), (16, 16)]


def test_the_threshold_follows_the_number_of_rows() -> None:
    """It is doubled at four times its square, halved below a quarter, and gone with the last row."""
    harness = harness_of(VIEWS["count"])
    harness.load()
    seen = []
    for rows_left in (255, 256, 1023, 1024, 257, 64, 63, 256, 0):
        held = entries_of(harness)["v/threshold/size"].get((), [0, 0])[0]
        harness.apply(
            {"s": ZSet({(i, i, 0): (1 if rows_left > held else -1) for i in range(*sorted((held, rows_left)))})}
        )
        seen.append((rows_left, entries_of(harness)["v/threshold/size"].get((), [0, 0])[1] + 8))
    assert seen == [(255, 8), (256, 16), (1023, 16), (1024, 32), (257, 32), (64, 16), (63, 8), (256, 16), (0, 8)]


def test_a_change_visits_the_root_of_all_rows() -> None:
    """A hub in each relation: by deltas a row at the hubs visits all rows, by parts about their root."""
    costs = {}
    for strategy in ("delta", "joingraph"):
        for size in (100, 1_600):
            harness = harness_of(VIEWS["count"], strategy)
            harness.seed({name: hub(size) for name in "rst"})
            harness.load()
            costs[strategy, size] = max(
                lines_run(partial(harness.apply, {name: ZSet({row: weight})}))
                for name in "rst"
                for row in ((0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0))
                for weight in (1, -1)
            )
    assert costs["delta", 1_600] > 12 * costs["delta", 100]
    assert costs["joingraph", 1_600] < 2 * sqrt(16) * costs["joingraph", 100]
    assert costs["joingraph", 1_600] * 4 < costs["delta", 1_600]


def hub(size: int) -> ZSet:
    """Edges from node 0 to all others, and back."""
    return ZSet({**{(0, i, 0): 1 for i in range(size)}, **{(i, 0, 0): 1 for i in range(1, size)}})
