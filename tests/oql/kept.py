"""A view kept over random changes of objects, beside the evaluator."""

from __future__ import annotations

from random import Random

from tests.oql.direct import Objects, random_objects
from tests.oql.examples import SCHEMA
from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.compiler.passes import compile_view

TABLES = {t.name: t for t in (SCHEMA.table(name) for name in SCHEMA.classes if SCHEMA.is_stored(name))}


def check_kept(relation: Relation, chance: Random, strategy: str, epochs: int) -> None:
    """What the program of ``relation`` emits sums up to what the relation means, epoch by epoch."""
    objects = random_objects(SCHEMA, chance)
    harness = Harness(compile_view("v", relation, TABLES, strategy), TABLES)
    harness.seed(objects.tables())
    total = harness.load()
    for _ in range(epochs):
        before = objects.tables()
        shake(objects, chance)
        after = objects.tables()
        total = total + harness.apply({name: after[name] - before[name] for name in after})
        assert total == evaluate(relation, after)


def shake(objects: Objects, chance: Random) -> None:
    """In some classes an object changes, or one comes."""
    for name, members in objects.classes.items():
        if members and chance.random() < 0.4:
            members[chance.choice(sorted(members))] = objects.draw(chance, name)
        if chance.random() < 0.2:
            members[chance.randint(2000, 9000)] = objects.draw(chance, name)
