"""Subqueries in expressions: what they mean, and how everything that walks expressions goes into them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.evaluate import EvaluationContext, evaluate, evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, Subquery, is_nullable
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Project, Scan, Values
from tidemill.algebra.relational.walk import (
    children,
    columns_in,
    outer_columns,
    scans,
    substitute,
    transform,
    walk_all,
    with_children,
)
from tidemill.algebra.text import text_of, text_of_query
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Field

COSTS = Scan("costs", "c", (Field("k", t.INT), Field("n", t.Decimal(6, 2))))
TEAMS = Scan("teams", "t", (Field("k", t.INT), Field("cap", t.Decimal(16, 2))))
K, N, TEAM, CAP = (
    Column("c.k", t.INT),
    Column("c.n", t.Decimal(6, 2)),
    Column("t.k", t.INT),
    Column("t.cap", t.Decimal(16, 2)),
)
SUM = AggregateCall("s", "sum", N, t.Decimal(16, 2))
COUNT = AggregateCall("n", "count", None, t.BIGINT)


def total(call_: AggregateCall, condition: Scalar | None = None) -> Subquery:
    rows: Relation = COSTS if condition is None else Filter(COSTS, condition)
    return Subquery(Aggregate(rows, (), (call_,)))


OWN = total(SUM, call("eq", K, TEAM))
OVER = Filter(TEAMS, call("lt", CAP, OWN))
TABLES = {
    "teams": ZSet({(1, Decimal("5.00")): 2, (2, Decimal("1.00")): 1, (None, Decimal("0.00")): 1}),
    "costs": ZSet({(1, Decimal("3.00")): 2, (None, Decimal("9.00")): 1}),
}


class TestMeaning:
    def test_it_is_computed_for_each_row(self) -> None:
        assert evaluate(OVER, TABLES) == ZSet({(1, Decimal("5.00")): 2})

    def test_an_aggregate_over_nothing_has_a_value(self) -> None:
        shown = Project(TEAMS, (Named("k", TEAM), Named("n", total(COUNT, call("eq", K, TEAM)))))
        assert evaluate(shown, TABLES) == ZSet({(1, 2): 2, (2, 0): 1, (None, 0): 1})

    def test_no_row_is_null(self) -> None:
        nothing = Subquery(Values((), (Field("x", t.INT),)))
        assert evaluate_scalar(call("is_null", nothing), {}) is True

    def test_several_rows_are_an_error(self) -> None:
        several = Subquery(Project(COSTS, (Named("n", N),)))
        with pytest.raises(ArithmeticFault, match="3 rows"):
            evaluate_scalar(several, {}, EvaluationContext(TABLES, {}))

    def test_what_is_nested_sees_all_rows_around_it(self) -> None:
        inner = total(COUNT, call("and", call("eq", K, TEAM), call("lt", N, CAP)))
        outer = Subquery(Aggregate(Filter(Values(((),), ()), call("eq", inner, Literal(2, t.BIGINT))), (), (COUNT,)))
        shown = Project(TEAMS, (Named("k", TEAM), Named("n", outer)))
        assert evaluate(shown, TABLES) == ZSet({(1, 1): 2, (2, 0): 1, (None, 0): 1})


class TestWalk:
    def test_children_and_back(self) -> None:
        assert children(OWN) == (N, call("eq", K, TEAM))
        assert with_children(OWN, children(OWN)) == OWN

    def test_columns_are_those_from_outside(self) -> None:
        assert columns_in(call("lt", CAP, OWN)) == {"t.cap", "t.k"}
        assert columns_in(total(SUM)) == set()
        assert outer_columns(OWN.relation) == {"t.k"}

    def test_columns_of_what_is_nested_deeper(self) -> None:
        deeper = total(COUNT, call("and", call("eq", K, Literal(1, t.INT)), call("lt", CAP, OWN)))
        assert columns_in(deeper) == {"t.cap", "t.k"}

    def test_substitution_goes_inside(self) -> None:
        assert substitute(OWN, {"t.k": Literal(1, t.INT)}) == total(SUM, call("eq", K, Literal(1, t.INT)))

    def test_relations_inside_are_found_and_changed(self) -> None:
        def renamed(node: Relation) -> Relation:
            return Scan("old_costs", node.alias, node.columns) if node == COSTS and isinstance(node, Scan) else node

        assert scans(OVER) == {"teams", "costs"}
        assert [type(node) for node in walk_all(OVER)] == [Filter, Aggregate, Filter, Scan, Scan]
        assert scans(transform(OVER, renamed)) == {"teams", "old_costs"}

    def test_only_what_always_has_a_value_cannot_be_null(self) -> None:
        filled = Subquery(Project(OWN.relation, (Named("s", call("coalesce", Column("s", SUM.of), CAP)),)))
        known = Subquery(Project(OWN.relation, (Named("s", call("coalesce", Column("s", SUM.of), Literal(0, t.INT))),)))
        having = Subquery(Filter(total(COUNT).relation, call("gt", Column("n", t.BIGINT), Literal(0, t.BIGINT))))
        tested = (OWN, total(COUNT), filled, known, having)
        assert [is_nullable(scalar) for scalar in tested] == [True, False, True, False, True]


class TestText:
    def test_in_an_expression(self) -> None:
        text = "t.cap < (SELECT SUM(c.n) FROM costs c WHERE c.k = t.k)"
        assert text_of(call("lt", CAP, OWN)) == text

    def test_of_a_query(self) -> None:
        many = call("gt", Column("n", t.BIGINT), Literal(1, t.BIGINT))
        groups = Filter(Aggregate(COSTS, (Named("k", K),), (SUM, COUNT)), many)
        shown = Project(groups, (Named("k", Column("k", t.INT)), Named("s", Column("s", SUM.of))))
        assert text_of_query(shown) == "SELECT c.k, SUM(c.n) FROM costs c GROUP BY c.k HAVING COUNT(*) > 1"
