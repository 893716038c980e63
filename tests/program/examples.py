"""Programs of the forms that higher-order deltas take, written by hand, each beside the query that it keeps fresh.

They are the triggers of the DBToaster paper's Example 2 and Figure 4, its VWAP (a seek) and its AXF (range sums), with
NULLs allowed where SQL allows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Case, Cast, Column, Literal, Named, Scalar, is_nullable
from tidemill.algebra.node import Relation
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.model import types as t
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, Field, Type
from tidemill.program.maps import Map, RingField
from tidemill.program.stages import Program
from tidemill.program.statements import (
    Add,
    MapRead,
    MapSeek,
    Query,
    Range,
    RangeBound,
    RelationLoop,
    Replace,
    Trigger,
    Version,
)
from tidemill.program.verification.verify import verify


@dataclass(frozen=True)
class Example:
    """A program, the tables it reads, and what it should keep fresh."""

    program: Program
    tables: Mapping[str, Table]
    relation: Relation


def example(tables: tuple[Table, ...], sql: str, **parts: object) -> Example:
    """The stage that the compiler makes for a query, with other maps, triggers and load statements."""
    known = {table.name: table for table in tables}
    relation = translate(sql, {table.name: table.fields for table in tables}, name="v").relation
    (stage,) = compile_view("v", relation, known, "delta").stages[-1:]
    assert stage.finish is not None
    target = next(map_ for map_ in stage.maps if map_.name == stage.finish.source)
    maps = (target, *parts.pop("maps"))  # type: ignore[misc]
    written = replace(stage, strategy="viewlet", inputs=tuple(known), maps=maps, **parts)  # type: ignore[arg-type]
    program = Program("v", (written,))
    verify(program, known)
    return Example(program, known, relation)


def weight(alias: str) -> Column:
    return Column(f"{alias}._weight", BIGINT, nullable=False)


def col(name: str, of: Type, nullable: bool = True) -> Column:
    return Column(name, of, nullable)


def value(alias: str, of: RingField) -> Column:
    return Column(f"{alias}.{of.name}", of.type, nullable=False)


def times(*factors: Scalar) -> Scalar:
    product, *others = factors
    for factor in others:
        product = call("ring_product", product, factor)
    return product


def plus(*terms: Scalar) -> Scalar:
    total, *others = terms
    for term in others:
        total = call("ring_sum", total, term)
    return total


def minus(one: Scalar, other: Scalar) -> Scalar:
    return plus(one, times(Literal(-1, BIGINT), other))


def where(condition: Scalar, then: Scalar) -> Scalar:
    """``then`` where the condition holds, else zero."""
    zero: object = Decimal(0).scaleb(-then.type.scale) if isinstance(then.type, t.Decimal) else 0
    return Case(((condition, then),), Literal(zero, then.type), then.type)


def known(scalar: Scalar) -> Scalar:
    """One where the value is there, else zero."""
    if not is_nullable(scalar):
        return Literal(1, BIGINT)
    return where(call("is_not_null", scalar), Literal(1, BIGINT))


def outputs(*scalars: Scalar) -> tuple[Named, ...]:
    return tuple(Named(f"c{i}", scalar) for i, scalar in enumerate(scalars))


# -- Example 2 ----------------------------------------------------------------------------------------------------

PRICE, XCH = t.Decimal(12, 2), t.Decimal(8, 4)
ORDERS = Table("orders", (Field("ordk", BIGINT), Field("xch", XCH)))
LINEITEM = Table("lineitem", (Field("ordk", BIGINT), Field("price", PRICE)))


def example_2() -> Example:
    """Sales weighted by exchange rates: two maps of first order, and nothing but lookups and additions."""
    q_li, rate, rates = (
        "v:q_li", RingField("xch", t.Decimal(38, 4)), RingField("known", BIGINT)
    )  # fmt: skip
    q_o, price, prices = "v:q_o", RingField("price", t.Decimal(38, 2)), RingField("known", BIGINT)
    maps = (
        Map(q_li, (Field("ordk", BIGINT),), (rate, rates)),
        Map(q_o, (Field("ordk", BIGINT),), (price, prices)),
    )

    def product(changed: str, alias: str, own: Column, map_: str, sums: tuple[RingField, RingField]) -> Query:
        change = RelationLoop(
            changed, alias, Version.CHANGE, (Field("ordk", BIGINT), Field(own.name.split(".")[1], own.of))
        )
        key = (("ordk", col(f"{alias}.ordk", BIGINT)),)
        other = RelationLoop(map_, "s", Version.STATE, (Field("ordk", BIGINT),), key, values=sums)
        amounts = (
            times(weight(alias), own, value("s", sums[0])),
            times(weight(alias), known(own), value("s", sums[1])),
        )
        return Query((change, other), outputs(*amounts), weight=times(weight(alias), weight("s")))

    def first_order(relation: str, alias: str, own: Column, version: Version) -> Query:
        source = RelationLoop(relation, alias, version, (Field("ordk", BIGINT), Field(own.name.split(".")[1], own.of)))
        return Query((source,), outputs(col(f"{alias}.ordk", BIGINT), own, known(own)))

    xch, cost = col("o.xch", XCH), col("li.price", PRICE)
    load_q = Query(
        (
            RelationLoop("orders", "o", Version.STATE, ORDERS.fields),
            RelationLoop("lineitem", "li", Version.STATE, LINEITEM.fields, (("ordk", col("o.ordk", BIGINT)),)),
        ),
        outputs(call("multiply", cost, xch), known(call("multiply", cost, xch))),
    )
    return example(
        (ORDERS, LINEITEM),
        "SELECT SUM(li.price * o.xch) AS total FROM orders o, lineitem li WHERE o.ordk = li.ordk",
        maps=maps,
        load=(
            Add("v/groups", load_q),
            Add(q_li, first_order("orders", "o", xch, Version.STATE)),
            Add(q_o, first_order("lineitem", "li", cost, Version.STATE)),
        ),
        triggers=(
            Trigger(
                "orders",
                (
                    Add("v/groups", product("orders", "o", xch, q_o, (price, prices))),
                    Add(q_li, first_order("orders", "o", xch, Version.CHANGE)),
                ),
            ),
            Trigger(
                "lineitem",
                (
                    Add("v/groups", product("lineitem", "li", cost, q_li, (rate, rates))),
                    Add(q_o, first_order("lineitem", "li", cost, Version.CHANGE)),
                ),
            ),
        ),
    )


# -- Figure 4 -----------------------------------------------------------------------------------------------------

QTY = RingField("qty", BIGINT)
C = Table("c", (Field("ck", BIGINT),))
O = Table("o", (Field("ck", BIGINT), Field("ok", BIGINT)))  # noqa: E741
LI = Table("li", (Field("ok", BIGINT), Field("qty", BIGINT, nullable=False)))


def figure_4() -> Example:
    """TPC-H Q18: a nested sum per order, which a line item may lift above 100, and lower again."""
    ck, ok = Field("ck", BIGINT), Field("ok", BIGINT)
    q_c = Map("v:q_c", (ck,), (QTY,))
    q_li = Map("v:q_li", (ck, ok))
    q_li_c = Map("v:q_li_c", (ck, ok))
    q_o1 = Map("v:q_o1", (ck,))
    q_o2 = Map("v:q_o2", (ok,), (QTY,))

    def by(map_: Map, alias: str, **keys: Scalar) -> RelationLoop:
        return RelationLoop(map_.name, alias, Version.STATE, map_.keys, tuple(keys.items()), values=map_.values)

    def large(total: Scalar, amount: Scalar) -> Scalar:
        return where(call("lt", Literal(100, BIGINT), total), amount)

    s_qty, s_weight = value("s", QTY), weight("s")
    nested = MapRead("v:q_o2", "s", (("ok", col("o.ok", BIGINT)),), (QTY,))
    on_c = RelationLoop("c", "c", Version.CHANGE, (ck,))
    on_o = RelationLoop("o", "o", Version.CHANGE, (ck, ok))
    on_li = RelationLoop("li", "li", Version.CHANGE, (ok, Field("qty", BIGINT, nullable=False)))
    w, qty = weight("li"), col("li.qty", BIGINT, nullable=False)
    after = plus(s_qty, times(w, qty))
    gain = minus(large(after, after), large(s_qty, s_qty))
    count_gain = minus(large(after, plus(s_weight, w)), large(s_qty, s_weight))
    at_li = replace(nested, lookup=(("ok", col("li.ok", BIGINT)),))
    c_key, o_ck, o_ok = col("c.ck", BIGINT), col("o.ck", BIGINT), col("o.ok", BIGINT)
    li_ok = col("li.ok", BIGINT)

    def add(target: str, sources: tuple[object, ...], keys: tuple[Scalar, ...], count: Scalar, *sums: Scalar) -> Add:
        return Add(target, Query(sources, outputs(*keys, *sums), weight=count))  # type: ignore[arg-type]

    return example(
        (C, O, LI),
        """SELECT c.ck, SUM(li.qty) AS total FROM c, o, li WHERE c.ck = o.ck AND o.ok = li.ok
           AND 100 < (SELECT SUM(l2.qty) FROM li l2 WHERE l2.ok = li.ok) GROUP BY c.ck""",
        maps=(q_c, q_li, q_li_c, q_o1, q_o2),
        load=(),
        triggers=(
            Trigger(
                "c",
                (
                    add(
                        "v/groups",
                        (on_c, by(q_c, "m", ck=c_key)),
                        (c_key,),
                        times(weight("c"), weight("m")),
                        times(weight("c"), value("m", QTY)),
                    ),
                    Add(q_li.name, Query((on_c, by(q_li_c, "m", ck=c_key)), outputs(c_key, col("m.ok", BIGINT)))),
                    Add(q_o1.name, Query((on_c,), outputs(c_key))),
                ),
                each=True,
            ),
            Trigger(
                "o",
                (
                    add(
                        "v/groups",
                        (on_o, by(q_o1, "m", ck=o_ck), nested),
                        (o_ck,),
                        times(weight("o"), weight("m"), large(s_qty, s_weight)),
                        times(weight("o"), weight("m"), large(s_qty, s_qty)),
                    ),
                    Add(q_li.name, Query((on_o, by(q_o1, "m", ck=o_ck)), outputs(o_ck, o_ok))),
                    Add(q_li_c.name, Query((on_o,), outputs(o_ck, o_ok))),
                    add(
                        q_c.name,
                        (on_o, nested),
                        (o_ck,),
                        times(weight("o"), large(s_qty, s_weight)),
                        times(weight("o"), large(s_qty, s_qty)),
                    ),
                ),
                each=True,
            ),
            Trigger(
                "li",
                (
                    add(
                        "v/groups",
                        (on_li, at_li, by(q_li, "m", ok=li_ok)),
                        (col("m.ck", BIGINT),),
                        times(weight("m"), count_gain),
                        times(weight("m"), gain),
                    ),
                    add(
                        q_c.name,
                        (on_li, at_li, by(q_li_c, "m", ok=li_ok)),
                        (col("m.ck", BIGINT),),
                        times(weight("m"), count_gain),
                        times(weight("m"), gain),
                    ),
                    Add(q_o2.name, Query((on_li,), outputs(li_ok, qty))),
                ),
                each=True,
            ),
        ),
    )


# -- VWAP ---------------------------------------------------------------------------------------------------------

VOLUME = RingField("volume", BIGINT)
MONEY = RingField("money", t.Decimal(38, 2))
BIDS = Table("bids", (Field("price", PRICE), Field("volume", BIGINT, nullable=False)))


def vwap() -> Example:
    """The money in the best quarter of all volume: a seek for the price where it begins, then one range sum."""
    levels = Map("v:bids", (Field("price", PRICE),), (VOLUME, MONEY))
    total = Map("v:total", (), (VOLUME,))
    price, volume = col("b.price", PRICE), col("b.volume", BIGINT, nullable=False)
    change = RelationLoop("bids", "b", Version.CHANGE, BIDS.fields)
    paid = call("ring_product", price, volume)

    def quarter(rest: Scalar) -> Scalar:
        return call("gt", value("t", VOLUME), times(Literal(4, BIGINT), rest))

    whole = MapRead(total.name, "t", (), (VOLUME,))
    seek = MapSeek(levels.name, "p", (), Field("price", PRICE), True, (VOLUME,), quarter(value("p", VOLUME)))
    best = Range("price", lower=RangeBound(col("p.price", PRICE), closed=True))
    sums = MapRead(levels.name, "s", (), (MONEY,), best)
    fast = Query((whole, seek, sums), outputs(value("s", MONEY), weight("s")), weight=weight("s"))
    each = RelationLoop(levels.name, "b", Version.STATE, levels.keys, values=(MONEY,))
    above = Range("price", lower=RangeBound(price, closed=False))
    rest = MapRead(levels.name, "r", (), (VOLUME,), above, (quarter(value("r", VOLUME)),))
    # NULL lies in no range, and SQL says of it that nothing lies above it.
    slow = Query((whole, each, rest), outputs(value("b", MONEY), weight("b")), weight=weight("b"))
    at_null = call("is_null", price)
    null = replace(each, filters=(at_null,))
    unpriced = Query(
        (replace(whole, filters=(quarter(Literal(0, BIGINT)),)), null),
        outputs(value("b", MONEY), Literal(0, BIGINT)),
        weight=weight("b"),
    )
    not_null = replace(each, filters=(call("is_not_null", price),))
    scan = replace(slow, sources=(whole, not_null, rest))
    return example(
        (BIDS,),
        """SELECT SUM(b1.price * b1.volume) AS vwap FROM bids b1
           WHERE (SELECT SUM(b3.volume) FROM bids b3)
                 > 4 * (SELECT COALESCE(SUM(b2.volume), 0) FROM bids b2 WHERE b2.price > b1.price)""",
        maps=(levels, total),
        load=(),
        triggers=(
            Trigger(
                "bids",
                (
                    Replace("v/groups", (fast, unpriced), ((levels.name, "volume"),), (scan, unpriced)),
                    Add(levels.name, Query((change,), outputs(price, volume, paid))),
                    Add(total.name, Query((change,), outputs(volume))),
                ),
                each=True,
            ),
        ),
    )


# -- AXF ----------------------------------------------------------------------------------------------------------

BOOK = (Field("broker", t.STRING), Field("price", BIGINT), Field("volume", BIGINT))
KNOWN = RingField("known", BIGINT)


def axf() -> Example:
    """Pairs of bids and asks of a broker whose prices are far apart: two range sums for every change."""
    keys = BOOK[:2]
    maps = {name: Map(f"v:{name}", keys, (VOLUME, KNOWN)) for name in ("bids", "asks")}
    book = (Table("bids", BOOK), Table("asks", BOOK))

    def far(map_: Map, price: Scalar) -> tuple[MapRead, MapRead]:
        def side(alias: str, range_: Range) -> MapRead:
            return MapRead(map_.name, alias, (("broker", col("x.broker", t.STRING)),), map_.values, range_)

        above = Range("price", lower=RangeBound(call("add", price, Literal(1000, BIGINT)), closed=False))
        below = Range("price", upper=RangeBound(call("subtract", price, Literal(1000, BIGINT)), closed=False))
        return side("hi", above), side("lo", below)

    def trigger(name: str, other: str, sign: int) -> Trigger:
        change = RelationLoop(name, "x", Version.CHANGE, BOOK)
        price, volume = col("x.price", BIGINT), col("x.volume", BIGINT)
        number, there, rows = (
            plus(value("hi", VOLUME), value("lo", VOLUME)),
            plus(value("hi", KNOWN), value("lo", KNOWN)),
            plus(weight("hi"), weight("lo")),
        )
        difference = minus(number, times(volume, there))
        pairs = Query(
            (change, *far(maps[other], price)),
            outputs(
                col("x.broker", t.STRING),
                times(Literal(sign, BIGINT), weight("x"), known(volume), difference),
                times(weight("x"), known(volume), there),
            ),
            weight=times(weight("x"), rows),
        )
        growth = Query((change,), outputs(col("x.broker", t.STRING), price, Cast(volume, BIGINT), known(volume)))
        return Trigger(name, (Add("v/groups", pairs), Add(maps[name].name, growth)), each=True)

    return example(
        book,
        """SELECT b.broker, SUM(a.volume - b.volume) AS difference FROM bids b, asks a
           WHERE b.broker = a.broker AND (a.price - b.price > 1000 OR b.price - a.price > 1000) GROUP BY b.broker""",
        maps=tuple(maps.values()),
        load=(),
        triggers=(trigger("bids", "asks", 1), trigger("asks", "bids", -1)),
    )
