"""The native runtime: refusals and their messages, and what it reads when."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.compiler.shop import TABLES, program_of, relation_of
from tests.runtimes.native.harness import Harness
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model.errors import ArithmeticFault, DuplicateKey, MissingRow
from tidemill.runtimes.native.runtime import NativeRuntime

ANN, BOB = (1, "ann", "north"), (2, "bob", "south")
GROUPED = "SELECT region, COUNT(*) n FROM customers GROUP BY region"


def harness_of(sql: str) -> Harness:
    harness = Harness(program_of(sql), TABLES)
    harness.load()
    return harness


def over(ddl: str, sql: str, strategy: str = "delta") -> Harness:
    """A harness with tables of its own."""
    tables = {s.table.name: s.table for s in parse(ddl) if isinstance(s, CreateTable)}
    relation = translate(sql, {name: table.fields for name, table in tables.items()}, name="v").relation
    harness = Harness(compile_view("v", relation, tables, strategy), tables)
    harness.load()
    return harness


def test_a_row_that_is_not_there_cannot_leave() -> None:
    harness = harness_of(GROUPED)
    harness.apply({"customers": ZSet({ANN: 1})})
    with pytest.raises(MissingRow) as refused:
        harness.apply({"customers": ZSet({BOB: -1})})
    assert refused.value.where == "customers (2, 'bob', 'south')"
    assert harness.apply({"customers": ZSet({ANN: -1})}) == ZSet({("north", 1): -1})


def test_a_row_leaves_only_as_often_as_it_is_there() -> None:
    harness = harness_of("SELECT a FROM edges")
    harness.apply({"edges": ZSet({(1, 2): 2})})
    with pytest.raises(MissingRow, match="leave 3 times and is there 2 times"):
        harness.apply({"edges": ZSet({(1, 2): -3})})
    assert harness.apply({"edges": ZSet({(1, 2): -2})}) == ZSet({(1,): -2})


@pytest.mark.parametrize("change", [{(1, "eve", "east"): 1}, {BOB: 1, (2, "eve", "east"): 1}, {BOB: 2}, {ANN: 1}])
def test_a_primary_key_is_taken_once(change: dict[Any, int]) -> None:
    harness = harness_of(GROUPED)
    harness.apply({"customers": ZSet({ANN: 1})})
    with pytest.raises(DuplicateKey) as refused:
        harness.apply({"customers": ZSet(change)})
    assert "primary key id = " in refused.value.what
    assert str(refused.value.where).startswith("customers (") and " and (" in str(refused.value.where)
    assert harness.apply({"customers": ZSet({BOB: 1})}) == ZSet({("south", 1): 1})


@pytest.mark.parametrize("order", [1, -1])
def test_an_update_is_no_duplicate(order: int) -> None:
    harness = harness_of(GROUPED)
    harness.apply({"customers": ZSet({ANN: 1})})
    update = [(ANN, -1), ((1, "ann", "south"), 1)][::order]
    assert harness.apply({"customers": ZSet(update)}) == ZSet({("north", 1): -1, ("south", 1): 1})


def test_bulk_with_a_taken_key_is_refused() -> None:
    harness = harness_of(GROUPED)
    harness.apply({"customers": ZSet({ANN: 1})})
    bulk = {(number, "x", "y"): 1 for number in range(1, 200)}
    with pytest.raises(DuplicateKey, match="id = 1"):
        harness.apply({"customers": ZSet(bulk)})
    del bulk[(1, "x", "y")]
    with pytest.raises(DuplicateKey, match="id = 2"):
        harness.apply({"customers": ZSet(bulk | {(2, "z", "y"): 1})})
    assert harness.apply({"customers": ZSet(bulk)}) == ZSet({("y", 198): 1})


def test_equal_rows_of_a_change_are_summed_before_they_are_judged() -> None:
    harness = harness_of(GROUPED)
    harness.runtime.begin(1)
    pairs = [(ANN, 1), (ANN, -1), (BOB, 1)]
    checked = harness.runtime.check(TABLES["customers"], ChangeSet.of(pairs, TABLES["customers"].fields))
    assert checked.pairs() == [(BOB, 1)]


def test_a_fault_names_the_view_and_the_rows() -> None:
    harness = harness_of("SELECT o.id, 1 / c.id AS q FROM orders o JOIN customers c ON c.id = o.customer")
    harness.apply({"customers": ZSet({ANN: 1, (0, "zoe", None): 1})})
    orders = {(1, 1, Decimal("2.00"), 1): 1, (7, 0, Decimal("2.00"), 1): 1}
    with pytest.raises(ArithmeticFault, match="division by zero") as fault:
        harness.apply({"orders": ZSet(orders)})
    assert fault.value.where == "view \"v\", orders (7, 0, Decimal('2.00'), 1), customers (0, 'zoe', None)"
    assert harness.apply({"orders": ZSet({(1, 1, Decimal("2.00"), 1): 1})}) == ZSet({(1, 1.0): 1})


def test_a_sum_that_overflows_is_refused_and_names_the_group() -> None:
    harness = over("CREATE TABLE t (k STRING, n BIGINT)", "SELECT k, SUM(n) s FROM t GROUP BY k")
    harness.apply({"t": ZSet({("a", 2**63 - 1): 1})})
    with pytest.raises(ArithmeticFault, match="BIGINT") as fault:
        harness.apply({"t": ZSet({("a", 1): 1})})
    assert fault.value.where == "view \"v\", v/groups ('a',)"
    # On the way the sum may be anything; only what comes out must fit.
    assert harness.apply({"t": ZSet({("a", 1): 1, ("a", -1): 1})}) == ZSet()


def test_nan_and_infinity_leave_as_they_came() -> None:
    harness = over("CREATE TABLE t (k STRING, x DOUBLE)", "SELECT k, SUM(x) s FROM t GROUP BY k")
    harness.apply({"t": ZSet({("a", 0.1): 1, ("a", 0.2): 1})})
    exact = 0.1 + 0.2
    infinite = harness.apply({"t": ZSet({("a", float("inf")): 1})})
    assert infinite == ZSet({("a", float("inf")): 1, ("a", exact): -1})
    again = Harness(harness.program, harness.tables, store=harness.store)
    assert again.apply({"t": ZSet({("a", float("inf")): -1})}) == -infinite


def test_decimals_keep_every_digit() -> None:
    harness = over("CREATE TABLE t (k INT, x DECIMAL(38,10))", "SELECT k, SUM(x) s FROM t GROUP BY k")
    large, small = Decimal("1234567890123456789012345678.0000000000"), Decimal("0.0000000001")
    harness.apply({"t": ZSet({(1, large): 1})})
    total = Decimal("1234567890123456789012345678.0000000001")
    assert harness.apply({"t": ZSet({(1, small): 1})}) == ZSet({(1, large): -1, (1, total): 1})


def test_answer_leaves_nothing_behind() -> None:
    harness = harness_of(GROUPED)
    harness.apply({"customers": ZSet({ANN: 1, BOB: 1})})
    sql = "SELECT n, COUNT(*) m FROM (SELECT region, COUNT(*) n FROM customers GROUP BY region) t GROUP BY n"
    expected = evaluate(relation_of(sql), {"customers": ZSet({ANN: 1, BOB: 1})})
    for _ in range(2):
        assert harness.runtime.answer(program_of(sql)).zset() == expected == ZSet({(1, 2): 1})
    assert harness.runtime._state.held_maps.keys() == {"v"}
    assert harness.runtime._state._contents.keys() == {"customers"}


def test_answer_within_an_epoch_sees_what_was_absorbed() -> None:
    harness = harness_of(GROUPED)
    harness.runtime.begin(1)
    change = ChangeSet.of([(ANN, 1)], TABLES["customers"].fields)
    harness.runtime.absorb("customers", change)
    counted = program_of("SELECT COUNT(*) n FROM customers")
    assert harness.runtime.answer(counted).zset() == ZSet({(1,): 1})
    harness.runtime.rollback()
    assert harness.runtime.answer(counted).zset() == ZSet({(0,): 1})


def test_state_is_read_when_it_is_first_needed() -> None:
    harness = harness_of("SELECT c.name, o.id FROM orders o JOIN customers c ON c.id = o.customer")
    harness.seed({"customers": ZSet({ANN: 1}), "orders": ZSet({(1, 1, None, None): 1})})
    runtime = NativeRuntime(harness.store, harness.fields_of)
    (stage,) = harness.program.stages
    runtime.install(stage)
    runtime.begin(2)
    runtime.absorb("customers", ChangeSet.of([(BOB, 1)], TABLES["customers"].fields))
    assert runtime._state._contents == {}
    runtime.fire(stage, "orders", ChangeSet.of([((2, 2, None, None), 1)], TABLES["orders"].fields))
    assert runtime._state._contents.keys() == {"customers"}
    assert runtime.emit(stage).zset() == ZSet({("bob", 2): 1})
    runtime.rollback()
    assert runtime._state.relation("customers").entries == {ANN: 1}


def test_a_view_is_filled_anew_whatever_the_store_has() -> None:
    harness = harness_of(GROUPED)
    harness.apply({"customers": ZSet({ANN: 1})})
    (stage,) = harness.program.stages
    harness.runtime.begin(harness.store.epoch)
    rows = harness.runtime.load(stage)
    assert rows.zset() == ZSet({("north", 1): 1})
    harness.runtime.absorb("v", rows)
    maps = harness.runtime.commit()
    assert maps["v/groups"].zset() == ZSet({("north",): 1})
    harness.store.commit(Epoch(harness.store.epoch, {"v": rows, **maps}, replaced=("v", "v/groups")))
    assert harness.apply({"customers": ZSet({ANN: -1})}) == ZSet({("north", 1): -1})


def test_a_load_that_is_rolled_back_leaves_the_stored_state() -> None:
    harness = harness_of(GROUPED)
    harness.apply({"customers": ZSet({ANN: 1})})
    harness.runtime.begin(harness.store.epoch)
    harness.runtime.load(harness.program.stages[0])
    harness.runtime.rollback()
    assert harness.apply({"customers": ZSet({BOB: 1})}) == ZSet({("south", 1): 1})
    assert harness.apply({"customers": ZSet({ANN: -1})}) == ZSet({("north", 1): -1})


def test_what_is_removed_or_forgotten_is_read_again() -> None:
    harness = harness_of(GROUPED)
    harness.apply({"customers": ZSet({ANN: 1})})
    (stage,) = harness.program.stages
    harness.runtime.remove(stage)
    harness.runtime.install(stage)
    harness.store.commit(Epoch(5, {"customers": ChangeSet.of([(BOB, 1)], TABLES["customers"].fields)}))
    with pytest.raises(MissingRow):
        harness.apply({"customers": ZSet({BOB: -1})})
    harness.runtime.forget("customers")
    harness.apply({"customers": ZSet({BOB: -1, ANN: -1})})


def reopened(harness: Harness) -> Harness:
    """Another process over the same store."""
    return Harness(harness.program, harness.tables, store=harness.store)


def test_sums_of_more_digits_than_python_keeps_by_itself() -> None:
    harness = over("CREATE TABLE fine (d DECIMAL(38,10))", "SELECT SUM(d) AS s FROM fine")
    tiny = Decimal("0.0000000001")
    harness.apply({"fine": ZSet({(Decimal("1876543210987654321098765432.1234567891"),): 1})})
    harness.run({"fine": ZSet({(tiny,): 3})})
    harness.runtime.rollback()
    harness.apply({"fine": ZSet({(tiny,): 2})})
    old, new = Decimal("1876543210987654321098765432.1234567893"), Decimal("1876543210987654321098765432.1234567894")
    assert reopened(harness).apply({"fine": ZSet({(tiny,): 1})}) == ZSet({(old,): -1, (new,): 1})


def test_a_sum_that_files_have_no_room_for_is_a_fault() -> None:
    harness = over(
        "CREATE TABLE numbers (k BIGINT, n BIGINT); CREATE TABLE others (k BIGINT, m BIGINT)",
        "SELECT SUM(n * m) AS s FROM numbers JOIN others ON numbers.k = others.k",
        "viewlet",
    )
    with pytest.raises(ArithmeticFault, match="a sum does not fit BIGINT"):
        harness.apply({"numbers": ZSet({(1, 2**62): 1, (1, 2**62 + 1): 1})})


def test_sums_may_swing_from_one_end_of_their_type_to_the_other() -> None:
    harness = over("CREATE TABLE numbers (n BIGINT)", "SELECT SUM(n) AS s FROM numbers")
    low, high = -(2**63) + 1, 2**63 - 1
    harness.apply({"numbers": ZSet({(low,): 1})})
    assert harness.apply({"numbers": ZSet({(low,): -1, (high,): 1})}) == ZSet({(low,): -1, (high,): 1})
    assert reopened(harness).apply({"numbers": ZSet({(-1,): 1})}) == ZSet({(high,): -1, (high - 1,): 1})


def test_a_change_that_meets_itself_is_taken_row_by_row() -> None:
    """The pairs of its rows are its square, and they need not be built."""
    harness = over(
        "CREATE TABLE bids (broker INT NOT NULL, volume BIGINT NOT NULL)",
        "SELECT x.broker, SUM(x.volume * y.volume) s FROM bids x JOIN bids y ON x.broker = y.broker GROUP BY x.broker",
        "viewlet",
    )
    assert harness.runtime._compiled["v"].triggers["bids"].each
    assert not harness.program.stages[0].triggers[0].each
    rows = ZSet({(number % 3, number): 1 for number in range(60)})
    totals = {broker: sum(volume for other, volume in rows if other == broker) for broker in range(3)}
    assert harness.apply({"bids": rows}) == ZSet({(broker, total**2): 1 for broker, total in totals.items()})
