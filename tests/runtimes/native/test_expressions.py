"""Generated expressions against the oracle: the same value, or an error where the oracle has one."""

from __future__ import annotations

import datetime
import decimal
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Case, Cast, Column, Literal, Named, Scalar
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import NAN
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Field, Type
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, Query, RelationLoop, Trigger, Version
from tidemill.runtimes.native.python.compile import compile_stage

DOMAINS: dict[Type, list[Any]] = {
    t.INT: [0, 1, -7, 2**31 - 1, -(2**31)],
    t.BIGINT: [0, 1, -3, 2**63 - 1, -(2**63)],
    t.Decimal(8, 2): [Decimal("0.00"), Decimal("1.50"), Decimal("-99.99"), Decimal("999999.99")],
    t.Decimal(30, 10): [Decimal("0.0000000000"), Decimal("-12345678901234567890.0123456789")],
    t.DOUBLE: [0.0, 1.5, -2.0, NAN, math.inf, -math.inf, 1e308],
    t.STRING: ["", "a", "12", "{0}", "it's", 'tab\t"q"'],
    t.BOOLEAN: [True, False],
    t.DATE: [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
}
FIELDS = tuple(
    Field(f"{'n' if nullable else 'c'}{place}", type_, nullable)
    for place, type_ in enumerate(DOMAINS)
    for nullable in (True, False)
)
NUMBERS = [type_ for type_ in DOMAINS if t.is_numeric(type_)]


def leaf(type_: Type) -> st.SearchStrategy[Scalar]:
    columns = [Column(f"x.{f.name}", f.type, f.nullable) for f in FIELDS if f.type == type_]
    literals = [Literal(value, type_) for value in (None, *DOMAINS[type_])]
    return st.sampled_from(columns) | st.sampled_from(literals)


@st.composite
def scalar(draw: st.DrawFn, type_: Type, depth: int = 3) -> Scalar:
    """An expression whose type is of the kind of ``type_``."""
    if not depth or draw(st.integers(0, 4)) == 0:
        return draw(leaf(type_))
    if draw(st.integers(0, 5)) == 0:
        value = draw(scalar(type_, depth - 1))
        condition = draw(scalar(t.BOOLEAN, depth - 1))
        other = draw(scalar(type_, depth - 1))
        return Case(((condition, Cast(value, type_)),), Cast(other, type_), type_)
    if type_ == t.BOOLEAN:
        return draw(truth(depth))
    if t.is_numeric(type_):
        return draw(number(type_, depth))
    return call("coalesce", draw(scalar(type_, depth - 1)), draw(leaf(type_)))


@st.composite
def truth(draw: st.DrawFn, depth: int) -> Scalar:
    kind = draw(st.sampled_from(["logic", "not", "null", "compare", "in"]))
    if kind == "logic":
        name = draw(st.sampled_from(["and", "or"]))
        return call(name, draw(scalar(t.BOOLEAN, depth - 1)), draw(scalar(t.BOOLEAN, depth - 1)))
    if kind == "not":
        return call("not", draw(scalar(t.BOOLEAN, depth - 1)))
    type_ = draw(st.sampled_from(list(DOMAINS)))
    if kind == "null":
        return call(draw(st.sampled_from(["is_null", "is_not_null"])), draw(scalar(type_, depth - 1)))
    if kind == "in":
        return call("in", draw(leaf(type_)), *draw(st.lists(leaf(type_), min_size=1, max_size=3)))
    name = draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq"]))
    return call(name, draw(scalar(type_, depth - 1)), draw(scalar(type_, depth - 1)))


@st.composite
def number(draw: st.DrawFn, type_: Type, depth: int) -> Scalar:
    names = ["add", "subtract", "multiply", "divide", "negate", "abs", "coalesce", "cast", "length"]
    name = draw(st.sampled_from(names))
    if name == "length":
        return call("length", draw(scalar(t.STRING, depth - 1)))
    if name == "cast":
        return Cast(draw(scalar(draw(st.sampled_from(NUMBERS)), depth - 1)), type_, draw(st.booleans()))
    first = draw(scalar(type_, depth - 1))
    if name in ("negate", "abs"):
        return call(name, first)
    second = draw(st.just(first) | scalar(draw(st.sampled_from(NUMBERS)), depth - 1))
    return call(name, first, second)


ROWS = st.tuples(*(st.sampled_from(DOMAINS[f.type]) | (st.none() if f.nullable else st.nothing()) for f in FIELDS))
EXPRESSIONS = st.sampled_from(list(DOMAINS)).flatmap(scalar)


def computed(outputs: list[Scalar], row: tuple[Any, ...], filters: tuple[Scalar, ...] = ()) -> list[tuple[Any, ...]]:
    """What generated code makes of a row, as the stage of a plain projection."""
    query = Query(
        (RelationLoop("t", "x", Version.CHANGE, FIELDS, filters=filters),),
        tuple(Named(f"o{place}", output) for place, output in enumerate(outputs)),
    )
    add = Add("v", query)
    fields = tuple(Field(f"o{place}", output.type) for place, output in enumerate(outputs))
    stage = Stage("v", fields, ("t",), (), (), (Trigger("t", (add,)),), None, "delta")
    (step,) = compile_stage(stage, lambda name: FIELDS).triggers["t"].steps
    sums: dict[tuple[Any, ...], int] = {}
    with decimal.localcontext(EXACT):
        step.routines[0].run(sums, [(row, 1)])
    return list(sums)


def meaning(scalar: Scalar, row: tuple[Any, ...]) -> Any:
    return evaluate_scalar(scalar, {f"x.{f.name}": value for f, value in zip(FIELDS, row, strict=True)})


N = {f.name: Column(f"x.{f.name}", f.type, f.nullable) for f in FIELDS}
INT, BIGINT, MONEY, WIDE, DOUBLE, STRING, BOOLEAN, DATE = (N[f"c{place}"] for place in range(len(DOMAINS)))
NULL_INT, NULL_BIGINT, _, _, NULL_DOUBLE, NULL_STRING, NULL_BOOLEAN, _ = (N[f"n{p}"] for p in range(len(DOMAINS)))

CORNERS: dict[str, tuple[Scalar, dict[Column, Any]]] = {
    "negative zero": (call("multiply", DOUBLE, Literal(-2.0, t.DOUBLE)), {DOUBLE: 0.0}),
    "negative decimal zero": (call("multiply", MONEY, Literal(Decimal("-2.00"), MONEY.type)), {MONEY: Decimal("0.00")}),
    "computed NaN is the one NaN": (call("subtract", DOUBLE, DOUBLE), {DOUBLE: math.inf}),
    "NaN is the greatest": (call("gt", DOUBLE, Literal(math.inf, t.DOUBLE)), {DOUBLE: NAN}),
    "NaN equals NaN": (call("eq", DOUBLE, call("subtract", NULL_DOUBLE, NULL_DOUBLE)),
                       {DOUBLE: NAN, NULL_DOUBLE: math.inf}),
    "NULL first, so no division": (call("add", NULL_DOUBLE, call("divide", DOUBLE, DOUBLE)), {DOUBLE: 0.0}),
    "NULL first, so no line of its own": (call("lt", NULL_DOUBLE, call("divide", DOUBLE, DOUBLE)), {DOUBLE: 0.0}),
    "zero before a function": (
        call("atan2", call("multiply", DOUBLE, Literal(-1.0, t.DOUBLE)), Literal(-1.0, t.DOUBLE)), {DOUBLE: 0.0}),
    "division first, so no NULL": (call("add", call("divide", DOUBLE, DOUBLE), NULL_DOUBLE), {DOUBLE: 0.0}),
    "division first in a branch": (
        Case(((BOOLEAN, call("add", call("divide", DOUBLE, DOUBLE), NULL_DOUBLE)),), NULL_DOUBLE, t.DOUBLE),
        {DOUBLE: 0.0, BOOLEAN: True},
    ),
    "branch not taken": (Case(((BOOLEAN, call("divide", DOUBLE, DOUBLE)),), DOUBLE, t.DOUBLE),
                         {DOUBLE: 0.0, BOOLEAN: False}),
    "false AND error": (call("and", BOOLEAN, call("gt", call("divide", DOUBLE, DOUBLE), DOUBLE)),
                        {DOUBLE: 0.0, BOOLEAN: False}),
    "NULL AND false": (call("and", NULL_BOOLEAN, BOOLEAN), {BOOLEAN: False}),
    "NULL OR true": (call("or", NULL_BOOLEAN, BOOLEAN), {BOOLEAN: True}),
    "NOT NULL is NULL": (call("not", NULL_BOOLEAN), {}),
    "coalesce stops": (call("coalesce", DOUBLE, call("divide", DOUBLE, DOUBLE)), {DOUBLE: 0.0}),
    "IN with NULL": (call("in", INT, Literal(5, t.INT), Literal(None, t.INT)), {INT: 1}),
    "NULL IN list": (call("in", NULL_INT, Literal(5, t.INT)), {}),
    "braces in a list": (call("in", STRING, Literal("{0}", t.STRING), Literal("}", t.STRING)), {STRING: "{0}"}),
    "INT overflow": (call("add", INT, Literal(1, t.INT)), {INT: 2**31 - 1}),
    "BIGINT edge": (call("subtract", BIGINT, Literal(1, t.BIGINT)), {BIGINT: -(2**63) + 1}),
    "wide product": (call("multiply", WIDE, WIDE), {WIDE: Decimal("-12345678901234567890.0123456789")}),
    "many digits": (call("add", WIDE, WIDE), {WIDE: Decimal("-12345678901234567890.0123456789")}),
    "narrowing that fits": (Cast(WIDE, t.Decimal(25, 10)), {WIDE: Decimal("-1.0123456789")}),
    "narrowing that does not": (Cast(WIDE, t.Decimal(25, 10)), {WIDE: Decimal("12345678901234567890.0123456789")}),
    "impossible cast": (Cast(STRING, t.INT), {STRING: "a"}),
    "lenient cast": (call("add", Cast(STRING, t.INT, lenient=True), Literal(1, t.INT)), {STRING: "a"}),
}  # fmt: skip


def check(outputs: list[Scalar], row: tuple[Any, ...]) -> None:
    """Generated code and oracle agree on ``outputs`` for ``row``."""
    try:
        expected = tuple(meaning(output, row) for output in outputs)
    except ArithmeticFault:
        with pytest.raises(ArithmeticFault):
            computed(outputs, row)
        return
    (found,) = computed(outputs, row)
    assert found == expected  # holds for NaN only where it is the very same object
    assert repr(found) == repr(expected)  # tells -0.0 from 0.0, and scales


@pytest.mark.parametrize("corner", CORNERS)
def test_corner(corner: str) -> None:
    output, given_values = CORNERS[corner]
    names = {column.name: value for column, value in given_values.items()}
    row = tuple(names.get(f"x.{f.name}", None if f.nullable else DOMAINS[f.type][0]) for f in FIELDS)
    check([output], row)
    check([output, output], row)  # a repeated expression has a line of its own


@settings(max_examples=200, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=1, max_size=3), ROWS)
def test_generated_expressions_mean_what_the_oracle_says(outputs: list[Scalar], row: tuple[Any, ...]) -> None:
    check(outputs, row)


@settings(max_examples=150, deadline=None)
@given(scalar(t.BOOLEAN, 4), ROWS)
def test_generated_filters_let_through_what_is_true(condition: Scalar, row: tuple[Any, ...]) -> None:
    try:
        expected = meaning(condition, row) is True
    except ArithmeticFault:
        with pytest.raises(ArithmeticFault):
            computed([Literal(1, t.INT)], row, filters=(condition,))
        return
    assert len(computed([Literal(1, t.INT)], row, filters=(condition,))) == expected
