"""The text form of expressions."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Case, Cast, Column, Literal, Scalar
from tidemill.algebra.text import text_of
from tidemill.model import types as t
from tidemill.model.types import Field

A, B, P = Column("o.a", t.INT), Column("o.b", t.INT), Column("o.p", t.BOOLEAN)
S = Column("o.s", t.STRING)
M, N, MINUS = Column("s.m", t.BIGINT), Column("s.n", t.BIGINT), Literal(-1, t.BIGINT)


@pytest.mark.parametrize(
    ("scalar", "text"),
    [
        (call("subtract", A, call("subtract", B, A)), "o.a - (o.b - o.a)"),
        (call("subtract", call("subtract", A, B), A), "o.a - o.b - o.a"),
        (call("add", A, call("multiply", A, B)), "o.a + o.a * o.b"),
        (call("and", call("or", P, P), call("not", call("eq", A, B))), "(o.p OR o.p) AND NOT o.a = o.b"),
        (call("not", call("and", P, P)), "NOT (o.p AND o.p)"),
        (call("is_null", call("eq", A, B)), "(o.a = o.b) IS NULL"),
        (call("in", A, Literal(1, t.INT), Literal(None, t.INT)), "o.a IN (1, NULL)"),
        (call("negate", call("add", A, B)), "-(o.a + o.b)"),
        (call("coalesce", A, Literal(0, t.INT)), "COALESCE(o.a, 0)"),
        (call("between", A, B, Literal(9, t.INT)), "o.a >= o.b AND o.a <= 9"),
        (call("like", S, Literal("it's%", t.STRING)), "o.s LIKE 'it''s%'"),
        (Case(((P, A),), B, t.INT), "CASE WHEN o.p THEN o.a ELSE o.b END"),
        (Cast(A, t.DOUBLE), "CAST(o.a AS DOUBLE)"),
        (Cast(S, t.Decimal(5, 2), lenient=True), "TRY_CAST(o.s AS DECIMAL(5,2))"),
        (Literal(datetime.date(2024, 2, 29), t.DATE), "DATE '2024-02-29'"),
        (Literal(Decimal("1.50"), t.Decimal(3, 2)), "1.50"),
        (call("get_field", Column("o.r", t.Struct((Field("x", t.INT),))), Literal("x", t.STRING)), "o.r.x"),
        (call("add", A, Literal(-3, t.INT)), "o.a - 3"),
        (call("ring_sum", M, call("ring_sum", N, M)), "s.m + s.n + s.m"),
        (call("ring_sum", M, call("ring_product", MINUS, call("ring_sum", N, M))), "s.m - (s.n + s.m)"),
        (call("ring_product", MINUS, call("ring_product", M, N)), "-(s.m * s.n)"),
        (call("get_item", Column("o.l", t.Array(t.INT)), A), "o.l[o.a]"),
    ],
)
def test_text(scalar: Scalar, text: str) -> None:
    assert text_of(scalar) == text
