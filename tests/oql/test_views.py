"""Views that read views: their rows are bags without keys, and may be alike."""

from __future__ import annotations

from random import Random

import pytest

from tests.oql.direct import Direct, comprehension_of, random_objects
from tests.oql.examples import SCHEMA
from tidemill.algebra.evaluate import evaluate
from tidemill.compiler.frontends.oql import OqlAnswer, OqlView, translate_oql
from tidemill.model.update_events import Listening, UpdateEvent

BASE = "define kinds() as select struct(k: p.kind, s: p.size, links: p.links) from p in Parts"

ABOVE = {
    "plain": "select struct(k: v.k, w: w.id) from v in kinds, w in Wholes where v.s = w.id",
    "whole_rows": "select v from v in kinds where v.s > 0",
    "nested": "select struct(k: v.k, ws: (select w.id from w in Wholes where w.kind = v.k)) from v in kinds",
    "nested_elements": "select struct(s: v.s, ls: (select l from l in v.links)) from v in kinds()",
    "nested_casts": "select struct(s: v.s, ls: (select ((part) l).size from l in v.links)) from v in kinds()",
    "nested_rows": "select struct(w: w.id, vs: (select v from v in kinds where v.k = w.kind)) from w in Wholes",
    "nested_in_condition": """select struct(k: v.k, n: count(select u from u in kinds where u.k = v.k)) from v in kinds
                              where exists w in Wholes: w.id > v.s""",
    "twice": "(select v.s from v in kinds) union (select u.s + 1 from u in kinds)",
    "group": "select k, n: count(*) from v in kinds group by k: v.k",
}


@pytest.mark.parametrize("name", ABOVE)
def test_a_view_reads_the_rows_of_another(name: str) -> None:
    kinds, view = translate_oql(f"{BASE}; define above as {ABOVE[name]}", SCHEMA, {})
    assert isinstance(kinds, OqlView) and isinstance(view, OqlView)
    term = comprehension_of(ABOVE[name], SCHEMA, {"kinds": kinds.relation.fields})
    chance = Random(name)
    for _ in range(20):
        objects = random_objects(SCHEMA, chance, most=6)
        tables = objects.tables()
        tables["kinds"] = evaluate(kinds.relation, tables)
        expected = Direct(objects, tables).rows(term)
        assert dict(evaluate(view.relation, tables).items()) == dict(expected)


def test_a_view_hears_of_those_that_it_reads() -> None:
    _, view = translate_oql(f"{BASE}; define above as {ABOVE['plain']}", SCHEMA, {})
    assert isinstance(view, OqlView)
    assert {Listening(UpdateEvent.INSERT, "kinds"), Listening(UpdateEvent.DELETE, "kinds")} <= view.monitored


def test_the_text_of_a_view_is_as_it_was_written() -> None:
    text = f"-- first\n{BASE}  ;\n\n  {BASE.replace('kinds', 'more')}\n"
    assert [found.text for found in translate_oql(text, SCHEMA, {}) if isinstance(found, OqlView)] == [
        BASE,
        BASE.replace("kinds", "more"),
    ]


def test_a_query_knows_its_order() -> None:
    (asked,) = translate_oql(
        "select struct(i: w.id, k: w.kind) from w in Wholes order by k, w.main.size desc", SCHEMA, {}
    )
    assert isinstance(asked, OqlAnswer)
    assert asked.visible == 2
    assert [f.name for f in asked.relation.fields] == ["i", "k", "order_2"]
    assert asked.order == ((1, False, True), (2, True, False))
