"""Views that are the same but for names are one, and take on every sum that is asked for."""

from __future__ import annotations

from tidemill.algebra.functions import call
from tidemill.algebra.scalars import Column, Literal, Scalar
from tidemill.compiler.viewlets.calculus import Atom, Lift, Query
from tidemill.compiler.viewlets.ring import Polynomial, Term
from tidemill.compiler.viewlets.views import Views, canonical
from tidemill.model.types import BIGINT, Field

A, B, V = Field("a", BIGINT), Field("b", BIGINT), Field("v", BIGINT)


def atom(alias: str, *variables: str) -> Atom:
    return Atom("r", alias, (A, B, V)[: len(variables)], variables)


def var(name: str) -> Column:
    return Column(name, BIGINT)


def summed(name: str) -> Polynomial:
    return (Term(1, (var(name),)),)


def test_names_make_no_difference() -> None:
    path = Query((var("x.a"), var("y.b")), (), (atom("x", "x.a", "x.b"), atom("y", "x.b", "y.b")))
    same = Query((var("p"), var("s")), (), (atom("m", "q", "s"), atom("n", "p", "q")))
    assert canonical(path) == canonical(same)


def test_direction_does() -> None:
    path = Query((var("x.a"),), (), (atom("x", "x.a", "x.b"), atom("y", "x.b", "y.b")))
    back = Query((var("y.b"),), (), (atom("x", "x.a", "x.b"), atom("y", "x.b", "y.b")))
    assert canonical(path) != canonical(back)


def test_order_of_conditions_and_keys_makes_none() -> None:
    views = Views("v")
    low, high = call("gt", var("x.b"), Literal(0, BIGINT)), call("lt", var("x.a"), Literal(9, BIGINT))
    one = views.find(Query((var("x.a"), var("x.b")), (), (atom("x", "x.a", "x.b"),), (low, high)))
    other = views.find(Query((var("x.b"), var("x.a")), (), (atom("x", "x.a", "x.b"),), (high, low)))
    assert one.view is other.view
    assert one.keys == other.keys[::-1]


def test_a_view_takes_on_the_sums_that_are_asked_for() -> None:
    views = Views("v")
    counted = views.find(Query((var("x.a"),), (), (atom("x", "x.a"),)))
    found = views.find(Query((var("y.a"),), (summed("y.v"),), (atom("y", "y.a", "y.b", "y.v"),)))
    again = views.find(Query((var("z.a"),), (summed("z.v"),), (atom("z", "z.a", "z.b", "z.v"),)))
    assert counted.view is found.view is again.view
    assert found.values == again.values == tuple(found.view.values)
    assert [f.name for f in found.view.query.atoms[0].columns] == ["a", "v"]


def test_views_under_other_conditions_are_others() -> None:
    views = Views("v")
    all_rows = views.find(Query((), (), (atom("x", "x.a"),)))
    some = views.find(Query((), (), (atom("x", "x.a"),), (call("gt", var("x.a"), Literal(0, BIGINT)),)))
    assert [view.name for view in views] == ["v:r", "v:r_2"]
    assert all_rows.view is not some.view


def test_lifts_are_compared_by_what_they_read() -> None:
    def with_lift(alias: str, inner: str) -> Query:
        nested = Query(
            (var(f"{inner}.a"),), (summed(f"{inner}.v"),), (atom(inner, f"{inner}.a", f"{inner}.b", f"{inner}.v"),)
        )
        lift = Lift(alias, nested, (var("x.a"),))
        condition: Scalar = call("gt", lift.numbers[1], Literal(0, BIGINT))
        return Query((var("x.a"),), (), (atom("x", "x.a"),), (condition,), (lift,))

    assert canonical(with_lift("n1", "m")) == canonical(with_lift("n7", "k"))
