"""Join graphs whose members stay in the store: what a change meets is looked up there, hop after hop."""

from __future__ import annotations

from random import Random

import pytest

from tests.runtimes.native.harness import Harness
from tests.runtimes.native.joingraph.test_random_joins import FIELDS, TABLES, VIEWS
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.walk import scans
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.program.reads import looked_up
from tidemill.storage.memory_store import MemoryStore


def row(random: Random) -> Row:
    return tuple(random.choice([None, 0, 1, 2, 3]) for _ in range(3))


def change(random: Random, held: ZSet) -> ZSet:
    """Rows that come and rows that leave; some meet others of the same change."""
    leaving = random.sample(sorted(held, key=repr), k=min(len(held), random.randrange(3)))
    return ZSet.summed([*((one, -1) for one in leaving), *((row(random), 1) for _ in range(random.randrange(3)))])


@pytest.mark.parametrize("view", VIEWS)
def test_members_in_the_store_are_looked_up(view: str) -> None:
    """Also after an epoch that was undone, and by who finds nothing but the store."""
    relation = translate(VIEWS[view], FIELDS, name="v").relation
    program = compile_view("v", relation, TABLES, "joingraph")
    random, store = Random(view), MemoryStore()
    contents = {name: ZSet.of(row(random) for _ in range(5 * TABLES[name].kept)) for name in sorted(scans(relation))}
    harness = Harness(program, TABLES, store, elsewhere=True)
    harness.seed({name: rows for name, rows in contents.items() if TABLES[name].kept})
    harness.load()
    total = evaluate(relation, contents)
    for turn in range(8):
        if turn % 3 == 0:
            harness = Harness(program, TABLES, store, elsewhere=True)
        changes = {name: change(random, held) for name, held in contents.items()}
        if turn % 4 == 1:
            harness.run(changes)
            harness.runtime.rollback()
        total += harness.apply(changes)
        contents = {name: held + changes[name] for name, held in contents.items()}
        assert total == evaluate(relation, contents)
    assert all(harness.runtime._state.left(stage) for stage in program.stages if looked_up(stage))


def test_a_walk_ends_where_it_finds_nothing() -> None:
    """Nobody is asked for what lies behind a member that has no row to go on from."""
    relation = translate(VIEWS["chain"], FIELDS, name="v").relation
    harness = Harness(compile_view("v", relation, TABLES, "joingraph"), TABLES, elsewhere=True)
    harness.seed({"r": ZSet({(1, 1, 1): 1}), "s": ZSet({(1, 2, 1): 1}), "t": ZSet({(2, 3, 1): 1})})
    harness.load()
    again = Harness(harness.program, TABLES, harness.store, elsewhere=True)
    assert again.apply({"r": ZSet({(8, 9, 1): 1})}) == ZSet()
    maps = again.runtime._state.maps(again.runtime._compiled["v"])
    assert {name: list(map_._filled) for name, map_ in maps.items()} == {"v:r": [(0, 1)], "v:s": [(0,)], "v:t": []}
