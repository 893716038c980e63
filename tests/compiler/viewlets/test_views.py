"""Equal queries share one auxiliary view, which has all sums that are needed."""

from __future__ import annotations

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Scalar
from tidemill.compiler.viewlets.auxiliary_views import AuxiliaryViews, canonical
from tidemill.compiler.viewlets.ring_calculus.polynomials import Polynomial, ProductTerm
from tidemill.compiler.viewlets.ring_calculus.queries import Atom, CalculusQuery, Lift
from tidemill.model.types import BIGINT, Field

A, B, V = Field("a", BIGINT), Field("b", BIGINT), Field("v", BIGINT)


def atom(alias: str, *variables: str) -> Atom:
    return Atom("r", alias, (A, B, V)[: len(variables)], variables)


def var(name: str) -> Column:
    return Column(name, BIGINT)


def summed(name: str) -> Polynomial:
    return (ProductTerm(1, (var(name),)),)


def test_names_make_no_difference() -> None:
    path = CalculusQuery((var("x.a"), var("y.b")), (), (atom("x", "x.a", "x.b"), atom("y", "x.b", "y.b")))
    same = CalculusQuery((var("p"), var("s")), (), (atom("m", "q", "s"), atom("n", "p", "q")))
    assert canonical(path) == canonical(same)


def test_direction_does() -> None:
    path = CalculusQuery((var("x.a"),), (), (atom("x", "x.a", "x.b"), atom("y", "x.b", "y.b")))
    back = CalculusQuery((var("y.b"),), (), (atom("x", "x.a", "x.b"), atom("y", "x.b", "y.b")))
    assert canonical(path) != canonical(back)


def test_order_of_conditions_and_keys_makes_none() -> None:
    views = AuxiliaryViews("v")
    low, high = call("gt", var("x.b"), Literal(0, BIGINT)), call("lt", var("x.a"), Literal(9, BIGINT))
    one = views.find(CalculusQuery((var("x.a"), var("x.b")), (), (atom("x", "x.a", "x.b"),), (low, high)))
    other = views.find(CalculusQuery((var("x.b"), var("x.a")), (), (atom("x", "x.a", "x.b"),), (high, low)))
    assert one.view is other.view
    assert one.keys == other.keys[::-1]


def test_a_view_takes_on_the_sums_that_are_asked_for() -> None:
    views = AuxiliaryViews("v")
    counted = views.find(CalculusQuery((var("x.a"),), (), (atom("x", "x.a"),)))
    found = views.find(CalculusQuery((var("y.a"),), (summed("y.v"),), (atom("y", "y.a", "y.b", "y.v"),)))
    again = views.find(CalculusQuery((var("z.a"),), (summed("z.v"),), (atom("z", "z.a", "z.b", "z.v"),)))
    assert counted.view is found.view is again.view
    assert found.values == again.values == tuple(found.view.values)
    assert [f.name for f in found.view.query.atoms[0].columns] == ["a", "v"]


def test_views_under_other_conditions_are_others() -> None:
    views = AuxiliaryViews("v")
    all_rows = views.find(CalculusQuery((), (), (atom("x", "x.a"),)))
    some = views.find(CalculusQuery((), (), (atom("x", "x.a"),), (call("gt", var("x.a"), Literal(0, BIGINT)),)))
    assert [view.name for view in views] == ["v:r", "v:r_2"]
    assert all_rows.view is not some.view


def test_lifts_are_compared_by_what_they_read() -> None:
    def with_lift(alias: str, inner: str) -> CalculusQuery:
        nested = CalculusQuery(
            (var(f"{inner}.a"),), (summed(f"{inner}.v"),), (atom(inner, f"{inner}.a", f"{inner}.b", f"{inner}.v"),)
        )
        lift = Lift(alias, nested, (var("x.a"),))
        condition: Scalar = call("gt", lift.numbers[1], Literal(0, BIGINT))
        return CalculusQuery((var("x.a"),), (), (atom("x", "x.a"),), (condition,), (lift,))

    assert canonical(with_lift("n1", "m")) == canonical(with_lift("n7", "k"))
