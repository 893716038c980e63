"""Estimates of the cost model, and the joins that are materialized."""

from __future__ import annotations

import pytest

from tidemill.compiler.statistics.sizes import FANOUT, MANY
from tidemill.compiler.viewlets.materialization_costs import MaterializationCosts, connected
from tidemill.compiler.viewlets.ring_calculus.queries import Atom, CalculusQuery
from tidemill.model.types import BIGINT, Field

KEYS = {"customer": frozenset({"ck"}), "orders": frozenset({"ok"})}


def atom(relation: str, *names: str) -> Atom:
    return Atom(relation, relation, tuple(Field(name, BIGINT) for name in names), names)


CUSTOMER, ORDERS, ITEMS = atom("customer", "ck"), atom("orders", "ok", "ck"), atom("items", "ok", "qty")
QUERY = CalculusQuery((), (), (CUSTOMER, ORDERS, ITEMS))


def test_sizes_follow_from_keys() -> None:
    costs = MaterializationCosts(KEYS, [QUERY])
    assert [costs.size(name) for name in ("items", "orders", "customer")] == [MANY, MANY / FANOUT, MANY / FANOUT**2]


def test_sizes_that_are_known_are_taken() -> None:
    costs = MaterializationCosts(KEYS, [QUERY], rows={"orders": 10, "customer": 1000})
    assert (costs.size("orders"), costs.size("customer")) == (10, 1000)


def test_what_never_changes_has_no_rate() -> None:
    assert MaterializationCosts(KEYS, [QUERY], static={"customer"}).rate("customer") == 0


def test_a_join_that_is_read_rarely_is_looped_over() -> None:
    """A customer comes rarely; a map of orders with items would have to be updated with every item."""
    costs = MaterializationCosts(KEYS, [QUERY])
    assert costs.exposed([ORDERS, ITEMS], {"ck"}, costs.rate("customer")) == [ORDERS]


def test_a_join_that_is_read_often_is_materialized() -> None:
    costs = MaterializationCosts(KEYS, [QUERY])
    assert costs.exposed([CUSTOMER, ORDERS], {"ok"}, costs.rate("items")) == []


def test_without_any_knowledge_a_join_is_materialized() -> None:
    assert MaterializationCosts({}, [QUERY]).exposed([ORDERS, ITEMS], {"ck"}, 1.0) == []


@pytest.mark.parametrize(("known", "parts"), [(set(), 1), ({"ok"}, 2)])
def test_what_is_known_connects_nothing(known: set[str], parts: int) -> None:
    assert len(connected([CUSTOMER, ORDERS, ITEMS], known)) == parts
