"""Walking expressions and relations."""

from __future__ import annotations

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction, conjuncts
from tidemill.algebra.expressions.scalars import Case, Cast, Column, Literal, Named, Scalar, is_nullable
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Distinct, Filter, Join, Project, Scan, UnionAll
from tidemill.algebra.relational.walk import children, columns_in, scans, substitute, transform, walk, with_children
from tidemill.model import types as t
from tidemill.model.types import Field

A = Column("o.a", t.INT)
B = Column("o.b", t.INT, nullable=False)
ONE = Literal(1, t.INT)
CASE = Case(((call("gt", A, ONE), B), (call("lt", A, B), ONE)), Cast(A, t.INT), t.INT)

ORDERS = Scan("orders", "o", (Field("a", t.INT), Field("b", t.INT, nullable=False)))
TREE = Distinct(
    UnionAll((Project(Filter(ORDERS, call("eq", A, B)), (Named("x", A),)), Project(ORDERS, (Named("x", B),))))
)


def test_children_and_back() -> None:
    for node in walk(CASE):
        assert with_children(node, children(node)) == node
    for relation in walk(TREE):
        assert with_children(relation, children(relation)) == relation


def test_children_of_a_case_alternate() -> None:
    below = children(CASE)
    assert with_children(CASE, [*below[:-1], ONE]) == Case(CASE.branches, ONE, t.INT)


def test_columns_and_scans() -> None:
    assert columns_in(CASE) == {"o.a", "o.b"}
    other = Scan("customers", "c", (Field("id", t.INT),))
    assert scans(Join(TREE, other)) == {"orders", "customers"}


def test_transform_works_from_the_leaves_up() -> None:
    seen: list[str] = []

    def note(node: Relation) -> Relation:
        seen.append(type(node).__name__)
        return node

    assert transform(TREE, note) is TREE
    assert seen == ["Scan", "Filter", "Project", "Scan", "Project", "UnionAll", "Distinct"]


def test_substitution() -> None:
    assert substitute(CASE, {"o.a": ONE}) == Case(
        ((call("gt", ONE, ONE), B), (call("lt", ONE, B), ONE)), Cast(ONE, t.INT), t.INT
    )


def test_conjuncts_and_back() -> None:
    parts: list[Scalar] = [call("gt", A, ONE), call("lt", A, B), call("is_null", A)]
    whole = conjunction(parts)
    assert whole is not None
    assert conjuncts(whole) == parts
    assert conjunction([]) is None
    assert conjuncts(Literal(True, t.BOOLEAN)) == []


def test_nullability() -> None:
    nullable = [A, call("add", A, B), call("try_divide", B, B), Cast(B, t.DOUBLE, lenient=True), Literal(None, t.INT)]
    nullable += [call("ln", Cast(B, t.DOUBLE)), Cast(Column("x", t.DOUBLE, nullable=False), t.Decimal(5, 2))]
    known = [B, call("add", B, ONE), call("is_null", A), call("coalesce", A, B), call("null_safe_eq", A, B)]
    known += [call("concat_ws", Literal(",", t.STRING), A), call("array", A), Cast(B, t.DOUBLE)]
    assert all(map(is_nullable, nullable))
    assert not any(map(is_nullable, known))
    assert is_nullable(CASE)
    assert not is_nullable(Case(((call("gt", A, ONE), B),), ONE, t.INT))
