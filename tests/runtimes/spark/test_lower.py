"""The SQL of queries, as text: what Spark is asked reads like what the program says."""

from __future__ import annotations

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named
from tidemill.model import types as t
from tidemill.model.types import Field
from tidemill.program.maps import Map, RingField
from tidemill.program.statements import Add, ArrayLoop, Query, RelationLoop, Version
from tidemill.runtimes.spark.lowering.queries import BROADCAST_ROWS, lower_add

ORDERS = RelationLoop("orders", "o", Version.CHANGE, (Field("customer", t.STRING), Field("n", t.INT)))
CUSTOMERS = RelationLoop(
    "customers", "c", Version.STATE, (Field("name", t.STRING),), lookup=(("name", Column("o.customer", t.STRING)),)
)
COUNT = Map("m", (Field("who", t.STRING),), (RingField("s", t.BIGINT),))


def lower(query: Query, change: int = 1, state: int = 1_000, single_task: bool = False) -> str:
    def size(source: RelationLoop) -> int:
        return change if source.version is Version.CHANGE else state

    def bind(source: RelationLoop) -> str:
        return f"{source.relation}_{source.version.value}"

    return lower_add(Add("m", query), COUNT, bind, size, single_task=single_task)


def test_a_lookup_is_a_join_that_sends_the_small_change():
    query = Query((ORDERS, CUSTOMERS), (Named("k", Column("c.name", t.STRING)), Named("v", Column("o.n", t.INT))))
    assert lower(query) == (
        "SELECT `c.name` AS `who`, CAST(`o.n` AS BIGINT) * `_weight` AS `s`, `_weight` FROM ("
        "SELECT *, `o._weight` * `c._weight` AS `_weight` FROM (SELECT /*+ BROADCAST(l) */ * FROM "
        "(SELECT `customer` AS `o.customer`, `n` AS `o.n`, `_weight` AS `o._weight` "
        "FROM orders_change) AS l JOIN "
        "(SELECT `name` AS `c.name`, `_weight` AS `c._weight` FROM customers_state) AS r "
        "ON `c.name` = `o.customer`))"
    )


def test_the_smaller_side_of_a_join_is_sent_where_it_is_small_enough():
    query = Query((ORDERS, CUSTOMERS), (Named("k", Column("c.name", t.STRING)), Named("v", Column("o.n", t.INT))))
    assert "/*+ BROADCAST(r) */" in lower(query, change=2_000)
    assert "/*+ BROADCAST(l) */" in lower(query, change=2_000, state=3_000)
    assert "(SELECT * FROM" in lower(query, change=BROADCAST_ROWS + 1, state=BROADCAST_ROWS + 1)


def test_in_a_single_task_no_side_is_sent_and_the_rows_are_one_partition():
    query = Query((ORDERS, CUSTOMERS), (Named("k", Column("c.name", t.STRING)), Named("v", Column("o.n", t.INT))))
    assert lower(query, single_task=True) == lower(query).replace("BROADCAST(l)", "COALESCE(1)")


def test_without_sources_there_is_one_row():
    query = Query(
        (), (Named("k", Literal("x", t.STRING)), Named("v", Literal(1, t.BIGINT))), (Literal(True, t.BOOLEAN),)
    )
    assert lower(query) == (
        "SELECT 'x' AS `who`, CAST(1L AS BIGINT) * `_weight` AS `s`, `_weight` "
        "FROM (SELECT *, 1L AS `_weight`  WHERE true)"
    )


def test_filters_stand_with_their_source():
    positive = call("gt", Column("o.n", t.INT), Literal(0, t.INT))
    source = RelationLoop("orders", "o", Version.STATE, ORDERS.columns, filters=(positive,))
    query = Query((source,), (Named("k", Column("o.customer", t.STRING)), Named("v", Column("o.n", t.INT))))
    assert "FROM orders_state) WHERE (`o.n` > 0))" in lower(query)


TAGS = RelationLoop("posts", "p", Version.CHANGE, (Field("id", t.INT), Field("tags", t.Array(t.STRING))))
TAG = Field("tag", t.STRING)


def each(*columns: Field, outer: bool = False, long: bool = False) -> str:
    filters = (call("gt", call("length", Column("e.tag", t.STRING)), Literal(3, t.INT)),) if long else ()
    step = ArrayLoop("e", Column("p.tags", t.Array(t.STRING)), columns, outer, filters)
    return lower(Query((TAGS, step), (Named("k", Column("e.tag", t.STRING)), Named("v", Column("p.id", t.INT)))))


def test_elements_of_an_array_stand_beside_their_row_and_multiply_nothing():
    assert each(TAG) == (
        "SELECT `e.tag` AS `who`, CAST(`p.id` AS BIGINT) * `_weight` AS `s`, `_weight` FROM ("
        "SELECT *, `p._weight` AS `_weight` FROM (SELECT * FROM "
        "(SELECT `id` AS `p.id`, `tags` AS `p.tags`, `_weight` AS `p._weight` FROM posts_change) AS l "
        "LATERAL VIEW explode(`p.tags`) elements AS `e.tag`))"
    )


def test_positions_are_counted_as_bigint():
    assert "CAST(`e.place in the array` AS BIGINT) AS `e.pos` FROM " in each(Field("pos", t.BIGINT), TAG)


def test_a_row_without_elements_stays_where_it_is_asked_to_and_filters_come_after():
    text = each(TAG, outer=True, long=True)
    assert "LATERAL VIEW OUTER explode(`p.tags`) elements AS `e.tag` WHERE (length(`e.tag`) > 3)" in text
