"""What can be written: the pattern itself, where it may stand, and what is said where something does not fit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidemill
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.walk import walk
from tidemill.compiler.frontends.translate import translate
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import ArithmeticFault, ParseError, TidemillError, Unsupported
from tidemill.model.types import BIGINT, INT, STRING, TIMESTAMP, Field, Struct

FIELDS = (
    Field("ts", TIMESTAMP),
    Field("k", STRING),
    Field("x", INT),
    Field("at", Struct((Field("city", STRING), Field("n", BIGINT)))),
)


def match_of(query: str) -> Match:
    """The match in the algebra of a query over s."""
    relation = translate(query, {"s": FIELDS}, name="v").relation
    (found,) = (node for node in walk(relation) if isinstance(node, Match))
    return found


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a, b, c, d+", "(a, b, c, d+)"),
        ("a b* c?", "(a, b*, c?)"),
        ("(a | b c)+?", "(a | (b, c))+?"),
        ("a{2} b{2,3} c{,4} d{1,}?", "(a{2}, b{2,3}, c{0,4}, d+?)"),
        ("a?? B", "(a??, b)"),
        ("PERMUTE(a, b)", "((a, b) | (b, a))"),
        ("((a))", "a"),
    ],
)
def test_patterns_are_read(written: str, read: str) -> None:
    assert str(match_of(f"SELECT k FROM s PATTERN ({written})").pattern) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("^ a b+ $", "(^, a, b+, $)"),
        ("a {- b+ c -} d", "(a, {- (b+, c) -}, d)"),
        ("(^ a | b $)?", "((^, a) | (b, $))?"),
    ],
)
def test_patterns_of_the_standard_are_read(written: str, read: str) -> None:
    assert (
        str(match_of(f"SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES x AS x PATTERN ({written}))").pattern)
        == read
    )


@pytest.mark.parametrize("written", ["", "a,", "a |", "a{3,2}", "a{0}", "a{}", "{- a }", "^+ a", "{- -}", "+"])
def test_what_is_no_pattern_is_refused(written: str) -> None:
    with pytest.raises(ParseError):
        match_of(f"SELECT k FROM s PATTERN ({written})")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT k FROM s PATTERN (a) WHERE x > 1", "a condition beside a pattern names a variable"),
        ("SELECT k FROM s PATTERN (a) WHERE a.y > 1", 'there is no column "y"'),
        ("SELECT k FROM s PATTERN (a) WHERE a[0].x > 1", "this subscript selects no row of a variable"),
        ("SELECT k FROM s PATTERN (a) WHERE a[j].x > 1", "this subscript selects no row of a variable"),
        ("SELECT k FROM s PATTERN (a) WHERE a[..i-1].x > 1", "a range of rows is allowed in an aggregate only"),
        ("SELECT k FROM s PATTERN (a, b) WHERE sum(a.x + b.x) > 1", "a navigation is over one variable"),
        ("SELECT median(a.x) AS y FROM s PATTERN (a)", "in a pattern there is no MEDIAN"),
        ("SELECT corr(a.x, a.x) AS y FROM s PATTERN (a)", "in a pattern there is no CORR"),
        ("SELECT k FROM s PATTERN (^ a)", "a PATTERN has no anchors and no exclusion"),
        ("SELECT k FROM s PATTERN (a {- b -})", "a PATTERN has no anchors and no exclusion"),
        ("SELECT k FROM s PATTERN (a+) WITHIN INTERVAL 1 HOUR ORDER BY x", "WITHIN needs rows in the order of their"),
        ("SELECT k FROM s PATTERN (a+) WITHIN 'x'", "WITHIN takes an interval"),
        ("SELECT k FROM s PATTERN (a) WHERE match_rowtime() > a.ts", "MATCH_ROWTIME is for measures"),
        (
            "SELECT * FROM s MATCH_RECOGNIZE (ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (a {- b -}))",
            "WITH UNMATCHED ROWS does not go with rows excluded",
        ),
        ("SELECT match_number() AS y FROM s PATTERN (a)", "MATCH_NUMBER belongs to MATCH_RECOGNIZE"),
        ("SELECT k FROM s PATTERN (a) WHERE a.x > (SELECT 1)", "a pattern cannot contain a subquery"),
        ("SELECT k FROM s PATTERN (a) GROUP BY k HAVING k > 'a'", "a SELECT with a PATTERN has no HAVING"),
        ("SELECT 1 AS y FROM s JOIN s AS t PATTERN (a) ON TRUE", "PATTERN must follow the only item of FROM"),
        ("SELECT k FROM s PATTERN (a) AFTER MATCH SKIP TO LAST a", "AFTER MATCH SKIP of a PATTERN must be"),
        ("SELECT * FROM s MATCH_RECOGNIZE (AFTER MATCH SKIP TO LAST c PATTERN (a))", 'there is no variable "c"'),
        ("SELECT y FROM (SELECT x AS y FROM s) PATTERN (a)", "a pattern needs an order of rows"),
        ("SELECT * FROM s MATCH_RECOGNIZE (PATTERN (a) DEFINE b AS x > 1)", 'there is no variable "b"'),
        ("SELECT * FROM s MATCH_RECOGNIZE (PATTERN (a) SUBSET u = (c) DEFINE a AS x > 1)", 'there is no variable "c"'),
        ("SELECT * FROM s MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS x + 1)", "a condition must be BOOLEAN"),
    ],
)
def test_what_does_not_fit_is_said(query: str, message: str) -> None:
    with pytest.raises(TidemillError) as raised:
        match_of(query)
    assert message in str(raised.value)
    assert raised.value.where is not None


def test_an_alias_may_be_called_pattern() -> None:
    relation = translate("SELECT pattern.x FROM s pattern", {"s": FIELDS}, name="v").relation
    assert [f.name for f in relation.fields] == ["x"]


def test_only_columns_that_are_read_are_kept() -> None:
    match = match_of("SELECT k, count(*) AS n FROM s PATTERN (a, b+) WHERE b.x > a.x GROUP BY k")
    assert [f.name for f in match.input.fields] == ["s.k", "s.ts", "s.x"]


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    with tidemill.open(":memory:", runtime="native") as opened:
        opened.sql("CREATE TABLE s (ts INT, k STRING, x INT, at STRUCT<city: STRING, n: BIGINT>)")
        rows = [(1, 5), (2, 7), (3, 6), (4, 9), (5, 10)]
        opened.apply({"s": [(1, (ts, "p", x, {"city": "Ulm", "n": x * 10})) for ts, x in rows]})
        yield opened


def test_a_pattern_may_be_asked_once(warehouse: Warehouse) -> None:
    query = """SELECT ts, count(*), last(b.at.n) AS n, b[1].at.city AS city
        FROM s PATTERN (a, b) ORDER BY ts WHERE b[1].at.n > a.at.n GROUP BY k ORDER BY ts DESC LIMIT 1"""
    assert warehouse.sql(query).rows() == [(4, 2, 90, "Ulm")]


def test_patterns_stand_where_queries_do(warehouse: Warehouse) -> None:
    warehouse.sql("""
        CREATE MATERIALIZED VIEW rises AS SELECT k, ts FROM s PATTERN (a, b) ORDER BY ts WHERE b.x > a.x GROUP BY k;
        CREATE MATERIALIZED VIEW counted AS SELECT k, COUNT(*) AS n FROM rises GROUP BY k;
        CREATE MATERIALIZED VIEW beside AS
          WITH up AS (SELECT k, ts FROM s PATTERN (a, b) ORDER BY ts WHERE b.x > a.x GROUP BY k)
          SELECT up.ts, s.x FROM up JOIN s ON s.ts = up.ts
          JOIN (SELECT * FROM s) MATCH_RECOGNIZE (
            ORDER BY ts MEASURES last(ts) AS t PATTERN (d) DEFINE d AS x < prev(x)) m ON m.t < up.ts
          WHERE up.k = 'p';
    """)
    assert warehouse.view("rises").rows() == [("p", 2), ("p", 4)]
    assert warehouse.view("beside").rows() == [(4, 9)]
    warehouse.sql("DELETE FROM s WHERE ts = 3")
    assert warehouse.view("counted").rows() == [("p", 2)]
    assert all(warehouse.view(name).verify() for name in ("rises", "counted", "beside"))


def test_conditions_may_call_functions_of_users(warehouse: Warehouse) -> None:
    warehouse.register_function("odd", lambda x: x % 2 == 1, arguments=["INT"], returns="BOOLEAN")
    warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT ts FROM s PATTERN (a+) ORDER BY ts WHERE odd(a.x) GROUP BY k")
    assert warehouse.view("v").rows() == [(1,), (2,), (4,)]
    assert warehouse.view("v").verify()


def test_a_search_that_would_not_go_forward_is_refused(warehouse: Warehouse) -> None:
    with pytest.raises(ArithmeticFault, match="a search cannot go on at a row of a"):
        warehouse.sql("""CREATE MATERIALIZED VIEW v AS SELECT * FROM s MATCH_RECOGNIZE (
            ORDER BY ts MEASURES x AS x AFTER MATCH SKIP TO FIRST a PATTERN (a b)) m""")


def test_a_pattern_with_too_many_states_is_refused() -> None:
    with pytest.raises(Unsupported, match="more than 1,000 states"):
        match_of("SELECT k FROM s PATTERN ((a{1,100}){1,100}) WHERE a.x > 1")
