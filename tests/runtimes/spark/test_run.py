"""Views kept fresh by the Spark runtime, epoch by epoch, beside the evaluator (see ``Driver``)."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from tidemill.changes.arrow import NAN
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, DuplicateKey, MissingRow
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.spark.execution import results
from tidemill.runtimes.spark.lookup import key_check
from tidemill.runtimes.spark.lowering.stages import lower_output_change

pytestmark = pytest.mark.spark

ORDERS = Table(
    "orders",
    (
        Field("id", t.BIGINT, nullable=False),
        Field("customer", t.STRING),
        Field("amount", t.Decimal(12, 2)),
        Field("score", t.DOUBLE),
        Field("day", t.DATE),
    ),
    primary_key=("id",),
)
CUSTOMERS = Table("customers", (Field("name", t.STRING), Field("region", t.STRING)))
EVENTS = Table("events", (Field("who", t.STRING), Field("n", t.BIGINT)), kept=False)
NUMBERS = Table("numbers", (Field("k", t.INT), Field("n", t.BIGINT), Field("x", t.DOUBLE)))

MONDAY = datetime.date(2024, 1, 1)
TUESDAY = datetime.date(2024, 1, 2)
ANN = (1, "ann", Decimal("9.50"), 0.1, MONDAY)
BOB = (2, "bob", Decimal("3.00"), 0.2, MONDAY)
CAT = (3, "ann", None, None, None)
NOBODY = (4, None, Decimal("1.25"), 0.3, TUESDAY)


@pytest.mark.parametrize("strategy", ["delta", "recompute"])
def test_group_by_follows_inserts_updates_and_deletes(drive, strategy):
    query = """SELECT customer, SUM(amount) AS total, COUNT(*) AS n, COUNT(amount) AS m, AVG(amount) AS mean
               FROM orders GROUP BY customer"""
    view = drive([ORDERS], query, strategy)
    view.load()
    assert view.apply(orders=[(ANN, 1), (BOB, 1), (CAT, 1), (NOBODY, 1)])[
        ("bob", Decimal("3.00"), 1, 1, Decimal("3.000000"))
    ]
    moved = (2, "ann", Decimal("3.00"), 0.2, MONDAY)
    assert len(view.apply(orders=[(BOB, -1), (moved, 1)])) == 3
    assert view.apply(orders=[(ANN, -1), (moved, -1), (CAT, -1), (NOBODY, -1)]) and not view.shown


@pytest.mark.parametrize("strategy", ["delta", "recompute"])
def test_join_over_two_changed_tables_in_one_epoch(drive, strategy):
    query = """SELECT c.region, SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.name
               WHERE o.day >= DATE '2024-01-01' GROUP BY c.region HAVING COUNT(*) > 0"""
    view = drive([ORDERS, CUSTOMERS], query, strategy)
    view.load()
    view.apply(orders=[(ANN, 1), (BOB, 1), (NOBODY, 1)], customers=[(("ann", "north"), 2), ((None, "south"), 1)])
    assert view.shown == ZSet({("north", Decimal("19.00")): 1})
    view.apply(orders=[(ANN, -1), (CAT, 1)], customers=[(("ann", "north"), -1), (("bob", "south"), 1)])
    assert view.shown == ZSet({("south", Decimal("3.00")): 1})


def test_join_without_groups_is_a_bag(drive):
    query = "SELECT a.customer FROM orders a JOIN orders b ON a.day = b.day"
    view = drive([ORDERS], query)
    view.load()
    assert view.apply(orders=[(ANN, 1), (BOB, 1), (NOBODY, 1)]) == ZSet({("ann",): 2, ("bob",): 2, (None,): 1})
    assert view.apply(orders=[(BOB, -1)]) == ZSet({("ann",): -1, ("bob",): -2})


def test_theta_join_and_cross_join(drive):
    view = drive([ORDERS, CUSTOMERS], "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer < c.name")
    view.apply(orders=[(ANN, 1), (BOB, 1), (NOBODY, 1)], customers=[(("bob", None), 1), (("cyd", None), 1)])
    assert len(view.shown) == 3
    view.apply(customers=[(("cyd", None), -1)])
    cross = drive([ORDERS, CUSTOMERS], "SELECT o.id, c.name FROM orders o, customers c")
    cross.apply(orders=[(ANN, 1), (NOBODY, 1)], customers=[(("bob", None), 3)])
    assert sum(cross.shown.values()) == 6


def test_distinct_union_and_constants(drive):
    query = "SELECT customer AS who FROM orders UNION SELECT name FROM customers UNION ALL SELECT 'x'"
    view = drive([ORDERS, CUSTOMERS], query)
    view.load()
    assert view.shown == ZSet({("x",): 1})
    view.apply(orders=[(ANN, 1), (CAT, 1)], customers=[(("ann", "north"), 1), ((None, None), 1)])
    assert view.apply(orders=[(ANN, -1), (CAT, -1)]) == ZSet()
    assert view.apply(customers=[(("ann", "north"), -1)]) == ZSet({("ann",): -1})


def test_global_aggregate_has_a_row_over_nothing(drive):
    view = drive([ORDERS], "SELECT COUNT(*) AS n, SUM(amount) AS total, SUM(score) AS s FROM orders")
    view.load()
    assert view.shown == ZSet({(0, None, None): 1})
    view.apply(orders=[(ANN, 1), (BOB, 1)])
    view.apply(orders=[(ANN, -1), (BOB, -1)])
    assert view.shown == ZSet({(0, None, None): 1})


def test_rows_that_show_no_key_are_summed(drive):
    view = drive([ORDERS], "SELECT COUNT(*) AS n FROM orders GROUP BY customer")
    view.load()
    assert view.apply(orders=[(ANN, 1), (BOB, 1)]) == ZSet({(1,): 2})
    assert view.apply(orders=[((7, "cyd", None, None, None), 1), (BOB, -1)]) == ZSet()


def test_double_sums_do_not_drift(drive):
    view = drive([NUMBERS], "SELECT k, SUM(x) AS s FROM numbers GROUP BY k")
    view.load()
    view.apply(numbers=[((1, 0, 1e20), 1), ((1, 0, 1.0), 1), ((1, 0, 0.1), 3)])
    assert view.apply(numbers=[((1, 0, 1e20), -1), ((1, 0, 0.1), -3)]) == ZSet({(1, 1e20): -1, (1, 1.0): 1})
    view.apply(numbers=[((1, 0, 1.0), -1)])
    assert view.apply(numbers=[((1, 0, 0.3), 1)]) == ZSet({(1, 0.3): 1})


def test_numbers_that_are_not_finite_leave_a_sum_again(drive):
    view = drive([NUMBERS], "SELECT SUM(x) AS s, AVG(x) AS a FROM numbers")
    view.load()
    view.apply(numbers=[((1, 0, 2.0), 1), ((1, 0, float("inf")), 2)])
    assert view.shown == ZSet({(float("inf"), float("inf")): 1})
    view.apply(numbers=[((1, 0, NAN), 1)])
    assert view.shown == ZSet({(NAN, NAN): 1})
    view.apply(numbers=[((1, 0, NAN), -1), ((1, 0, float("-inf")), 1), ((1, 0, float("inf")), -1)])
    assert view.shown == ZSet({(NAN, NAN): 1})
    view.apply(numbers=[((1, 0, float("-inf")), -1), ((1, 0, float("inf")), -1)])
    assert view.shown == ZSet({(2.0, 2.0): 1})


def test_decimals_of_high_scale_are_multiplied_by_their_weight_exactly(drive):
    fine = Table("fine", (Field("d", t.Decimal(38, 20)),))
    view = drive([fine], "SELECT SUM(d) AS s FROM fine")
    view.load()
    tiny, large = Decimal("0.00000000000000000001"), Decimal("123456789012345678.00000000000000000007")
    view.apply(fine=[((tiny,), 3), ((large,), 2)])
    view.apply(fine=[((large,), -2)])
    assert view.shown == ZSet({(Decimal("0.00000000000000000003"),): 1})


def test_only_totals_overflow(drive):
    view = drive([NUMBERS], "SELECT k, SUM(n) AS s FROM numbers GROUP BY k")
    view.load()
    big = 2**63 - 1
    view.apply(numbers=[((1, big, None), 2), ((1, -big, None), 1)])
    with pytest.raises(ArithmeticFault) as refused:
        view.apply(numbers=[((1, 1, None), 1)])
    assert "v" in str(refused.value) and "\n\tat " not in refused.value.render()
    view.apply(numbers=[((1, big, None), -1), ((1, 5, None), 1)])
    assert view.shown == ZSet({(1, 5): 1})


def test_division_by_zero_names_the_view_and_changes_nothing(drive, capfd):
    view = drive([NUMBERS], "SELECT n / k AS q FROM numbers")
    view.load()
    with pytest.raises(ArithmeticFault, match="(?i)division by zero") as refused:
        view.apply(numbers=[((0, 1, None), 1)])
    assert refused.value.where == "v"
    assert capfd.readouterr().err == ""
    assert view.apply(numbers=[((2, 1, None), 1)]) == ZSet({(0.5,): 1})


def test_streams_are_held_only_as_far_as_the_view_needs(drive):
    query = "SELECT c.region, SUM(e.n) AS s FROM events e JOIN customers c ON e.who = c.name GROUP BY c.region"
    view = drive([EVENTS, CUSTOMERS], query)
    view.load()
    view.apply(events=[(("ann", 1), 1), (("ann", 2), 1)])
    assert view.apply(customers=[(("ann", "north"), 1)]) == ZSet({("north", 3): 1})
    view.apply(events=[(("ann", 4), 1)], customers=[(("ann", "south"), 1)])
    assert view.shown == ZSet({("north", 7): 1, ("south", 7): 1})
    assert not view.store.runs("events")


def test_stages_feed_each_other(drive):
    query = """SELECT n, COUNT(*) AS customers FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t
               GROUP BY n"""
    view = drive([ORDERS], query)
    view.load()
    view.apply(orders=[(ANN, 1), (BOB, 1)])
    assert view.apply(orders=[(CAT, 1)]) == ZSet({(1, 2): -1, (1, 1): 1, (2, 1): 1})


def test_every_type_goes_there_and_back(drive):
    point = t.Struct((Field("x", t.INT), Field("y", t.Array(t.STRING))))
    wide = Table(
        "wide",
        (
            Field("b", t.BOOLEAN),
            Field("i", t.INT),
            Field("d", t.Decimal(38, 10)),
            Field("f", t.DOUBLE),
            Field("s", t.STRING),
            Field("day", t.DATE),
            Field("at", t.TIMESTAMP),
            Field("a", t.Array(t.INT)),
            Field("p", point),
        ),
    )
    view = drive([wide], "SELECT *, COUNT(*) AS n FROM wide GROUP BY b, i, d, f, s, day, at, a, p")
    view.load()
    noon = datetime.datetime(1969, 7, 20, 20, 17, 40, 123456)
    full = (
        True,
        -(2**31),
        Decimal("1.5").quantize(Decimal("1e-10")),
        NAN,
        "it's ${x} \\ `q`\n",
        MONDAY,
        noon,
        (1, None),
        (7, ("a",)),
    )
    empty = (None,) * 9
    view.apply(wide=[(full, 2), (empty, 1)])
    assert view.shown == ZSet({(*full, 2): 1, (*empty, 1): 1})
    view.apply(wide=[(full, -2)])
    assert view.shown == ZSet({(*empty, 1): 1})


def test_literals_of_every_type_are_spelt_exactly(drive):
    text = 'it\\\'s ${x} \\\\ "q"'
    query = f"""SELECT '{text}' AS s, DATE '2024-02-29' AS d, TIMESTAMP '2024-01-01 10:00:00.5' AS at, 1.50 AS e,
                       CAST('NaN' AS DOUBLE) AS f, -1 AS i, 9223372036854775807 AS big, ARRAY(1, NULL) AS a, true AS b
                FROM customers WHERE region <> '{text}'"""
    view = drive([CUSTOMERS], query)
    view.load()
    view.apply(customers=[(("ann", "north"), 1)])
    assert len(view.shown) == 1


def test_the_state_that_a_change_meets_is_scanned_once(drive, bulk):
    bulk(0)
    query = """SELECT c.region, SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.name
               GROUP BY c.region"""
    view = drive([ORDERS, CUSTOMERS], query)
    view.apply(customers=[(("ann", "north"), 1)], orders=[(CAT, 1)])
    view.runtime.begin(2)
    stage = view.program.stages[0]
    view.runtime.fire(stage, "orders", ChangeSet.of([(ANN, 1)], ORDERS.fields))
    log = view.runtime._frames.log(stage.maps[0].name)
    shown = view.runtime._shown(stage, stored=True)
    sql = lower_output_change(view.runtime._added[stage.maps[0].name], shown, log, 2)
    plan = view.runtime._frames.spark.sql(sql)._jdf.queryExecution().executedPlan().toString()
    view.runtime.rollback()
    assert plan.count("FileScan") == 2, "the customers, and the entries of the map"
    assert "ReusedExchange" in plan


# -- what a table refuses -----------------------------------------------------------------------------------------


@pytest.fixture(params=["looked up by this process", "looked up by Spark"])
def lookup(request, monkeypatch):
    if request.param == "looked up by Spark":
        monkeypatch.setattr(key_check, "LOOKUP_ROWS", -1)


def test_a_row_that_never_arrived_cannot_leave(drive, lookup):
    view = drive([CUSTOMERS], "SELECT region FROM customers")
    view.apply(customers=[(("ann", "north"), 2)])
    with pytest.raises(MissingRow, match="customers") as refused:
        view.apply(customers=[(("ann", "north"), -3)])
    assert refused.value.where == "customers ('ann', 'north')"
    with pytest.raises(MissingRow):
        view.apply(customers=[((None, "north"), -1)])
    view.apply(customers=[(("ann", "north"), -2)])


def test_a_primary_key_is_there_once(drive, lookup):
    view = drive([ORDERS], "SELECT id FROM orders")
    with pytest.raises(DuplicateKey):
        view.apply(orders=[(ANN, 1), ((1, *BOB[1:]), 1)])
    view.apply(orders=[(ANN, 1)])
    with pytest.raises(DuplicateKey, match="id = 1"):
        view.apply(orders=[((1, *BOB[1:]), 1)])
    view.apply(orders=[(ANN, -1), ((1, *BOB[1:]), 1)])
    with pytest.raises(MissingRow):
        view.apply(orders=[(ANN, -1)])


@pytest.mark.parametrize("rows", [[(ANN, -1)], [(BOB, 1), (BOB, 1)], [((2, *ANN[1:]), 1)], [(BOB, -1), (BOB, -1)]])
def test_large_changes_are_refused_with_the_same_words(drive, bulk, monkeypatch, rows):
    errors = []
    monkeypatch.setattr(key_check, "LOOKUP_ROWS", -1)
    for limit in (results.COLLECT_ROWS, 0):
        bulk(limit)
        view = drive([ORDERS], "SELECT id FROM orders")
        view.apply(orders=[(BOB, 1)])
        with pytest.raises((MissingRow, DuplicateKey)) as refused:
            view.apply(orders=rows)
        errors.append((type(refused.value), str(refused.value)))
    assert errors[0] == errors[1]


def test_large_results_are_written_by_spark(drive, bulk):
    bulk(0)
    query = "SELECT customer, SUM(amount) AS total, SUM(score) AS s FROM orders GROUP BY customer"
    view = drive([ORDERS], query)
    view.load()
    view.apply(orders=[(ANN, 1), (BOB, 1), (CAT, 1)])
    view.apply(orders=[(BOB, -1), (NOBODY, 1)])
    view.apply(orders=[(ANN, -1), (CAT, -1), (NOBODY, -1)])
    assert not view.shown
    join = drive(
        [ORDERS, CUSTOMERS],
        "SELECT COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.name GROUP BY c.region",
    )
    join.apply(orders=[(ANN, 1), (BOB, 1)], customers=[(("ann", "n"), 1), (("bob", "s"), 1)])
    assert join.shown == ZSet({(1,): 2})


# -- reading --------------------------------------------------------------------------------------------------------


def test_answers_frames_and_recomputation_agree(drive):
    query = "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
    view = drive([ORDERS, CUSTOMERS], query)
    view.load()
    view.apply(orders=[(ANN, 1), (BOB, 1), (CAT, 1)], customers=[(("ann", "north"), 2), (("bob", None), 1)])
    view.apply(orders=[(BOB, -1)], customers=[(("bob", None), -1)])
    assert view.runtime.answer(view.program).zset() == view.shown
    assert [tuple(row) for row in view.runtime.frame("customers").collect()] == [("ann", "north")] * 2
    assert view.runtime.recompute(query, {"orders": None}).zset() == view.shown
    nested = view.runtime.recompute("SELECT SUM(n) AS n FROM v", {"orders": None, "v": query})
    assert nested.zset() == ZSet({(2,): 1})


def test_an_epoch_is_counted_in_jobs_and_bytes(drive):
    view = drive([ORDERS], "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
    view.load()
    view.apply(orders=[(ANN, 1), (BOB, 1)])
    view.apply(orders=[(CAT, 1)])
    counters = view.runtime.counters
    assert counters.jobs > 0 and counters.bytes_read > 0 and counters.bytes_written == 0


def test_runtimes_that_share_a_session_do_not_share_tables(drive):
    query = "SELECT o.id, c.region FROM orders o JOIN customers c ON o.customer = c.name"
    views = {region: drive([ORDERS, CUSTOMERS], query) for region in ("north", "south")}
    for region, view in views.items():
        view.apply(customers=[(("ann", region), 1)])
    for row in (ANN, CAT):
        for region, view in views.items():
            assert view.apply(orders=[(row, 1)]) == ZSet({(row[0], region): 1})


def test_rollback_leaves_the_next_epoch_clean(drive):
    view = drive([CUSTOMERS], "SELECT region, COUNT(*) AS n FROM customers GROUP BY region")
    view.load()
    change = ChangeSet.of([(("ann", "north"), 1)], CUSTOMERS.fields)
    view.runtime.begin(1)
    view.runtime.fire(view.program.stages[0], "customers", change)
    view.runtime.absorb("customers", change)
    view.runtime.rollback()
    assert view.apply(customers=[(("bob", "south"), 1)]) == ZSet({("south", 1): 1})


def test_what_joins_nothing_takes_no_job(drive):
    view = drive(
        [NUMBERS, CUSTOMERS],
        "SELECT region, SUM(n) AS s FROM numbers JOIN customers ON k = length(name) GROUP BY region",
    )
    view.load()
    assert view.runtime.counters.jobs == 0
    assert view.apply(numbers=[((3, 5, 0.5), 1)]) == ZSet()
    assert view.runtime.counters.jobs == 0
    assert view.apply(customers=[(("ann", "north"), 1)]) == ZSet({("north", 5): 1})
    assert view.runtime.counters.jobs > 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT c.region, SUM(n.n) AS s FROM numbers n JOIN customers c ON n.k = length(c.name) "
        "JOIN numbers m ON m.n = length(c.region) GROUP BY c.region",
        "SELECT COUNT(*) AS n, SUM(n) AS s FROM numbers CROSS JOIN customers",
    ],
    ids=["a join over a join", "a sum over a product"],
)
def test_a_small_query_is_one_stage(drive, spark, query):
    """A job with an exchange has a stage for each side of it."""
    view = drive([NUMBERS, CUSTOMERS], query)
    view.load()
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    for row in ((3, 5, 0.5), (3, 7, 1.5)):
        before = scheduler.nextStageId()
        view.apply(numbers=[(row, 1)], customers=[(("ann", "north"), 1)])
        assert scheduler.nextStageId() - before == view.runtime.counters.jobs > 0
