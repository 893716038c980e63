"""``derive`` against its law: the change it computes is the difference between the relation after and before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.shop import TABLES, changes_of, epochs_of
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, Project, Scan, UnionAll, Values
from tidemill.changes.zset import ZSet
from tidemill.compiler.delta.derive import derive
from tidemill.model.types import INT, Field


def scan(name: str, alias: str) -> Scan:
    return Scan(name, alias, TABLES[name].fields)


def at(relation: Relation, name: str) -> Column:
    return next(column(f) for f in relation.fields if f.name == name)


def equal(left: Relation, one: str, right: Relation, other: str) -> Scalar:
    return call("eq", at(left, one), at(right, other))


X, Y, Z = scan("edges", "x"), scan("edges", "y"), scan("edges", "z")
C = scan("customers", "c")
LINKED = Join(X, Y, equal(X, "x.b", Y, "y.a"))
STARTS = Project(X, (Named("k", at(X, "x.a")),))
ENDS = Project(Y, (Named("e", at(Y, "y.b")),))
ONE = Values(((1,), (2,)), (Field("v", INT),))

TREES: dict[str, Relation] = {
    "scan": X,
    "filter": Filter(X, call("gt", at(X, "x.a"), Literal(1, INT))),
    "project": Project(X, (Named("s", at(X, "x.a")),)),
    "join": Join(X, C, equal(X, "x.b", C, "c.id")),
    "cross": Join(X, C),
    "self_join": LINKED,
    "path_of_three": Join(LINKED, Z, equal(LINKED, "y.b", Z, "z.a")),
    "union_all": UnionAll((STARTS, ENDS)),
    "union_of_others": UnionAll((Project(C, (Named("k", at(C, "c.id")),)), ENDS)),
    "join_of_union": Join(UnionAll((STARTS, ENDS)), C, call("eq", Column("k", INT), at(C, "c.id"))),
    "with_values": Join(X, ONE, call("eq", at(X, "x.a"), Column("v", INT))),
}


@pytest.mark.parametrize("tree", TREES)
@settings(max_examples=25)
@given(data=st.data())
def test_change_is_the_difference(tree: str, data: st.DataObject) -> None:
    relation = TREES[tree]
    names = ("edges", "customers")
    old = {name: ZSet() for name in names}
    for moves in data.draw(epochs_of(names))[:2]:
        old = {name: old[name] + changes_of(moves, old).get(name, ZSet()) for name in names}
    change = changes_of(data.draw(st.sampled_from(data.draw(epochs_of(("edges",))) or [[]])), old).get("edges", ZSet())
    new = old | {"edges": old["edges"] + change}
    derived = derive(relation, "edges")
    assert derived is not None
    assert [f.name for f in derived.fields] == [f.name for f in relation.fields]
    assert evaluate(derived, old | {"change of edges": change}) == evaluate(relation, new) - evaluate(relation, old)


def test_what_does_not_read_it_does_not_change() -> None:
    assert derive(C, "edges") is None
    assert derive(ONE, "edges") is None
    assert derive(UnionAll((C, C)), "edges") is None


def test_aggregates_have_no_linear_change() -> None:
    with pytest.raises(TypeError, match="Aggregate"):
        derive(Aggregate(X, (), ()), "edges")
