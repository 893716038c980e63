"""Products and sums within programs are exact, in Python and in Spark, at whatever scale."""

from __future__ import annotations

import decimal
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import from_arrow, to_arrow
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Field, Type
from tidemill.runtimes.native.python.expressions import PythonExpressions
from tidemill.runtimes.native.python.identifiers import GlobalNames
from tidemill.runtimes.spark.lowering.sql_text import expression_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS: dict[Type, list[Any]] = {
    t.BIGINT: [None, 0, -1, 7, 2**63 - 1, -(2**63)],
    t.Decimal(5, 2): [None, Decimal("-7.50"), Decimal("999.99")],
    t.Decimal(38, 2): [None, Decimal("-0.01"), Decimal("1234567890123.25")],
    t.Decimal(38, 6): [None, Decimal("0.000000"), Decimal("-99999.999999"), Decimal("12345678901.000001")],
    t.Decimal(38, 10): [None, Decimal("0E-10"), Decimal("-3.3333333333"), Decimal("87654321.1234567891")],
    t.Decimal(38, 18): [None, Decimal("0.000000000000000001"), Decimal("-0.999999999999999999")],
}
PAIRS = [(one, other) for one, other in product(NUMBERS, NUMBERS)]


def trials(one: Type, other: Type) -> list[Scalar]:
    columns = (Column("a", one), Column("b", other))
    return [call(name, *columns) for name in ("ring_product", "ring_sum")]


def exactly(scalar: Scalar, a: Any, b: Any) -> Any:
    """What Python's own numbers say, which have digits enough for all of these."""
    if a is None or b is None:
        return None
    with decimal.localcontext(EXACT):
        return a * b if getattr(scalar, "function", "") == "ring_product" else a + b


def test_types() -> None:
    def of(name: str, one: Type, other: Type) -> str:
        return str(call(name, Column("a", one), Column("b", other)).type)

    assert of("ring_product", t.INT, t.BIGINT) == "BIGINT"
    assert of("ring_product", t.Decimal(12, 2), t.Decimal(38, 4)) == "DECIMAL(38,6)"
    assert of("ring_sum", t.BIGINT, t.Decimal(12, 2)) == "DECIMAL(38,2)"
    with pytest.raises(TypeMismatch, match="an exact number was expected"):
        of("ring_sum", t.DOUBLE, t.BIGINT)
    with pytest.raises(TypeMismatch, match="40 digits after the point"):
        of("ring_product", t.Decimal(38, 20), t.Decimal(38, 20))


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda type_: str(type_))
def test_the_meaning_is_exact(one: Type, other: Type) -> None:
    for scalar in trials(one, other):
        inline = PythonExpressions({"a": "a", "b": "b"}, GlobalNames(), GlobalNames().enter()).value(scalar)
        for a, b in product(NUMBERS[one], NUMBERS[other]):
            value = evaluate_scalar(scalar, {"a": a, "b": b})
            assert value == exactly(scalar, a, b)
            with decimal.localcontext(EXACT):
                written = eval(inline, {"a": a, "b": b})
            assert written == value
            if isinstance(scalar.type, t.Decimal) and value is not None:
                assert -value.as_tuple().exponent == -written.as_tuple().exponent == scalar.type.scale


def test_what_leaves_the_widest_register_is_a_fault() -> None:
    (big, _) = trials(t.BIGINT, t.BIGINT)
    assert evaluate_scalar(big, {"a": 2**63, "b": 2**63}) == 2**126
    with pytest.raises(ArithmeticFault, match="128 bits"):
        evaluate_scalar(big, {"a": 2**63, "b": 2**64})
    (fine, _) = trials(t.Decimal(38, 10), t.BIGINT)
    with pytest.raises(ArithmeticFault, match="does not fit DECIMAL"):
        evaluate_scalar(fine, {"a": Decimal("9876543210987654321098765432.1234567891"), "b": 2})


@pytest.mark.spark
def test_spark_is_exact_too(spark: SparkSession) -> None:
    for one, other in PAIRS:
        rows = [(pair, 1) for pair in product(NUMBERS[one], NUMBERS[other])]
        spark.createDataFrame(to_arrow(rows, (Field("a", one), Field("b", other)))).createOrReplaceTempView("ring")
        for scalar in trials(one, other):
            wide = t.Decimal(38, 0) if scalar.type == t.BIGINT else scalar.type
            table = spark.sql(f"SELECT a, b, {expression_sql(scalar)} AS c, 1L AS _weight FROM ring").toArrow()
            answers = from_arrow(table, (Field("a", one), Field("b", other), Field("c", wide)))
            assert [row for row, _ in answers] == [(a, b, exactly(scalar, a, b)) for (a, b), _ in rows], expression_sql(
                scalar
            )


@pytest.mark.spark
@pytest.mark.parametrize(("type_", "value"), [(t.Decimal(38, 2), "1E+20"), (t.Decimal(38, 10), "1E+15")])
def test_spark_refuses_what_has_no_room(spark: SparkSession, type_: t.Decimal, value: str) -> None:
    (scalar, _) = trials(type_, type_)
    texts = (f"CAST('{value}' AS {type_}) AS {name}" for name in "ab")
    with pytest.raises(Exception, match="NUMERIC_VALUE_OUT_OF_RANGE|CAST_OVERFLOW|cannot be represented"):
        spark.sql(f"SELECT {expression_sql(scalar)} FROM (SELECT {', '.join(texts)})").collect()
