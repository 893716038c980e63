"""Random queries, any construct within any other: what they are made into means what their comprehensions say."""

from __future__ import annotations

from random import Random

import pytest

from tests.oql.direct import Direct, comprehension_of, random_objects
from tests.oql.examples import SCHEMA
from tests.oql.kept import check_kept
from tests.oql.queries import Queries
from tidemill.algebra.evaluate import evaluate
from tidemill.compiler.frontends.oql import translate_oql


@pytest.mark.parametrize(
    ("seeds", "depth"),
    [*((range(i, i + 25), 2) for i in range(0, 100, 25)), pytest.param(range(2_000), 3, marks=pytest.mark.long)],
    ids=lambda given: f"{given[0]}" if isinstance(given, range) else f"depth{given}",
)
def test_relations(seeds: range, depth: int) -> None:
    for seed in seeds:
        chance = Random(seed)
        text = Queries(chance).query(depth)
        (asked,) = translate_oql(text, SCHEMA, {})
        objects = random_objects(SCHEMA, chance, most=4)
        expected = Direct(objects, {}).rows(comprehension_of(text, SCHEMA, {}))
        assert dict(evaluate(asked.relation, objects.tables()).items()) == dict(expected), text


@pytest.mark.parametrize("strategy", ["delta", "lineage"])
@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 200), marks=pytest.mark.long)], ids=["few", "many"])
def test_programs(seeds: range, strategy: str) -> None:
    for seed in seeds:
        chance = Random(seed)
        text = Queries(chance).query(1)
        (asked,) = translate_oql(text, SCHEMA, {})
        check_kept(asked.relation, chance, strategy, epochs=4)
