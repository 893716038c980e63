"""Functions by name: results, NULLs, and errors.

Values are compared with Spark's in ``test_functions_against_spark``; here stands what a reader should know.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest

from tests.algebra.grids import GROUPS, Group
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.derived_functions import ALIASES, DERIVED_FUNCTIONS, VOLATILE
from tidemill.algebra.expressions.scalars import Call, Cast, Column, Literal, Scalar, is_nullable
from tidemill.algebra.functions.datetime.intervals import INTERVALS
from tidemill.algebra.functions.datetime.time_windows import TIME_WINDOWS
from tidemill.algebra.functions.function import USER_FUNCTION_MARK
from tidemill.algebra.functions.nested.higher_order import LAMBDAS
from tidemill.algebra.functions.nested.maps import MAPS
from tidemill.algebra.functions.numbers.integer_bounds import INTEGER_BOUNDS
from tidemill.algebra.functions.numbers.variance import VARIANCE_FUNCTIONS
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.functions.semistructured.csv import CSV
from tidemill.algebra.functions.semistructured.sketches import SKETCHES
from tidemill.algebra.functions.semistructured.tuple_sketches import TUPLE_SKETCHES
from tidemill.algebra.functions.semistructured.variant import VARIANTS
from tidemill.algebra.functions.semistructured.xml import XML
from tidemill.algebra.functions.text.binary import BYTES
from tidemill.algebra.functions.text.encryption import ENCRYPTION
from tidemill.algebra.relational.walk import walk
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch, UnknownName, Unsupported
from tidemill.model.types import Field, Type

DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 13, 14, 15)


def literal(value: Any) -> Literal:
    """A literal of the type that its Python value suggests."""
    match value:
        case None:
            return Literal(None, t.VOID)
        case bool():
            return Literal(value, t.BOOLEAN)
        case datetime.datetime():
            return Literal(value, t.TIMESTAMP)
        case datetime.date():
            return Literal(value, t.DATE)
        case Decimal():
            _, digits, exponent = value.as_tuple()
            return Literal(value, t.Decimal(max(len(digits), -int(exponent)), -int(exponent)))
        case tuple():
            return Literal(value, t.Array(literal(value[0]).of))
    return Literal(value, {int: t.INT, float: t.DOUBLE, str: t.STRING}[type(value)])


def answer(name: str, *arguments: Any) -> Any:
    return evaluate_scalar(call(name, *map(literal, arguments)), {})


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("+", (1, Decimal("0.5")), Decimal("1.5")),
        ("/", (1, 4), 0.25),
        ("/", (Decimal("1.00"), 3), Decimal("0.333333")),
        ("mod", (-7, 3), -1),
        ("pmod", (-7, 3), 2),
        ("div", (-7, 2), -3),
        ("try_divide", (1, 0), None),
        ("try_add", (2**31 - 1, 1), None),
        ("eq", (math.nan, math.nan), True),
        ("gt", (math.nan, math.inf), True),
        ("eq", ("12", 12), True),
        ("eq", (DAY, "2024-02-29"), True),
        ("in", (1, 2, None), None),
        ("in", (1, 1, None), True),
        ("null_safe_eq", (None, None), True),
        ("and", (None, False), False),
        ("or", (None, True), True),
        ("greatest", (1, None, 3), 3),
        ("nullif", (1, 1), None),
        ("nvl2", (None, "a", "b"), "b"),
        ("ifnull", (None, 2), 2),
        ("between", (2, 1, 3), True),
        ("round", (1.005, 2), 1.01),
        ("round", (Decimal("2.345"), 2), Decimal("2.35")),
        ("bround", (2.5,), 2.0),
        ("floor", (Decimal("-1.5"),), Decimal("-2")),
        ("concat", ("a", 1, True), "a1true"),
        ("||", ("a", None), None),
        ("concat_ws", ("-", "a", None, 1), "a-1"),
        ("substr", ("tidemill", -4), "mill"),
        ("trim", ("  a ",), "a"),
        ("ilike", ("TIDE", "t%"), True),
        ("like", ("a_c", "a\\_c"), True),
        ("regexp_replace", ("a1b2", "([0-9])", "<$1>"), "a<1>b<2>"),
        ("split", ("a,b", ","), ("a", "b")),
        ("extract", ("QUARTER", DAY), 1),
        ("extract", ("second", MOMENT), Decimal("15.000000")),
        ("add_months", (DAY, 12), datetime.date(2025, 2, 28)),
        ("add_months_to", (MOMENT, 1), MOMENT.replace(month=3)),
        ("date_trunc", ("week", MOMENT), datetime.datetime(2024, 2, 26)),
        ("to_date", ("2024-2-9",), datetime.date(2024, 2, 9)),
        ("try_to_timestamp", ("soon",), None),
        ("element_at", ((1, 2, 3), -1), 3),
        ("get", ((1, 2, 3), 9), None),
        ("array_contains", ((1, None), 2), None),
        ("sort_array", ((2, None, 1), False), (2, 1, None)),
    ],
)
def test_answers(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    found = answer(name, *arguments)
    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("add", (2**31 - 1, 1)),
        ("negate", (-(2**31),)),
        ("divide", (1.0, 0.0)),
        ("remainder", (1, 0)),
        ("add", ("x", 1)),
        ("round", (2**31 - 1, -1)),
        ("floor", (math.inf,)),
        ("get_item", ((1, 2), 2)),
        ("element_at", ((1, 2), 0)),
        ("try_element_at", ((1, 2), 0)),
        ("make_date", (2023, 2, 29)),
        ("like", ("a", "a\\")),
        ("regexp_extract", ("a", "a", 1)),
        ("split_part", ("a", ",", 0)),
        ("date_add", (datetime.date(9999, 12, 31), 1)),
    ],
)
def test_faults(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ArithmeticFault):
        answer(name, *arguments)


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("add", (t.DATE, t.BOOLEAN)),
        ("and", (t.INT, t.BOOLEAN)),
        ("if", (t.INT, t.INT, t.INT)),
        ("eq", (t.BOOLEAN, t.INT)),
        ("coalesce", (t.DATE, t.INT)),
        ("upper", (t.Array(t.STRING),)),
        ("size", (t.INT,)),
        ("length", ()),
        ("abs", (t.INT, t.INT)),
        ("div", (t.DOUBLE, t.INT)),
        ("round", (t.INT, t.INT)),
        ("sort_array", (t.Array(t.INT), t.BOOLEAN)),
        ("timestamp_seconds", (t.DATE,)),
        ("to_date", (t.INT,)),
        ("get_field", (t.INT, t.STRING)),
    ],
)
def test_mismatches_name_the_function(name: str, types: tuple[Type, ...]) -> None:
    with pytest.raises(TypeMismatch, match=name):
        call(name, *(Column(f"a{i}", type_) for i, type_ in enumerate(types)))


def test_unknown_function() -> None:
    with pytest.raises(UnknownName) as caught:
        call("substing", literal("a"))
    assert "substring" in str(caught.value.hint)


@pytest.mark.parametrize("name", sorted(VOLATILE))
def test_what_changes_by_itself_is_refused(name: str) -> None:
    with pytest.raises(Unsupported, match="cannot be used in a view"):
        call(name)


def test_records() -> None:
    record = call("named_struct", literal("id"), Column("i", t.INT), literal("name"), literal("ann"))
    assert record.type == t.Struct((Field("id", t.INT), Field("name", t.STRING)))
    assert evaluate_scalar(record, {"i": 7}) == (7, "ann")
    assert evaluate_scalar(call("get_field", record, literal("NAME")), {"i": 7}) == "ann"
    with pytest.raises(UnknownName, match="no field age"):
        call("get_field", record, literal("age"))


def test_literals_beside_decimals_stay_narrow() -> None:
    price = Column("p", t.Decimal(12, 2))
    assert str(call("multiply", price, literal(2)).type) == "DECIMAL(14,2)"
    assert str(call("multiply", price, Column("n", t.INT)).type) == "DECIMAL(23,2)"
    assert str(call("coalesce", price, literal(2)).type) == "DECIMAL(12,2)"


def test_conversions_are_casts() -> None:
    added = call("add", Column("n", t.INT), Column("b", t.BIGINT))
    assert added == Call("add", (Cast(Column("n", t.INT), t.BIGINT), Column("b", t.BIGINT)), t.BIGINT)


def test_a_literal_that_cannot_be_converted_fails_only_where_it_is_computed() -> None:
    compared = call("eq", Column("n", t.INT), literal("many"))
    assert evaluate_scalar(compared, {"n": None}) is None
    with pytest.raises(ArithmeticFault, match="'many'"):
        evaluate_scalar(compared, {"n": 1})


@pytest.mark.parametrize(("name", "pattern"), [("date_format", "F"), ("try_to_timestamp", "zzzz"), ("to_date", "v")])
def test_patterns_that_depend_on_the_version_of_java_are_refused(name: str, pattern: str) -> None:
    moment = Column("a", t.TIMESTAMP if name == "date_format" else t.STRING)
    with pytest.raises(Unsupported, match="no pattern"):
        call(name, moment, Literal(pattern, t.STRING))


def test_every_name_leads_somewhere() -> None:
    assert set(ALIASES.values()) <= FUNCTIONS.keys() | DERIVED_FUNCTIONS.keys()
    assert not ALIASES.keys() & (FUNCTIONS.keys() | DERIVED_FUNCTIONS.keys())


def test_every_function_is_tried() -> None:
    """A function that no grid uses would escape the comparison with Spark."""
    nodes = [node for group in GROUPS for scalar in calls_of(group) for node in walk(scalar)]
    tried = {node.function for node in nodes if isinstance(node, Call)}
    elsewhere = {"average", "try_average", "mean", "bigint_checked", "named_struct", "ring_product", "ring_sum"}
    elsewhere |= {function.name for function in VARIANCE_FUNCTIONS}  # tests/algebra/test_spreads.py
    elsewhere |= {function.name for function in (*LAMBDAS, *TIME_WINDOWS)}  # tests/compiler/frontends/examples.py
    elsewhere |= {function.name for function in INTERVALS}  # tests/corpus/intervals.txt, tests/golden/intervals*.test
    elsewhere |= {function.name for function in INTEGER_BOUNDS}  # tests/algebra/test_integer_bounds.py
    elsewhere |= {"arrays_zip", "sequence_of_moments", "raise_error", "timestamp_add", "timestamp_difference"}
    # tests/corpus/more_mathematics.txt, as their last digit differs from Spark's at times
    elsewhere |= {"acosh", "cosh", "csc", "sinh"}
    elsewhere |= {function.name for function in (*BYTES, *MAPS)}  # tests/corpus/binary.txt, maps.txt
    # tests/corpus/from_json.txt, csv.txt, variant.txt, variant_edits.txt, xml.txt
    elsewhere |= {"from_json", "json_member", *(function.name for function in (*CSV, *VARIANTS, *XML))}
    elsewhere |= {function.name for function in (*SKETCHES, *TUPLE_SKETCHES)}  # tests/corpus/sketches.txt
    elsewhere |= {function.name for function in ENCRYPTION}  # tests/corpus/binary.txt
    # tests/corpus/times.txt, datetimes.txt
    elsewhere |= {"time_plus", "time_minus", "try_time_plus", "try_time_minus", "time_bucket"}
    own = {name for name in FUNCTIONS if USER_FUNCTION_MARK not in name}  # other tests register some of their own
    assert own - tried == elsewhere


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group.names[0]}{[str(type_) for type_ in group.types]}")
def test_nullability_and_inline_forms(group: Group) -> None:
    """What claims never to be NULL is not, and a Python expression says what ``apply`` says."""
    columns = [Column(f"a{i}", type_, nullable=False) for i, type_ in enumerate(group.types)]
    rows = [row for row in group.grid() if None not in row]
    for name in group.names:
        scalar = call(name, *columns, *group.constants)
        for row in rows:
            values = {column.name: value for column, value in zip(columns, row, strict=True)}
            try:
                value = evaluate_scalar(scalar, values)
            except ArithmeticFault:
                continue
            assert value is not None or is_nullable(scalar), (name, row)
            if isinstance(scalar, Call):
                check_inline(scalar, values, value)


def check_inline(node: Call, values: dict[str, Any], expected: Any) -> None:
    text = FUNCTIONS[node.function].inline([argument.type for argument in node.arguments], node.of)
    if text:
        arguments = {f"v{i}": evaluate_scalar(argument, values) for i, argument in enumerate(node.arguments)}
        found = eval(text.format(*arguments), {}, arguments)
        assert found is expected or found == expected, (text, arguments)


def calls_of(group: Group) -> list[Scalar]:
    columns = [Column(f"a{i}", type_) for i, type_ in enumerate(group.types)]
    return [call(name, *columns, *group.constants) for name in group.names]
