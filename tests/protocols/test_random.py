"""Random views, transactions and orders of events, longer than can be tried exhaustively."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.protocols.harness import Changes, MakeMaintainer, Run, Scenario, choices, equal, greater, scan, view
from tests.protocols.test_levels import MAINTAINERS, TABLE, merged
from tidemill.changes.zset import Row, ZSet
from tidemill.protocols.algorithms.copies import Copies
from tidemill.protocols.algorithms.sweep import Sweep
from tidemill.protocols.choose_protocol import PROTOCOLS
from tidemill.protocols.compensation.view_keys import shown_keys
from tidemill.protocols.protocol import Level
from tidemill.sources.remote_queries.signed_query import SpjView

R1, R2, R3 = scan("r1", "ax"), scan("r2", "bxy"), scan("r3", "cy")
A, B, C = scan("r2", "bxy", "one"), scan("r2", "bxy", "two"), scan("r2", "bxy", "three")
KEYS = {"r1": ("a",), "r2": ("b",), "r3": ("c",)}

VIEWS = {
    "chain": view([R1, R2, R3], [equal("r1.x", "r2.x"), equal("r2.y", "r3.y")], "r1.a r2.b r3.c"),
    "chain without keys": view([R1, R2, R3], [equal("r1.x", "r2.x"), equal("r2.y", "r3.y")], "r1.x r2.y"),
    "some keys": view([R1, R2, R3], [equal("r1.x", "r2.x"), equal("r2.y", "r3.y")], "r2.b r3.y"),
    "a condition on one relation": view([R1, R2], [equal("r1.x", "r2.x"), greater("r2.y", "r2.x")], "r1.a r2.y"),
    "columns that are not read": view([R2, R3], [greater("r3.c", "r2.b")], "r2.b r3.c"),
    "no condition": view([R1, R3], [], "r1.x r3.y"),
    "one relation": view([R2], [greater("r2.y", "r2.x")], "r2.x"),
    "self join": view([A, B], [equal("one.y", "two.x")], "one.x two.y"),
    "self join with keys": view([A, B], [equal("one.y", "two.x")], "one.b two.b"),
    "self join with one key": view([A, B], [equal("one.y", "two.x")], "one.b two.y"),
    "triangle": view(
        [A, B, C], [equal("one.y", "two.x"), equal("two.y", "three.x"), equal("three.y", "one.x")], "one.x two.x"
    ),
    "self join and another": view([A, R1, B], [equal("one.x", "r1.x"), equal("r1.x", "two.y")], "r1.a one.b two.b"),
}


@dataclass
class Writer:
    """Relations that change as drawn numbers say. Without keys, rows repeat."""

    draw: st.DrawFn
    leaves: Mapping[str, int]
    keyed: bool
    fresh: int = 0

    def row(self, width: int) -> Row:
        self.fresh += 1
        key = self.fresh if self.keyed else self.draw(st.integers(0, 1))
        return (key, *(self.draw(st.sampled_from([0, 1, 2, None])) for _ in range(width - 1)))

    def filled(self) -> dict[str, ZSet]:
        sizes = {name: self.draw(st.integers(0, 3)) for name in self.leaves}
        return {name: ZSet.of(self.row(self.leaves[name]) for _ in range(size)) for name, size in sizes.items()}

    def transaction(self, rows: dict[str, ZSet], among: Sequence[str]) -> Changes:
        """One to three changes of single rows; ``rows`` follow."""
        changes = {name: ZSet() for name in among}
        for _ in range(self.draw(st.sampled_from([1, 1, 1, 2, 3]))):
            name = self.draw(st.sampled_from(among))
            change = self.change(rows[name], self.leaves[name])
            rows[name] = rows[name] + change
            changes[name] = changes[name] + change
        return changes

    def change(self, there: ZSet, width: int) -> ZSet:
        kind = self.draw(st.sampled_from(["insert", "delete", "update"]))
        if kind == "insert" or not there:
            return ZSet({self.row(width): 1})
        old = self.draw(st.sampled_from(sorted(there, key=repr)))
        if kind == "delete":
            return ZSet({old: -1})
        new = self.row(width)
        return ZSet({old: -1}) + ZSet({(old[0], *new[1:]): 1})


@st.composite
def stories(draw: st.DrawFn, of: SpjView, sources: int = 1) -> tuple[Scenario, list[int]]:
    """A scenario, and which way to go where the order of events is open."""
    writer = Writer(draw, {leaf.relation: len(leaf.columns) for leaf in of.leaves}, draw(st.booleans()))
    names = [""] if sources == 1 else [f"s{number}" for number in range(sources)]
    homes = {relation: names[place % sources] for place, relation in enumerate(of.relations)}
    first = writer.filled()
    rows, script = dict(first), {name: [] for name in homes.values()}
    for _ in range(draw(st.integers(0, 9))):
        name = draw(st.sampled_from(sorted(script)))
        script[name].append(writer.transaction(rows, [relation for relation in homes if homes[relation] == name]))
    keys = KEYS if writer.keyed else {}
    return Scenario(of, first, script, homes, keys), draw(st.lists(st.integers(0, 5), min_size=30, max_size=30))


def follow(scenario: Scenario, ways: Sequence[int], make: MakeMaintainer, level: Level) -> Run:
    """Run it, and check what was promised."""
    run, step = Run(scenario, make), 0
    while events := choices(run):
        events[ways[step % len(ways)] % len(events)]()
        step += 1
    verdict = run.verdict()
    assert level in verdict.kept, str(verdict)
    run.check_certificates()
    assert run.maintainer.idle
    return run


@pytest.mark.parametrize("of", VIEWS)
@settings(max_examples=15)
@given(data=st.data())
def test_protocols_keep_what_they_promise(of: str, data: st.DataObject) -> None:
    scenario, ways = data.draw(stories(VIEWS[of]))
    for name, make in MAINTAINERS.items():
        keyed = len(shown_keys(scenario.view, scenario.keys)) == len(scenario.view.leaves)
        level = max(TABLE[name], default=Level.NONE) if keyed or not name.startswith("eca_key") else Level.NONE
        if level >= Level.STRONG:
            follow(replace(scenario, merged=merged(name)), ways, make, level)


@pytest.mark.parametrize("of", [name for name, of in VIEWS.items() if len(of.relations) > 1])
@pytest.mark.parametrize("sources", [2, 3])
@settings(max_examples=12)
@given(data=st.data())
def test_several_sources(of: str, sources: int, data: st.DataObject) -> None:
    scenario, ways = data.draw(stories(VIEWS[of], sources))
    for make in (Sweep, Copies):
        follow(scenario, ways, make, Level.COMPLETE)
    follow(replace(scenario, merged=True), ways, Sweep, Level.STRONG)


@pytest.mark.long
@pytest.mark.parametrize("of", VIEWS)
@settings(max_examples=300)
@given(data=st.data())
def test_protocols_keep_what_they_promise_at_length(of: str, data: st.DataObject) -> None:
    sources = data.draw(st.integers(1, 3))
    scenario, ways = data.draw(stories(VIEWS[of], sources))
    batches, alone = replace(scenario, merged=True), replace(scenario, merged=False)
    if sources > 1:
        follow(scenario, ways, Sweep, Level.COMPLETE)
        follow(batches, ways, Sweep, Level.STRONG)
    else:
        for name in ("eca", "eca_local", "lca"):
            follow(scenario, ways, MAINTAINERS[name], PROTOCOLS[name].level)
            follow(batches, ways, MAINTAINERS[name], Level.STRONG)
            follow(alone, ways, MAINTAINERS[name], Level.COMPLETE)
