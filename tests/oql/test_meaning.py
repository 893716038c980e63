"""Each query means what its comprehension says: as a relation, and as a maintained program."""

from __future__ import annotations

from random import Random

import pytest

from tests.oql.direct import Direct, comprehension_of, random_objects
from tests.oql.examples import QUERIES, SCHEMA
from tests.oql.kept import check_kept
from tidemill.algebra.evaluate import evaluate
from tidemill.compiler.frontends.oql import translate_oql


@pytest.mark.parametrize("name", QUERIES)
def test_the_relation_means_what_the_comprehension_says(name: str) -> None:
    (asked,) = translate_oql(QUERIES[name], SCHEMA, {})
    term = comprehension_of(QUERIES[name], SCHEMA, {})
    chance = Random(name)
    for _ in range(15):
        objects = random_objects(SCHEMA, chance)
        expected = Direct(objects, {}).rows(term)
        assert dict(evaluate(asked.relation, objects.tables()).items()) == dict(expected)


@pytest.mark.parametrize("name", QUERIES)
def test_the_program_keeps_what_the_relation_means(name: str) -> None:
    (asked,) = translate_oql(QUERIES[name], SCHEMA, {})
    check_kept(asked.relation, Random(name), "delta", epochs=8)
