"""Outer joins, quantifiers and set operations: the relations they become, and their cost."""

from __future__ import annotations

import pytest

from tests.compiler.shop import program_of, relation_of
from tidemill.algebra.expressions.scalars import Exists, Quantified
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Except, Intersect, OuterJoin, Scan
from tidemill.algebra.relational.walk import expressions, subqueries, walk, walk_all
from tidemill.compiler.rewrites.expand_outer_joins import expand_outer_joins
from tidemill.compiler.rewrites.replace_set_operations import replace_set_operations
from tidemill.compiler.rewrites.subqueries.replace_quantifiers import replace_quantifiers, unknowns
from tidemill.program.stages import Program
from tidemill.program.statements import RelationLoop, Version


def scans_of(program: Program) -> list[RelationLoop]:
    """The loops of triggers that go through all rows of a relation."""
    queries = [
        statement.query
        for stage in program.stages
        for trigger in stage.triggers
        for statement in trigger.statements
        if hasattr(statement, "query")
    ]
    steps = [step for query in queries for step in query.sources if isinstance(step, RelationLoop)]
    return [step for step in steps if step.version is Version.STATE and not step.lookup]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c.name, o.day FROM customers c LEFT JOIN orders o ON c.id = o.customer",
        "SELECT c.name, o.day FROM orders o RIGHT JOIN customers c ON c.id = o.customer AND o.day > 3",
        "SELECT x.a, y.b FROM edges x LEFT JOIN edges y ON x.b = y.a",
        "SELECT x.a, y.b FROM edges x FULL JOIN edges y ON x.b = y.a",
        "SELECT c.name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
        "SELECT c.name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
        "SELECT x.id FROM orders x WHERE EXISTS (SELECT 1 FROM orders y WHERE y.customer = x.id AND y.day <> x.id)",
        "SELECT x.a FROM edges x WHERE x.b IN (SELECT y.a FROM edges y)",
        "SELECT a FROM edges INTERSECT SELECT b FROM edges",
        "SELECT a FROM edges EXCEPT ALL SELECT b FROM edges",
    ],
)
def test_a_change_looks_up_what_it_needs(sql: str) -> None:
    assert not scans_of(program_of(sql))


def test_outer_joins_in_a_row_stay_one_join() -> None:
    joins = " ".join(f"LEFT JOIN customers c{i} ON o.customer = c{i}.id" for i in range(12))
    relation = relation_of(f"SELECT o.id FROM orders o {joins}")
    facts = [
        node for node in walk(expand_outer_joins(relation)) if isinstance(node, Scan) and node.relation == "orders"
    ]
    # Once for itself, and once for each of the sets of keys that a join must have an answer for.
    assert len(facts) == 13


def left(relation: Relation, kinds: tuple[type, ...]) -> list[object]:
    nodes = list(walk_all(relation))
    scalars = [found for node in nodes for scalar in expressions(node) for found in subqueries(scalar)]
    return [one for one in (*nodes, *scalars) if isinstance(one, kinds)]


def test_none_is_left() -> None:
    relation = relation_of(
        """SELECT x.a FROM edges x LEFT JOIN edges y ON x.a = y.b
           WHERE x.a IN (SELECT a FROM edges INTERSECT SELECT b FROM edges)
             AND CASE WHEN EXISTS (SELECT 1 FROM edges z WHERE z.a > ALL (SELECT w.a FROM edges w WHERE w.b = x.b))
               THEN x.a ELSE x.b END NOT IN (SELECT id FROM orders EXCEPT SELECT customer FROM orders)"""
    )
    kinds = (OuterJoin, Exists, Quantified, Intersect, Except)
    assert len(left(relation, kinds)) == 7
    assert not left(replace_quantifiers(expand_outer_joins(replace_set_operations(relation))), kinds)


def quantified(sql: str) -> Quantified:
    (found,) = left(relation_of(sql), (Quantified,))
    assert isinstance(found, Quantified)
    return found


def test_what_cannot_be_null_is_not_counted() -> None:
    assert unknowns(quantified("SELECT id FROM orders WHERE id NOT IN (SELECT id FROM customers)")) == []


def test_each_side_that_can_be_null_is_counted_apart() -> None:
    unknown = unknowns(quantified("SELECT a FROM edges WHERE a NOT IN (SELECT b FROM edges)"))
    assert [(one.condition is None, one.guard is None) for one in unknown] == [(False, True), (True, False)]


def test_a_pair_is_open_in_eight_ways() -> None:
    pair = quantified("SELECT a FROM edges WHERE (a, b) NOT IN (SELECT b, a FROM edges)")
    assert len(unknowns(pair)) == 8
