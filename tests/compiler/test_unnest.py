"""Unnested arrays: their place in loops, conditions before them, and the columns that are stored."""

from __future__ import annotations

from tests.compiler.shop import program_of, relation_of
from tidemill.algebra.relational.relations import Filter, Project, Unnest
from tidemill.algebra.relational.walk import walk
from tidemill.algebra.text import text_of
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.program.statements import Add, ArrayLoop, RelationLoop, Version


def test_elements_come_after_all_lookups() -> None:
    program = program_of(
        "SELECT c.name, x FROM orders o JOIN customers c ON c.id = o.customer "
        "LATERAL VIEW EXPLODE(ARRAY(o.day, c.id)) e AS x WHERE x > 1 AND o.day > 0"
    )
    (stage,) = program.stages
    for trigger in stage.triggers:
        (add,) = trigger.statements
        assert isinstance(add, Add)
        *sources, each = add.query.sources
        assert isinstance(each, ArrayLoop)
        assert all(isinstance(source, RelationLoop) for source in sources)
        assert [text_of(condition) for condition in each.filters] == ["each.element > 1"]


def test_what_asks_for_no_element_is_decided_first() -> None:
    relation = push_down_filters(
        relation_of("SELECT id FROM orders LATERAL VIEW EXPLODE(ARRAY(day)) e AS x WHERE id > 1 AND x > 2")
    )
    assert isinstance(relation, Project)
    above = relation.input
    assert isinstance(above, Filter)
    assert text_of(above.condition) == "e.x > 2"
    assert isinstance(above.input, Unnest)
    below = above.input.input
    assert isinstance(below, Filter)
    assert text_of(below.condition) == "orders.id > 1"


def test_rows_that_are_found_by_elements_are_kept() -> None:
    program = program_of(
        "SELECT s.x, c.name FROM (SELECT EXPLODE(ARRAY(a, b)) AS x FROM edges) s JOIN customers c ON c.id = s.x"
    )
    first, last = program.stages
    assert (first.name, first.inputs) == ("v/1", ("edges",))
    for trigger in last.triggers:
        (add,) = trigger.statements
        assert isinstance(add, Add)
        change, other = add.query.sources
        assert isinstance(change, RelationLoop) and change.version is Version.CHANGE
        assert other.lookup


def test_rows_that_are_found_by_their_own_columns_are_not() -> None:
    program = program_of(
        "SELECT s.x, c.name FROM (SELECT a, EXPLODE(ARRAY(a, b)) AS x FROM edges) s JOIN customers c ON c.id = s.a"
    )
    assert [stage.name for stage in program.stages] == ["v"]


def test_the_same_elements_are_kept_once() -> None:
    program = program_of(
        "WITH e AS (SELECT a, EXPLODE(ARRAY(a, b)) AS x FROM edges) SELECT l.a FROM e l JOIN e r ON l.x = r.x"
    )
    assert [stage.name for stage in program.stages] == ["v/1", "v"]


def test_a_lambda_reads_no_column_by_its_parameter() -> None:
    relation = relation_of("SELECT TRANSFORM(ARRAY(a), x -> x + b) AS y FROM edges")
    assert isinstance(relation, Project)
    assert text_of(relation.outputs[0].scalar) == "TRANSFORM(ARRAY(edges.a), λx -> λx + edges.b)"
    assert not any(isinstance(node, Unnest) for node in walk(relation))
